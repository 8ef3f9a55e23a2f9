"""The settings of the reproductions of *Disturbance-immune weight sharing*: the paper's own, and a small one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ramet.ranking.setup import SupernetSetup
from ramet.spaces import Cells64
from ramet.training import Settings
from ramet_papers.experiment import Experiment, Preset, Trials, sgd


@dataclass(frozen=True, kw_only=True)
class DisturbancePreset(Preset):
    """The numbers that all figures of the paper share.

    The paper says neither how its ten architectures of Figure 1b were trained nor what its experiments of section 5.4
    were; these numbers are ours.
    """

    data: str  # the data set
    data_options: Mapping[str, Any]  # of ``ramet.data.load``
    keeps_checkpoints: bool  # whether a training can be gone on with in its middle
    space_options: Mapping[str, Any]  # of the ``Cells64`` of sequences and of Figure 3
    sequence_settings: Settings  # of each architecture of a sequence (Figure 1b, lambda)
    num_architectures: int = 10  # in a sequence
    learning_rates: tuple[float, ...]  # of a sequence; the best unguarded one on validation data is taken for all
    # Tried in a sequence, by which inputs are projected away; 1 is the paper's.
    lambdas: Mapping[str, tuple[float, ...]]
    # Of the ``Cells64`` whose cells two architectures share (the number of shared layers).
    pair_space_options: Mapping[str, Any]
    pair_settings: Settings  # of each of the two
    num_pairs: int  # of architectures, for each seed
    supernet_settings: Settings  # of Figure 3
    interval: int  # epochs between the two evaluations of Figure 3
    # Tried for each guard of Figure 3 and of the correlation; the guard's default is among them.
    strengths: Mapping[str, tuple[float, ...]]
    pilot_epochs: int  # of the supernets on which the correlation's strengths are chosen
    num_instances: int  # random instances of the theorem

    def trials(
        self,
        experiment: Experiment,
        name: str,
        space_options: Mapping[str, Any],
        settings: Settings,
        **options: Any,
    ) -> Trials:
        """Trainings of a space under some settings on this preset's data, in a run of their own.

        ``options`` is what else their results depend on, besides the seed and the tasks' own arguments. Checkpoints
        are not worth it for trainings of seconds.
        """
        workspace, path = experiment.workspace, experiment.folder / name
        folder = path / "checkpoints" if self.keeps_checkpoints else None
        data = workspace.load(self.data, self.data_options)
        setup = SupernetSetup(Cells64(**space_options), data, settings, folder)
        return Trials(workspace, path, {**setup.describe(), "options": {**options, "seed": workspace.seed}}, setup)


def guard_text(guard: str, strength: float) -> str:
    """A guard at a strength, for supernets with one mini-batch a child.

    There a penalty that holds weights where the child trained last left them would do nothing: it holds the mean of
    all.
    """
    return f"{guard}:{strength:g}" + (":towards=mean" if guard == "plasticity" else "")


STRENGTHS = {"projection": (0.1, 1.0, 10.0), "plasticity": (6.0, 60.0, 600.0), "elastic": (6.0, 60.0, 600.0)}

# fmt: off
# The numbers are grouped by their subject: data, sequences, pairs, supernets, the theorem.
PAPER = DisturbancePreset(
    # Section 5.1: 40 % of the training images train, 60 % validate.
    name="paper", data="cifar10", data_options={"validation_fraction": 0.6}, seeds=5, keeps_checkpoints=True,
    space_options={"channels": 16, "num_cells": 4}, sequence_settings=sgd(20, 128, 0.1, 3e-4, final=0.001),
    learning_rates=(0.025, 0.05, 0.1),
    lambdas={
        "mean": (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0),
        "all": (0.01, 1.0, 100.0, 1e4, 1e5, 1e6, 1e7, 1e8),
    },
    pair_space_options={"channels": 16, "num_cells": 8}, pair_settings=sgd(20, 128, 0.1, 3e-4, final=0.001),
    num_pairs=5,
    supernet_settings=sgd(240, 128, 0.1, 3e-4, final=0.001), interval=13, strengths=STRENGTHS, pilot_epochs=60,
    num_instances=1000,
    note="CIFAR-10, 20,000 training images, Cells64 with 16 channels and 4 cells.",
)
SMALL = DisturbancePreset(
    name="small", data="digits", data_options={}, keeps_checkpoints=False,
    space_options={"channels": 8, "num_cells": 1}, sequence_settings=sgd(3, 64, 0.05, 3e-4, final=0.001),
    learning_rates=(0.05, 0.1, 0.2), lambdas={"mean": (0.01, 1.0, 100.0), "all": (1.0, 100.0, 1e4, 1e6)},
    pair_space_options={"channels": 8, "num_cells": 4}, pair_settings=sgd(3, 64, 0.05, 3e-4, final=0.001), num_pairs=1,
    supernet_settings=sgd(24, 64, 0.1, 3e-4, final=0.001), interval=4, strengths=STRENGTHS, pilot_epochs=10,
    num_instances=200,
    note="Digits, 1,151 training images at 8x8, Cells64 with 8 channels and 1 cell.",
)
# fmt: on

PRESETS: dict[str, DisturbancePreset] = {"small": SMALL, "paper": PAPER}
