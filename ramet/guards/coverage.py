"""Which parameters a guard does not reach: they are named, and held still if wanted.

A guard that works on inputs guards the products that it sees. Where a parameter is used otherwise, learning moves
there, and what was to be kept is lost by that way. So it must not happen silently.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from ramet.params import Params


class UncoveredWarning(UserWarning):
    """A guard does not reach some of the parameters that a finished model uses."""


class Coverage:
    """What a guard has not seen of the models that were finished.

    Args:
        guard: what the guard is called in the warning.
        freeze: whether parameters that the guard does not reach are held still.
    """

    def __init__(self, guard: str, *, freeze: bool) -> None:
        self._guard, self._freeze = guard, freeze
        self.uncovered: set[str] = set()
        self._has_warned = False
        self._before: Params = {}

    def finish(self, path: Params, covered: Iterable[str], is_wanted: Callable[[str], bool]) -> None:
        """A model is finished: what is on its path and not covered is named, once."""
        known = set(covered)
        new = {name for name in path if name not in known and is_wanted(name)} - self.uncovered
        self.uncovered -= known
        self.uncovered |= new
        if new and not self._has_warned:
            self._has_warned = True
            warnings.warn(self._sentence(path, new), UncoveredWarning, stacklevel=2)

    def _sentence(self, path: Params, names: set[str]) -> str:
        total = sum(param.numel() for param in path.values())
        missed = sum(path[name].numel() for name in names)
        listed = sorted(names, key=lambda name: (-path[name].numel(), name))
        shown = ", ".join(listed[:8]) + (f" and {len(listed) - 8} more" if len(listed) > 8 else "")
        what = "They are held still." if self._freeze else "They learn freely; freeze_uncovered=True holds them still."
        return (
            f"{self._guard} does not cover {missed / total:.1%} of the parameters ({missed} of {total}), since no "
            f"product with them was seen inside watch: {shown}. {what}"
        )

    def note(self, path: Params) -> None:
        """Before a step: where the parameters are that will be held still."""
        if self._freeze and self.uncovered:
            self._before = {name: path[name].detach().clone() for name in path if name in self.uncovered}

    def hold(self, path: Params) -> None:
        """After a step: put them back."""
        if self._before:
            torch._foreach_copy_([path[name] for name in self._before], list(self._before.values()))
            self._before = {}

    def forget(self) -> None:
        """Drop all names."""
        self.uncovered, self._before = set(), {}

    def state_dict(self) -> dict[str, Tensor]:
        """``uncovered/NAME`` for each name."""
        return {f"uncovered/{name}": torch.ones(()) for name in sorted(self.uncovered)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """The inverse of ``state_dict``; other keys are left to the guard."""
        keys = (key.partition("/") for key in state)
        self.uncovered = {name for part, _, name in keys if part == "uncovered"}
        self._before = {}
