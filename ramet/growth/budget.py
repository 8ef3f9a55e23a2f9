"""What may be added: in neurons, parameters, multiplications or measured time, in a step and in all."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from ramet.errors import ConfigError

UNITS = ("neurons", "params", "flops", "latency")
_SCALES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "ms": 1e-3, "s": 1.0, "us": 1e-6}


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
        fields: dict[str, float] = {}
        for part in text.split(","):
            name, _, value = part.strip().partition("=")
            match = re.fullmatch(r"([0-9.eE+-]+)\s*([a-z%]*)", value.strip().lower())
            if match is None or (match[2] != "%" and match[2] not in _SCALES) or name not in (*UNITS, "step", "layers"):
                raise ConfigError(f"a budget reads like 'params=200k' or 'neurons=64, step=30%', but got {text!r}.")
            try:
                fields[name] = float(match[1]) * (0.01 if match[2] == "%" else _SCALES[match[2]])
            except ValueError:
                raise ConfigError(f"a budget needs a number after {name}=, but got {value!r}.") from None
        units = [name for name in fields if name in UNITS]
        if len(units) != 1:
            raise ConfigError(f"a budget names exactly one of {', '.join(UNITS)}, but got {text!r}.")
        return cls(units[0], fields[units[0]], fields.get("step", 0.3), int(fields.get("layers", 0)))

    def allowance(self, size: float) -> float:
        """How much the next step may add to a network of this size."""
        step = self.step * size if self.step < 1 else self.step
        return min(step, self.total - size)
