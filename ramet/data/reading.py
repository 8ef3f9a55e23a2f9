"""Which reader a source is for: a name, a path, arrays, a torch data set, or a function of one's own that gives one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ramet.data.arrays import as_array, check_pixels, is_map_style, materialise, row_of
from ramet.data.folders import from_folder
from ramet.data.iterables import data_set_of, is_iterable, read_rows
from ramet.data.memory import fits_in_memory
from ramet.data.named import read_named
from ramet.data.npz import from_arrays, from_npy_files, from_npz
from ramet.data.raw import Labelled, Layout, RawData
from ramet.data.registry import DATA
from ramet.data.sources import SOURCES, find_source
from ramet.data.spool import written_to
from ramet.data.spooled_rows import spool_rows
from ramet.data.stored import DatasetPixels, MappedPixels
from ramet.data.table import from_table, is_table
from ramet.errors import DataError, RametError, told
from ramet.registry import parse_spec


def made_by(source: Any, trusted: bool) -> Any:
    """What a function of one's own gives, where the source names one; any other source as it is."""
    if not isinstance(source, str) or source in SOURCES or is_table(source) or os.path.exists(source):
        return source
    if source.partition(":")[0] not in DATA and ":" not in parse_spec(source or "''").name:
        return source
    spec = DATA.parse(source)
    maker = DATA.maker(spec.name, trusted=trusted)
    try:
        return maker(*spec.values, **spec.options)
    except (RametError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise DataError(f"the function of {source} must run, but raises {told(error)}.") from error


def read_source(
    source: Any,
    *,
    data_dir: str | Path | None,
    layout: Layout | None,
    in_memory: bool | None,
    size: tuple[int, int] | None,
    spool: Path | None,
) -> RawData:
    """What a source holds, before anything is decided; the options are those of ``ramet.data.load``.

    Raises:
        DataError: it cannot be read, or an option is not for it.
    """
    is_pair = isinstance(source, (tuple, list)) and len(source) == 2
    if is_pair:
        source = [part if (data := data_set_of(part)) is None else data for part in source]
    if spool is not None and not any(map(is_iterable, source if is_pair else [source])):
        what = source if isinstance(source, str) else type(source).__name__
        raise DataError(f"spool is for data that come one after the other, but {what} can be read in any order.")
    if isinstance(source, str) and source in SOURCES:
        if layout is not None:
            raise DataError(f"layout is for arrays of your own, but {source} is a named set and got {layout!r}.")
        return read_named(source, data_dir)
    if is_table(source):
        return from_table(source)
    if isinstance(source, (str, Path)):
        return _read_path(source, layout, in_memory, size)
    if isinstance(source, Mapping):
        return _mapped(from_arrays(source, name="arrays", layout=layout), in_memory)
    if is_pair and all(is_map_style(part) or is_iterable(part) for part in source):
        read = partial(_read_dataset, layout=layout, spool=spool)
        train, order = read(source[0], "the training data set", in_memory, part="train")
        test, _ = read(source[1], "the test data set", isinstance(train.images, np.ndarray), part="test")
        raw = RawData(type(source[0]).__name__, train=train, test=test, layout=layout or order)
    elif is_pair:
        return _mapped(from_arrays({"x": source[0], "y": source[1]}, name="arrays", layout=layout), in_memory)
    elif is_map_style(source) or is_iterable(source):
        place = f"the {type(source).__name__}"
        train, order = _read_dataset(source, place, in_memory, layout=layout, spool=spool, part="all")
        raw = RawData(type(source).__name__, train=train, layout=layout or order)
    else:
        raise DataError(
            "a source must be a name, a path, a pair (images, labels), a mapping of arrays or a torch Dataset or "
            f"DataLoader, but got {type(source).__name__}."
        )
    return raw if spool is None else replace(raw, notes=(written_to(spool),))


def _mapped(raw: RawData, in_memory: bool | None) -> RawData:
    """Arrays that are mapped from files stay there, unless they shall be, or fit, in memory."""
    train = _left_there(raw.train, raw.layout, in_memory)
    if train is raw.train or raw.test is None:
        return replace(raw, train=train)
    test = replace(raw.test, images=MappedPixels(raw.test.images, raw.layout, raw.test.place))
    return replace(raw, train=train, test=test)


def vectors_left_there(raw: RawData, in_memory: bool | None) -> RawData:
    """Mapped vectors, ``[n, features]``, stay there by the same rule; called when they are known to be no tokens."""
    if not _stays(raw.train.images, in_memory):
        return raw
    train, test = (part if part is None else _mapped_vectors(part) for part in (raw.train, raw.test))
    return replace(raw, train=train, test=test)  # type: ignore[arg-type]


def _mapped_vectors(part: Labelled) -> Labelled:
    one = part.images[:1]  # their values are looked at when they are read
    check_pixels(np.zeros(one.shape, one.dtype), part.place, "features", "vector")
    return replace(part, images=MappedPixels(part.images, None, part.place))


def _left_there(part: Labelled, layout: Layout | None, in_memory: bool | None) -> Labelled:
    if part.images.ndim == 2 or not _stays(part.images, in_memory):  # rows of numbers are perhaps tokens
        return part
    return replace(part, images=MappedPixels(part.images, layout, part.place))


def _stays(images: Any, in_memory: bool | None) -> bool:
    """Whether an array is mapped from a file and stays there."""
    if in_memory or not isinstance(images, np.memmap):
        return False
    return in_memory is False or not fits_in_memory(images.shape)


def _read_dataset(
    dataset: Any, place: str, in_memory: bool | None, *, layout: Layout | None, spool: Path | None, part: str
) -> tuple[Labelled, Layout | None]:
    """All images of a torch data set, or, where they shall not be in memory, where to read them."""
    if is_iterable(dataset) and spool is not None:
        written, order = spool_rows(dataset, place, spool, part)
        return _left_there(written, layout or order, in_memory), order
    if is_iterable(dataset):
        if in_memory is False:
            raise DataError(
                f"{place} cannot be read again in another order, so that in_memory=False needs the folder that it is "
                "written to once, spool=DIR (--spool DIR), but got none."
            )
        return materialise(read_rows(dataset, place), place)
    if in_memory is None and getattr(dataset, "draws", False):
        in_memory = False  # each reading gives another image
    if in_memory is None and len(dataset):
        in_memory = fits_in_memory([len(dataset), as_array(row_of(dataset, 0, place)[0], place).size])
    if in_memory is not False:
        return materialise(dataset, place)
    pixels = DatasetPixels(dataset, place)
    return Labelled(pixels, pixels.labels(), place), None


def _read_path(
    source: str | Path, layout: Layout | None, in_memory: bool | None, size: tuple[int, int] | None
) -> RawData:
    if source == "":
        raise DataError("a data set must have a name or a path, but got ''.")
    path = Path(source).expanduser()
    if path.is_dir():
        if (path / "x.npy").exists() or (path / "x_train.npy").exists():
            return _mapped(from_npy_files(path, layout), in_memory)
        return from_folder(path, layout, in_memory, size)
    if not path.exists():
        if isinstance(source, str) and not path.suffix and path.name == source:
            # A word, not a path: say which names there are, and which folders are called nearly so.
            folders = [child.name for child in Path().iterdir() if child.is_dir() and not child.name.startswith(".")]
            find_source(source, folders)
        raise DataError(f"a data set must exist, but there is no file or folder {source}.")
    if path.suffix.lower() != ".npz":
        raise DataError(
            "a data set of your own must be an .npz file or a folder of class folders, FILE.csv:target=COLUMN or "
            f"text:FILE, but got {source}."
        )
    return from_npz(path, layout)
