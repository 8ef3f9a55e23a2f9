"""The judged searches run at a size for a test, go on, and never see the table that judges them."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from ramet.data import load
from ramet.execution import Executor, Inline
from ramet.ranking import SupernetSetup
from ramet.searching.costs import ArchCosts
from ramet.spaces import NasBench201
from ramet.training import Settings
from ramet_papers import TARGETS, Workspace
from ramet_papers.nasbench201 import judged
from ramet_papers.nasbench201.presets import PRESETS
from ramet_papers.nasbench201.tables import Judge
from ramet_papers.nasbench201.tasks import count_costs, find_best

SPACE = {"channels": 2, "cells_per_stage": 1}
TINY = replace(
    PRESETS["small"],
    space_options=SPACE,
    data="digits",
    data_options={"train_size": 40, "eval_size": 20},
    settings=Settings(epochs=2, batch_size=20, learning_rate=0.05),
    guards=("none", "plasticity:1000:towards=mean"),
    seeds=1,
    num_ranked=12,
    num_inputs=4,
    num_free=30,
    num_listed=5,
    num_queries=6,
    strategy_options={
        "evolution": {"population_size": 3, "tournament_size": 2},
        "nao": {"num_seeds": 4, "num_starts": 2, "epochs": 2, "train_every": 2, "hidden_size": 8},
    },
    num_final=2,
    final_epochs=1,
)


class Idle(Executor):
    """Refuses to run anything."""

    def _stream(self, tasks, context, on_pulse):
        assert not tasks, "nothing should be trained again"
        yield from ()


def write_truth(folder, seed):
    space = NasBench201()
    (folder / "nas").mkdir(parents=True, exist_ok=True)
    truth = 10 + 80 * np.random.default_rng(seed).random(len(space))
    np.savez(folder / "nas" / "nasbench201.npz", arch=[space.name(arch) for arch in space], **{judged.COLUMN: truth})


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.setitem(PRESETS, "small", TINY)
    monkeypatch.setattr(judged, "PART", 20)
    write_truth(tmp_path / "data", seed=0)
    return Workspace(
        runs=tmp_path / "runs", results=tmp_path / "results", executor=Inline(), data_dir=tmp_path / "data"
    )


@pytest.mark.slow
def test_every_search_is_judged_and_none_sees_the_judge(workspace):
    first = TARGETS["search/nasbench201"].run(workspace, "small")
    rankings, finds = (table.to_json() for table in first.tables)
    names = [row["ranking"] for row in rankings]
    assert names[:5] == ["parameters", "flops", "synflow", "jacobian", "synflow + jacobian"] and len(names) == 9
    found = {row["found by"] for row in finds}
    assert {f"{name} on a supernet, none" for name in ("random", "evolution", "enas", "nao")} <= found
    assert {f"synflow + jacobian + supernet, {guard}" for guard in TINY.guards} <= found
    assert "best of 2 combined, trained alone" in found
    kept = json.loads((workspace.results / "search-nasbench201-small.json").read_text())
    assert kept["tables"][0]["rows"] == rankings

    # Under another truth the same architectures were found: all was read from the run, and only judged anew.
    records = [path.read_bytes() for path in sorted(workspace.runs.rglob("records.jsonl"))]
    write_truth(workspace.data_dir, seed=1)
    second = TARGETS["search/nasbench201"].run(replace(workspace, executor=Idle()), "small")
    assert [path.read_bytes() for path in sorted(workspace.runs.rglob("records.jsonl"))] == records
    assert second.tables[1].to_json() != finds


def test_costs_that_add_up_are_those_of_each_architecture():
    space = NasBench201(**SPACE)
    setup = SupernetSetup(space, load("digits", train_size=20, eval_size=10), TINY.settings)
    counted = count_costs(setup)
    costs = ArchCosts(space, (1, 8, 8), 10)
    generator = torch.Generator().manual_seed(0)
    for arch in [space.sample(generator) for _ in range(5)]:
        place = space.index(arch)
        assert judged.added_costs(counted["parameters"])[place] == costs("params", arch)
        assert judged.added_costs(counted["flops"])[place] == costs("flops", arch)


def test_the_judge_by_hand():
    judge = Judge(np.array([90.0, 80.0, 70.0, 70.0]), np.random.default_rng(0))
    assert [judge.top_share(index) for index in range(4)] == [0.25, 0.5, 1.0, 1.0]
    tau, rho = judge.correlation(np.array([[4.0, 3.0, 2.0], [3.0, 4.0, 2.0]]), [0, 1, 2])
    assert tau.value == pytest.approx((1 + 1 / 3) / 2) and rho == pytest.approx((1 + 0.5) / 2)


def test_a_find_is_the_best_of_its_queries():
    space = NasBench201()
    asked = []

    def reward(arch):
        asked.append(arch)
        return -abs(space.index(arch) - 9000) / 15625

    arch, highest = find_best((space, reward), "random", seed=3, num_queries=25)
    assert len(asked) == 25 and arch == max(asked, key=lambda one: -abs(space.index(one) - 9000))
    assert highest == -abs(space.index(arch) - 9000) / 15625
