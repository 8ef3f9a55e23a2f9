"""Which parameters a guard does not reach: they are named, and held still if wanted.

A guard that works on inputs guards the products that it sees. Where a parameter is used otherwise, learning moves
there, and what was to be kept is lost by that way. So it must not happen silently.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from ramet.params import Params


class UncoveredWarning(UserWarning):
    """A guard does not reach some of the parameters that a finished model uses."""


STATE_PARTS = frozenset({"uncovered", "in_part", "missed"})
"""What keys of a saved state begin with that are not the guard's own."""


class Coverage:
    """What a guard has not seen of the models that were finished.

    Args:
        guard: what the guard is called in the warning.
        freeze: whether parameters that the guard does not reach are held still.

    Attributes:
        uncovered: what finished models use and the guard does not reach, or not in every use.
        in_part: of these, what it reaches in some uses.
        missed: what the model that is trained now uses in a way that the guard does not see.
    """

    def __init__(self, guard: str, *, freeze: bool) -> None:
        self._guard, self._freeze = guard, freeze
        self.uncovered: set[str] = set()
        self.in_part: set[str] = set()
        self.missed: set[str] = set()
        self._has_warned = False
        self._before: Params = {}

    def finish(self, path: Params, covered: Iterable[Sequence[str]], is_wanted: Callable[[str], bool]) -> None:
        """A model is finished: what is on its path and not covered is named, once.

        ``covered`` has the names of each product, a weight and perhaps a bias. They move together, so that neither is
        covered where one has another use.
        """
        known: set[str] = set()
        for names in covered:
            known.update(names)
            if not self.missed.isdisjoint(names):
                self.in_part.update(name for name in names if name in path)
        self.missed.clear()
        known -= self.in_part
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
        notes = {name: f"{name} (in part)" if name in self.in_part else name for name in listed[:8]}
        shown = ", ".join(notes.values()) + (f" and {len(listed) - 8} more" if len(listed) > 8 else "")
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
        self.uncovered, self.in_part, self._before = set(), set(), {}
        self.missed.clear()

    def discard(self) -> None:
        """The model that is trained now came to nothing."""
        self.missed.clear()

    def state_dict(self) -> dict[str, Tensor]:
        """``uncovered/NAME`` for each name, and so on."""
        return {
            f"{part}/{name}": torch.ones(()) for part in sorted(STATE_PARTS) for name in sorted(getattr(self, part))
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """The inverse of ``state_dict``; other keys are left to the guard."""
        for part in STATE_PARTS:
            names = {key.removeprefix(f"{part}/") for key in state if key.startswith(f"{part}/")}
            setattr(self, part, names)
        self._before = {}
