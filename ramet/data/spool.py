"""A folder for data that are written as they come: whole or absent, known again, and mapped from then on."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ramet.data.array_header import map_array_file
from ramet.data.array_writer import ArrayWriter, check_array
from ramet.data.raw import Array
from ramet.errors import DataError, RametError, told
from ramet.runs.atomic import is_temporary, whole_folder, write_atomically, writing
from ramet.runs.encoding import Json, decode, encode
from ramet.runs.lock import folder_lock
from ramet.runs.regular import read_regular

DESCRIPTION = "spool.json"
FORMAT = 1

TOGETHER = (("all",), ("train", "test"), ("text",))
"""The folders that one data set may have in a spool."""


@dataclass(frozen=True)
class Spooled:
    """What was written once, in a folder of its own below the user's.

    Args:
        folder: holds an ``.npy`` file for each array.
        facts: what else was found when it was written.
    """

    folder: Path
    facts: Json

    def array(self, name: str) -> Array:
        """An array by its name, which stays on the disk."""
        return map_array_file(self.folder / f"{name}.npy")


class SpoolWriter:
    """What fills a folder: arrays by name, each written as its rows come."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self._stack, self._arrays = folder, stack, dict[str, ArrayWriter]()

    def array(self, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> ArrayWriter:
        """A new array, whose rows have a shape."""
        made = self._stack.enter_context(closing(ArrayWriter(self.folder / f"{name}.npy", dtype, shape)))
        self._arrays[name] = made
        return made

    def finish(self) -> Json:
        """End all arrays; what is told of each."""
        return {name: array.finish() for name, array in self._arrays.items()}


def folder_of(spool: Any) -> Path:
    """The folder that a user names; a ``DataError`` if it is none."""
    if not isinstance(spool, str | Path) or spool == "":
        raise DataError(f"spool must be the path of a folder, but got {spool!r:.60}.")
    return Path(spool).expanduser()


def written_to(folder: Path) -> str:
    """What the notes of a data set say, in the same words when it is written and when it is taken from there again."""
    return f"written once to the folder {folder.absolute().name}, and read there"


def spooled(folder: Path, part: str, source: Json, fill: Callable[[SpoolWriter], Json]) -> Spooled:
    """What was written from a source to a folder, now or by an earlier run.

    Args:
        folder: the user's, for one data set.
        part: which of its folders; one of ``TOGETHER``.
        source: what is known of the source before it is read; what was written from another one is refused.
        fill: reads the source once and writes it; gives further facts, JSON values.

    Raises:
        DataError: the folder holds something else, or what it holds is damaged or from another source; or ``fill``
            raises, or the disk would be full. Nothing of what was written is left then.
        DiskError: the folder cannot be written.
    """
    place = folder / part
    if not (place / DESCRIPTION).exists():
        if folder.exists() and not folder.is_dir():
            raise DataError(f"a spool must be a folder, but {folder} is a file.")
        is_new = not folder.exists()
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        try:
            with folder_lock(folder):  # whoever comes second waits, and takes what the first one wrote
                if not (place / DESCRIPTION).exists():
                    _check_own(folder, part)
                    _write(place, source, fill)
        except BaseException:
            if is_new:
                with suppress(OSError):  # another part of the data set is there already
                    folder.rmdir()
            raise
    return _opened(place, source)


def _write(place: Path, source: Json, fill: Callable[[SpoolWriter], Json]) -> None:
    with whole_folder(place) as temporary, ExitStack() as stack:
        writer = SpoolWriter(temporary, stack)
        facts = fill(writer)
        body = {"format": FORMAT, "source": source, "facts": facts, "arrays": writer.finish()}
        write_atomically(temporary / DESCRIPTION, encode({"body": body, "sha256": _digest(body)}).encode())


def _opened(place: Path, source: Json) -> Spooled:
    rule = f"{place / DESCRIPTION} must say what was written there"
    try:
        document = decode(read_regular(place / DESCRIPTION))
        body = document["body"]
        if document["sha256"] != _digest(body) or body["format"] != FORMAT:
            raise DataError(f"{rule}, but is damaged or of another version; remove {place} to write it again.")
        if body["source"] != source:
            raise DataError(
                f"{place} must have been written from {_told(source)}, but was from {_told(body['source'])}; name "
                "another folder, or remove it."
            )
        for name, array in body["arrays"].items():
            check_array(place / f"{name}.npy", array)
    except RametError:
        raise
    except Exception as error:  # whatever stands in the file
        raise DataError(
            f"{rule}, but reading it ended in {told(error)[:300]}; remove {place} to write it again."
        ) from None
    return Spooled(place, body["facts"])


def _check_own(folder: Path, part: str) -> None:
    """Refuse a folder that holds anything but the other folders of the same data set."""
    allowed = {name for names in TOGETHER if part in names for name in names} - {part}
    strange = sorted(child.name for child in folder.iterdir() if child.name not in allowed)
    if strange := [name for name in strange if not is_temporary(name)]:
        raise DataError(f"a spool must be a folder of its own, but {folder} holds {strange[0]}, which is none of it.")


def _told(source: Json) -> str:
    return ", ".join(f"{name} {value}" for name, value in source.items() if value is not None)


def _digest(body: Json) -> str:
    return hashlib.sha256(encode(body, sort_keys=True).encode()).hexdigest()
