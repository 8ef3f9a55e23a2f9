"""The settings of the reproductions of *Disturbance-immune weight sharing*: the paper's own, and a small one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ramet.data import load, on_device
from ramet.ranking.setup import SupernetSetup
from ramet.spaces import Cells64
from ramet.training import Settings
from ramet_papers.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class DisturbancePreset:
    """The numbers that all figures of the paper share.

    The paper says neither how its ten architectures of Figure 1b were trained nor what its experiments of section 5.4
    were; these numbers are ours.

    Args:
        name: ``small`` or ``paper``.
        data: the data set.
        data_options: of ``ramet.data.load``.
        seeds: how many seeds everything but the choice of strengths is done with.
        keeps_checkpoints: whether a training can be gone on with in its middle.
        space_options: of the ``Cells64`` of sequences and of Figure 3.
        sequence_settings: of each architecture of a sequence (Figure 1b, lambda).
        num_architectures: in a sequence.
        learning_rates: of a sequence; the best unguarded one on validation data is taken for all.
        lambdas: tried in a sequence, by which inputs are projected away; 1 is the paper's.
        pair_space_options: of the ``Cells64`` whose cells two architectures share (the number of shared layers).
        pair_settings: of each of the two.
        num_pairs: of architectures, for each seed.
        supernet_settings: of Figure 3.
        interval: epochs between the two evaluations of Figure 3.
        strengths: tried for each guard of Figure 3 and of the correlation; the guard's default is among them.
        pilot_epochs: of the supernets on which the correlation's strengths are chosen.
        num_instances: random instances of the theorem.
        note: the setting in a line.
    """

    name: str
    data: str
    data_options: Mapping[str, Any]
    seeds: int
    keeps_checkpoints: bool
    space_options: Mapping[str, Any]
    sequence_settings: Settings
    num_architectures: int = 10
    learning_rates: tuple[float, ...]
    lambdas: Mapping[str, tuple[float, ...]]
    pair_space_options: Mapping[str, Any]
    pair_settings: Settings
    num_pairs: int
    supernet_settings: Settings
    interval: int
    strengths: Mapping[str, tuple[float, ...]]
    pilot_epochs: int
    num_instances: int
    note: str

    def setup(self, workspace: Workspace, space_options: Mapping[str, Any], settings: Settings) -> SupernetSetup:
        """A space and settings on this preset's data."""
        data = load(self.data, **self.data_options, data_dir=workspace.data_dir, seed=workspace.seed)
        return SupernetSetup(Cells64(**space_options), on_device(data, workspace.device), settings)


STRENGTHS = {"projection": (0.1, 1.0, 10.0), "plasticity": (6.0, 60.0, 600.0), "elastic": (6.0, 60.0, 600.0)}

PAPER = DisturbancePreset(
    name="paper",
    data="cifar10",
    # Section 5.1: 40 % of the training images train, 60 % validate.
    data_options={"validation_fraction": 0.6},
    seeds=5,
    keeps_checkpoints=True,
    space_options={"channels": 16, "num_cells": 4},
    sequence_settings=Settings(epochs=20, batch_size=128, learning_rate=0.1, weight_decay=3e-4),
    learning_rates=(0.025, 0.05, 0.1),
    lambdas={
        "mean": (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0),
        "all": (0.01, 1.0, 100.0, 1e4, 1e5, 1e6, 1e7, 1e8),
    },
    pair_space_options={"channels": 16, "num_cells": 8},
    pair_settings=Settings(epochs=20, batch_size=128, learning_rate=0.1, weight_decay=3e-4),
    num_pairs=5,
    supernet_settings=Settings(epochs=240, batch_size=128, learning_rate=0.1, weight_decay=3e-4),
    interval=13,
    strengths=STRENGTHS,
    pilot_epochs=60,
    num_instances=1000,
    note="CIFAR-10, 20,000 training images, Cells64 with 16 channels and 4 cells.",
)

SMALL = DisturbancePreset(
    name="small",
    data="digits",
    data_options={},
    seeds=3,
    keeps_checkpoints=False,
    space_options={"channels": 8, "num_cells": 1},
    sequence_settings=Settings(epochs=3, batch_size=64, learning_rate=0.05, weight_decay=3e-4),
    learning_rates=(0.05, 0.1, 0.2),
    lambdas={"mean": (0.01, 1.0, 100.0), "all": (1.0, 100.0, 1e4, 1e6)},
    pair_space_options={"channels": 8, "num_cells": 4},
    pair_settings=Settings(epochs=3, batch_size=64, learning_rate=0.05, weight_decay=3e-4),
    num_pairs=1,
    supernet_settings=Settings(epochs=24, batch_size=64, learning_rate=0.1, weight_decay=3e-4),
    interval=4,
    strengths=STRENGTHS,
    pilot_epochs=10,
    num_instances=200,
    note="Digits, 1,151 training images at 8x8, Cells64 with 8 channels and 1 cell.",
)

PRESETS: dict[str, DisturbancePreset] = {"small": SMALL, "paper": PAPER}
