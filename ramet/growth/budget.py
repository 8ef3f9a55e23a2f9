"""What may be added, in neurons, parameters, multiplications or measured time, and when a growth ends besides."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ramet.errors import ConfigError, hint_at
from ramet.fields import require_types
from ramet.registry import parse_options, quantity

if TYPE_CHECKING:
    from ramet.growth.history import History

MEASURED = ("latency", "onnx_latency")
TARGET = "the target is reached"
"""Why a growth ends that is good enough."""
UNITS = ("neurons", "params", "flops", *MEASURED)


@dataclass(frozen=True)
class Budget:
    """How large a network may get, and how fast.

    Args:
        unit: what is counted: ``neurons`` (units of groups that can grow), ``params``, ``flops`` (multiplications for
            one example, as ``ramet.costs.count_flops`` counts them), ``latency`` (seconds of a forward pass) or
            ``onnx_latency`` (seconds in onnxruntime).
        total: the size at which growth ends.
        step: how much one step may add (``eta_t``): a share of the present size below 1, an amount otherwise. The
            paper's width experiments have 0.3. A step that is smaller than one unit still adds one.
        layers: how many new layers one step may add (``eta_{t,1}``).
        share: whether the step is a share after all, or an amount, where its size does not say so: ``step=150%`` is a
            share, ``step=0.5ms`` an amount.

    >>> Budget.parse("params=200k, step=25%, layers=1").allowance(1000)
    250.0
    >>> Budget.parse("params=200k, step=150%").allowance(1000)
    1500.0
    """

    unit: str
    total: float
    step: float = 0.3
    layers: int = 0
    share: bool | None = None

    def __post_init__(self) -> None:
        require_types(self)
        if self.unit not in UNITS:
            raise ConfigError(f"a budget is in one of {', '.join(UNITS)}, but got {self.unit!r}.")
        if not (self.total > 0 and self.step > 0 and math.isfinite(self.total)):
            raise ConfigError(f"a budget and its step must be positive, but got {self.total} and {self.step}.")
        if self.layers < 0:
            raise ConfigError(f"the layers of a step must not be negative, but got {self.layers}.")

    @classmethod
    def parse(cls, text: str) -> Budget:
        """A budget from text such as ``params=200k``, with ``step=30%`` and ``layers=1`` if wanted."""
        try:
            given = parse_options(text)
            fields = {name: quantity(value) for name, value in given.items()}
        except ConfigError as error:
            raise ConfigError(f"a budget reads like 'params=200k' or 'neurons=64, step=30%', but: {error}") from None
        if unknown := sorted(set(fields) - {*UNITS, "step", "layers"}):
            hint = hint_at(unknown[0], (*UNITS, "step", "layers"))
            raise ConfigError(f"a budget has {', '.join(UNITS)}, step and layers, but got {', '.join(unknown)}{hint}")
        units = [name for name in fields if name in UNITS]
        if len(units) != 1:
            raise ConfigError(f"a budget names exactly one of {', '.join(UNITS)}, but got {text!r}.")
        step, layers = fields.get("step", 0.3), int(fields.get("layers", 0))
        return cls(units[0], fields[units[0]], step, layers, _share(given.get("step"), step))

    def allowance(self, size: float) -> float:
        """How much the next step may add to a network of this size."""
        is_share = self.step < 1 if self.share is None else self.share
        return min(self.step * size if is_share else self.step, self.total - size)

    def num_steps(self, size: float) -> int:
        """How many steps lead from a size to the total, if each adds what it may; of neurons, whole ones.

        >>> Budget("params", 200, step=0.5).num_steps(100), Budget("neurons", 6, step=0.3).num_steps(3)
        (2, 3)
        """
        count = 0
        while size < self.total:
            added = self.allowance(size)
            size += max(1, math.floor(added)) if self.unit == "neurons" else added
            count += 1
        return count

    def to_json(self) -> dict[str, str | float | bool]:
        """The fields as JSON values; ``share`` only where it says something."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def _share(written: object, step: float) -> bool | None:
    """Whether a step that was written with a unit is a share, where its size says otherwise."""
    text = str(written).strip()
    is_share = text.endswith("%") or (step < 1 and not text[-1].isalpha())
    return None if written is None or is_share == (step < 1) else is_share


@dataclass(frozen=True, kw_only=True)
class Ends:
    """When growth ends, besides the end of the budget.

    Args:
        target: end when the metric on the validation data reaches this: by default the share of images that are right.
        patience: end when so many steps have brought no gain, and take the network of the best step; by default growth
            goes on to the budget, and the last network is taken.
        min_gain: what counts as a gain for that.
        max_steps: end after so many growth steps.
    """

    target: float | None = None
    patience: int | None = None
    min_gain: float = 0.0
    max_steps: int | None = None

    def __post_init__(self) -> None:
        require_types(self)
        if self.patience is not None and self.patience < 1:
            raise ConfigError(f"patience must be at least 1, but got {self.patience}.")
        if self.max_steps is not None and self.max_steps < 0:
            raise ConfigError(f"max_steps must not be negative, but got {self.max_steps}.")
        if not 0 <= self.min_gain < float("inf"):
            raise ConfigError(f"min_gain must not be negative, but got {self.min_gain}.")
        if self.target is not None and self.target != self.target:
            raise ConfigError(f"target must be a number, but got {self.target}.")

    @property
    def seeks_size(self) -> bool:
        """Whether growth may end before its budget because of what the network is worth."""
        return self.target is not None or self.patience is not None

    @property
    def keeps_best(self) -> bool:
        """Whether the network of the best step is taken instead of the last one's."""
        return self.patience is not None

    def reason(self, history: History, budget: Budget, score_of: Callable[[float], float] = lambda value: value) -> str:
        """Why growth ends after the last step of a history, or nothing; ``score_of`` makes a score of a metric."""
        steps = history.steps
        scores = [step.score for step in steps if step.score is not None]
        if self.target is not None and scores[-1] >= score_of(self.target):
            return TARGET
        if steps[-1].budget_size >= budget.total:
            return "the budget is reached"
        if self.patience is not None and len(scores) > self.patience:
            before, recent = max(scores[: -self.patience]), max(scores[-self.patience :])
            if recent < before + self.min_gain or (self.min_gain == 0 and recent <= before):
                return "growth no longer pays"
        if self.max_steps is not None and len(steps) > self.max_steps:
            return "the number of steps is reached"
        return ""
