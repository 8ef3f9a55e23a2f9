"""The trainings behind the figures as tasks, and the run that keeps their results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ramet.continual import BindAndGrow, Skeleton, Stream, average_gain, learn, make_method
from ramet.continual.random_growth import RandomGrowth, draw_of_total, layer_sizes
from ramet.continual.sequences import GrowSequence, SequenceBench, run_sequence, train_alone
from ramet.execution import Task
from ramet.papers.bind_and_grow.presets import Bed, Preset
from ramet.papers.desk import Desk
from ramet.runs import Run
from ramet.seeding import derive_seed, numpy_generator
from ramet.training import Settings

Json = dict[str, Any]
KIND = "bind-and-grow"
RULES: dict[str, Json] = {
    "the paper's": {"measure": "rsa", "blame": "whole"},
    "the default": {"measure": BindAndGrow.measure, "blame": BindAndGrow.blame},
}
"""How layers are compared and made anew: as in the paper, which answers the claims, and as this library does it."""


@dataclass(frozen=True)
class Bench:
    """A bed for each seed: sent to each worker once.

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
    def of(cls, desk: Desk, preset: Preset, bed: Bed, folder: Path, num_seeds: int | None = None) -> Bench:
        """The bench of a bed, with the preset's seeds or another number of them."""
        numbers = range(num_seeds or preset.seeds)
        streams = [bed.make(desk, number) for number in numbers]
        seeds = [derive_seed(desk.seed, "trial", number) for number in numbers]
        return cls(streams, bed.skeleton(streams[0]), bed.settings or preset.settings, seeds, folder, dict(bed.method))

    @property
    def guided(self) -> dict[str, Any]:
        """Options of growth by similarity, which is measured and blamed as in the paper."""
        return {**RULES["the paper's"], **self.options}

    def at(self, number: int, alone: Mapping[str, Any] | None = None, **options: Any) -> SequenceBench:
        """The bench of grow sequences of one seed, with further options of growth by similarity."""
        return SequenceBench(
            self.streams[number],
            self.skeleton,
            self.settings,
            self.seeds[number],
            self.folder / f"seed-{number}",
            {**self.guided, **options},
            alone or {},
        )


def alone(bench: Bench, *, number: int, task: str) -> Json:
    """A task trained alone."""
    return dict(train_alone(bench.at(number), task=task))


def grown(bench: Bench, *, number: int, delta: float, alone: Json, options: Json | None = None) -> Json:
    """The whole stream at one grow coefficient; options may depart from the paper's."""
    names = bench.streams[number].names
    sequence = GrowSequence(tuple(names), {name: delta for name in names})
    return run_sequence(bench.at(number, alone, **(options or {})), sequence=sequence.to_json())


def grown_at_random(
    bench: Bench, *, number: int, draw: int, sizes: dict[str, int], alone: Json, for_each: bool = False
) -> Json:
    """The whole stream by random growth, with as many new parameters as are given: for each task, or in all.

    First weights and mini-batches are those of growth by similarity and of the tasks alone, which have luck of their
    own: a seed may begin with weights that suit all tasks.
    """
    stream, seed = bench.streams[number], bench.seeds[number]
    if for_each:
        method = RandomGrowth(sizes=sizes, draw=draw, **bench.options)
    else:
        generator = numpy_generator(seed, "layers of all tasks", draw)
        drawn = draw_of_total(layer_sizes(bench.skeleton), len(sizes), sum(sizes.values()), generator)
        method = RandomGrowth(layers=dict(zip(sizes, drawn, strict=True)), draw=draw, **bench.options)
    learned = learn(stream, method=method, network=bench.skeleton, settings=bench.settings, seed=seed)
    reference = [alone["test"][name] for name in stream.names]
    return {"test_gain": average_gain(learned.matrix(), reference), "parameters": learned.rows[-1]["parameters"]}


def compared(bench: Bench, *, number: int, method: str) -> Json:
    """The whole stream by one method."""
    made = make_method(method)
    if isinstance(made, RandomGrowth):
        made = make_method(method, **bench.options)
    elif made.name == "bind-and-grow":
        made = make_method(method, **bench.guided)
    learned = learn(
        bench.streams[number],
        method=made,
        network=bench.skeleton,
        settings=bench.settings,
        seed=bench.seeds[number],
        scenario="all",
    )
    figures = learned.figures()
    seconds = sum(row["seconds"] for row in learned.rows)
    kept = ("average_accuracy", "backward_transfer", "parameters", "stored_bytes")
    return {**{key: figures[key] for key in kept}, "seconds": seconds}


def open_run(desk: Desk, preset: Preset, figure: str) -> Run:
    """The run of a figure, named by what is asked, gone on with if it is there."""
    config = {"preset": json.loads(json.dumps(preset.to_json())), "seed": desk.seed, "figure": figure}
    digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:8]
    path = desk.runs / f"{KIND}-{preset.name}" / f"{figure}-{digest}"
    return Run.open(path) if (path / "config.json").exists() else Run.create(path, KIND, config)


def run_tasks(desk: Desk, run: Run, tasks: Sequence[Task], bench: object, label: str) -> list[Json]:
    """The results of tasks in their order; those that the run has recorded are not run again."""
    missing = [task for task in tasks if task.key not in run.records]
    for task, result in desk.executor.run(missing, bench, label=label, on_failure=run.record_failure):
        run.records.append(task.key, **result)
    return [run.records[task.key] for task in tasks]


def run_alone(desk: Desk, run: Run, bench: Bench, label: str) -> list[Json]:
    """The accuracies of all tasks alone, a seed: ``{split: {task: accuracy}}``."""
    places = [(number, name) for number, stream in enumerate(bench.streams) for name in stream.names]
    tasks = [Task(f"{label}/alone/{number}/{name}", alone, {"number": number, "task": name}) for number, name in places]
    found: list[Json] = [{"validation": {}, "test": {}} for _ in bench.streams]
    for (number, name), result in zip(places, run_tasks(desk, run, tasks, bench, "each task alone"), strict=True):
        for role in ("validation", "test"):
            found[number][role][name] = result[role]
    return found


def sizes_of(bench: Bench, expanded: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The parameters of each task's new layers."""
    sizes = layer_sizes(bench.skeleton)
    return {task: sum(sizes[place] for place in places) for task, places in expanded.items()}
