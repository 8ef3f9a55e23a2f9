"""The settings of the reproductions of *Deeper insights into weight sharing*: the paper's own, and a small one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ramet.jobs.data_options import ImageOptions
from ramet.jobs.rank import RankJob
from ramet.ranking.plan import Plan
from ramet.registry import Spec
from ramet.runs.encoding import Json
from ramet.training import Settings
from ramet_papers.experiment import Preset, sgd
from ramet_papers.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class SharingPreset(Preset):
    """The numbers that all tables of the paper share."""

    space_options: Mapping[str, Any]  # of ``Cells64``
    data: str = "cifar10"  # the data set
    data_options: Mapping[str, Any]  # of ``ramet.data.load``
    settings: Settings  # of a child alone
    supernet_epochs: int  # of a supernet
    instances: int  # supernets an experiment
    truth_seeds: int  # seeds of the truth
    last_epochs: int  # epochs at whose end all children are scored
    num_groups: tuple[int, ...]  # the numbers of groups of Table 3a
    interference_groups: tuple[int, ...]  # those of them that are tried with measured interference too
    group_epochs: int  # epochs of each group
    group_steps: int  # last mini-batches of which GT-Tau is averaged in Tables 3 and 4
    shared_cells: tuple[int, ...]  # the k of Tables 3b and 4
    short_epochs: int  # the short training of Table 4
    long_epochs: int  # the long one
    figure_steps: int  # last mini-batches of Figures 5 to 9
    figure_samples: int | None  # validation images that those are scored on
    fine_tune_steps: int  # mini-batches of Figure 4
    variations: tuple[str, ...] = ("momentum=0", "bn-momentum=0.1")  # the momenta of Figures 8 and 9; that of SGD first

    def job(self, workspace: Workspace, **plan: Any) -> RankJob:
        """A diagnosis under this preset; ``plan`` says what it does."""
        defaults = {"instances": self.instances, "supernet_epochs": self.supernet_epochs}
        defaults |= {"truth_seeds": self.truth_seeds, "last_epochs": 1, "last_steps": 1, "fine_tune_steps": 0}
        space = Spec("cells64", options=self.space_options)
        return rank_job(workspace, space, self.data, self.data_options, self.settings, {**defaults, **plan})

    def diagnose(self, workspace: Workspace, name: str, **plan: Any) -> Json:
        """The result of such a diagnosis, in a run of this name."""
        return workspace.diagnose(f"deeper-insights-{self.name}/{name}", self.job(workspace, **plan))


def rank_job(
    workspace: Workspace, space: Spec, data: str, data_options: Mapping[str, Any], settings: Settings, plan: Json
) -> RankJob:
    """A diagnosis in a workspace, whose truth is cached beside the claims."""
    return RankJob(
        space=str(space),
        data=data,
        data_options=ImageOptions(**data_options, data_dir=workspace.data_folder),
        recipe=settings,
        plan=Plan(**plan),
        truth_cache=str(workspace.results / "truth"),
        seed=workspace.seed,
        device=workspace.device,
    )


# fmt: off
# The numbers are grouped by their subject: data, training, groups, prefixes, figures.
PAPER = SharingPreset(
    name="paper", space_options={"channels": 16, "num_cells": 4},
    # The paper ranks on the test set; here a tenth of the training images validates, and the test set is the truth's.
    data_options={"validation_fraction": 0.1},
    settings=Settings(), supernet_epochs=200, instances=10, truth_seeds=10, last_epochs=10,
    num_groups=(1, 2, 4, 8, 16, 32), interference_groups=(4, 16), group_epochs=200, group_steps=64,
    shared_cells=(0, 1, 2, 3, 4), short_epochs=200, long_epochs=2000,
    figure_steps=128, figure_samples=None, fine_tune_steps=64,
    variations=("momentum=0", "bn-momentum=0.1", "bn-momentum=0.9"),
)
SMALL = SharingPreset(
    name="small", space_options={"channels": 8, "num_cells": 2},
    # 20,000 images of CIFAR-10, pooled to 8x8 and drawn anew: 10,000 to train, 5,000 to rank on, 5,000 for the truth.
    data_options={
        "image_size": 8, "pool": True, "test_fraction": 0.25, "validation_fraction": 1 / 3, "train_size": 10000,
    },
    settings=sgd(15, 64, 0.05, 1e-3, final=0.001), supernet_epochs=30, instances=3, truth_seeds=3, last_epochs=6,
    num_groups=(1, 4, 16), interference_groups=(4,), group_epochs=6, group_steps=4,
    shared_cells=(0, 1, 2), short_epochs=10, long_epochs=80,
    figure_steps=32, figure_samples=1000, fine_tune_steps=12,
    note="CIFAR-10 at 8x8, 10,000 training images, 8 channels, 2 cells.",
)
# fmt: on

PRESETS: dict[str, SharingPreset] = {"small": SMALL, "paper": PAPER}
