"""Table 3: a network of blocks that gets deeper and wider, by Firefly, NASH and AutoGrow, then trained anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from torch import nn

from ramet.costs import count_parameters
from ramet.data import DataSet, load, on_device
from ramet.execution import WorkItem, pulse
from ramet.growth import Budget, GrowthStep, grow, make_method
from ramet.ranking.intervals import mean_interval
from ramet.ranking.metrics import Floats
from ramet.reports import Column, Table
from ramet.reports.formats import count, duration, percent
from ramet.runs.encoding import Json
from ramet.seeding import derive_seed, numpy_generator, seeded_globally
from ramet.training import Settings, accuracy, fit
from ramet_papers.firefly.clock import Timed
from ramet_papers.firefly.judges import F5Figures, Trained, judge_f5
from ramet_papers.firefly.presets import PRESETS, DepthPreset
from ramet_papers.recorded import digest_of, finish_tasks, open_recorded
from ramet_papers.workspace import Outcome, Workspace

NAMES = {"autogrow": "AutoGrow", "nash": "NASH", "firefly": "Firefly"}

PAPER = {
    ("mnist", "autogrow"): "99.57 % at 2.3 M",
    ("mnist", "nash"): "99.50 % at 2.0 M",
    ("mnist", "firefly"): "99.59 % at 1.9 M",
    ("fashion-mnist", "autogrow"): "94.47 % at 2.3 M",
    ("fashion-mnist", "nash"): "94.34 % at 2.2 M",
    ("fashion-mnist", "firefly"): "94.48 % at 2.1 M",
}
"""Table 3 of the paper."""


def make_blocks(in_channels: int, num_classes: int, width: int, num_blocks: int) -> nn.Sequential:
    """The network 1-1-1-1 of appendix B.2: in each block one convolution of stride 2, with batch norm and ReLU."""
    layers: list[nn.Module] = []
    channels = in_channels
    for _ in range(num_blocks):
        convolution = nn.Conv2d(channels, width, 3, stride=2, padding=1, bias=False)
        layers.append(nn.Sequential(convolution, nn.BatchNorm2d(width), nn.ReLU()))
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, num_classes))


@dataclass(frozen=True)
class DepthSetup:
    """What every training has in common: the data by name, and the preset."""

    data: Mapping[str, DataSet]
    preset: DepthPreset


def grow_deeper(setup: DepthSetup, *, data: str, method: str, options: Mapping[str, Any], seed: int) -> Json:
    """Grow a network, then draw its weights anew and train what was found for longer (B.2).

    AutoGrow adds one layer at a time, and trains as many times shorter in between as there are blocks: all methods have
    the same number of epochs, unless AutoGrow has nothing more to add before.

    Args:
        setup: the data and the preset.
        data: which data set.
        method: ``firefly``, ``nash`` or ``autogrow``.
        options: of the method.
        seed: of everything.
    """
    preset, dataset = setup.preset, setup.data[data]
    with seeded_globally(seed, "weights"):
        network = make_blocks(dataset.in_channels, dataset.num_classes, preset.width, preset.num_blocks)
    network = network.to(dataset.train.x.device)
    budget, settings, num_growths = plan_of(method, preset)
    timed = Timed(make_method(method, **options))
    layers: dict[str, int] = {}

    def after(step: GrowthStep) -> None:
        for place in step.layers:
            block = place.split(".")[0]
            layers[block] = layers.get(block, 0) + 1
        pulse(0.7 * (step.number + 1) / (num_growths + 1))

    _, history = grow(
        network,
        dataset,
        budget,
        timed,
        settings=settings,
        max_steps=num_growths,
        seed=seed,
        in_place=True,
        after_step=after,
    )
    grown = accuracy(network, dataset.test.x, dataset.test.y)
    with seeded_globally(seed, "anew"):
        for module in network.modules():
            if callable(reset := getattr(module, "reset_parameters", None)):
                reset()
    fit(network, dataset.train.x, dataset.train.y, preset.final, seed=derive_seed(seed, "final"))
    return {
        "params": count_parameters(network),
        "layers": [1 + layers.get(str(block), 0) for block in range(preset.num_blocks)],
        "grown": grown,
        "test": accuracy(network, dataset.test.x, dataset.test.y),
        "growths": len(history.steps) - 1,
        "seconds": sum(timed.seconds),
    }


def plan_of(method: str, preset: DepthPreset) -> tuple[Budget, Settings, int]:
    """What a growth may add, the training after each, and how many there are."""
    blocks, settings = preset.num_blocks, preset.settings
    if method != "autogrow":
        return Budget("neurons", 1e12, step=preset.step, layers=blocks), settings, preset.num_growths
    # AutoGrow's layers are as wide as their place, and must fit whatever the share of a step is.
    epochs = max(1, settings.epochs // blocks)
    num_growths = (preset.num_growths + 1) * blocks - 1
    return Budget("neurons", 1e12, step=1e9, layers=1), replace(settings, epochs=epochs), num_growths


def table_3(workspace: Workspace, preset_name: str) -> Outcome:
    """Accuracy and parameters of what each method grows, on MNIST and Fashion-MNIST; claim F5."""
    preset = PRESETS[preset_name].depth
    loaded = {
        name: load(name, **preset.data_options, data_dir=workspace.data_dir, seed=workspace.seed)
        for name in preset.data
    }
    setup = DepthSetup({name: on_device(data, workspace.device) for name, data in loaded.items()}, preset)
    unasked = ("note", "methods", "seeds", "data")  # they are in the tasks' keys
    config: Json = {key: value for key, value in asdict(preset).items() if key not in unasked}
    config |= {"fingerprints": {name: data.fingerprint() for name, data in loaded.items()}, "seed": workspace.seed}
    tasks = {
        (data, method): [
            _task(data, method, preset.methods[method], number, workspace) for number in range(preset.seeds)
        ]
        for data in preset.data
        for method in NAMES
    }
    path = workspace.runs / f"firefly-{preset_name}" / f"depth-{digest_of(config)}"
    with open_recorded(path, "reproduction", config) as run:
        every = [task for row in tasks.values() for task in row]
        found = finish_tasks(run, workspace.executor, every, setup, label="growing deeper")
    results = {key: [found[task.key] for task in row] for key, row in tasks.items()}
    generator = numpy_generator(workspace.seed, "table-3")
    claim = judge_f5(depth_figures(results, preset, preset_name))
    return Outcome("Firefly, Table 3", [_table(results, generator)], [claim], [preset.note]).kept(workspace.results)


def _task(data: str, method: str, options: Mapping[str, Any], number: int, workspace: Workspace) -> WorkItem:
    key = f"{data}/{method}-{digest_of(dict(options))}/seed-{number}"
    seed = derive_seed(workspace.seed, "depth", number)
    return WorkItem(key, grow_deeper, {"data": data, "method": method, "options": dict(options), "seed": seed})


def values(results: list[Json], field: str) -> Floats:
    """A number of all seeds, shape [seeds]."""
    return np.asarray([result[field] for result in results], dtype=float)


def _table(results: Mapping[tuple[str, str], list[Json]], generator: np.random.Generator) -> Table:
    rows: list[list[Any]] = []
    for (data, method), found in results.items():
        depths = np.mean([result["layers"] for result in found], axis=0)
        accuracies = [mean_interval(values(found, field), generator=generator) for field in ("test", "grown")]
        rows.append(
            [
                data,
                NAMES[method],
                PAPER.get((data, method)),
                "-".join(f"{depth:.1f}" for depth in depths),
                round(float(values(found, "params").mean())),
                *accuracies,
                float(values(found, "seconds").mean()),
            ]
        )
    columns: list[Column | str] = ["data", "method", "paper", "layers of each block", Column("parameters", count)]
    columns += [Column("accuracy, trained anew", percent), Column("accuracy, as grown", percent)]
    return Table([*columns, Column("CPU time of growing", duration)], rows, title="Table 3: growing deeper")


def depth_figures(results: Mapping[tuple[str, str], list[Json]], preset: DepthPreset, preset_name: str) -> F5Figures:
    """What claim F5 is judged by.

    Args:
        results: of ``grow_deeper`` by data set and method, one a seed.
        preset: that they were made under.
        preset_name: its name.
    """
    trained = {key: Trained(values(found, "test"), values(found, "params")) for key, found in results.items()}
    every = dict.fromkeys(data for data, _ in results)
    return F5Figures(
        command=f"ramet reproduce firefly/table-3 --preset {preset_name}",
        setting=f"{preset.note} All have the same epochs in all; AutoGrow, which we ran ourselves, one layer at a "
        "time.",
        firefly={data: trained[data, "firefly"] for data in every},
        others={data: {NAMES[name]: trained[data, name] for name in ("autogrow", "nash")} for data in every},
    )
