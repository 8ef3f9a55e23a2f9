"""Figure 5 and Table 2: tasks of CIFAR-100 one after the other, grown by Firefly and by other methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeAlias

import numpy as np

from ramet.continual import Stream, learn, make_skeleton, make_stream
from ramet.execution import WorkItem
from ramet.reports import Column, Table
from ramet.reports.formats import count, duration, percent
from ramet.runs.encoding import Json
from ramet.seeding import derive_seed
from ramet_papers.experiment import Experiment, Outcome, Row, Setup, mean_of, tabled, values
from ramet_papers.firefly.judges import F7Figures, Trained, judge_f7
from ramet_papers.firefly.presets import PRESETS, ContinualPreset

PAPER = {"individual": "88.85 % at 2,565 M", "cpg": "90.75 % at 289 M, 90.58 % at 28 M", "firefly": "91.03 % at 26 M"}
"""Table 2 of the paper."""

Results = Mapping[str, list[Json]]
"""What each method has learned, one entry a seed."""


TaskSetup: TypeAlias = Setup[Sequence[Stream], ContinualPreset]
"""A stream for each seed, with classes of its own as the paper's three splits, and the preset."""


def learn_stream(setup: TaskSetup, *, method: str, number: int, seed: int, device: str) -> Json:
    """A whole stream by one method: accuracies after each task, and what the network costs."""
    stream, preset = setup.data[number], setup.preset
    channels, height, width = stream.input_shape
    sizes: Json = {"in_channels": channels, "image_size": (height, width), "batch_norm": preset.batch_norm}
    network = make_skeleton(preset.network, **sizes)
    learned = learn(stream, method=method, network=network, settings=preset.settings, seed=seed, device=device)
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


def figure_5(experiment: Experiment) -> Outcome:
    """Accuracy against size after 10 tasks, and the accuracy over the tasks seen so far of 20."""
    preset = PRESETS[experiment.preset_name].continual
    ten, twenty = preset.ten, preset.twenty[0]
    tables = [
        _sizes(experiment, measure(experiment, preset, ten, preset.ten_methods), f"Figure 5a: {ten}"),
        _on_the_fly(experiment, measure(experiment, preset, twenty, preset.twenty_methods), f"Figure 5b: {twenty}"),
    ]
    return Outcome("Firefly, Figure 5", tables, [], [preset.note])


def table_2(experiment: Experiment) -> Outcome:
    """Accuracy and size after 20 tasks, Firefly against CPG and networks of their own; claim F7."""
    preset = PRESETS[experiment.preset_name].continual
    found = {stream: measure(experiment, preset, stream, preset.twenty_methods) for stream in preset.twenty}
    tables = [_sizes(experiment, results, f"Table 2: {stream}") for stream, results in found.items()]
    claim = judge_f7(continual_figures(found[preset.twenty[0]], preset, experiment.command))
    return Outcome("Firefly, Table 2", tables, [claim], [preset.note])


def measure(
    experiment: Experiment, preset: ContinualPreset, source: str, methods: Mapping[str, str]
) -> dict[str, list[Json]]:
    """The results of methods on a stream, by the methods' labels; it is learned once, whichever figure asks."""
    workspace = experiment.workspace
    seeds = [derive_seed(workspace.seed, "continual", number) for number in range(preset.seeds)]
    options = {**preset.stream, "data_dir": workspace.data_dir}
    setup: TaskSetup = Setup([make_stream(source, seed=seed % 2**31, **options) for seed in seeds], preset)
    config = {"network": preset.network, "stream": dict(preset.stream), "settings": asdict(preset.settings)}
    tasks = {
        label: [
            WorkItem(
                f"{source}/{method}/seed-{number}",
                learn_stream,
                {"method": method, "number": number, "seed": seed, "device": workspace.device},
            )
            for number, seed in enumerate(seeds)
        ]
        for label, method in methods.items()
    }
    return experiment.trials("continual", config, setup).finish(tasks, f"learning {source}")


def _sizes(experiment: Experiment, results: Results, title: str) -> Table:
    rows: list[Row] = [
        {
            "method": label,
            "paper": PAPER.get(label.partition(",")[0]) if title.startswith("Table 2") else None,
            Column("parameters", count): round(mean_of(found, "params")),
            Column("stored bytes", count): round(mean_of(found, "stored_bytes")),
            Column("average accuracy", percent, best="highest"): experiment.mean(values(found, "test")),
            "backward transfer, points": 100 * mean_of(found, "forgetting"),
            Column("time", duration): mean_of(found, "seconds"),
        }
        for label, found in results.items()
    ]
    return tabled(rows, f"{title}, {len(next(iter(results.values())))} seeds")


def _on_the_fly(experiment: Experiment, results: Results, title: str) -> Table:
    """The average accuracy over the tasks seen so far, a column for every fifth of the stream."""
    num_tasks = len(next(iter(results.values()))[0]["seen"])
    places = sorted({max(1, round(num_tasks * fifth / 5)) for fifth in range(1, 6)})
    rows: list[list[Any]] = [
        [label, *(experiment.mean(values(found, "seen")[:, place - 1]) for place in places)]
        for label, found in results.items()
    ]
    columns: list[Column | str] = ["method", *(Column(f"{place} tasks", percent, best="highest") for place in places)]
    return Table(columns, rows, title=f"{title}: average accuracy over the tasks seen so far")


def continual_figures(results: Results, preset: ContinualPreset, command: str) -> F7Figures:
    """What claim F7 is judged by, from the results of ``learn_stream`` on 20 random tasks by label, one a seed."""
    trained = {label: Trained(values(found, "test"), values(found, "params")) for label, found in results.items()}
    grown = {label: found for label, found in trained.items() if label.startswith("firefly")}
    said = {"command": command, "setting": preset.note}
    return F7Figures(firefly=grown, cpg=trained["cpg"], individual=trained["individual"], **said)
