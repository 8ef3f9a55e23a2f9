"""The stages of a growth: every method's steps, in turns; then the test set; then what is left of it all."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ramet.errors import ConfigError
from ramet.execution import Inline, WorkItem
from ramet.fields import from_json
from ramet.growth.comparing import train_arm
from ramet.growth.foreseeing import Foresight, foresee
from ramet.growth.tasks import FIRST_STEP, GrowthSetup, finish, take_turn, train_first
from ramet.jobs.grow.result import StepFigures, step_line
from ramet.jobs.job import Session
from ramet.reports.formats import count, duration
from ramet.reports.metric import MetricFigures
from ramet.runs.encoding import Json, plain

SECONDS_A_TURN = 20.0
"""A worker process does steps for so long before it reports; starting one costs about a second."""


class GrowthStages:
    """All of a growth that a run's records do not hold yet."""

    def __init__(self, setup: GrowthSetup, session: Session, data_name: str) -> None:
        self.run, self.session, self.data_name = session.run, session, data_name
        self.metric = MetricFigures(**setup.described.get("metric", {}))
        turn = 0.0 if isinstance(session.executor, Inline) else SECONDS_A_TURN
        self.setup = replace(
            setup, folder=self.run.path, identity=self.run.identity, seconds_a_turn=turn, start=self._start(setup)
        )

    def __call__(self) -> Json:
        """The result as JSON values."""
        records, methods = self.run.records, self.setup.methods
        if not any(f"{method}/step-000" in records for method in methods):
            self.session.notify("foreseen", {"line": foreseen_words(foresee(self.setup), self.setup.against)})
        if sum(f"{method}/step-000" not in records for method in methods) > 1:
            tasks = [WorkItem(FIRST_STEP, train_first, {})]
            with closing(self._results(tasks, "training before anything grows")) as results:
                list(results)
        while waiting := [method for method in methods if f"{method}/end" not in records]:
            tasks = [WorkItem(method, take_turn, {"method": method}) for method in waiting]
            with closing(self._results(tasks, f"growing by {', '.join(waiting)}")) as results:
                for task, history in results:
                    self._record(task.key, history)
        reference = self._best()
        tasks = [
            WorkItem(f"against/{arm}", train_arm, {"arm": arm, "method": reference})
            for arm in self.setup.against
            if f"against/{arm}" not in records
        ]
        with closing(self._results(tasks, f"training what {reference} is compared with")) as results:
            for task, outcome in results:
                records.append(task.key, **outcome)
        tasks = [WorkItem(method, finish, {"method": method}) for method in methods if method not in records]
        with closing(self._results(tasks, "testing")) as results:
            for task, outcome in results:
                records.append(task.key, **outcome)
        return self._summary()

    def _best(self) -> str:
        """The method of the best network by its validation score, all being over; of equal ones the smaller."""
        records = self.run.records

        def merit(method: str) -> tuple[float, float]:
            last = self._steps(method)[-1]
            kept = records[f"{method}/end"].get("kept")
            end = last if kept is None else self._steps(method)[kept]
            return end["score"], -end["sizes"]["params"]

        return max(self.setup.methods, key=merit)

    def _steps(self, method: str) -> list[Json]:
        """The records of a method's steps, in order."""
        records, prefix = self.run.records, f"{method}/step-"
        keys = sorted(record["key"] for record in records if record["key"].startswith(prefix))
        return [_plain(records[key]) for key in keys if not key.endswith("/seconds")]

    def _start(self, setup: GrowthSetup) -> dict[str, Tensor]:
        """What all methods start from: the run's weights. A function may draw others; a module must have them still."""
        checkpoints = self.run.checkpoints("start")
        kept = checkpoints.load()
        if kept is None:
            checkpoints.save(0, setup.start, {})
            return setup.start
        if not isinstance(setup.network, str) and not _same(kept.tensors, setup.start):
            raise ConfigError(f"a run goes on with what it began with, but the weights for {self.run.path} changed.")
        return {name: tensor.to(setup.data.train.x.device) for name, tensor in kept.tensors.items()}

    def _results(self, tasks: list[WorkItem], label: str) -> Generator[tuple[WorkItem, Any], None, None]:
        yield from self.session.executor.run(tasks, self.setup, label=label, on_failure=self.run.record_failure)

    def _record(self, method: str, history: Json) -> None:
        """Write down what a turn has done; a turn gives all steps, as a kill may have come before their records."""
        records = self.run.records
        for step in history["steps"]:
            if step["score"] is None:
                continue  # grown, but not trained yet
            key = f"{method}/step-{step['number']:03d}"
            seconds = {"growing": step.pop("seconds"), "training": step.pop("train_seconds")}
            if records.append(key, **step):
                line = step_line(method, from_json(StepFigures, plain(step), key), self.metric)
                self.session.notify("step", {"method": method, **step, "line": line})
            if f"{key}/seconds" not in records:  # measured, so never twice the same
                records.append(f"{key}/seconds", **seconds)
        if history["stopped"]:
            kept = {} if history["kept"] is None else {"kept": history["kept"]}
            records.append(f"{method}/end", stopped=history["stopped"], work_in_vain=history["work_in_vain"], **kept)

    def _summary(self) -> Json:
        """Every method's curve and what it ended with: everything that ``GrowResult`` has."""
        records = self.run.records
        methods: Json = {}
        for method in self.setup.methods:
            steps = self._steps(method)
            end, kept = records[method], records[f"{method}/end"].get("kept")
            last = steps[-1 if kept is None else kept]
            methods[method] = {
                "stopped": records[f"{method}/end"]["stopped"],
                "kept": kept,
                "work_in_vain": records[f"{method}/end"].get("work_in_vain", 0.0),  # earlier versions have none
                "steps": steps,
                **last["sizes"],
                "validation": self.metric.value(last["score"]),
                "test": end["test"],
                "layers": end["layers"],
                "network": f"networks/{method}",
                "not_exported": end["not_exported"],
            }
        against = {
            arm: {**_plain(records[f"against/{arm}"]), "network": f"networks/{arm}"} for arm in self.setup.against
        }
        setting = _plain(records["setting"])
        named = {"network": self.setup.name, "data_name": self.data_name, "seed": self.setup.seed}
        named["given_params"] = self.setup.given_params
        compared: Json = {}
        if against:
            compared = {"against": against, "num_validation": len(self.setup.data.validation.y)}
        return {**setting, **named, "methods": methods, **compared}


def foreseen_words(foreseen: Foresight, against: tuple[str, ...]) -> str:
    """What to expect, in a line.

    >>> foreseen_words(Foresight(rounds=4, params=20_000, work=3.2e10, seconds=40.0), ("plain",))
    'foreseen: 4 rounds to 20,000 parameters, 32 G multiply-adds, about 40 s a method; as much again for plain'
    """
    words = f"foreseen: {foreseen.rounds} rounds to {count(foreseen.params)} parameters, "
    words += f"{count(foreseen.work)} multiply-adds, about {duration(foreseen.seconds)} a method"
    return words + (f"; as much again for {' and for '.join(against)}" if against else "")


def _plain(record: Json) -> Json:
    """What a record says, without what it is found by."""
    return {name: value for name, value in record.items() if name not in ("key", "identity")}


def _same(kept: dict[str, Tensor], given: dict[str, Tensor]) -> bool:
    return kept.keys() == given.keys() and all(torch.equal(kept[name], given[name].cpu()) for name in kept)
