"""What a reader hands over: images and labels as the source has them, before anything is decided."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy.typing as npt

from ramet.data.memory import require_room
from ramet.errors import DataError

Array: TypeAlias = npt.NDArray[Any]
Layout: TypeAlias = Literal["NHWC", "NCHW", "NHW"]
"""The order of an image array's axes: number, height, width, channels."""

Targets: TypeAlias = Literal["classes", "numbers"]
"""What a network is to tell of an input."""


@dataclass(frozen=True, eq=False)
class Labelled:
    """Images in any layout and dtype, or vectors, ``[n, ...]``, and for each a label or its numbers.

    Labels are integers, strings or whole floats, ``[n]``, numbers ``[n]`` or ``[n, k]``.

    ``place`` is what an error calls them, such as ``x_train of letters.npz``. Images that stay where they are have a
    shape, a dtype and an index as an array has: see ``ramet.data.stored``.
    """

    images: Any
    labels: Array
    place: str


@dataclass(frozen=True, eq=False)
class RawData:
    """A source as it was read.

    Attributes:
        train: Everything that may be split.
        test: The source's own test set, where it has one.
        layout: The order of the axes where the format fixes it; None lets the shape decide.
        class_names: Where the format fixes the classes: labels must then be integers below their number.
        class_groups: The superclass of each class, where there is one.
        targets: ``classes`` or ``numbers``, where the source says which; None lets the labels decide.
    """

    name: str
    train: Labelled
    test: Labelled | None = None
    layout: Layout | None = None
    class_names: tuple[str, ...] | None = None
    class_groups: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    targets: Targets | None = None


def require_file(path: Path) -> None:
    """Refuse, with a ``DataError``, a path that is not a readable file with something in it."""
    _look(path, lambda: path.stat())
    if path.is_dir():
        raise DataError(f"a data file must be a file, but {path} is a folder.")
    if path.stat().st_size == 0:
        raise DataError(f"a data file must not be empty, but {path} has 0 bytes.")


def read_bytes(path: Path) -> bytes:
    """The content of a data file; a ``DataError`` if it is missing, a folder, empty, too large or not readable."""
    require_file(path)
    require_room(path.stat().st_size, str(path))
    content: bytes = _look(path, path.read_bytes)
    return content


def _look(path: Path, action: Callable[[], Any]) -> Any:
    try:
        return action()
    except FileNotFoundError as error:
        raise DataError(f"a data file must exist, but there is no {path}.") from error
    except OSError as error:
        raise DataError(f"a data file must be readable, but {path} is not: {error.strerror}.") from error
