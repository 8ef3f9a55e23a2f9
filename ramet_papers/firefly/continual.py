"""Figure 5 and Table 2: tasks of CIFAR-100 one after the other, grown by Firefly and by other methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ramet.continual import Skeleton, Stream, learn, make_skeleton, make_stream
from ramet.execution import WorkItem
from ramet.ranking.intervals import mean_interval
from ramet.ranking.metrics import Floats
from ramet.reports import Column, Table
from ramet.reports.formats import count, duration, percent
from ramet.runs.encoding import Json
from ramet.seeding import derive_seed, numpy_generator
from ramet_papers.firefly.judges import F7Figures, Trained, judge_f7
from ramet_papers.firefly.presets import PRESETS, ContinualPreset
from ramet_papers.recorded import digest_of, finish_tasks, open_recorded
from ramet_papers.workspace import Outcome, Workspace

PAPER = {"individual": "88.85 % at 2,565 M", "cpg": "90.75 % at 289 M, 90.58 % at 28 M", "firefly": "91.03 % at 26 M"}
"""Table 2 of the paper."""

Results = Mapping[str, list[Json]]
"""What each method has learned, one entry a seed."""


@dataclass(frozen=True)
class TaskSetup:
    """What every training has in common.

    Args:
        streams: by name, one a seed: each seed has classes of its own, as the paper's three splits.
        skeleton: the layers that every method begins with or from.
        preset: the numbers.
        device: where networks are trained.
    """

    streams: Mapping[str, Sequence[Stream]]
    skeleton: Skeleton
    preset: ContinualPreset
    device: str


def learn_stream(setup: TaskSetup, *, stream: str, method: str, number: int, seed: int) -> Json:
    """A whole stream by one method: accuracies after each task, and what the network costs."""
    learned = learn(
        setup.streams[stream][number],
        method=method,
        network=setup.skeleton,
        settings=setup.preset.settings,
        seed=seed,
        device=setup.device,
    )
    figures = learned.figures()
    matrix = learned.matrix()
    return {
        "test": figures["average_accuracy"],
        "seen": [float(np.mean(row[: place + 1])) for place, row in enumerate(matrix)],
        "params": figures["parameters"],
        "stored_bytes": figures["stored_bytes"],
        "forgetting": figures["backward_transfer"],
        "seconds": sum(row["seconds"] for row in learned.rows),
    }


def figure_5(workspace: Workspace, preset_name: str) -> Outcome:
    """Accuracy against size after 10 tasks, and the accuracy over the tasks seen so far of 20."""
    preset = PRESETS[preset_name].continual
    generator = numpy_generator(workspace.seed, "figure-5")
    with _Trials(workspace, preset, preset_name) as trials:
        ten = trials.finish(preset.ten, preset.ten_methods)
        twenty = trials.finish(preset.twenty[0], preset.twenty_methods)
    tables = [
        _sizes(ten, f"Figure 5a: {preset.ten}", generator),
        _on_the_fly(twenty, f"Figure 5b: {preset.twenty[0]}", generator),
    ]
    return Outcome("Firefly, Figure 5", tables, [], [preset.note])


def table_2(workspace: Workspace, preset_name: str) -> Outcome:
    """Accuracy and size after 20 tasks, Firefly against CPG and networks of their own; claim F7."""
    preset = PRESETS[preset_name].continual
    generator = numpy_generator(workspace.seed, "table-2")
    with _Trials(workspace, preset, preset_name) as trials:
        found = {stream: trials.finish(stream, preset.twenty_methods) for stream in preset.twenty}
    tables = [_sizes(results, f"Table 2: {stream}", generator) for stream, results in found.items()]
    claim = judge_f7(continual_figures(found[preset.twenty[0]], preset, preset_name))
    return Outcome("Firefly, Table 2", tables, [claim], [preset.note]).kept(workspace.results)


class _Trials:
    """The run that keeps what each method has learned; a stream is learned once, whichever figure asks."""

    def __init__(self, workspace: Workspace, preset: ContinualPreset, preset_name: str) -> None:
        asked = {"network": preset.network, "stream": dict(preset.stream), "settings": asdict(preset.settings)}
        config: Json = {**asked, "seed": workspace.seed}
        path = workspace.runs / f"firefly-{preset_name}" / f"continual-{digest_of(config)}"
        self._desk, self._preset = workspace, preset
        self._run = open_recorded(path, "reproduction", config)

    def __enter__(self) -> _Trials:
        self._run.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._run.__exit__(*exception)

    def finish(self, source: str, methods: Mapping[str, str]) -> dict[str, list[Json]]:
        """The results of methods on a stream, by the methods' labels."""
        workspace, preset = self._desk, self._preset
        numbers = range(preset.seeds)
        seeds = [derive_seed(workspace.seed, "continual", number) for number in numbers]
        streams = [
            make_stream(source, seed=seed % 2**31, data_dir=workspace.data_dir, **preset.stream) for seed in seeds
        ]
        channels, height, width = streams[0].input_shape
        skeleton = make_skeleton(
            preset.network, in_channels=channels, image_size=(height, width), batch_norm=preset.batch_norm
        )
        setup = TaskSetup({source: streams}, skeleton, preset, workspace.device)
        keys = {label: [f"{source}/{method}/seed-{number}" for number in numbers] for label, method in methods.items()}
        tasks = [
            WorkItem(key, learn_stream, {"stream": source, "method": methods[label], "number": number, "seed": seed})
            for label in methods
            for key, number, seed in zip(keys[label], numbers, seeds, strict=True)
        ]
        found = finish_tasks(self._run, workspace.executor, tasks, setup, label=f"learning {source}")
        return {label: [found[key] for key in keys[label]] for label in methods}


