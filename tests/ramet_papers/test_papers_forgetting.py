"""The reproductions of *Overcoming multi-model forgetting* at a size for a test, and the two-model loop beneath."""

import json
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy

from ramet.data import load
from ramet.execution import Executor, Inline
from ramet.guards import NoGuard, WeightPlasticity
from ramet_papers import TARGETS, Workspace, read_claims
from ramet_papers.multi_model_forgetting import presets
from ramet_papers.multi_model_forgetting.convergence import SAME_STRENGTH, choose_strengths
from ramet_papers.multi_model_forgetting.presets import METHODS
from ramet_papers.multi_model_forgetting.two_models import (
    TwoModels,
    TwoModelTraining,
    fishers_of_first,
    new_models,
    remember_first,
    train_first,
    train_second,
)

BUDGET = TwoModelTraining(width=16, learning_rate=0.2, first_steps=120, second_steps=12, measure_every=5, remembered=40)
TINY = replace(
    presets.SMALL,
    name="tiny",
    sources={"digits": {"train_size": 300, "eval_size": 120}},
    budget=BUDGET,
    seeds=2,
    tuning_seeds=1,
    convergences=(1.0, 0.55),
)
FIGURES = {"multi-model-forgetting/figure-1": ["W1"], "multi-model-forgetting/figure-3": ["W2", "W3"]}


class Idle(Executor):
    """Refuses to run anything."""

    def _stream(self, tasks, context, on_pulse):
        assert not tasks, "nothing should be trained again"
        yield from ()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("reproduction")


@pytest.fixture
def workspace(folder, monkeypatch):
    monkeypatch.setitem(presets.PRESETS, "small", TINY)
    return Workspace(runs=folder / "runs", results=folder / "results", executor=Inline())


@pytest.mark.parametrize("target", FIGURES)
def test_a_reproduction_answers_its_claims_and_a_second_one_trains_nothing(workspace, target):
    outcome = TARGETS[target].run(workspace, "small")
    assert [claim.id for claim in outcome.claims] == FIGURES[target]
    assert set(FIGURES[target]) <= {entry["id"] for entry in read_claims(workspace.results)}
    assert "digits" in outcome.to_text()
    json.dumps(outcome.to_json(), allow_nan=False)
    assert TARGETS[target].run(replace(workspace, executor=Idle()), "small").to_json() == outcome.to_json()


@pytest.mark.slow
def test_the_table_has_every_guard_at_every_convergence(workspace):
    rows = TARGETS["multi-model-forgetting/figure-3"].run(workspace, "small").tables[0].to_json()
    assert [row["guard"] for row in rows] == [*METHODS, SAME_STRENGTH] * 2
    assert {row["A trained to"] for row in rows} == {"convergence", "55% of its best"}


def test_an_answer_to_another_question_is_replaced(workspace, monkeypatch):
    target = "multi-model-forgetting/figure-1"
    TARGETS[target].run(workspace, "small")
    monkeypatch.setitem(presets.PRESETS, "small", replace(TINY, budget=replace(BUDGET, second_steps=8)))
    with pytest.raises(AssertionError, match="trained again"):
        TARGETS[target].run(replace(workspace, executor=Idle()), "small")


@pytest.fixture(scope="module")
def data():
    return load("digits", train_size=300, eval_size=120)


def test_the_models_share_what_they_should():
    models = TwoModels(64, 10, width=8, shared_layers=2)
    first, second = (models.layers_of(name) for name in ("a", "b"))
    assert (len(first), len(second)) == (4, 6)
    assert [layer is other for layer, other in zip(first, second, strict=False)] == [True, True, False, False]
    assert first[-1] is not second[-1]
    both = TwoModels(64, 10, width=8, share_head=True)
    assert both.layers_of("a")[-1] is both.layers_of("b")[-1]


def test_the_first_model_is_the_same_whatever_is_shared(data):
    few, all_of_it = (new_models(data, BUDGET, 1, shared_layers=shared) for shared in (0, 3))
    x = data.test.x[:5]
    assert torch.equal(few(x, "a"), all_of_it(x, "a"))


