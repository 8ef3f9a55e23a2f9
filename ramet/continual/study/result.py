"""What a search for grow sequences found: all trials, the Pareto front, and its points as networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ramet.continual.joint import JointNetwork
from ramet.continual.study.space import GrowSequence
from ramet.errors import ConfigError
from ramet.fields import from_json

if TYPE_CHECKING:
    import optuna
    from torch import nn


@dataclass(frozen=True)
class FoundSequences:
    """What a search found.

    Attributes:
        rows: every finished trial: ``trial``, ``sequence``, ``gain`` (on validation data), ``parameters``,
            ``on_front``, ``generation`` (of the population's size, counted from 0), ``bound_to``; and, of the front
            once they were tested, ``test_gain`` and ``test_accuracy``.
        folder: the run.
    """

    rows: list[dict[str, Any]]
    folder: Path

    @classmethod
    def of(cls, study: optuna.Study, folder: Path, population: int) -> FoundSequences:
        """The result of a study."""
        finished = [trial for trial in study.get_trials(deepcopy=False) if trial.values is not None]
        points = [(float(trial.values[0]), float(trial.values[1])) for trial in finished]
        front = pareto_front(points)
        rows = [
            {
                "trial": trial.number,
                "gain": point[0],
                "parameters": int(point[1]),
                "on_front": place in front,
                "generation": place // population,
                **{name: trial.user_attrs.get(name) for name in ("sequence", "bound_to")},
            }
            for place, (trial, point) in enumerate(zip(finished, points, strict=True))
        ]
        return cls(rows, folder)

    @property
    def front(self) -> list[dict[str, Any]]:
        """The Pareto front, the smallest network first; of equal points the first trial."""
        rows = sorted((row for row in self.rows if row["on_front"]), key=lambda row: (row["parameters"], row["trial"]))
        kept: dict[tuple[float, int], dict[str, Any]] = {}
        for row in rows:
            kept.setdefault((row["gain"], row["parameters"]), row)
        return list(kept.values())

    def tested(self, figures: Mapping[int, Mapping[str, float]]) -> FoundSequences:
        """The same with what was measured on test data, by trial."""
        return FoundSequences([{**row, **figures.get(row["trial"], {})} for row in self.rows], self.folder)

    def sequence(self, trial: int) -> GrowSequence:
        """The grow sequence of a trial."""
        for row in self.rows:
            if row["trial"] == trial:
                return from_json(GrowSequence, row["sequence"])
        raise ConfigError(f"a trial must be one that finished, but got {trial}.")

    def network(self, trial: int, *, trust: bool = False, network: nn.Module | None = None) -> JointNetwork:
        """The joint network of a trial on the front, which takes further tasks; those of others were not kept.

        One that was learned with a module needs ``trust`` in the code that the module is made by, or the module, where
        it was given as an object: see ``JointNetwork.load``.
        """
        self.sequence(trial)
        return JointNetwork.load(network_file(self.folder, trial), trust=trust, network=network)


def pareto_front(points: Sequence[tuple[float, float]]) -> set[int]:
    """Which points (gain, parameters) no other dominates: more gain is better, fewer parameters are.

    >>> sorted(pareto_front([(0.1, 10), (0.2, 20), (0.1, 30), (0.2, 20)]))
    [0, 1, 3]
    """
    return {place for place, point in enumerate(points) if not any(dominates(other, point) for other in points)}


def dominates(first: tuple[float, float], second: tuple[float, float]) -> bool:
    """Whether a point is no worse in both and better in one.

    >>> dominates((0.2, 10), (0.1, 10)), dominates((0.2, 10), (0.2, 10)), dominates((0.2, 11), (0.1, 10))
    (True, False, False)
    """
    return first[0] >= second[0] and first[1] <= second[1] and first != second


def network_file(folder: Path, trial: int) -> Path:
    """Where the network of a trial is kept."""
    return folder / "networks" / f"trial-{trial}.safetensors"
