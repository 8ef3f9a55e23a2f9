"""Inputs that stay where they are: read when they are asked for, in the place of a tensor that holds all of them."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from ramet.data.arrays import as_array, row_of, to_channels_first
from ramet.data.mapped_pages import MappedPages
from ramet.data.preparation import standardise
from ramet.data.raw import Layout
from ramet.data.splits import Indices
from ramet.errors import DataError
from ramet.execution.socket_folder import use_own_folder
from ramet.seeding import derive_seed

Rows = Tensor | slice | int | Sequence[int]


class PixelSource(Protocol):
    """Images of one shape that are read by their rows: a memory-mapped array, files, or a torch ``Dataset``."""

    shape: tuple[int, ...]
    dtype: Any

    def __getitem__(self, rows: Any) -> Any:
        """Images, [rows, channels, height, width]."""


class StoredInputs:
    """Standardised images, or vectors, that are read from their source batch by batch.

    It has what training and evaluation ask of a tensor: a shape, a device, ``len`` and an index, which gives a tensor.
    A batch has the same bits as the same rows of a tensor in memory would have.

    Args:
        pixels: where images are read from; [n, channels, height, width]. Of vectors, ``is_flat``, each is one pixel.
        rows: which of them these are.
        size: the height and width that they are averaged to.
        mean: of each channel, in the units of the source.
        deviation: of each channel.
        device: where batches are put.
        workers: processes that read ahead; 0 reads when a batch is asked for.
        seed: what random transforms of a data set draw from, with the number of the step and of the image.
    """

    dtype = torch.float32

    def __init__(
        self,
        pixels: PixelSource,
        rows: Indices,
        size: tuple[int, int],
        mean: np.ndarray[Any, np.dtype[np.float64]],
        deviation: np.ndarray[Any, np.dtype[np.float64]],
        *,
        device: torch.device | str = "cpu",
        workers: int = 0,
        seed: int = 0,
    ) -> None:
        self._pixels, self._rows, self._size = pixels, rows, size
        self._mean, self._deviation = mean, deviation
        self.device, self.workers, self.seed = torch.device(device), workers, seed
        self._upcoming: Iterator[tuple[list[int], Tensor]] | None = None
        self._read: tuple[list[int], Tensor] | None = None
        self._is_flat = bool(getattr(pixels, "is_flat", False))
        self.ndim = 2 if self._is_flat else 4

    @property
    def shape(self) -> torch.Size:
        """That of a tensor of all images."""
        one = [self._pixels.shape[1], *self._size]
        return torch.Size([len(self._rows), *(one[:1] if self._is_flat else one)])

    def __len__(self) -> int:
        return len(self._rows)

    def is_floating_point(self) -> bool:
        """Images are no whole numbers."""
        return True

    def to(self, device: torch.device | str, **options: Any) -> StoredInputs:
        """The same inputs, whose batches come to a device."""
        return self._with(self._rows, device)

    def __getitem__(self, key: Rows) -> Tensor:
        """Images of rows, [rows, channels, height, width]; of one row, [channels, height, width]."""
        if isinstance(key, int):
            return self[[key]][0]
        chosen = list(range(len(self))[key]) if isinstance(key, slice) else listed(key)
        if self._upcoming is not None:
            if self._read is None:
                self._read = self._next(self._upcoming)
            if self._read is not None and self._read[0] == chosen:
                block, self._read = self._read[1], None
                return block.to(self.device, non_blocking=True)
        return self.read(chosen).to(self.device)  # what was read ahead waits until it is asked for

    @staticmethod
    def _next(upcoming: Iterator[tuple[list[int], Tensor]]) -> tuple[list[int], Tensor] | None:
        try:
            return next(upcoming, None)
        except DataError as error:  # torch gives it the traceback of the reading process as its message
            raise DataError(str(error).rpartition(f"{DataError.__module__}.DataError: ")[2]) from None

    def read(self, chosen: Sequence[int], step: int | None = None) -> Tensor:
        """Images of rows, on the CPU; what random transforms draw follows from the seed, the step and the row."""
        rows = self._rows[np.asarray(chosen, dtype=np.int64)]
        source = _Drawing(self._pixels, self.seed, step) if getattr(self._pixels, "draws", False) else self._pixels
        with np.errstate(invalid="ignore"):  # of pixels that are not finite, which are refused below
            images = standardise(source, rows, self._size, self._mean, self._deviation)  # type: ignore[arg-type]
        if self._pixels.dtype.kind == "f" and not bool(images.isfinite().all()):  # of those in memory all are checked
            wrong = next(int(row) for row, image in zip(rows, images, strict=True) if not bool(image.isfinite().all()))
            raise DataError(f"the pixels of images must be finite, but image {wrong} has others.")
        return images.flatten(1) if self._is_flat else images

    def sample(self, count: int) -> Tensor:
        """So many images, evenly spread, for a digest of the content."""
        return self.read(np.linspace(0, len(self) - 1, min(count, len(self))).astype(int).tolist())

    def subset(self, chosen: Indices) -> StoredInputs:
        """Some of the images."""
        return self._with(self._rows[chosen], self.device)

    def expect(self, batches: Callable[[], Iterator[tuple[int, Tensor]]]) -> None:
        """Read ahead what will be asked for next, in worker processes, if there are any.

        Args:
            batches: gives the number of each step and its rows, in the order in which they will be asked for.
        """
        if self.workers:
            use_own_folder()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch has an opinion on how many there should be
                loader: DataLoader[Any] = DataLoader(
                    _Reading(self),
                    batch_sampler=_Upcoming(batches),
                    num_workers=self.workers,
                    collate_fn=_as_it_is,
                    prefetch_factor=2,
                    multiprocessing_context="forkserver",
                )
                self._upcoming, self._read = iter(loader), None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_upcoming": None, "_read": None}

    def _with(self, rows: Indices, device: torch.device | str) -> StoredInputs:
        options = {"device": device, "workers": self.workers, "seed": self.seed}
        return StoredInputs(self._pixels, rows, self._size, self._mean, self._deviation, **options)  # type: ignore[arg-type]


class MappedPixels:
    """Images of a ``.npy`` file that stays on disk; another process maps it again instead of being sent its content.

    Args:
        array: what ``numpy.load(path, mmap_mode="r")`` gave, in any layout; or vectors, [n, features].
        layout: the order of its axes, where its shape leaves it open.
        place: what an error calls it.

    Raises:
        DataError: it is only a part of what its file holds, so that another process could not map it again.
    """

    def __init__(self, array: np.memmap[Any, Any], layout: Layout | None, place: str) -> None:
        path = getattr(array, "filename", None)
        if path is None or np.load(path, mmap_mode="r").shape != array.shape:
            raise DataError(f"{place} must be a whole .npy file, mapped by numpy.load, but is a part or a copy of one.")
        self._made = str(path), layout, place
        self._pages = MappedPages(array)
        self.is_flat, self.ndim = array.ndim == 2 and layout is None, 4
        self._images = array[:, :, None, None] if self.is_flat else to_channels_first(array, layout, place)
        self.shape, self.dtype = self._images.shape, array.dtype

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: Any) -> Any:
        return self._pages.rows(self._images, rows)

    def __reduce__(self) -> Any:
        return _mapped, self._made


def _mapped(path: str, layout: Layout | None, place: str) -> MappedPixels:
    return MappedPixels(np.load(path, mmap_mode="r"), layout, place)


class DatasetPixels:
    """The images of a map-style torch ``Dataset``, read when they are asked for.

    Args:
        dataset: gives ``(image, label)`` for an index; images are tensors, arrays or Pillow images of one size.
        place: what an error calls it.
    """

    draws = True
    ndim = 4

    def __init__(self, dataset: Any, place: str) -> None:
        self._dataset, self._place = dataset, place
        one = self._arranged(self._image(0)[None])
        self.shape, self.dtype = (len(dataset), *one.shape[1:]), one.dtype

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: Any) -> Any:
        images = [self._image(int(row)) for row in rows]
        for row, image in zip(rows, images, strict=True):
            if image.shape != images[0].shape:
                raise DataError(
                    f"all images of {self._place} must have one size, but image {int(rows[0])} has {images[0].shape} "
                    f"and image {int(row)} has {image.shape}; resize them in the data set."
                )
        return self._arranged(np.stack(images))

    def labels(self) -> Any:
        """All labels; those of ``targets``, where the data set has them, need no image to be read."""
        known = getattr(self._dataset, "targets", None)
        if known is None or len(known) != len(self._dataset):
            known = [row_of(self._dataset, row, self._place)[1] for row in range(len(self._dataset))]
        labels = [label.item() if isinstance(label, Tensor) and label.numel() == 1 else label for label in known]
        return as_array(labels, f"the labels of {self._place}")

    def _image(self, row: int) -> Any:
        return as_array(row_of(self._dataset, row, self._place)[0], f"image {row} of {self._place}")

    def _arranged(self, images: Any) -> Any:
        return to_channels_first(images, None, self._place)


class _Drawing:
    """A source whose images are made with the global generators seeded for each: for random transforms."""

    def __init__(self, pixels: PixelSource, seed: int, step: int | None) -> None:
        self._pixels, self._role = pixels, (seed, "image", -1 if step is None else step)
        self.shape, self.dtype = pixels.shape, pixels.dtype

    def __getitem__(self, rows: Any) -> Any:
        images = []
        for row in rows:
            seed = derive_seed(*self._role, int(row))
            python, numpy = random.getstate(), np.random.get_state()
            try:
                with torch.random.fork_rng(devices=[]):
                    torch.default_generator.manual_seed(seed)
                    random.seed(seed)
                    np.random.seed(seed % 2**32)
                    images.append(self._pixels[[row]])
            finally:
                random.setstate(python)
                np.random.set_state(numpy)
        return np.concatenate(images)


class _Reading(Dataset[Any]):
    """What a reading process asks: batches, each named by its step and its rows."""

    def __init__(self, inputs: StoredInputs) -> None:
        self._inputs = inputs

    def __len__(self) -> int:
        return len(self._inputs)

    def __getitem__(self, key: int) -> Tensor:
        return self._inputs[key]

    def __getitems__(self, wanted: list[int]) -> tuple[list[int], Tensor]:
        step, *rows = wanted
        return rows, self._inputs.read(rows, step)


class _Upcoming:
    """The batches to read, one after the other: all of a long training at once would take gigabytes."""

    def __init__(self, batches: Callable[[], Iterator[tuple[int, Tensor]]]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[list[int]]:
        for step, rows in self._batches():
            yield [step, *listed(rows)]


def _as_it_is(batch: Any) -> Any:
    return batch


def listed(rows: Tensor | Sequence[int]) -> list[int]:
    """The numbers of rows, of a tensor or a list."""
    return rows.tolist() if isinstance(rows, Tensor) else [int(row) for row in rows]
