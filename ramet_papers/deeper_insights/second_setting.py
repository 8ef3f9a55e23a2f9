"""A second setting, NAS-Bench-201, whose truth is a table: the questions of Tables 1 and 2, in a space of 15,625."""

from __future__ import annotations

from typing import Any

from ramet.data import data_folder
from ramet.jobs.rank.result import RankResult
from ramet.registry import Spec
from ramet.training import Settings
from ramet_papers.deeper_insights.presets import rank_job
from ramet_papers.experiment import Experiment, Outcome, sgd

TABLE = "nas/nasbench201.npz"
COLUMN = "cifar10_test_acc_200ep"

OPTIONS: dict[str, dict[str, Any]] = {
    "small": {
        "space_options": {"channels": 8, "cells_per_stage": 1},
        "data_options": {"image_size": 16, "pool": True, "test_fraction": 0.25, "validation_fraction": 1 / 3},
        "settings": sgd(40, 64, 0.05, 5e-4, final=0.001),
        "plan": {"instances": 3, "children": 200, "last_epochs": 3, "last_steps": 1},
    },
    "paper": {
        "space_options": {"channels": 16, "cells_per_stage": 5},
        "data_options": {"validation_fraction": 0.5},
        "settings": Settings(epochs=250, batch_size=64, weight_decay=5e-4),
        "plan": {"instances": 10, "children": 1000, "last_epochs": 10, "last_steps": 1},
    },
}


def nasbench201(experiment: Experiment) -> Outcome:
    """A single-path supernet of NAS-Bench-201 against the benchmark's own accuracy after 200 epochs."""
    options, workspace = OPTIONS[experiment.preset_name], experiment.workspace
    truth = f"table:{data_folder(workspace.data_dir) / TABLE}:{COLUMN}"
    plan = {"truth": truth, "order": "uniform", "fine_tune_steps": 0, **options["plan"]}
    space = Spec("nasbench201", options=options["space_options"])
    job = rank_job(workspace, space, "cifar10", options["data_options"], options["settings"], plan)
    result = workspace.diagnose(f"nasbench201-{experiment.preset_name}", job)
    stability = result["stability"]["instances"]
    notes = [
        f"Two instances agree at {stability['mean']:.2f} ({stability['lowest']:.2f} to {stability['highest']:.2f}).",
        *result["recommendation"],
    ]
    title = "The second setting: NAS-Bench-201, truth from its table"
    return Outcome(title, [RankResult.from_json(result).table()], [], notes)
