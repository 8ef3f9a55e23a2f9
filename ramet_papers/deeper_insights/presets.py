"""The settings of the reproductions of *Deeper insights into weight sharing*: the paper's own, and a small one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ramet.jobs.data_options import NumericOptions
from ramet.jobs.rank import RankJob
from ramet.ranking.diagnosis import instance_key
from ramet.ranking.plan import Plan
from ramet.registry import Spec
from ramet.runs import read_records
from ramet.runs.encoding import Json
from ramet.training import Settings
from ramet_papers.deeper_insights.truth_preset import TruthPreset
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
    figure_instances: int  # supernets of each order and each momentum of Figures 5, 8 and 9
    figure_7_epochs: int  # the long training of Figure 7
    fine_tune_steps: int  # mini-batches of Figure 4
    fine_tune_instances: int  # supernets of Figure 4
    bn_momenta: tuple[float, ...] = (0.1, 0.9)  # those of Figure 8; the space's own is 0.4
    truth: TruthPreset | None = None  # how the truth is trained, where it is not as children of the supernets are
    sharing_space: Mapping[str, Any] | None = None  # of Tables 3 and 4 and Figure 6, where it is another
    sharing_note: str = ""  # the setting of these

    @property
    def without_momentum(self) -> str:
        """The variation of Figure 9."""
        return "momentum=0"

    @property
    def without_momentum_faster(self) -> str:
        """Its control: a momentum of 0.9 makes steps ten times as long, which its absence takes away as well."""
        rates = self.settings.learning_rate, self.settings.final_learning_rate
        return "momentum=0+learning-rate={:g}+final-learning-rate={:g}".format(*(10 * rate for rate in rates))

    @property
    def variations(self) -> tuple[str, ...]:
        """What Figures 8 and 9 change."""
        norms = (f"bn-momentum={momentum:g}" for momentum in self.bn_momenta)
        return (self.without_momentum, self.without_momentum_faster, *norms)

    def for_sharing(self) -> SharingPreset:
        """The preset of Tables 3 and 4 and Figure 6."""
        if self.sharing_space is None:
            return self
        return replace(self, space_options=self.sharing_space, note=self.sharing_note)

    def job(self, workspace: Workspace, **plan: Any) -> RankJob:
        """A diagnosis under this preset; ``plan`` says what it does."""
        defaults: dict[str, Any] = {"instances": self.instances, "supernet_epochs": self.supernet_epochs}
        defaults |= {"truth_seeds": self.truth_seeds, "last_epochs": 1, "last_steps": 1, "fine_tune_steps": 0}
        if self.truth is not None:
            defaults |= {"truth": f"table:{self.truth.table(workspace, self.data)}", "truth_seeds": self.truth.seeds}
        space = Spec("cells64", options=self.space_options)
        return rank_job(workspace, space, self.data, self.data_options, self.settings, {**defaults, **plan})

    def diagnose(self, workspace: Workspace, name: str, **plan: Any) -> Json:
        """The result of such a diagnosis, in a run of this name."""
        return workspace.diagnose(f"deeper-insights-{self.name}/{name}", self.job(workspace, **plan))

    def instances_of(self, workspace: Workspace, name: str, variation: str = "", **plan: Any) -> list[Json]:
        """What each supernet of such a diagnosis recorded, where all children share one."""
        self.diagnose(workspace, name, **plan)
        job = self.job(workspace, **plan)
        run = workspace.run_of(f"deeper-insights-{self.name}/{name}", job)
        records = {record["key"]: record for record in read_records(run)}
        return [records[instance_key(variation, instance, 0)] for instance in range(job.plan.instances)]


def rank_job(
    workspace: Workspace, space: Spec, data: str, data_options: Mapping[str, Any], settings: Settings, plan: Json
) -> RankJob:
    """A diagnosis in a workspace, whose truth is cached beside the claims."""
    return RankJob(
        space=str(space),
        data=data,
        data_options=NumericOptions(**data_options, data_dir=workspace.data_folder),
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
    # Appendix A follows DARTS in all that it does not list, and DARTS crops and flips.
    settings=Settings(augment="crop:4+flip"), supernet_epochs=200, instances=10, truth_seeds=10, last_epochs=10,
    num_groups=(1, 2, 4, 8, 16, 32, 64), interference_groups=(4, 16), group_epochs=200, group_steps=64,
    shared_cells=(0, 1, 2, 3, 4), short_epochs=200, long_epochs=2000,
    figure_steps=128, figure_samples=None, figure_instances=10, figure_7_epochs=2000,
    fine_tune_steps=64, fine_tune_instances=10,
)

SPLIT = {"pool": True, "test_fraction": 0.4, "validation_fraction": 1 / 3}
"""Of 20,000 images, drawn anew: 8,000 to train, 4,000 to rank on, and the same 8,000 for every truth."""

# CPU seconds of ``small`` on one quiet core, reckoned and not run: 24 steps and an evaluation were timed on a busy core
# (a step of a child 23 ms with 8 channels and 4 cells, 14 ms with 2 cells, 83 ms with 16 channels at 16x16; all 64
# children on 1,000 images 2.0 s and 0.8 s) and taken for half of that. Nothing is trained twice, so that a later target
# takes what an earlier one has left:
#   the truth, with the first target            16,500
#   table-1, table-2, figure-3 together          1,000
#   figure-2                                     1,300
#   figure-8 (D9a, D9b)                         12,300
#   figure-5 (D6), after figure-8                2,300
#   figure-4 (D5), after figure-8                2,700
#   figure-7, after figure-5                       700
#   table-3a (D7), then figure-6 for nothing    11,000
#   table-4 (D8), then table-3b for nothing      9,800
SMALL = SharingPreset(
    name="small", space_options={"channels": 8, "num_cells": 4}, data_options={"image_size": 8, **SPLIT},
    # A truth at 8x8 says hardly more than its noise: children spread by 1.2 points, their seeds by 0.7. So children
    # alone are larger, trained once and kept; supernets stay small, because there are hundreds of them.
    truth=TruthPreset(
        space_options={"channels": 16, "num_cells": 4}, data_options={"image_size": 16, **SPLIT},
        settings=sgd(15, 64, 0.05, 1e-3, final=0.001), seeds=3,
    ),
    settings=sgd(15, 64, 0.05, 1e-3, final=0.001), supernet_epochs=30, instances=3, truth_seeds=3, last_epochs=6,
    num_groups=(1, 4, 16, 64), interference_groups=(4,), group_epochs=30, group_steps=32,
    shared_cells=(0, 1, 2), short_epochs=10, long_epochs=960,
    figure_steps=128, figure_samples=1000, figure_instances=10, figure_7_epochs=300,
    fine_tune_steps=12, fine_tune_instances=5,
    note="CIFAR-10 at 8x8, 8,000 training images, 8 channels, 4 cells; the truth is of children with 16 channels at "
    "16x16, on 8,000 test images.",
    sharing_space={"channels": 8, "num_cells": 2},
    sharing_note="CIFAR-10 at 8x8, 8,000 training images, 8 channels, 2 cells; the truth is of children with 16 "
    "channels and 4 cells at 16x16, on 8,000 test images.",
)
# The bench of other papers' supernets keeps what their claims were measured with: 10,000 images at 8x8, 2 cells, and a
# truth of its own, which is cached.
BENCH = replace(
    SMALL, space_options={"channels": 8, "num_cells": 2}, truth=None, sharing_space=None,
    data_options={
        "image_size": 8, "pool": True, "test_fraction": 0.25, "validation_fraction": 1 / 3, "train_size": 10000,
    },
    note="CIFAR-10 at 8x8, 10,000 training images, 8 channels, 2 cells.",
)
# fmt: on

BENCHES: dict[str, SharingPreset] = {"small": BENCH, "paper": replace(PAPER, settings=Settings())}
"""The space, the data and the truth of supernets in other papers' reproductions."""
PRESETS: dict[str, SharingPreset] = {"small": SMALL, "paper": PAPER}
