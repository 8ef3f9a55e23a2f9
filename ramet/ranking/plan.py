"""What a diagnosis does: how many instances, what differs among them, how the truth is known, what is tried besides."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from ramet.errors import ConfigError
from ramet.seeding import torch_generator
from ramet.sharing import Order, Sharing
from ramet.sharing.orders import OrderKind
from ramet.spaces import Space

Varied = Literal["weights", "order", "both"]

VARIATIONS = ("momentum", "bn-momentum", "weight-decay", "learning-rate", "epochs")
"""What ``also`` can vary."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The plan of a diagnosis.

    Args:
        instances: how many supernets are trained.
        order: which child a mini-batch trains: ``cyclic``, ``shuffled`` or ``uniform``.
        varied: what differs among instances: the initial ``weights``, the ``order`` of the children, or ``both``.
        sharing: which children use which copy of the weights, for example ``full``, ``groups:8:similar`` or ``prefix:2``.
        children: how many children, drawn by the seed, are scored; all of them if none. Training covers the whole space.
        last_epochs: scores are taken after that many last epochs.
        last_steps: scores are taken after that many last mini-batches.
        truth: ``train`` (every child alone), ``table:FILE[:COLUMN]``, or ``none``.
        truth_seeds: how many seeds the truth is the mean of.
        fine_tune_steps: for how many mini-batches children are fine-tuned from the first instance; 0 for not at all.
        fine_tune_learning_rate: its learning rate; the settings' final one if none.
        also: variations, ``NAME=VALUE``, each of which is run with as many instances.
        seed: the seed of the run.

    Raises:
        ConfigError: a value is out of range, or two of them contradict each other.
    """

    instances: int = 3
    order: OrderKind = "shuffled"
    varied: Varied = "both"
    sharing: str = "full"
    children: int | None = None
    last_epochs: int = 10
    last_steps: int = 64
    truth: str = "train"
    truth_seeds: int = 2
    fine_tune_steps: int = 16
    fine_tune_learning_rate: float | None = None
    also: tuple[str, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("instances", 1), ("last_epochs", 1), ("last_steps", 1), ("truth_seeds", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} must be at least {least}, but got {getattr(self, name)}.")
        if self.fine_tune_steps < 0:
            raise ConfigError(f"fine_tune_steps must not be negative, but got {self.fine_tune_steps}.")
        if self.fine_tune_learning_rate is not None and not self.fine_tune_learning_rate > 0:
            raise ConfigError(f"fine_tune_learning_rate must be positive, but got {self.fine_tune_learning_rate}.")
        if self.varied not in get_args(Varied):
            raise ConfigError(f"varied must be one of {', '.join(get_args(Varied))}, but got {self.varied!r}.")
        if not (self.truth in ("train", "none") or re.fullmatch(r"table:.+", self.truth)):
            raise ConfigError(f"truth must be train, none or table:FILE[:COLUMN], but got {self.truth!r}.")
        if self.children is not None and self.children < 2:
            raise ConfigError(f"children must be at least 2, because one child has no rank, but got {self.children}.")
        Order(self.order, 1, 0)
        sharing = Sharing.parse(self.sharing)
        if self.children is not None and (sharing.num_groups > 1 or sharing.num_shared_cells is not None):
            raise ConfigError(f"sharing {sharing} needs all children to be scored, but children is {self.children}.")
        for text in self.also:
            parse_variation(text)

    def check(self, space: Space) -> None:
        """Refuse a plan that does not fit the space."""
        if len(space) < 2:
            raise ConfigError(f"a ranking needs at least 2 children, but the space has {len(space)}.")
        if self.children is not None and self.children > len(space):
            raise ConfigError(f"children must be at most the {len(space)} of the space, but got {self.children}.")
        if self.children is None and len(space) > 4096:
            raise ConfigError(f"a space of {len(space)} children is too large to score whole; give --children.")
        sharing = Sharing.parse(self.sharing)
        if sharing.num_groups > len(space):
            raise ConfigError(f"groups must be at most the {len(space)} children, but got {sharing.num_groups}.")

    def scored(self, space: Space) -> list[int]:
        """The indices of the children that are scored, rising."""
        if self.children is None:
            return list(range(len(space)))
        # A draw without replacement that does not hold the whole space.
        generator = torch_generator(self.seed, "children")
        chosen: set[int] = set()
        while len(chosen) < self.children:
            chosen.add(space.index(space.sample(generator)))
        return sorted(chosen)

    def describe(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return asdict(self) | {"also": list(self.also)}


def parse_variation(text: str) -> tuple[str, float]:
    """The name and the value of a variation.

    >>> parse_variation("momentum=0")
    ('momentum', 0.0)
    """
    name, separator, value = text.partition("=")
    try:
        if not separator or name not in VARIATIONS:
            raise ValueError
        return name, float(value)
    except ValueError:
        raise ConfigError(f"also must be NAME=VALUE with one of {', '.join(VARIATIONS)}, but got {text!r}.") from None
