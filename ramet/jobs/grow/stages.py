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
from ramet.growth.tasks import FIRST_STEP, GrowthSetup, finish, take_turn, train_first
from ramet.jobs.grow.result import StepFigures, step_line
from ramet.jobs.job import Session
from ramet.jobs.metric import MetricFigures
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
        if sum(f"{method}/step-000" not in records for method in methods) > 1:
            tasks = [WorkItem(FIRST_STEP, train_first, {})]
            with closing(self._results(tasks, "training before anything grows")) as results:
                list(results)
        while waiting := [method for method in methods if f"{method}/end" not in records]:
            tasks = [WorkItem(method, take_turn, {"method": method}) for method in waiting]
            with closing(self._results(tasks, f"growing by {', '.join(waiting)}")) as results:
                for task, history in results:
                    self._record(task.key, history)
        tasks = [WorkItem(method, finish, {"method": method}) for method in methods if method not in records]
        with closing(self._results(tasks, "testing")) as results:
            for task, outcome in results:
                records.append(task.key, **outcome)
        return self._summary()

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
            records.append(f"{method}/end", stopped=history["stopped"], **kept)

    def _summary(self) -> Json:
        """Every method's curve and what it ended with: everything that ``GrowResult`` has."""
        records = self.run.records
        methods: Json = {}
        for method in self.setup.methods:
            prefix = f"{method}/step-"
            keys = sorted(record["key"] for record in records if record["key"].startswith(prefix))
            found = [records[key] for key in keys if not key.endswith("/seconds")]
            steps = [
                {name: value for name, value in record.items() if name not in ("key", "identity")} for record in found
            ]
            end, kept = records[method], records[f"{method}/end"].get("kept")
            last = steps[-1 if kept is None else kept]
            methods[method] = {
                "stopped": records[f"{method}/end"]["stopped"],
                "kept": kept,
                "steps": steps,
                **last["sizes"],
                "validation": self.metric.value(last["score"]),
                "test": end["test"],
                "layers": end["layers"],
                "network": f"networks/{method}",
                "not_exported": end["not_exported"],
            }
        setting = {name: value for name, value in records["setting"].items() if name not in ("key", "identity")}
        named = {"network": self.setup.name, "data_name": self.data_name, "seed": self.setup.seed}
        return {**setting, **named, "methods": methods}


def _same(kept: dict[str, Tensor], given: dict[str, Tensor]) -> bool:
    return kept.keys() == given.keys() and all(torch.equal(kept[name], given[name].cpu()) for name in kept)
