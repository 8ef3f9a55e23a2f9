"""Telling a guard which epoch begins, also in a training that goes on from a checkpoint."""

from __future__ import annotations

from ramet.guards.base import Guard


class Epochs:
    """Tells a guard each epoch once, those before a resumed one too: a guard may flush or reopen at any of them."""

    def __init__(self, guard: Guard) -> None:
        self._guard, self._next = guard, 0

    def begin(self, epoch: int) -> None:
        """An epoch begins, counted from 0."""
        for each in range(self._next, epoch + 1):
            self._guard.start_epoch(each)
        self._next = max(self._next, epoch + 1)
