"""Table 1: cells found by growth, against a search like DARTS and random cells at the same budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import torch

from ramet.costs import count_parameters
from ramet.data import DataSet
from ramet.execution import WorkItem, pulse
from ramet.reports import Column
from ramet.reports.formats import count, duration, percent
from ramet.runs.encoding import Json
from ramet.seeding import derive_seed, seeded_globally, torch_generator
from ramet.training import accuracy, fit
from ramet_papers.experiment import Experiment, Outcome, Row, Setup, mean_of, tabled, values
from ramet_papers.firefly.cell_growth import (
    CellNetwork,
    Genotype,
    derive_genotypes,
    edges_of,
    final_network,
    grow_cells,
    search_network,
)
from ramet_papers.firefly.clock import now
from ramet_papers.firefly.darts import CHOICES, search_darts
from ramet_papers.firefly.judges import F6Figures, judge_f6
from ramet_papers.firefly.presets import PRESETS, CellPreset

METHODS = {
    "firefly": ("cells by growth (Firefly)", "2.78 %, 3.3 M"),
    "darts": ("like DARTS, first order", "3.00 %, 3.3 M"),
    "random": ("random cells", "3.29 %, 3.2 M"),
}
"""What is compared: its name, and the paper's error on CIFAR-10 with the parameters."""


CellSetup: TypeAlias = Setup[DataSet, CellPreset]


def search_epochs(preset: CellPreset) -> int:
    """Epochs of a whole search by growth: before and after each growth, and for its candidates."""
    num_growths = preset.search.rounds * len(preset.search.widths)
    return num_growths * (2 * preset.settings.epochs + preset.candidate_epochs)


def find_cells(setup: CellSetup, *, method: str, seed: int) -> Json:
    """Search cells by one of ``METHODS``, then train them anew at a common size."""
    preset, data = setup.preset, setup.data
    started = now(data.train.x)
    genotypes = _search(setup, method, seed)
    seconds = now(data.train.x) - started
    pulse(0.5)
    with seeded_globally(seed, "final"):
        network = sized_network(genotypes, data, preset).to(data.train.x.device)
    fit(network, data.train.x, data.train.y, preset.final, seed=derive_seed(seed, "final"))
    return {
        "genotypes": [list(genotype) for genotype in genotypes],
        "params": count_parameters(network),
        "validation": accuracy(network, data.validation.x, data.validation.y),
        "test": accuracy(network, data.test.x, data.test.y),
        "seconds": seconds,
    }


def _search(setup: CellSetup, method: str, seed: int) -> list[Genotype]:
    preset, data = setup.preset, setup.data
    if method == "random":
        generator = torch_generator(seed, "random cells")
        num_edges = len(edges_of(preset.search.num_nodes))
        drawn = torch.randint(len(CHOICES), (len(preset.search.widths), num_edges), generator=generator)
        return [tuple(CHOICES[choice] for choice in row) for row in drawn.tolist()]
    if method == "darts":
        settings = replace(preset.settings, epochs=search_epochs(preset))
        return search_darts(data, preset.search, settings, seed=seed)
    with seeded_globally(seed, "weights"):
        network = search_network(preset.search, data.in_channels, data.num_classes).to(data.train.x.device)
    grown, _ = grow_cells(
        network, data, preset.search, settings=preset.settings, num_epochs=preset.candidate_epochs, seed=seed
    )
    return derive_genotypes(grown, preset.search)


def sized_network(genotypes: Sequence[Genotype], data: DataSet, preset: CellPreset) -> CellNetwork:
    """The final network with as many channels as bring it nearest to the preset's size."""

    def make(channels: int) -> CellNetwork:
        sizes = {"in_channels": data.in_channels, "num_classes": data.num_classes, "num_cells": preset.num_cells}
        return final_network(genotypes, channels=channels, **sizes)

    # The size rises with the channels, and little of the network has to be looked at: bisect.
    low, high = 1, 2
    while count_parameters(make(high)) < preset.final_params:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count_parameters(make(middle)) < preset.final_params else (low, middle)
    return min((make(low), make(high)), key=lambda net: abs(count_parameters(net) - preset.final_params))


def table_1(experiment: Experiment) -> Outcome:
    """Test error of the cells that each method finds, trained anew at equal size; claim F6."""
    preset, workspace = PRESETS[experiment.preset_name].cells, experiment.workspace
    setup: CellSetup = Setup(workspace.load(preset.data, preset.data_options), preset)
    config = preset.asked("seeds") | {"data_fingerprint": setup.data.fingerprint()}
    seeds = [derive_seed(workspace.seed, "cells", number) for number in range(preset.seeds)]
    tasks = {
        method: [
            WorkItem(f"{method}/seed-{number}", find_cells, {"method": method, "seed": seed})
            for number, seed in enumerate(seeds)
        ]
        for method in METHODS
    }
    results = experiment.trials("cells", config, setup).finish(tasks, "finding cells")
    errors = {method: 1 - values(found, "test") for method, found in results.items()}
    claim = judge_f6(F6Figures(command=experiment.command, setting=f"{preset.note} {_counted(preset)}", **errors))
    rows: list[Row] = [
        {
            "cells": METHODS[method][0],
            "paper": METHODS[method][1],
            Column("test error", percent): experiment.mean(errors[method]),
            Column("deviation", percent): float(np.std(errors[method])),
            Column("parameters", count): round(mean_of(found, "params")),
            Column("CPU time of the search", duration): mean_of(found, "seconds"),
            "operations": _operations(found),
        }
        for method, found in results.items()
    ]
    table = tabled(rows, "Table 1: cells found, trained anew")
    return Outcome("Firefly, Table 1", [table], [claim], [_counted(preset)])


def _operations(found: list[Json]) -> str:
    """What stands on the edges, the most frequent first."""
    kinds = [name for result in found for genotype in result["genotypes"] for name in genotype]
    share = {name: kinds.count(name) / len(kinds) for name in CHOICES if name in kinds}
    return ", ".join(f"{name} {part:.0%}" for name, part in sorted(share.items(), key=lambda item: -item[1]))


def _counted(preset: CellPreset) -> str:
    return (
        f"Growth and DARTS search for {search_epochs(preset)} epochs each, some of which are for growth's candidates; "
        "DARTS takes a step on validation images for each on training images besides. What they find is brought to the "
        "same number of parameters and trained alike."
    )
