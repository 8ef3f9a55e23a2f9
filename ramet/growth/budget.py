"""What may be added: in neurons, parameters, multiplications or measured time, in a step and in all."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ramet.errors import ConfigError
from ramet.registry import parse_options, quantity

UNITS = ("neurons", "params", "flops", "latency")


@dataclass(frozen=True)
class Budget:
    """How large a network may get, and how fast.

    Args:
        unit: what is counted: ``neurons`` (units of groups that can grow), ``params``, ``flops`` (multiplications for
            one example, as :func:`ramet.costs.count_multiply_adds` counts them) or ``latency`` (seconds of a forward
            pass).
        total: the size at which growth ends.
        step: how much one step may add (``eta_t``): a share of the present size below 1, an amount otherwise. The
            paper's width experiments have 0.3. A step that is smaller than one unit still adds one.
        layers: how many new layers one step may add (``eta_{t,1}``).

    Raises:
        ConfigError: for an unknown unit or a size that is not positive.

    >>> Budget.parse("params=200k, step=25%, layers=1")
    Budget(unit='params', total=200000.0, step=0.25, layers=1)
    """

    unit: str
    total: float
    step: float = 0.3
    layers: int = 0

    def __post_init__(self) -> None:
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
            fields = {name: quantity(value) for name, value in parse_options(text).items()}
        except ConfigError as error:
            raise ConfigError(f"a budget reads like 'params=200k' or 'neurons=64, step=30%', but: {error}") from None
        if unknown := sorted(set(fields) - {*UNITS, "step", "layers"}):
            raise ConfigError(f"a budget has {', '.join(UNITS)}, step and layers, but got {', '.join(unknown)}.")
        units = [name for name in fields if name in UNITS]
        if len(units) != 1:
            raise ConfigError(f"a budget names exactly one of {', '.join(UNITS)}, but got {text!r}.")
        return cls(units[0], fields[units[0]], fields.get("step", 0.3), int(fields.get("layers", 0)))

    def allowance(self, size: float) -> float:
        """How much the next step may add to a network of this size."""
        step = self.step * size if self.step < 1 else self.step
        return min(step, self.total - size)
