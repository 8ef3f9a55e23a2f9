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
from ramet.ranking.weights import StartWeights
from ramet.runs import Checkpoints, differences
from ramet.runs.identity import as_before, unlike_defaults
from ramet.seeding import seeded_globally
from ramet.spaces import Space
from ramet.training import Metric, Settings
from ramet.training.recipe import FIRST_FIELDS
from ramet.training.registry import METRICS


@dataclass(frozen=True)
class SupernetSetup:
    """The space, the data and the settings that all children of a diagnosis have in common.

    A setup is sent to each worker once, so that tasks need only name what differs.

    Args:
        folder: where trainings keep their checkpoints, under the ``identity`` of their run; none to keep nothing.
        seconds_between_checkpoints: how much work of a training a kill may cost; it has no influence on results.
        guard: of supernets, where it is an object and not a text; each gets a copy.
        training: how supernets are trained, where it is an object and not a text.
        start: trained weights that every network begins with; what they lack is drawn.

    Raises:
        ConfigError: seconds are negative, or there is a start for slices of a network, which has its weights.
    """

    space: Space
    data: DataSet
    settings: Settings
    folder: Path | None = None
    seconds_between_checkpoints: float = 30.0
    identity: str | None = None
    guard: GuardSource | None = None
    training: Any = None
    start: StartWeights | None = None

    def __post_init__(self) -> None:
        if not self.seconds_between_checkpoints >= 0:
            raise ConfigError(
                f"seconds_between_checkpoints must not be negative, but got {self.seconds_between_checkpoints}."
            )
        if self.start is not None and self.space.inherits:  # units are in an order that follows from their weights
            raise ConfigError(
                f"sizes of a trained network begin with its own weights, so start must be none, but got "
                f"{self.start.source}; let the function of the space load it."
            )

    def new_supernet(self, seed: int, *role: str | int) -> nn.Module:
        """A supernet that a training begins with, on the data's device: drawn by seed and role, as far as not given."""
        network = self.drawn_supernet(seed, *role)
        if self.start is not None:
            self.start.put(network)
        return network

    def drawn_supernet(self, seed: int, *role: str | int) -> nn.Module:
        """A supernet whose weights follow from the seed and the role alone, on the data's device."""
        with seeded_globally(seed, "weights", *role):
            network = self.space.supernet(self.data.in_channels, self.data.num_outputs)
        return network.to(self.data.train.x.device)

    def checkpoints(self, name: str) -> Checkpoints | None:
        """The checkpoints of one training."""
        return None if self.folder is None else Checkpoints(self.folder / name, identity=self.identity)

    @property
    def metric(self) -> Metric:
        """What children are measured by."""
        return self.settings.metric_for(self.data.train.y)

    def describe(self) -> dict[str, Any]:
        """All that the metric of a child trained alone depends on, apart from the child and the seed."""
        values = {"space": self.space.describe(), "data": self.data.fingerprint(), "settings": self.settings.to_json()}
        return values | self.metric.described() | self._described_start()

    def fingerprint(self) -> str:
        """A short name for ``describe()``, by what differs from the defaults: a later option leaves it as it is."""
        space = unlike_defaults(type(self.space), self.space.describe())
        settings = differences(self.settings, defaults_of=Settings)
        # The accuracy, of which nothing is said, leaves the name as it was; so no other metric is taken for it.
        measured = self.metric.described() | self._metric_code()
        described = {"space": space, "data": self.data.fingerprint(), "settings": settings}
        return _digest(described | measured | self._described_start())

    def former_fingerprint(self) -> str | None:
        """The name by all values that were there at first, under which older caches lie; none if there is no such."""
        settings = as_before(self.settings, FIRST_FIELDS)
        if settings is None or not self.metric.is_accuracy or self.start is not None:
            return None
        return _digest(self.describe() | {"settings": settings})

    @property
    def is_told_by_name(self) -> bool:
        """Whether all that a child's metric depends on is told by names and files; what an object measures is not."""
        return not callable(self.settings.metric)

    def _described_start(self) -> dict[str, str]:
        return {} if self.start is None else {"start": self.start.digest}

    def _metric_code(self) -> dict[str, str]:
        """A digest of the file that a metric of one's own is in: an edited function measures something else."""
        source = self.settings.metric
        files = [] if source is None else [Path(text.rpartition(":")[0]) for text in METRICS.code(source)]
        found = b"".join(file.read_bytes() for file in files if file.is_file())
        return {"metric_code": hashlib.sha256(found).hexdigest()} if found else {}


def _digest(value: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
