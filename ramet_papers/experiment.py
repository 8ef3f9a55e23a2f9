"""The skeleton of a reproduction: a preset, measured over seeds and recorded, then tables and judged claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from ramet.execution import WorkItem
from ramet.ranking.intervals import seed_interval
from ramet.ranking.metrics import Floats
from ramet.reports import Column, Estimate, Table
from ramet.runs import read_config, read_records
from ramet.runs.encoding import Json, plain
from ramet.seeding import numpy_generator
from ramet.training import Settings
from ramet_papers.claims import Claim
from ramet_papers.claims_text import ANSWERS
from ramet_papers.recorded import digest_of, finish_tasks, open_recorded
from ramet_papers.workspace import Workspace

Key = TypeVar("Key")
Data = TypeVar("Data")
Numbers = TypeVar("Numbers")

Row: TypeAlias = Mapping[Column | str, Any]
"""A row of a table: its cells by their columns."""


@dataclass(frozen=True, kw_only=True)
class Preset:
    """The numbers of experiments: the paper's own, or small ones that fit a CPU."""

    name: str = ""  # ``small`` or ``paper``, where it is not a part of another preset
    seeds: int = 3  # that are reported
    note: str = ""  # the setting in a line

    def asked(self, *left_out: str) -> Json:
        """All that results depend on. What is left out is in the keys of the tasks, or changes no result."""
        return {key: value for key, value in asdict(self).items() if key not in ("name", "note", *left_out)}


def sgd(epochs: int, batch_size: int, learning_rate: float, weight_decay: float, final: float = 0.0) -> Settings:
    """Settings with a momentum of 0.9, whose learning rate is annealed to ``final``."""
    return Settings(
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        final_learning_rate=final,
        momentum=0.9,
        weight_decay=weight_decay,
    )


@dataclass(frozen=True)
class Setup(Generic[Data, Numbers]):
    """What every training of an experiment has in common: sent to each worker once."""

    data: Data
    preset: Numbers


@dataclass(frozen=True)
class Outcome:
    """What a reproduction gives: the paper's figures beside ours, and the answers to its claims."""

    title: str
    tables: list[Table]
    claims: list[Claim] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_text(self) -> str:
        """For a terminal."""
        lines = [self.title, ""]
        for table in self.tables:
            lines += [table.to_text(), ""]
        for claim in self.claims:
            lines.append(f"{claim.id} {ANSWERS[claim.holds]}: {claim.claim} Paper: {claim.paper}. Ours: {claim.ours}.")
            lines += [f"   {claim.note}"] if claim.note else []
        return "\n".join([*lines, *self.notes])

    def to_json(self) -> Json:
        """For a program."""
        return {
            "title": self.title,
            "tables": [{"title": table.title, "rows": table.to_json()} for table in self.tables],
            "claims": [asdict(claim) for claim in self.claims],
            "notes": self.notes,
        }


@dataclass(frozen=True)
class Experiment:
    """One table or figure under one preset."""

    workspace: Workspace
    target: str  # PAPER/NAME, as the command line calls it
    preset_name: str

    @property
    def command(self) -> str:
        """What was run."""
        return f"ramet reproduce {self.target} --preset {self.preset_name}"

    @property
    def folder(self) -> Path:
        """The runs of the paper under this preset."""
        return self.workspace.runs / f"{self.target.partition('/')[0]}-{self.preset_name}"

    @cached_property
    def generator(self) -> np.random.Generator:
        """Where the resamples of its intervals over children come from, one after the other."""
        return numpy_generator(self.workspace.seed, self.target.partition("/")[2])

    def mean(self, values: ArrayLike) -> Estimate:
        """The mean over seeds, with the interval that so many of them allow."""
        return seed_interval(values)

    def trials(self, name: str, config: Json, setup: Any, kind: str = "reproduction") -> Trials:
        """The run that keeps its trainings; named by what is asked, so that a changed preset has a run of its own."""
        asked = {**config, "seed": self.workspace.seed}
        return Trials(self.workspace, self.folder / f"{name}-{digest_of(asked)}", asked, setup, kind)


@dataclass(frozen=True)
class Trials:
    """Trainings of an experiment over seeds, whose results one run directory keeps."""

    workspace: Workspace
    path: Path
    config: Json  # all that must be the same for a recorded result to count, besides the tasks' keys
    setup: Any  # what every task is given first
    kind: str = "reproduction"

    def finish(self, rows: Mapping[Key, Sequence[WorkItem]], label: str = "training") -> dict[Key, list[Json]]:
        """The results of all rows; only those that are not recorded yet are run.

        Args:
            rows: the tasks of one kind, most often a seed each; keys must say all in which tasks of this run differ.
            label: what the progress bar says.
        """
        every = [task for row in rows.values() for task in row]
        with open_recorded(self.path, self.kind, self.config) as run:
            found = finish_tasks(run, self.workspace.executor, every, self.setup, label)
        return {key: [found[task.key] for task in row] for key, row in rows.items()}

    def in_order(self, tasks: Sequence[WorkItem], label: str = "training") -> list[Json]:
        """The results of tasks, in their order."""
        return self.finish({"": tasks}, label)[""]

    def known(self, rows: Mapping[Key, Sequence[WorkItem]]) -> dict[Key, list[Json]] | None:
        """The results of all rows if every one is recorded already, else none; trains and writes nothing."""
        if not (self.path / "config.json").exists() or read_config(self.path)["config"] != plain(self.config):
            return None
        records = {record["key"]: record for record in read_records(self.path)}
        if not all(task.key in records for row in rows.values() for task in row):
            return None
        return {key: [records[task.key] for task in row] for key, row in rows.items()}


def best_of(pilots: Mapping[Key, Sequence[Json]]) -> Key:
    """What is best on validation data, of trainings on a seed apart."""
    return max(pilots, key=lambda key: float(pilots[key][0]["validation"]))


def values(results: Sequence[Json], field: str) -> Floats:
    """A number of all seeds, shape [seeds]; of lists, [seeds, ...]."""
    return np.asarray([result[field] for result in results], dtype=float)


def mean_of(results: Sequence[Json], field: str) -> float:
    """The mean of a number over seeds."""
    return float(values(results, field).mean())


def tabled(rows: Sequence[Row], title: str, caption: str = "") -> Table:
    """A table whose rows name their columns, so that a heading stands beside its cell."""
    return Table(list(rows[0]), [list(row.values()) for row in rows], title=title, caption=caption)