def test_without_shared_layers_nothing_is_forgotten(data):
    for shared, unchanged in ((0, True), (3, False)):
        models = new_models(data, BUDGET, 0, shared_layers=shared)
        train_first(models, data, BUDGET, 0, watched=data.validation)
        before = models(data.test.x, "a").detach()
        course = train_second(models, NoGuard(), data, BUDGET, 0, watched=data.test)
        assert torch.equal(models(data.test.x, "a"), before) is unchanged
        assert (len(set(course.first)) == 1) is unchanged
        assert course.steps == [0, 5, 10, 12]


def test_the_first_model_stops_where_it_is_told(data):
    models = new_models(data, BUDGET, 0)
    reached = train_first(models, data, BUDGET, 0, watched=data.validation, stop_at=0.4)
    assert 0.4 <= reached < 0.6
    assert reached < train_first(new_models(data, BUDGET, 0), data, BUDGET, 0, watched=data.validation)


def test_the_three_fishers_agree_with_a_plain_loop(data):
    models, kept = new_models(data, BUDGET, 0), data.validation
    fishers = fishers_of_first(models, kept, 0)
    gradients = []
    for x, y in zip(kept.x, kept.y, strict=True):
        models.zero_grad()
        cross_entropy(models(x[None], "a"), y[None]).backward()
        gradients.append(models.hidden_a[0].weight.grad.clone())
    each = torch.stack(gradients)
    name = "hidden_a.0.weight"
    torch.testing.assert_close(fishers["per-sample"][name], each.square().mean(0))
    torch.testing.assert_close(fishers["mini-batch"][name], each.mean(0).square(), rtol=1e-3, atol=1e-9)
    assert not torch.allclose(fishers["sampled-labels"][name], fishers["per-sample"][name])
    assert all("_b" not in key for fisher in fishers.values() for key in fisher)  # A's importance says nothing of B


def test_an_endless_strength_keeps_every_weight_that_matters(data):
    models = new_models(data, BUDGET, 0)
    train_first(models, data, BUDGET, 0, watched=data.validation)
    guard = WeightPlasticity(1e30)
    fisher = fishers_of_first(models, data.validation, 0)["per-sample"]
    remember_first(models, guard, data.validation, fisher)
    before = {name: tensor.clone() for name, tensor in models.state_dict().items()}
    train_second(models, guard, data, BUDGET, 0, watched=data.test)
    for name, tensor in models.state_dict().items():
        matters = fisher.get(name, torch.zeros_like(tensor)) > 1e-12
        torch.testing.assert_close(tensor[matters], before[name][matters])
        assert "_b" not in name or not torch.equal(tensor, before[name])


def trial(*courses):
    keys = ("guard", "strength", "first", "second")
    return {"courses": [dict(zip(keys, course, strict=True)) for course in courses]}


COURSES = trial(
    ("none", 0.0, [0.9, 0.5], 0.9),
    ("guard", 1.0, [0.9, 0.7], 0.99),  # loses 0.2, and B's gain does not make up for it
    ("guard", 2.0, [0.9, 0.8], 0.85),  # loses 0.1 + 0.05
    ("guard", 3.0, [0.9, 0.9], 0.7),  # loses 0.2
)


def test_a_strength_is_chosen_by_what_both_models_lose():
    assert choose_strengths([COURSES], affordable=1.0) == {"none": 0.0, "guard": 2.0}


def test_a_strength_that_costs_the_second_model_too_much_is_not_chosen():
    assert choose_strengths([COURSES], affordable=0.04)["guard"] == 1.0


def test_where_every_strength_costs_too_much_the_one_that_loses_least_is_chosen():
    first, *_ = COURSES["courses"]
    costly = {"courses": [first, *COURSES["courses"][2:]]}
    assert choose_strengths([costly], affordable=0.04)["guard"] == 2.0


def test_of_equal_strengths_the_weakest_is_chosen():
    course = [0.9, 0.8]
    found = choose_strengths(
        [trial(("none", 0.0, course, 0.9), ("guard", 1.0, course, 0.9), ("guard", 2.0, course, 0.9))], affordable=1.0
    )
    assert found["guard"] == 1.0
