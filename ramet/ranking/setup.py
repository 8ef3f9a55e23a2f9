"""What every training of a diagnosis needs and what does not change within it: the space, the data, the device."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from ramet.data import DataSet
from ramet.errors import ConfigError
from ramet.guards.making import GuardSource
from ramet.runs import Checkpoints
from ramet.seeding import seeded_globally
from ramet.spaces import Space
from ramet.training import Settings


@dataclass(frozen=True)
class SupernetSetup:
    """The space, the data and the settings that all children of a diagnosis have in common.

    A setup is sent to each worker once, so that tasks need only name what differs.

    Args:
        space: the architectures.
        data: the splits, already on the device.
        settings: the numbers of a training.
        folder: where trainings keep their checkpoints; none to keep nothing.
        seconds_between_checkpoints: how much work of a training a kill may cost; it has no influence on results.
        guard: of supernets, where it is an object and not a text; each gets a copy.
    """

    space: Space
    data: DataSet
    settings: Settings
    folder: Path | None = None
    seconds_between_checkpoints: float = 30.0
    guard: GuardSource | None = None

    def __post_init__(self) -> None:
        if not self.seconds_between_checkpoints >= 0:
            raise ConfigError(
                f"seconds_between_checkpoints must not be negative, but got {self.seconds_between_checkpoints}."
            )

    def new_supernet(self, seed: int, *role: str | int) -> nn.Module:
        """A supernet whose weights follow from the seed and the role, on the data's device."""
        with seeded_globally(seed, "weights", *role):
            network = self.space.supernet(self.data.in_channels, self.data.num_classes)
        return network.to(self.data.train.x.device)

    def checkpoints(self, name: str) -> Checkpoints | None:
        """The checkpoints of one training."""
        return None if self.folder is None else Checkpoints(self.folder / name)

    def describe(self) -> dict[str, Any]:
        """All that the accuracy of a child trained alone depends on, apart from the child and the seed."""
        return {"space": self.space.describe(), "data": self.data.fingerprint(), "settings": self.settings.to_json()}

    def fingerprint(self) -> str:
        """A short name for ``describe()``, by content."""
        text = json.dumps(self.describe(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
