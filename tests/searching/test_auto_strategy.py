"""Which search it is where no strategy is named."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import ramet
from ramet.errors import ConfigError
from ramet.jobs.search import SearchRecipe
from ramet.searching import Search, SearchPlan
from ramet.searching.plan import OF_SHARED_WEIGHTS
from ramet.searching.staged.options import StagedOptions
from ramet.spaces import Cells64, elastic

SHARED: dict[str, Any] = {
    "guard": "plasticity",
    "sharing": "groups:4:similar",
    "epochs": 5,
    "warmup_epochs": 1,
    "guard_warmup_epochs": 0,
    "models_per_epoch": 3,
    "batches_per_model": 2,
    "strategy_steps": 1,
    "archs_per_step": 2,
    "reward_samples": 10,
    "error_samples": 10,
    "measured_models": 4,
    "batch_norm": "running",
}
SPACE = Cells64(channels=2, num_cells=1)
TINY: dict[str, Any] = {"recipe": SearchRecipe(batch_size=10), "train_size": 40, "eval_size": 20}


def test_nothing_asked_for_is_a_search_in_stages() -> None:
    assert SearchPlan().is_staged and SearchPlan().settled(SPACE).strategy == "staged"
    assert SearchPlan().settled(SPACE, is_shared=True).strategy == "enas"


@pytest.mark.parametrize("name", OF_SHARED_WEIGHTS)
def test_what_only_shared_weights_have_asks_for_them(name: str) -> None:
    plan = SearchPlan(**{name: SHARED[name]})
    assert not plan.is_staged and plan.settled(SPACE).strategy == "enas"
    limited = replace(plan, staged=StagedOptions(evaluations=4))
    assert limited.is_staged and limited.settled(SPACE).strategy == "staged", "a budget is of stages in any case"
    named = replace(plan, strategy="random")
    assert not named.is_staged and named.settled(SPACE) is named


def test_what_both_searches_have_asks_for_neither() -> None:
    """Of all fields of a plan: the loop's own are those that are listed."""
    both = {"strategy", "staged", "budget", "num_candidates", "num_final", "final_seeds", "final_epochs"}
    both |= {"final_recipe", "final_network", "without_baselines", "exports", "onnx", "seed"}
    assert {known.name for known in fields(SearchPlan)} == both | set(OF_SHARED_WEIGHTS) and set(SHARED) == set(
        OF_SHARED_WEIGHTS
    )
    assert SearchPlan(budget="params=1k", num_final=0, final_epochs=3, exports=False, seed=4).is_staged


def test_slices_of_a_trained_network_share_its_weights() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))
    space = elastic(module, torch.zeros(2, 1, 8, 8), widths=(0.5, 1.0))
    SearchPlan().check(space)
    assert SearchPlan().settled(space).strategy == "enas"
    with pytest.raises(ConfigError, match="slices of one network"):
        SearchPlan(strategy="staged").check(space)


def test_a_run_says_which_it_was(tmp_path: Path) -> None:
    few = {"num_final": 1, "final_epochs": 1, "exports": False}
    in_stages = ramet.search(
        SPACE,
        "digits",
        plan=SearchPlan(staged=StagedOptions(short_epochs=1.0, listed=4), **few),
        out=tmp_path / "a",
        **TINY,
    )
    assert in_stages.strategy == "staged" and in_stages.allowed == 40 and in_stages.plan["strategy"] == "staged"
    shared = SearchPlan(epochs=1, warmup_epochs=0, models_per_epoch=2, strategy_steps=1, archs_per_step=2, **few)
    on_weights = ramet.search(SPACE, "digits", plan=shared, out=tmp_path / "b", **TINY)
    assert on_weights.strategy == "enas" and not on_weights.stages and on_weights.epochs == 1


def test_the_loop_alone_has_the_usual_strategy() -> None:
    from ramet.data import load
    from ramet.ranking.setup import SupernetSetup
    from ramet.searching.strategies.enas import EnasController

    setup = SupernetSetup(SPACE, load("digits", train_size=40, eval_size=20), SearchRecipe(batch_size=10))
    assert isinstance(Search(setup, SearchPlan()).strategy, EnasController)
