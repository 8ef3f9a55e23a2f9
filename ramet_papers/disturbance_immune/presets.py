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
    num_architectures: int = 10  # in a row
    row_space_options: Mapping[str, Any]  # of the ``Cells64`` of Figure 1b
    row_settings: Settings  # of each of its architectures, which converge
    row_seeds: int = 10
    row_note: str  # its setting in a line
    space_options: Mapping[str, Any]  # of the ``Cells64`` of the sequences over which lambda is varied
    sequence_settings: Settings  # of each architecture of such a sequence
    learning_rates: tuple[float, ...]  # of a sequence; the best unguarded one on validation data is taken for all
    # Tried in a sequence, by which inputs are projected away; 1 is the paper's.
    lambdas: Mapping[str, tuple[float, ...]]
    # Of the ``Cells64`` whose cells two architectures share (the number of shared layers).
    pair_space_options: Mapping[str, Any]
    pair_settings: Settings  # of each of the two
    num_pairs: int  # of architectures, for each seed
    # Of the supernets of Figure 3 and of the correlation, whose space, data and truth are those of *deeper insights*.
    bench_epochs: int
    bench_seeds: int = 8
    scored_epochs: int  # at whose end all children are scored
    changing_images: int = 2000  # that they are scored on there; in the end it is all validation images
    interval: int  # epochs between the two evaluations of Figure 3
    turn: int = 7  # mini-batches of a child where the guard is plasticity, which cannot act with fewer than two
    guards: Mapping[str, tuple[str, ...]]  # compared on the bench, with what is tried for each
    bench_note: str  # the bench in a line, after the note of *deeper insights*' preset
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


PLASTICITY = "plasticity:{}:warmup_epochs=0,decay=0,decay_from=0"
"""Weight plasticity at a constant strength from the first turn on."""

GUARDS = {
    "projection, mean inputs": ("projection:1", "projection:10"),
    "projection, columns": ("projection:1000:inputs=columns",),
    "projection, all inputs": ("projection:1e5:inputs=all",),
    "plasticity, turns": (PLASTICITY.format(60), PLASTICITY.format(6000)),
}
"""What is compared on the bench.

Columns are as many as the positions of an image, and all inputs a batch times as many, so that lambda must be larger.
Of these two one value is tried: they are shown beside the form that is judged.
"""

# fmt: off
# The numbers are grouped by their subject: data, sequences, pairs, supernets, the theorem.
PAPER = DisturbancePreset(
    # Section 5.1: 40 % of the training images train, 60 % validate.
    name="paper", data="cifar10", data_options={"validation_fraction": 0.6}, seeds=5, keeps_checkpoints=True,
    row_space_options={"channels": 16, "num_cells": 4}, row_settings=sgd(100, 128, 0.1, 3e-4),
    row_note="CIFAR-10, 20,000 training images, Cells64 with 16 channels and 4 cells, 100 epochs each.",
    space_options={"channels": 16, "num_cells": 4}, sequence_settings=sgd(20, 128, 0.1, 3e-4, final=0.001),
    learning_rates=(0.025, 0.05, 0.1),
    lambdas={
        "mean": (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0),
        "all": (0.01, 1.0, 100.0, 1e4, 1e5, 1e6, 1e7, 1e8),
    },
    pair_space_options={"channels": 16, "num_cells": 8}, pair_settings=sgd(20, 128, 0.1, 3e-4, final=0.001),
    num_pairs=5,
    bench_epochs=240, scored_epochs=120, interval=13, guards=GUARDS,
    bench_note="Supernets of 240 epochs.", num_instances=1000,
    note="CIFAR-10, 20,000 training images, Cells64 with 16 channels and 4 cells.",
)
SMALL = DisturbancePreset(
    # Of MNIST for its images: 2,000 to choose by, 2,000 to measure on; the 1,797 digits of scikit-learn are too few.
    name="small", data="mnist", data_options={"image_size": 7, "train_size": 1000, "eval_size": 2000}, seeds=8,
    keeps_checkpoints=False,
    row_space_options={"channels": 4, "num_cells": 4}, row_settings=sgd(100, 250, 0.3, 3e-4),
    row_note="MNIST, 1,000 training and 2,000 test images at 7x7, Cells64 with 4 channels and 4 cells, "
    "100 epochs each.",
    space_options={"channels": 8, "num_cells": 1}, sequence_settings=sgd(3, 64, 0.05, 3e-4, final=0.001),
    learning_rates=(0.05, 0.1, 0.2), lambdas={"mean": (0.01, 1.0, 100.0), "all": (1.0, 100.0, 1e4, 1e6)},
    pair_space_options={"channels": 8, "num_cells": 4}, pair_settings=sgd(3, 64, 0.05, 3e-4, final=0.001), num_pairs=1,
    bench_epochs=6, scored_epochs=3, interval=1, guards=GUARDS,
    bench_note="Supernets of 6 epochs, scored by batch statistics, on 5,000 validation images in the end and on 2,000 "
    "of them after the epochs before; the 30 epochs of other tables would take four hours for some 70 supernets.",
    num_instances=200,
    note="MNIST, 1,000 training and 2,000 test images at 7x7, Cells64 with 8 channels and 1 cell.",
)
# fmt: on

PRESETS: dict[str, DisturbancePreset] = {"small": SMALL, "paper": PAPER}
