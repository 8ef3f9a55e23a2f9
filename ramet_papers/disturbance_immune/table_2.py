"""Table 2: cells found on CIFAR-10 as a network for ImageNet; its size is counted, its training is a preset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ramet.costs import count_flops, count_parameters
from ramet.data import data_folder
from ramet.execution import WorkItem
from ramet.ranking.setup import SupernetSetup
from ramet.registry import parse_spec
from ramet.searching.final import train_final
from ramet.seeding import derive_seed
from ramet.spaces import Darts
from ramet.spaces.darts.genotypes import DARTS_V2
from ramet.spaces.darts.imagenet_network import DartsImageNetNetwork
from ramet.training import Recipe
from ramet_papers.experiment import Experiment, Outcome, Preset, Row, tabled

MILLION = 1e6
MOST_MULTIPLY_ADDS = 600.0
"""Millions that the mobile setting allows at 224 x 224."""


@dataclass(frozen=True, kw_only=True)
class ImageNetPreset(Preset):
    """What is trained, and on what."""

    channels: int = 48
    cells: int = 14
    genotype: str = DARTS_V2  # the paper draws its own cells without a text of them; these are DARTS'
    data: str = "image-folder:imagenet"  # the folder lies where named data sets do
    data_options: Mapping[str, Any] = field(default_factory=dict)
    recipe: str = "imagenet"
    epochs: int = 250
    auxiliary_weight: float = 0.4
    seeds: int = 1


PRESETS: Mapping[str, ImageNetPreset] = {
    "paper": ImageNetPreset(name="paper", data_options={"validation_fraction": 0.01, "in_memory": False}),
    # The same code on images that a CPU can train on: a stem that makes 32 x 32 pixels to 4 x 4, and hardly any epochs.
    "small": ImageNetPreset(
        name="small",
        channels=8,
        cells=3,
        data="cifar10",
        data_options={"train_size": 1000, "eval_size": 500},
        epochs=2,
        auxiliary_weight=0.0,
    ),
}


def in_data_folder(data: str, folder: Path) -> str:
    """A preset's data with its folder of images below the data folder; a named data set as it is.

    >>> in_data_folder("image-folder:imagenet", Path("data")), in_data_folder("cifar10", Path("data"))
    ('image-folder:data/imagenet', 'cifar10')
    """
    spec = parse_spec(data)
    if spec.name != "image-folder":
        return data
    return str(replace(spec, values=tuple(str(folder / value) for value in spec.values)))


def table_2(experiment: Experiment) -> Outcome:
    """Parameters and multiply-adds of the paper's network, and the test accuracy of the preset's."""
    preset, workspace = PRESETS[experiment.preset_name], experiment.workspace
    full = Darts(channels=48, num_cells=14)
    network = DartsImageNetNetwork(full, full.parse(preset.genotype), 3, 1000, auxiliary=False).eval()
    parameters, adds = count_parameters(network) / MILLION, count_flops(network, (3, 224, 224)) / MILLION
    sizes: list[Row] = [
        {"network": "DARTS' cells, 48 channels, 14 cells", "parameters, M": parameters, "multiply-adds, M": adds},
        {"network": "paper: DARTS", "parameters, M": 4.9, "multiply-adds, M": 595.0},
        {"network": "paper: DI-NAS", "parameters, M": 5.2, "multiply-adds, M": 587.0},
    ]
    space = Darts(channels=preset.channels, num_cells=preset.cells)
    source = in_data_folder(preset.data, data_folder(workspace.data_dir))
    setup = SupernetSetup(space, workspace.load(source, preset.data_options), Recipe())
    config = {**preset.asked("data_options"), "data": setup.data.fingerprint()}
    trials = experiment.trials("table-2", config, setup)
    tasks = [
        WorkItem(
            f"imagenet/{number}",
            train_final,
            {
                "arch": list(space.parse(preset.genotype)),
                "seed": derive_seed(workspace.seed, "table-2", number),
                "epochs": preset.epochs,
                "final_network": {"large_images": True, "auxiliary_weight": preset.auxiliary_weight},
                "recipe": preset.recipe,
            },
        )
        for number in range(preset.seeds)
    ]
    found = 100 * (1 - np.array([result["test"] for result in trials.in_order(tasks)]))
    trained: list[Row] = [
        {"network": f"{preset.channels} channels, {preset.cells} cells on {preset.data}", "top-1, %": found.mean()},
        {"network": "paper: DARTS on ImageNet", "top-1, %": 73.1},
        {"network": "paper: DI-NAS on ImageNet", "top-1, %": 74.7},
    ]
    notes = [
        f"At most {MOST_MULTIPLY_ADDS:g} million multiply-adds: {'kept' if adds < MOST_MULTIPLY_ADDS else 'BROKEN'}."
    ]
    tables = [tabled(sizes, "Table 2: sizes at 224 x 224"), tabled(trained, f"Trained for {preset.epochs} epochs")]
    return Outcome("Disturbance-immune, Table 2", tables, notes=notes)
