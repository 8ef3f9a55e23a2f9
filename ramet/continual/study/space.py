"""Grow sequences: which task comes when, where it is bound and how much it grows; and the space of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from ramet.errors import ConfigError
from ramet.fields import require_choices, to_json

STARTS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""The coefficients of all tasks that a search of a coefficient for each task begins with."""
COMPUTED = "(least conflict)"
"""The binding that is not given but follows from the conflicts."""


class Suggests(Protocol):
    """What a space asks of an Optuna trial."""

    def suggest_float(self, name: str, low: float, high: float, *, step: float | None = None) -> float:
        """A number of a range."""

    def suggest_categorical(self, name: str, choices: Sequence[str]) -> str:
        """One of several."""


@dataclass(frozen=True)
class GrowSequence:
    """A grow sequence, for each task t its place, the task b_t that it is bound to and delta_t.

    Attributes:
        order: the tasks in the order in which they are learned.
        deltas: the grow coefficient of each.
        bindings: the task that each is bound to, where that is given.
    """

    order: tuple[str, ...]
    deltas: Mapping[str, float]
    bindings: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """JSON values, for records; ``ramet.fields.from_json`` reads them."""
        found: dict[str, Any] = to_json(self)
        return found


@dataclass(frozen=True, kw_only=True)
class SequenceSpace:
    """The grow sequences that are searched. The paper's low-budget setting has one coefficient shared by all tasks.

    Args:
        delta: the grow coefficient, one for each task (the first trials then have 0, 0.25, 0.5, 0.75 and 1 for all),
            or one shared by all.
        step: the grid that coefficients lie on.
        binding: computed, to the least conflict, or free, to any earlier task.
        order: the order of the tasks, fixed as in the stream, or free.

    Raises:
        ConfigError: a value is none of these.
    """

    delta: Literal["shared", "per-task"] = "per-task"
    step: float = 0.05
    binding: Literal["computed", "free"] = "computed"
    order: Literal["fixed", "free"] = "fixed"

    def __post_init__(self) -> None:
        require_choices(self)
        if not 0 < self.step <= 1:
            raise ConfigError(f"the step of delta must be above 0 and at most 1, but got {self.step}.")

    def suggest(self, trial: Suggests, tasks: Sequence[str], base: str | None = None) -> GrowSequence:
        """The sequence of a trial. An order is a number for each task, sorted: every sampler can handle numbers.

        ``base`` is what is there before all tasks and may be bound to, such as a trained network; without one, the
        first task founds the network, and does not grow.
        """
        order = list(tasks)
        if self.order == "free":
            keys = {task: trial.suggest_float(f"order/{task}", 0.0, 1.0) for task in tasks}
            order.sort(key=lambda task: (keys[task], tasks.index(task)))
        growing = self._growing(tasks, base)
        if self.delta == "shared":
            shared = self._delta(trial, "delta")
            deltas = {task: shared for task in growing}
        else:
            deltas = {task: self._delta(trial, f"delta/{task}") for task in growing}
        bindings = {}
        if self.binding == "free":
            for task in growing:
                others = [other for other in tasks if other != task]
                if self.order == "fixed":
                    others = others[: tasks.index(task)]
                if not others:
                    continue  # the first task, for which there is nothing but the base
                known = [] if base is None else [base]
                chosen = trial.suggest_categorical(f"bind/{task}", [COMPUTED, *known, *others])
                # With a free order a task may be asked to bind to one that comes later: its binding is then computed.
                if chosen in known or (chosen != COMPUTED and order.index(chosen) < order.index(task)):
                    bindings[task] = chosen
        return GrowSequence(tuple(order), deltas, bindings)

    def starts(self, tasks: Sequence[str], base: str | None = None) -> list[dict[str, float | str]]:
        """What a search begins with: one coefficient for all tasks, bindings computed, the order as it is.

        With a coefficient for each task, random sequences all lie near the middle, because their coefficients average
        out. Those of one coefficient spread over the sizes, from the shared network to the fully expanded one, and a
        search that knows them is never behind them. There are none where one coefficient is all that is searched.
        """
        if self.delta == "shared":
            return []
        starts = []
        for value in dict.fromkeys(round(round(value / self.step) * self.step, 6) for value in STARTS):
            start: dict[str, float | str] = {}
            if self.order == "free":
                start |= {f"order/{task}": place / len(tasks) for place, task in enumerate(tasks)}
            for task in self._growing(tasks, base):
                start[f"delta/{task}"] = value
                if self.binding == "free" and (self.order == "free" or task != tasks[0]):
                    start[f"bind/{task}"] = COMPUTED
            starts.append(start)
        return starts

    def _growing(self, tasks: Sequence[str], base: str | None) -> Sequence[str]:
        """The tasks that may grow: all that may come behind something."""
        return tasks[1:] if self.order == "fixed" and base is None else tasks

    def _delta(self, trial: Suggests, name: str) -> float:
        return round(trial.suggest_float(name, 0.0, 1.0, step=self.step), 6)
