"""The diagnosis: train the instances and the truth, score, analyse, and say how far the ranking can be trusted."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ramet.costs import count_flops, count_parameters
from ramet.execution import Executor, WorkItem
from ramet.ranking.alone import train_alone
from ramet.ranking.analysis import Scores, analyse
from ramet.ranking.bias import count_options
from ramet.ranking.diverged import check_came_down
from ramet.ranking.instance import fine_tune_result, load_network, train_instance
from ramet.ranking.longer import early_epochs
from ramet.ranking.metrics import Floats
from ramet.ranking.plan import Plan, variation_overrides, variation_training
from ramet.ranking.predictor import can_smooth, features_of
from ramet.ranking.recommendation import recommend
from ramet.ranking.setup import SupernetSetup
from ramet.ranking.trainings import make_training
from ramet.ranking.truth import Truth, TruthCache, read_table
from ramet.ranking.truth_source import TrainedTruth, TruthSource
from ramet.ranking.values import in_values
from ramet.ranking.ways import training_figures, variation_figures
from ramet.registry import describe_source
from ramet.runs import Run
from ramet.runs.encoding import Json
from ramet.seeding import derive_seed, torch_generator
from ramet.sharing import Groups, affinity_groups, gradient_affinity, make_sharing

Costs = tuple[Floats, Floats]
"""The parameters and the multiply-adds of some children, each of shape [children]."""

CHILDREN_A_TASK = 8
"""Children that one fine-tuning task takes: few enough to keep all workers busy, enough to load a snapshot rarely."""


@dataclass(frozen=True)
class Diagnosis:
    """One diagnosis under way: all it needs, its run directory, and the ``cache`` of truths across runs.

    A cache that the user did not name is not needed: where it cannot be used, the diagnosis goes on without.
    """

    setup: SupernetSetup
    plan: Plan
    run: Run
    executor: Executor
    cache: Path
    needs_cache: bool = True

    @cached_property
    def truth_cache(self) -> TruthCache:
        """The trainings alone that are known already; read once, because its name is a digest of all the data."""
        return TruthCache(self.cache, self.setup, is_needed=self.needs_cache)

    @cached_property
    def _context(self) -> SupernetSetup:
        """What every task is given: the setup, and the parts that are objects, which no JSON argument can hold."""
        parts = {name: getattr(self.plan, name) for name in ("guard", "training")}
        return replace(self.setup, **{name: part for name, part in parts.items() if not isinstance(part, str)})

    def __call__(self) -> Json:
        """Do what is not done yet, and give the result: figures, words, and what they rest on."""
        self.plan.check(self.setup.space, self.setup.settings)
        scored = self.plan.scored(self.setup.space)
        known = self._known_truth(scored)
        if "result" in self.run.records:
            return {key: value for key, value in self.run.records["result"].items() if key != "key"}
        groups = self._groups()
        alone = known.missing_tasks()
        label = "training supernets and children alone" if alone else "training supernets"
        self._finish([*self._instance_tasks(groups, scored), *alone], label)
        self._finish(self._fine_tuning_tasks(groups, scored), "fine-tuning children")
        result = self._analyse(groups, scored, known.collect())
        self.run.records.append("result", **result)
        return result

    # -- tasks -------------------------------------------------------------------------------------------------------

    def _finish(self, tasks: Iterable[WorkItem], label: str) -> None:
        """Run the tasks whose result is not recorded yet, and record each result when it arrives."""
        waiting = [task for task in tasks if task.key not in self.run.records]
        done = self.executor.run(waiting, self._context, label=label, on_failure=self.run.record_failure)
        for task, result in done:
            # Before the result itself, whose record says that the task is done.
            for epoch, loss in enumerate(result["loss"] if task.function is train_instance else [], start=1):
                self.run.records.append(f"{task.key}/epoch/{epoch}", loss=loss)
            self.run.records.append(task.key, **result)
            if task.function is train_alone:
                child: Any = task.arguments
                self.truth_cache.put(child["index"], child["seed"], result)

    def _instance_tasks(self, groups: Groups, scored: Sequence[int]) -> list[WorkItem]:
        """A task for each group of each instance of each variation."""
        tasks = []
        for variation in ("", *self.plan.also):
            for instance, group in itertools.product(range(self.plan.instances), range(len(groups))):
                arguments = self._instance_arguments(variation, instance, group, groups, scored)
                tasks.append(WorkItem(arguments["name"], train_instance, arguments, cost=self._cost()))
        return tasks

    def _instance_arguments(
        self, variation: str, instance: int, group: int, groups: Groups, scored: Sequence[int]
    ) -> Json:
        """What ``train_instance`` is called with."""
        overrides, bn_momentum = variation_overrides(variation)
        overrides = {"epochs": self._epochs_of(variation)} | overrides
        # What is as it always was is not named, so that a run of an earlier version goes on.
        training = variation_training(variation) or describe_source(self.plan.training)
        turn_options: Json = {} if training == "uniform" else {"training": training}
        turn_options |= {} if self.plan.average_weights is None else {"average": self.plan.average_weights}
        turn_options |= {"weights": self.plan.weights[instance]} if self.plan.weights else {}
        turn = {} if self.plan.batches_per_model == 1 else {"batches_per_model": self.plan.batches_per_model}
        return (
            turn
            | turn_options
            | {
                "name": instance_key(variation, instance, group),
                "trained": list(groups[group]) if len(groups) > 1 else None,
                "scored": scored_of(groups, group, scored),
                "order": self.plan.order,
                "guard": describe_source(self.plan.guard),
                "num_shared_cells": make_sharing(self.plan.sharing).num_shared_cells,
                "weights_seed": self._seed("weights", instance, group),
                "order_seed": self._seed("order", instance, group),
                "batches_seed": self._seed("batches", instance, group),
                "last_epochs": min(self.plan.last_epochs, overrides["epochs"]),
                "last_steps": self.plan.last_steps,
                "step_samples": self.plan.step_samples,
                "stop_epoch": self.plan.stop_epoch,
                "overrides": overrides,
                "bn_momentum": bn_momentum,
            }
        )

    def _fine_tuning_tasks(self, groups: Groups, scored: Sequence[int]) -> list[WorkItem]:
        """Fine-tuning of every scored child from the first instance, some children a task."""
        if self.plan.fine_tune_steps == 0:
            return []
        learning_rate = self.plan.fine_tuning_rate(self.setup.settings)
        tasks = []
        for instance, group in itertools.product(range(self.plan.fine_tune_instances), range(len(groups))):
            members = scored_of(groups, group, scored)
            for first in range(0, len(members), CHILDREN_A_TASK):
                key = f"fine-tuning/instance-{instance}/group-{group}/part-{first // CHILDREN_A_TASK}"
                arguments: Json = {
                    "instance": self._instance_arguments("", instance, group, groups, scored),
                    "indices": members[first : first + CHILDREN_A_TASK],
                    "seed": self._seed("fine-tuning"),
                    "score_after": fine_tuning_points(self.plan.fine_tune_steps),
                    "learning_rate": learning_rate,
                }
                tasks.append(WorkItem(key, fine_tune_result, arguments, cost=self._cost() / 20))
        return tasks

    def _seed(self, role: str, instance: int = 0, group: int = 0) -> int:
        """The seed of one role; instances differ in what the plan varies, and share the rest."""
        varies = {"weights": ("weights",), "order": ("order",), "both": ("weights", "order", "batches")}
        return derive_seed(self.plan.seed, role, instance if role in varies[self.plan.varied] else 0, group)

    def _supernet_epochs(self) -> int:
        return self.plan.supernet_epochs or self.setup.settings.epochs

    def _epochs_of(self, variation: str) -> int:
        """The epochs of a variation: of another way to train, as many as make it cost what the plan's own does."""
        text = variation_training(variation)
        if text is None:
            return self._supernet_epochs()
        own, other = (
            make_training(source, self.setup.space).mean_children_per_step for source in (self.plan.training, text)
        )
        return max(1, round(self._supernet_epochs() * own / other))

    def _cost(self) -> float:
        """The cost of a supernet, in trainings of one child: the same number of steps, and the scores near the end."""
        return self._supernet_epochs() / self.setup.settings.epochs + 0.02 * self.plan.last_steps

    # -- groups ------------------------------------------------------------------------------------------------------

    def _groups(self) -> Groups:
        """The groups of children; by interference, they follow from a supernet that is trained first."""
        space = self.setup.space
        sharing = make_sharing(self.plan.sharing).of_options(space.num_options)
        if sharing.num_groups == 1:
            return (tuple(range(space.num_archs)) if self.plan.children is None else (),)
        if not sharing.is_measured:
            return sharing.groups(space.num_archs, self.plan.seed)
        if "groups" not in self.run.records:
            pilot = WorkItem(
                "pilot",
                train_instance,
                {
                    "name": "pilot",
                    "trained": None,
                    "scored": [0, 1],
                    "order": self.plan.order,
                    "num_shared_cells": None,
                    "weights_seed": self._seed("pilot-weights"),
                    "order_seed": self._seed("pilot-order"),
                    "batches_seed": self._seed("pilot-batches"),
                    "last_epochs": 1,
                    "last_steps": 1,
                    "overrides": {"epochs": self._supernet_epochs()},
                },
            )
            self._finish([pilot], "training a supernet to measure interference with")
            network = load_network(self.setup, pilot.arguments)
            # Of classes it is the cross-entropy, whatever the recipe's own loss; numbers have only that.
            x, y = self._affinity_sample()
            own_loss = self.setup.settings.loss_for(y) if y.is_floating_point() else None
            affinity = gradient_affinity(network, list(space), x, y, of_outputs=own_loss)
            groups = affinity_groups(affinity, sharing.num_groups)
            self.run.records.append("groups", groups=[list(group) for group in groups], affinity=affinity.tolist())
        return tuple(tuple(group) for group in self.run.records["groups"]["groups"])

    def _affinity_sample(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Training samples on which gradients are compared."""
        train = self.setup.data.train
        size = min(len(train.y), 4 * self.setup.settings.batch_size)
        chosen = torch.randperm(len(train.y), generator=torch_generator(self.plan.seed, "affinity"))[:size]
        return train.x[chosen], train.y[chosen]

    # -- truth -------------------------------------------------------------------------------------------------------

    def _known_truth(self, scored: Sequence[int]) -> TruthSource:
        if self.plan.table is not None:
            return TruthSource(read_table(self.plan.table, self.setup.space, scored))
        if self.plan.truth == "train":
            return TrainedTruth(self.run, self.plan, self.truth_cache, scored, self.setup.metric)
        return TruthSource()

    # -- analysis ----------------------------------------------------------------------------------------------------

    def _analyse(self, groups: Groups, scored: Sequence[int], truth: Truth | None) -> Json:
        costs = child_costs(self.setup, scored)
        scores = self._scores(groups, scored, truth, costs, variation="")
        self._refuse_diverged(len(groups))
        result = analyse(scores, seed=self.plan.seed)
        result |= self.setup.metric.described()
        result["settings"] = self.setup.describe() | {"plan": self.plan.describe()}
        result["truth_source"] = None if truth is None else truth.source
        result["truth_unit"] = "share" if truth is None else truth.unit
        result["costs"] = self._training_costs(groups, scored)
        result["guard"] = self._guard_report(groups)
        result["sizes"] = {"parameters": costs[0].astype(int).tolist(), "flops": costs[1].astype(int).tolist()}
        result["training"] = self._told_of("", scored, groups, scores)
        result["variations"] = []
        for text in self.plan.also:
            varied, mean = (
                self._scores(groups, scored, truth, costs, variation=text),
                None if truth is None else truth.mean,
            )
            row = variation_figures(text, varied, scores, mean, seed=self.plan.seed)
            result["variations"].append(row | {"training": self._told_of(text, scored, groups, varied)})
        space = self.setup.space
        result["labels"] = [space.short_name(space[index]) for index in scored]
        result["legend"] = space.legend()
        if len(groups) > 1 and self.plan.children is None:
            result["groups"] = [[self.setup.space.name(self.setup.space[i]) for i in group] for group in groups]
        result["recommendation"] = recommend(result)
        return in_values(result)

    def _scores(
        self, groups: Groups, scored: Sequence[int], truth: Truth | None, costs: Costs, variation: str
    ) -> Scores:
        """The recorded scores as arrays; columns follow ``scored`` whatever the groups are."""
        space, records = self.setup.space, self.run.records
        members = [scored_of(groups, group, scored) for group in range(len(groups))]
        columns = np.argsort([index for group in members for index in group])
        place = {index: column for column, index in enumerate(scored)}

        def gather(field: str) -> np.ndarray[Any, Any]:
            """Joins the groups' columns; shape [instances, ..., children]."""
            rows = []
            for instance in range(self.plan.instances):
                parts = [records[instance_key(variation, instance, group)][field] for group in range(len(groups))]
                rows.append(np.concatenate([np.asarray(part, float) for part in parts], axis=-1)[..., columns])
            return np.stack(rows)

        trained = [
            # With several groups, each trains a child of its own in a step; Figure 5 is about a single one.
            [place.get(index, -1) for index in records[instance_key(variation, i, 0)]["trained"]]
            if len(groups) == 1
            else [-1] * self.plan.last_steps
            for i in range(self.plan.instances)
        ]
        points = fine_tuning_points(self.plan.fine_tune_steps)
        tuned = None
        if self.plan.fine_tune_steps and not variation:
            curves = [
                curve for task in self._fine_tuning_tasks(groups, scored) for curve in records[task.key]["curves"]
            ]
            shape = (self.plan.fine_tune_instances, len(scored), len(points))
            tuned = np.asarray(curves).reshape(shape).transpose(0, 2, 1)[:, :, columns]
        num_epochs = self._num_epochs(variation)
        after = early_epochs(num_epochs, min(self.plan.last_epochs, num_epochs))
        early = gather("early") if after and self._has_early(variation, len(groups), len(after)) else None
        archs = [space[index] for index in scored]
        options, option_names = count_options(archs, space.option_names) if space.option_names else (None, [])
        return Scores(
            names=[space.name(space[index]) for index in scored],
            epochs=gather("epochs"),
            steps=gather("steps"),
            trained=np.asarray(trained),
            reestimated=gather("reestimated"),
            params=costs[0],
            flops=costs[1],
            truth=None if truth is None else truth.scores,
            fine_tuned=tuned,
            fine_tune_after=points,
            by_loss=self._gathered_if_known("by_loss", variation, groups, columns),
            by_average=self._gathered_if_known("by_average", variation, groups, columns),
            early=early,
            early_after=after,
            num_epochs=None if self.plan.weights else num_epochs,
            truth_deviation=None if truth is None else truth.deviation,
            truth_seeds=1 if truth is None else truth.num_seeds,
            truth_is_alike=truth is None or self._is_alike(truth),
            options=options,
            option_names=option_names,
            features=features_of(archs, space.num_options, []) if can_smooth(len(archs), space.num_options) else None,
        )

    def _is_alike(self, truth: Truth) -> bool:
        """Whether the truth is in the unit of the scores; a table's percentages are accuracies."""
        return truth.unit == "metric" or (truth.unit != "score" and self.setup.metric.is_accuracy)

    def _gathered_if_known(
        self, field: str, variation: str, groups: Groups, columns: np.ndarray[Any, Any]
    ) -> Floats | None:
        """A field of all instances, [instances, children]; none where one of them lacks it."""
        rows = []
        for instance in range(self.plan.instances):
            parts = [self.run.records[instance_key(variation, instance, place)] for place in range(len(groups))]
            if not all(field in part for part in parts):
                return None
            rows.append(np.concatenate([np.asarray(part[field], float) for part in parts])[columns])
        return np.stack(rows)

    def _num_epochs(self, variation: str) -> int:
        """How many epochs the supernets of a variation have."""
        epochs: int = ({"epochs": self._epochs_of(variation)} | variation_overrides(variation)[0])["epochs"]
        return min(self.plan.stop_epoch or epochs, epochs)

    def _has_early(self, variation: str, num_groups: int, count: int) -> bool:
        """Whether all supernets were scored early on; those of runs that an earlier version began were not."""
        places = itertools.product(range(self.plan.instances), range(num_groups))
        records = (self.run.records[instance_key(variation, instance, group)] for instance, group in places)
        return all(len(record.get("early", [])) == count for record in records)

    def _refuse_diverged(self, num_groups: int) -> None:
        """Refuse a ranking by weights that are no longer those of a network: its loss says so."""
        for instance, group in itertools.product(range(self.plan.instances), range(num_groups)):
            losses = self.run.records[instance_key("", instance, group)]["loss"]
            check_came_down(self.setup, losses, f"instance {instance}")

    def _guard_report(self, groups: Groups) -> Json:
        """What the guard says of itself at the end: the mean over instances and groups of each of its figures."""
        places = itertools.product(range(self.plan.instances), range(len(groups)))
        reports = [self.run.records[instance_key("", instance, group)].get("guard", {}) for instance, group in places]
        return {name: float(np.mean([report[name] for report in reports])) for name in reports[0]}

    def _told_of(self, variation: str, scored: Sequence[int], groups: Groups, scores: Scores) -> Json | None:
        """What the plan's way to train, or a variation's, says of itself."""
        way = make_training(variation_training(variation) or self.plan.training, self.setup.space)
        told = {self.setup.space.index(arch) for arch in way.told()}
        places = itertools.product(range(self.plan.instances), range(len(groups)))
        reports = [self.run.records[instance_key(variation, *place)].get("training", {}) for place in places]
        truth = None if scores.truth is None else scores.truth.mean(axis=0)
        known = [place for place, index in enumerate(scored) if index in told]
        return training_figures(reports, known, scores.steps.mean(axis=1), truth, seed=self.plan.seed)

    def _children_per_step(self) -> float:
        """What a step of a supernet costs, in steps of one child; nothing where none is trained."""
        return 0 if self.plan.weights else make_training(self.plan.training, self.setup.space).mean_children_per_step

    def _training_costs(self, groups: Groups, scored: Sequence[int]) -> Json:
        """What each way to a ranking costs, in training steps of one child."""
        settings, data = self.setup.settings, self.setup.data
        steps_per_epoch = -(-len(data.train.y) // settings.batch_size)
        # A forward pass is about a third of a training step.
        samples = min(len(data.validation.y), self.plan.step_samples or len(data.validation.y))
        evaluation = len(scored) * samples / settings.batch_size / 3
        return {
            "supernet": self._supernet_epochs() * steps_per_epoch * len(groups) * self._children_per_step(),
            "evaluation": evaluation,
            "averaging": evaluation * self.plan.last_steps,
            "fine_tuning": self.plan.fine_tune_steps * len(scored),
            "truth": settings.epochs * steps_per_epoch * len(scored) * self.plan.truth_seeds,
        }


def child_costs(setup: SupernetSetup, indices: Sequence[int]) -> Costs:
    """The parameters and the multiply-adds of children, as they are when exported."""
    network = setup.new_supernet(0)
    shape = tuple(setup.data.train.x.shape[1:])
    params, flops = [], []
    for index in indices:
        child = network.child(setup.space[index])  # type: ignore[operator]
        params.append(count_parameters(child))
        flops.append(count_flops(child, shape, dtype=setup.data.form.dtype))
    return np.asarray(params, float), np.asarray(flops, float)


def scored_of(groups: Groups, group: int, scored: Sequence[int]) -> list[int]:
    """The children of a group that are scored, in its order."""
    known = set(scored)
    return list(scored) if len(groups) == 1 else [index for index in groups[group] if index in known]


def fine_tuning_points(num_steps: int) -> list[int]:
    """After how many mini-batches a fine-tuned child is scored: each of the first ten, then ever more rarely.

    >>> fine_tuning_points(20)
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 19, 20]
    """
    points = set(range(min(10, num_steps) + 1))
    point = 10.0
    while point < num_steps:
        points.add(int(point))
        point *= 1.25
    return sorted(points | {num_steps})


def instance_key(variation: str, instance: int, group: int) -> str:
    """The name of one training of an instance, in records and checkpoints."""
    prefix = f"{variation}/" if variation else ""
    return f"{prefix}instance-{instance}/group-{group}"
