"""Pages of a mapped file, which count as the process' own until they are given back, up to the whole file."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

MOST_MAPPED = 2**28
"""Bytes of a mapped file that are read before its pages are given back to the system, which keeps them if it can."""

AROUND = 2**21
"""Bytes that may come with a row: the system maps the pages around it, too, from 64 KB to 2 MB, if it has them."""

_TOGETHER = 64


class MappedPages:
    """What was read of a mapped file since its pages were given back.

    Args:
        array: what ``numpy.load(path, mmap_mode="r")`` gave; of any other array there is nothing to give back.
    """

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._map: Any = getattr(array, "_mmap", None)
        self._size, self._num_bytes = array.nbytes, 0

    def rows(self, array: np.ndarray[Any, Any], rows: Any) -> np.ndarray[Any, Any]:
        """A copy of some rows, [rows, ...], of a view of the file; its pages are given back when they are many."""
        if self._size <= MOST_MAPPED:
            whole: np.ndarray[Any, Any] = array[rows]
            return whole
        chosen = np.asarray(rows, dtype=np.int64)
        found = np.empty((len(chosen), *array.shape[1:]), array.dtype)
        for start in range(0, len(chosen), _TOGETHER):
            part = found[start : start + _TOGETHER]
            part[:] = array[chosen[start : start + _TOGETHER]]
            self._num_bytes += len(part) * max(AROUND, part[:1].nbytes)
            if self._num_bytes > MOST_MAPPED:
                self.give_back()
        return found

    def give_back(self) -> None:
        """Take the pages off the process' account; they are read again when they are asked for."""
        self._num_bytes = 0
        if hasattr(self._map, "madvise"):
            self._map.madvise(mmap.MADV_DONTNEED)
