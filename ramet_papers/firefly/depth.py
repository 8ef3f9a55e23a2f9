"""Table 3: a network of blocks that gets deeper and wider, by Firefly, NASH and AutoGrow, then trained anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from torch import nn

from ramet.costs import count_parameters
from ramet.data import DataSet
from ramet.execution import WorkItem, pulse
from ramet.growth import Budget, GrowthStep, grow, make_method
from ramet.reports import Column
from ramet.reports.formats import count, duration, percent
from ramet.runs.encoding import Json
from ramet.seeding import derive_seed, seeded_globally
from ramet.training import Settings, accuracy, fit
from ramet_papers.experiment import Experiment, Outcome, Row, Setup, mean_of, tabled, values
from ramet_papers.firefly.clock import Timed
from ramet_papers.firefly.judges import F5Figures, Trained, judge_f5
from ramet_papers.firefly.presets import PRESETS, DepthPreset
from ramet_papers.recorded import digest_of

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


DepthSetup: TypeAlias = Setup[Mapping[str, DataSet], DepthPreset]
"""The data sets by name, and the preset."""


def grow_deeper(setup: DepthSetup, *, data: str, method: str, options: Mapping[str, Any], seed: int) -> Json:
    """Grow a network, then draw its weights anew and train what was found for longer (B.2).

    AutoGrow adds one layer at a time, and trains as many times shorter in between as there are blocks: all methods have
    the same number of epochs, unless AutoGrow has nothing more to add before.
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

    how: Json = {"settings": settings, "max_steps": num_growths, "seed": seed}
    _, history = grow(network, dataset, budget, timed, in_place=True, after_step=after, **how)
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


def table_3(experiment: Experiment) -> Outcome:
    """Accuracy and parameters of what each method grows, on MNIST and Fashion-MNIST; claim F5."""
    preset, workspace = PRESETS[experiment.preset_name].depth, experiment.workspace
    setup: DepthSetup = Setup({name: workspace.load(name, preset.data_options) for name in preset.data}, preset)
    config = preset.asked("methods", "seeds", "data")  # they are in the tasks' keys
    config["fingerprints"] = {name: data.fingerprint() for name, data in setup.data.items()}
    seeds = [derive_seed(workspace.seed, "depth", number) for number in range(preset.seeds)]

    def task(data: str, method: str, number: int) -> WorkItem:
        options = dict(preset.methods[method])
        key = f"{data}/{method}-{digest_of(options)}/seed-{number}"
        asked: Json = {"data": data, "method": method, "options": options, "seed": seeds[number]}
        return WorkItem(key, grow_deeper, asked)

    every = [(data, method) for data in preset.data for method in NAMES]
    tasks = {row: [task(*row, number) for number in range(preset.seeds)] for row in every}
    results = experiment.trials("depth", config, setup).finish(tasks, "growing deeper")
    rows: list[Row] = [
        {
            "data": data,
            "method": NAMES[method],
            "paper": PAPER.get((data, method)),
            "layers of each block": "-".join(f"{depth:.1f}" for depth in values(found, "layers").mean(axis=0)),
            Column("parameters", count): round(mean_of(found, "params")),
            Column("accuracy, trained anew", percent): experiment.mean(values(found, "test")),
            Column("accuracy, as grown", percent): experiment.mean(values(found, "grown")),
            Column("CPU time of growing", duration): mean_of(found, "seconds"),
        }
        for (data, method), found in results.items()
    ]
    claim = judge_f5(depth_figures(results, preset, experiment.command))
    return Outcome("Firefly, Table 3", [tabled(rows, "Table 3: growing deeper")], [claim], [preset.note])


def depth_figures(results: Mapping[tuple[str, str], list[Json]], preset: DepthPreset, command: str) -> F5Figures:
    """What claim F5 is judged by, from the results of ``grow_deeper`` by data set and method, one a seed."""
    trained = {key: Trained(values(found, "test"), values(found, "params")) for key, found in results.items()}
    every = dict.fromkeys(data for data, _ in results)
    return F5Figures(
        command=command,
        setting=f"{preset.note} All have the same epochs in all; AutoGrow, which we ran ourselves, one layer at a "
        "time.",
        firefly={data: trained[data, "firefly"] for data in every},
        others={data: {NAMES[name]: trained[data, name] for name in ("autogrow", "nash")} for data in every},
    )
