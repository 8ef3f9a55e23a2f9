"""Where a new task is bound and which layers it gets anew: the decision, and its reasons in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ramet.continual.methods.bind_and_grow.conflict import Conflict
from ramet.errors import ConfigError
from ramet.fields import from_json, to_json

Distribution = Literal["normalised", "softmax"]
TOLERANCE = 1e-9
"""Sums of probabilities are compared up to this, so that all layers together reach 1."""


def conflict_distribution(conflicts: Sequence[float], kind: Distribution = "normalised") -> npt.NDArray[np.float64]:
    """Layer conflicts as probabilities; uniform where all conflicts are 0.

    ``normalised`` divides by the sum; ``softmax`` is flatter, because conflicts lie between 0 and 2.

    >>> conflict_distribution([0.1, 0.3]).round(3).tolist()
    [0.25, 0.75]
    >>> conflict_distribution([0.1, 0.3], "softmax").round(3).tolist()
    [0.45, 0.55]
    """
    values = np.maximum(np.asarray(conflicts, dtype=float), 0.0)  # rounding may leave -1e-17
    if kind == "softmax":
        values = np.exp(values - values.max())
    elif kind != "normalised":
        raise ConfigError(f"distribution must be one of normalised, softmax, but got {kind!r}.")
    total = values.sum()
    return values / total if total > 0 else np.full(len(values), 1 / len(values))


def nucleus(probabilities: npt.ArrayLike, delta: float) -> list[int]:
    """The smallest set of layers that reach the grow coefficient delta, the most conflicting first; in their order.

    Departs from the letter of the paper, whose set *exceeds* delta: delta = 0 would then expand a layer, while the
    paper calls it the fully shared network. Reaching delta gives no layer at 0 and every layer at 1.

    >>> nucleus([0.5, 0.2, 0.3], 0.5), nucleus([0.5, 0.2, 0.3], 0.51), nucleus([1.0, 0.0], 1.0)
    ([0], [0, 2], [0, 1])
    """
    if not 0 <= delta <= 1:
        raise ConfigError(f"the grow coefficient delta must lie between 0 and 1, but got {delta}.")
    values = np.asarray(probabilities, dtype=float)
    if delta >= 1:
        return list(range(len(values)))
    order = np.argsort(-values, kind="stable")
    before = np.concatenate([[0.0], np.cumsum(values[order])[:-1]])  # what the set holds without this layer
    return sorted(int(layer) for layer in order[before < delta - TOLERANCE])


@dataclass(frozen=True)
class BindingDecision:
    """What was decided for one task, and on which grounds.

    Attributes:
        delta: the grow coefficient; None where the layers were not chosen by it.
        expanded: the layers that are the task's own, by their place.
        adapted: those that it shares with an adapter beside them.
        conflicts: the conflict with each candidate; empty where none was measured.
        reason: ``least conflict``, ``given``, ``random`` or ``the first``.
    """

    task: str
    bound_to: str
    delta: float | None
    expanded: tuple[int, ...]
    conflicts: tuple[Conflict, ...] = ()
    distribution: tuple[float, ...] = ()
    reason: str = "least conflict"
    adapted: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """JSON values, for records."""
        conflicts = [to_json(conflict) | {"total": conflict.total} for conflict in self.conflicts]
        return {**to_json(self), "conflicts": conflicts}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> BindingDecision:
        """The inverse of ``to_json``."""
        conflicts = [{key: one[key] for key in one if key != "total"} for one in values["conflicts"]]
        return from_json(cls, values | {"conflicts": conflicts})

    @property
    def chosen(self) -> Conflict | None:
        """The conflict with the task that it was bound to, if it was measured."""
        return next((conflict for conflict in self.conflicts if conflict.task == self.bound_to), None)

    def explain(self, names: Sequence[str]) -> list[str]:
        """In words, for layers of some names: where the task was bound, and why each is shared or its own."""
        return [self._binding_in_words(), *self._layers_in_words(names)]

    def _binding_in_words(self) -> str:
        chosen = self.chosen
        if chosen is None:
            return f"{self.task!r} was bound to {self.bound_to!r} ({self.reason})."
        others = sorted((c for c in self.conflicts if c.task != self.bound_to), key=lambda c: c.total)
        words = f"{self.task!r} was bound to {self.bound_to!r}, with a conflict of {chosen.total:.2f}"
        if self.reason != "least conflict":
            words += f" ({self.reason})"
        if not others:
            return f"{words}; there was no other task."
        listed = ", ".join(f"{other.task!r} {other.total:.2f}" for other in others[:3])
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        return f"{words}; the others: {listed}{more}."

    def _layers_in_words(self, names: Sequence[str]) -> list[str]:
        chosen = self.chosen
        shared = [place for place in range(len(names)) if place not in (*self.expanded, *self.adapted)]
        if chosen is None:
            adapted = f"; adapted: {_listed(names, self.adapted)}" if self.adapted else ""
            return [
                f"Its own layers ({self.reason}): {_listed(names, self.expanded)}{adapted}; shared: "
                f"{_listed(names, shared)}."
            ]

        def scored(places: Sequence[int]) -> str:
            if not places:
                return "none"
            parts = []
            for place in places:
                share = f", answers for {self.distribution[place]:.0%}" if self.distribution else ""
                parts.append(f"{names[place]} (conflict {chosen.layers[place]:.2f}{share})")
            return ", ".join(parts)

        lines = [f"Expanded: {scored(self.expanded)}.", f"Shared: {scored(shared)}."]
        if self.delta is not None and self.distribution:
            held = sum(self.distribution[place] for place in self.expanded)
            lines[0] = (
                f"Expanded, the fewest layers that answer for {self.delta:g} of the conflict (they do for {held:.2f}): "
                f"{scored(self.expanded)}."
            )
        if self.adapted:
            lines.insert(1, f"Adapted, for a small part of the parameters: {scored(self.adapted)}.")
        unmatched = [place for place, partner in enumerate(chosen.partners) if partner is None]
        if unmatched:
            lines.append(f"No layer of {self.bound_to!r} could stand for {_listed(names, unmatched)}.")
        return lines


def bind(conflicts: Sequence[Conflict]) -> Conflict:
    """The candidate with the least conflict; of equals the one learned last, which the others' layers flow into."""
    if not conflicts:
        raise ConfigError("a task can be bound when another was learned before it, but there is none.")
    return min(reversed(conflicts), key=lambda conflict: conflict.total)


def _listed(names: Sequence[str], places: Sequence[int]) -> str:
    return ", ".join(names[place] for place in places) or "none"
