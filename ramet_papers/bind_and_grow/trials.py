"""The trainings behind the figures as tasks, and the run that keeps their results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ramet.continual import BindAndGrow, Skeleton, Stream, average_gain, learn, make_method
from ramet.continual.methods.bind_and_grow.random_growth import RandomGrowth, draw_of_total, layer_sizes
from ramet.continual.study.sequences import SequenceBench, run_sequence, train_alone
from ramet.continual.study.space import GrowSequence
from ramet.execution import WorkItem
from ramet.runs import Run
from ramet.runs.encoding import Json
from ramet.seeding import derive_seed, numpy_generator
from ramet.training import Settings
from ramet_papers.bind_and_grow.presets import BindingPreset, StreamSetting
from ramet_papers.workspace import Workspace

KIND = "bind-and-grow"
RULES: dict[str, Json] = {
    "the paper's": {"measure": "rsa", "blame": "whole"},
    "the default": {"measure": BindAndGrow.measure, "blame": BindAndGrow.blame},
}
"""How layers are compared and made anew: as in the paper, which answers the claims, and as this library does it."""


@dataclass(frozen=True)
class BindingSetup:
    """A stream_setting for each seed: sent to each worker once.

    Args:
        streams: one a seed.
        skeleton: the layers of every network.
        settings: of every training.
        seeds: of weights and batches, one a stream.
        folder: where networks that were trained alone are kept.
        options: options of every method on a layer graph.
    """

    streams: Sequence[Stream]
    skeleton: Skeleton
    settings: Settings
    seeds: Sequence[int]
    folder: Path
    options: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        workspace: Workspace,
        preset: BindingPreset,
        stream_setting: StreamSetting,
        folder: Path,
        num_seeds: int | None = None,
    ) -> BindingSetup:
        """The setup of a stream_setting, with the preset's seeds or another number of them."""
        numbers = range(num_seeds or preset.seeds)
        streams = [stream_setting.make(workspace, number) for number in numbers]
        seeds = [derive_seed(workspace.seed, "trial", number) for number in numbers]
        return cls(
            streams,
            stream_setting.skeleton(streams[0]),
            stream_setting.settings or preset.settings,
            seeds,
            folder,
            dict(stream_setting.method),
        )

    @property
    def guided(self) -> dict[str, Any]:
        """Options of growth by similarity, which is measured and blamed as in the paper."""
        return {**RULES["the paper's"], **self.options}

    def at(self, number: int, alone: Mapping[str, Any] | None = None, **options: Any) -> SequenceBench:
        """The setup of grow sequences of one seed, with further options of growth by similarity."""
        return SequenceBench(
            self.streams[number],
            self.skeleton,
            self.settings,
            self.seeds[number],
            self.folder / f"seed-{number}",
            {**self.guided, **options},
            alone or {},
        )


def alone(setup: BindingSetup, *, number: int, task: str) -> Json:
    """A task trained alone."""
    return dict(train_alone(setup.at(number), task=task))


def grown(setup: BindingSetup, *, number: int, delta: float, alone: Json, options: Json | None = None) -> Json:
    """The whole stream at one grow coefficient; options may depart from the paper's."""
    names = setup.streams[number].names
    sequence = GrowSequence(tuple(names), {name: delta for name in names})
    return run_sequence(setup.at(number, alone, **(options or {})), sequence=sequence.to_json())


def grown_at_random(
    setup: BindingSetup, *, number: int, draw: int, sizes: dict[str, int], alone: Json, for_each: bool = False
) -> Json:
    """The whole stream by random growth, with as many new parameters as are given: for each task, or in all.

    First weights and mini-batches are those of growth by similarity and of the tasks alone, which have luck of their
    own: a seed may begin with weights that suit all tasks.
    """
    stream, seed = setup.streams[number], setup.seeds[number]
    if for_each:
        method = RandomGrowth(sizes=sizes, draw=draw, **setup.options)
    else:
        generator = numpy_generator(seed, "layers of all tasks", draw)
        drawn = draw_of_total(layer_sizes(setup.skeleton), len(sizes), sum(sizes.values()), generator)
        method = RandomGrowth(layers=dict(zip(sizes, drawn, strict=True)), draw=draw, **setup.options)
    learned = learn(stream, method=method, network=setup.skeleton, settings=setup.settings, seed=seed)
    reference = [alone["test"][name] for name in stream.names]
    return {"test_gain": average_gain(learned.matrix(), reference), "parameters": learned.rows[-1]["parameters"]}


def compared(setup: BindingSetup, *, number: int, method: str) -> Json:
    """The whole stream by one method."""
    made = make_method(method)
    if isinstance(made, RandomGrowth):
        made = make_method(method, **setup.options)
    elif made.name == "bind-and-grow":
        made = make_method(method, **setup.guided)
    learned = learn(
        setup.streams[number],
        method=made,
        network=setup.skeleton,
        settings=setup.settings,
        seed=setup.seeds[number],
        scenario="all",
    )
    figures = learned.figures()
    seconds = sum(row["seconds"] for row in learned.rows)
    kept = ("average_accuracy", "backward_transfer", "parameters", "stored_bytes")
    return {**{key: figures[key] for key in kept}, "seconds": seconds}


def open_run(workspace: Workspace, preset: BindingPreset, figure: str) -> Run:
    """The run of a figure, named by what is asked, gone on with if it is there."""
    config = {"preset": json.loads(json.dumps(preset.to_json())), "seed": workspace.seed, "figure": figure}
    digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:8]
    path = workspace.runs / f"{KIND}-{preset.name}" / f"{figure}-{digest}"
    return Run.open(path) if (path / "config.json").exists() else Run.create(path, KIND, config)


def run_tasks(workspace: Workspace, run: Run, tasks: Sequence[WorkItem], setup: object, label: str) -> list[Json]:
    """The results of tasks in their order; those that the run has recorded are not run again."""
    missing = [task for task in tasks if task.key not in run.records]
    for task, result in workspace.executor.run(missing, setup, label=label, on_failure=run.record_failure):
        run.records.append(task.key, **result)
    return [run.records[task.key] for task in tasks]


def run_alone(workspace: Workspace, run: Run, setup: BindingSetup, label: str) -> list[Json]:
    """The accuracies of all tasks alone, a seed: ``{split: {task: accuracy}}``."""
    places = [(number, name) for number, stream in enumerate(setup.streams) for name in stream.names]
    tasks = [
        WorkItem(f"{label}/alone/{number}/{name}", alone, {"number": number, "task": name}) for number, name in places
    ]
    found: list[Json] = [{"validation": {}, "test": {}} for _ in setup.streams]
    for (number, name), result in zip(places, run_tasks(workspace, run, tasks, setup, "each task alone"), strict=True):
        for role in ("validation", "test"):
            found[number][role][name] = result[role]
    return found


def sizes_of(setup: BindingSetup, expanded: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The parameters of each task's new layers."""
    sizes = layer_sizes(setup.skeleton)
    return {task: sum(sizes[place] for place in places) for task, places in expanded.items()}
