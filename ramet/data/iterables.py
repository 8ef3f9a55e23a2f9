"""Data that come one after the other: iterable data sets, and loaders of batches."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sized
from typing import Any

from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
)
from torch.utils.data.dataloader import default_collate

from ramet.data.arrays import as_array, is_map_style
from ramet.data.memory import fits_in_memory
from ramet.errors import DataError, text_of

Row = tuple[Any, Any]


def data_set_of(loader: Any) -> Any | None:
    """The data set of a loader that does nothing but put its images together, which can then be read in any order.

    Of a loader with a ``SubsetRandomSampler`` it is that subset.

    Raises:
        DataError: the loader draws by a sampler of another kind, whose choice would be lost without a word.
    """
    if not isinstance(loader, DataLoader) or loader.collate_fn is not default_collate:
        return None
    data: Any = loader.dataset
    if is_iterable(data) or not is_map_style(data):
        return None
    sampler: Any = loader.sampler
    if type(loader.batch_sampler) is not BatchSampler:
        sampler = loader.batch_sampler
    elif isinstance(sampler, SubsetRandomSampler):
        return Subset(data, [int(index) for index in sampler.indices])
    is_whole = isinstance(sampler, RandomSampler) and not sampler.replacement
    if type(sampler) is SequentialSampler or (is_whole and len(sampler) == len(data)):
        return data
    raise DataError(
        "the sampler of a DataLoader must take every image once, or be a SubsetRandomSampler, because batches are "
        f"drawn by the seed here, but got {type(sampler).__name__}; give its data set, or a Subset of it."
    )


def is_iterable(source: object) -> bool:
    """Whether an object is an iterable data set or a loader."""
    return isinstance(source, (IterableDataset, DataLoader))


def rows_of(source: Any, place: str) -> Iterator[Row]:
    """Every ``(image, label)`` of an iterable data set, or of the batches of a loader, one after the other, once.

    Raises:
        DataError: it gives something else, raises, or ends before it said that it would.
    """
    rows = _from_batches(source, place) if isinstance(source, DataLoader) else _pairs(source, place)
    for count in itertools.count():
        try:
            row = next(rows)
        except StopIteration:
            break
        except (DataError, KeyboardInterrupt):
            raise
        except BaseException as error:  # whatever a data set of the user's own raises
            raise DataError(
                f"{place} must give every image, but raises {type(error).__name__} after {count}: {text_of(error)}."
            ) from error
        yield row
    said = length_of(source)
    if said is not None and said != count:
        raise DataError(f"{place} must give as many images as it says, {said}, but gives {count}.")


def read_rows(source: Any, place: str) -> list[Row]:
    """The same rows, read once and kept in memory.

    Raises:
        DataError: as ``rows_of``, or they do not fit in memory.
    """
    rows: list[Row] = []
    for row in rows_of(source, place):
        rows.append(row)
        if len(rows) & (len(rows) - 1) == 0 and not fits_in_memory([2 * len(rows), as_array(row[0], place).size]):
            raise DataError(
                f"{place} must fit in half of the memory, because it cannot be read again in another order, but does "
                "not; spool=DIR (--spool DIR of rank, search and grow) names a folder that it is written to once, and "
                "read from. Tasks of a stream are read into memory."
            )
    return rows


def _pairs(source: Iterable[Any], place: str) -> Iterator[Row]:
    for number, row in enumerate(source):
        if not isinstance(row, (tuple, list)) or len(row) < 2:
            raise DataError(f"{place} must give (image, label), but number {number} is {type(row).__name__}.")
        yield row[0], row[1]


def _from_batches(loader: DataLoader[Any], place: str) -> Iterator[Row]:
    for number, batch in enumerate(loader):
        if not isinstance(batch, (tuple, list)) or len(batch) < 2:
            raise DataError(f"{place} must give (images, labels), but batch {number} is {type(batch).__name__}.")
        images, labels = batch[0], batch[1]
        if len(images) != len(labels):
            raise DataError(
                f"{place} must give a label for each image, but batch {number} has {len(images)} and {len(labels)}."
            )
        yield from zip(images, labels, strict=True)


def length_of(source: Any) -> int | None:
    """How many images a source says that it has; none where it does not, or where a loader drops some."""
    data = source.dataset if isinstance(source, DataLoader) else source
    if isinstance(source, DataLoader) and (source.drop_last or source.collate_fn is not default_collate):
        return None
    try:
        return len(data) if isinstance(data, Sized) else None
    except TypeError:  # torch's own base class has no length
        return None
