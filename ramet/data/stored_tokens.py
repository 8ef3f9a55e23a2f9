"""Tokens that stay in a file of whole numbers: read when they are asked for, in the place of a tensor."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ramet.data.mapped_pages import MappedPages
from ramet.data.raw import Array
from ramet.data.splits import Indices
from ramet.data.stored import Rows, listed
from ramet.errors import DataError

_BLOCK = 2**24  # values that are looked at together


class MappedTokens:
    """Rows of whole numbers in a ``.npy`` file that stays on disk; another process maps it again.

    Args:
        path: the file; [n, length], or [tokens] of a text that is cut into windows.
        windows: of a text, the place of the first token, how many windows there are and how long each is.
    """

    def __init__(self, path: str | Path, windows: tuple[int, int, int] | None = None) -> None:
        self._made = str(Path(path).absolute()), windows
        mapped: Any = np.load(path, mmap_mode="r", allow_pickle=False)
        self._pages = MappedPages(mapped)
        tokens: Array = np.asarray(mapped)
        if windows is not None:
            start, count, length = windows
            tokens = tokens[start : start + count * length].reshape(count, length)  # a view
        self._tokens, self.shape = tokens, tokens.shape

    @classmethod
    def of(cls, array: np.memmap[Any, Any], place: str) -> MappedTokens:
        """The rows of an array that ``numpy.load(path, mmap_mode="r")`` gave.

        Raises:
            DataError: it is only a part of what its file holds, so that another process could not map it again.
        """
        path: Any = getattr(array, "filename", None)
        if path is None or np.load(path, mmap_mode="r").shape != array.shape:
            raise DataError(f"{place} must be a whole .npy file, mapped by numpy.load, but is a part or a copy of one.")
        return cls(path)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: Indices) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Tokens of rows, [rows, length]."""
        return self._pages.rows(self._tokens, rows).astype(np.int64)

    def __reduce__(self) -> Any:
        return type(self), self._made


class StoredTokens:
    """Tokens, or targets for each of them, int64 [n, length], that are read from a file batch by batch.

    It has what training and evaluation ask of a tensor: a shape, a type, a device, ``len`` and an index, which gives a
    tensor with the bits of the same rows in memory.

    Args:
        tokens: where they are read from.
        rows: which of its rows these are.
        device: where batches are put.
    """

    dtype = torch.int64
    ndim = 2

    def __init__(self, tokens: MappedTokens, rows: Indices, *, device: torch.device | str = "cpu") -> None:
        self._tokens, self._rows, self.device = tokens, rows, torch.device(device)

    @property
    def shape(self) -> torch.Size:
        """That of a tensor of all rows."""
        return torch.Size([len(self._rows), *self._tokens.shape[1:]])

    def __len__(self) -> int:
        return len(self._rows)

    def numel(self) -> int:
        """How many tokens there are."""
        return math.prod(self.shape)

    def is_floating_point(self) -> bool:
        """They are whole numbers."""
        return False

    def to(self, device: torch.device | str, **options: Any) -> StoredTokens:
        """The same tokens, whose batches come to a device."""
        return StoredTokens(self._tokens, self._rows, device=device)

    def cpu(self) -> StoredTokens:
        """The same tokens, whose batches stay on the CPU."""
        return self.to("cpu")

    def __getitem__(self, key: Rows) -> Tensor:
        """Tokens of rows, [rows, length]; of one row, [length]."""
        if isinstance(key, int):
            return self[[key]][0]
        rows = self._rows[key if isinstance(key, slice) else np.asarray(listed(key), dtype=np.int64)]
        return torch.from_numpy(self._tokens[rows]).to(self.device)

    def sample(self, count: int) -> Tensor:
        """So many rows, evenly spread, for a digest of the content."""
        places = np.linspace(0, len(self) - 1, min(count, len(self))).astype(np.int64)
        return torch.from_numpy(self._tokens[self._rows[places]])


def bounds_of(values: Array) -> tuple[int, int]:
    """The lowest and the highest of whole numbers; pages of a mapped file are given back on the way."""
    count = max(1, _BLOCK // max(1, math.prod(values.shape[1:])))
    found, pages = [], MappedPages(values)
    for start in range(0, len(values), count):
        block = values[start : start + count]
        found += [int(block.min()), int(block.max())]
        pages.give_back()
    return min(found), max(found)