def values(results: list[Json], field: str) -> Floats:
    """A number of all seeds, shape [seeds]."""
    return np.asarray([result[field] for result in results], dtype=float)


def _sizes(results: Results, title: str, generator: np.random.Generator) -> Table:
    rows: list[list[Any]] = [
        [
            label,
            PAPER.get(label) if title.startswith("Table 2") else None,
            round(float(values(found, "params").mean())),
            round(float(values(found, "stored_bytes").mean())),
            mean_interval(values(found, "test"), generator=generator),
            100 * float(values(found, "forgetting").mean()),
            float(values(found, "seconds").mean()),
        ]
        for label, found in results.items()
    ]
    columns: list[Column | str] = ["method", "paper", Column("parameters", count), Column("stored bytes", count)]
    columns += [Column("average accuracy", percent, best="highest"), "backward transfer, points"]
    return Table([*columns, Column("time", duration)], rows, title=f"{title}, {len(found_seeds(results))} seeds")


def found_seeds(results: Results) -> list[Json]:
    """The entries of the first method, one a seed."""
    return next(iter(results.values()))


def _on_the_fly(results: Results, title: str, generator: np.random.Generator) -> Table:
    """The average accuracy over the tasks seen so far, a column for every fifth of the stream."""
    num_tasks = len(found_seeds(results)[0]["seen"])
    places = sorted({max(1, round(num_tasks * fifth / 5)) for fifth in range(1, 6)})
    rows: list[list[Any]] = [
        [label, *(mean_interval([r["seen"][place - 1] for r in found], generator=generator) for place in places)]
        for label, found in results.items()
    ]
    columns: list[Column | str] = ["method", *(Column(f"{place} tasks", percent, best="highest") for place in places)]
    return Table(columns, rows, title=f"{title}: average accuracy over the tasks seen so far")


def continual_figures(results: Results, preset: ContinualPreset, preset_name: str) -> F7Figures:
    """What claim F7 is judged by.

    Args:
        results: of ``learn_stream`` by label, one a seed, on 20 random tasks.
        preset: that they were made under.
        preset_name: its name.
    """
    judged = ("firefly", "cpg", "individual")
    return F7Figures(
        command=f"ramet reproduce firefly/table-2 --preset {preset_name}",
        setting=preset.note,
        **{label: Trained(values(results[label], "test"), values(results[label], "params")) for label in judged},
    )
