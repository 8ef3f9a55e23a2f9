"""Table 1: cells found by growth, against a search like DARTS and random cells at the same budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch

from ramet.costs import count_parameters
from ramet.data import DataSet, load, on_device
from ramet.execution import WorkItem, pulse
from ramet.ranking.intervals import mean_interval
from ramet.ranking.metrics import Floats
from ramet.reports import Column, Table
from ramet.reports.formats import count, duration, percent
from ramet.runs.encoding import Json
from ramet.seeding import derive_seed, numpy_generator, seeded_globally, torch_generator
from ramet.training import accuracy, fit
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
from ramet_papers.recorded import digest_of, finish_tasks, open_recorded
from ramet_papers.workspace import Outcome, Workspace

METHODS = {
    "firefly": ("cells by growth (Firefly)", "2.78 %, 3.3 M"),
    "darts": ("like DARTS, first order", "3.00 %, 3.3 M"),
    "random": ("random cells", "3.29 %, 3.2 M"),
}
"""What is compared: its name, and the paper's error on CIFAR-10 with the parameters."""


@dataclass(frozen=True)
class CellSetup:
    """What every search has in common."""

    data: DataSet
    preset: CellPreset


def search_epochs(preset: CellPreset) -> int:
    """Epochs of a whole search by growth: before and after each growth, and one for the candidates."""
    num_growths = preset.search.rounds * len(preset.search.widths)
    return num_growths * (2 * preset.settings.epochs + 1)


def find_cells(setup: CellSetup, *, method: str, seed: int) -> Json:
    """Search cells by one method, then train them anew at a common size.

    Args:
        setup: the data and the preset.
        method: one of ``METHODS``.
        seed: of everything.
    """
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
        network, data, preset.search, settings=preset.settings, num_steps=preset.num_candidate_steps, seed=seed
    )
    return derive_genotypes(grown, preset.search)


def sized_network(genotypes: Sequence[Genotype], data: DataSet, preset: CellPreset) -> CellNetwork:
    """The final network with as many channels as bring it nearest to the preset's size."""

    def make(channels: int) -> CellNetwork:
        return final_network(
            genotypes,
            in_channels=data.in_channels,
            num_classes=data.num_classes,
            channels=channels,
            num_cells=preset.num_cells,
        )

    # The size rises with the channels, and little of the network has to be looked at: bisect.
    low, high = 1, 2
    while count_parameters(make(high)) < preset.final_params:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count_parameters(make(middle)) < preset.final_params else (low, middle)
    return min((make(low), make(high)), key=lambda net: abs(count_parameters(net) - preset.final_params))


def table_1(workspace: Workspace, preset_name: str) -> Outcome:
    """Test error of the cells that each method finds, trained anew at equal size; claim F6."""
    preset = PRESETS[preset_name].cells
    data = load(preset.data, **preset.data_options, data_dir=workspace.data_dir, seed=workspace.seed)
    config: Json = {key: value for key, value in asdict(preset).items() if key not in ("note", "seeds")}
    config |= {"data_fingerprint": data.fingerprint(), "seed": workspace.seed}
    tasks = {method: [_task(method, number, workspace.seed) for number in range(preset.seeds)] for method in METHODS}
    path = workspace.runs / f"firefly-{preset_name}" / f"cells-{digest_of(config)}"
    with open_recorded(path, "reproduction", config) as run:
        every = [task for row in tasks.values() for task in row]
        setup = CellSetup(on_device(data, workspace.device), preset)
        found = finish_tasks(run, workspace.executor, every, setup, label="finding cells")
    results = {method: [found[task.key] for task in row] for method, row in tasks.items()}
    generator = numpy_generator(workspace.seed, "table-1")
    claim = judge_f6(
        F6Figures(
            command=f"ramet reproduce firefly/table-1 --preset {preset_name}",
            setting=f"{preset.note} {_counted(preset)}",
            firefly=_errors(results["firefly"]),
            darts=_errors(results["darts"]),
            random=_errors(results["random"]),
        )
    )
    notes = [_counted(preset)]
    return Outcome("Firefly, Table 1", [_table(results, generator)], [claim], notes).kept(workspace.results)


def _task(method: str, number: int, seed: int) -> WorkItem:
    return WorkItem(
        f"{method}/seed-{number}", find_cells, {"method": method, "seed": derive_seed(seed, "cells", number)}
    )


def _counted(preset: CellPreset) -> str:
    return (
        f"Growth and DARTS search for {search_epochs(preset)} epochs each, some of which are for growth's candidates; "
        "DARTS takes a step on validation images for each on training images besides. What they find is brought to the "
        "same number of parameters and trained alike."
    )


def _errors(results: list[Json]) -> Floats:
    return 1 - np.asarray([result["test"] for result in results], dtype=float)


def _table(results: Mapping[str, list[Json]], generator: np.random.Generator) -> Table:
    rows: list[list[Any]] = []
    for method, found in results.items():
        kinds = [name for result in found for genotype in result["genotypes"] for name in genotype]
        share = {name: kinds.count(name) / len(kinds) for name in CHOICES if name in kinds}
        rows.append(
            [
                *METHODS[method],
                mean_interval(_errors(found), generator=generator),
                float(np.std(_errors(found))),
                round(float(np.mean([result["params"] for result in found]))),
                float(np.mean([result["seconds"] for result in found])),
                ", ".join(f"{name} {part:.0%}" for name, part in sorted(share.items(), key=lambda item: -item[1])),
            ]
        )
    columns: list[Column | str] = ["cells", "paper", Column("test error", percent), Column("deviation", percent)]
    columns += [Column("parameters", count), Column("CPU time of the search", duration), "operations"]
    return Table(columns, rows, title="Table 1: cells found, trained anew")
