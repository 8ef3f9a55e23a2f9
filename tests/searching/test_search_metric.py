"""`ramet search` by other metrics than the error, and on targets that are numbers, beside plain NumPy and torch."""

from __future__ import annotations

import json
from dataclasses import replace
from statistics import fmean

import numeric
import numpy as np
import pytest
import torch
from exactness import bits

import ramet
from ramet.cli import main
from ramet.data import Split, load
from ramet.errors import ConfigError
from ramet.execution import Inline
from ramet.jobs.search import SearchRecipe
from ramet.jobs.search.result import FoundArchitecture, SearchBaseline, SearchResult, TrainedArchitecture
from ramet.ranking import ZiCo
from ramet.ranking.plan import Plan
from ramet.ranking.setup import SupernetSetup
from ramet.ranking.weights import put_weights
from ramet.reports.metric import MetricFigures
from ramet.runs import Checkpoints, Run, read_records
from ramet.searching import Search, SearchPlan
from ramet.searching.measures import Score
from ramet.searching.rewards import Rewards
from ramet.searching.staged.options import StagedOptions
from ramet.searching.staged.search import StagedSearch
from ramet.spaces import make_space
from ramet.training import Metric, Recipe

SPACE = "cells64:channels=2,num_cells=1"
PLAN = SearchPlan(
    epochs=3,
    warmup_epochs=1,
    models_per_epoch=6,
    batches_per_model=4,
    strategy_steps=3,
    archs_per_step=4,
    num_candidates=5,
    num_final=2,
    final_epochs=6,
    batch_norm="running",
)
RECIPE = {"batch_size": 20, "learning_rate": 0.05}


def search(out, data=None, plan=PLAN, executor=None, **recipe):
    options = {} if data is not None else {"train_size": 80, "eval_size": 40}
    recipe = SearchRecipe(**RECIPE, **recipe)
    return ramet.search(SPACE, data or "digits", plan=plan, recipe=recipe, out=out, executor=executor, **options)


def records_of(folder):
    return {record["key"]: record for record in read_records(folder)}


def found_network(result):
    """What was exported, as anybody reads it."""
    program = torch.export.load(str(result.network)).module()
    return lambda x: np.concatenate([program(row[None]).detach().double().numpy().reshape(-1) for row in x])


def supernet_of(result, data):
    supernet = make_space(SPACE).supernet(data.in_channels, data.num_outputs)
    put_weights(supernet, str(result.folder / "checkpoints" / "search"))
    return supernet


@pytest.fixture(scope="module")
def data():
    return numeric.images()


@pytest.fixture(scope="module")
def by_r2(data, tmp_path_factory):
    return search(tmp_path_factory.mktemp("r2") / "run", data)


@pytest.fixture(scope="module")
def by_error(data, tmp_path_factory):
    return search(tmp_path_factory.mktemp("error") / "run", data, metric="squared-error")


FIGURES = {"R²": numeric.r2, "squared error": numeric.squared_error}


@pytest.mark.parametrize("name", ["by_r2", "by_error"])
def test_values_are_those_of_plain_networks(name, data, request):
    result = request.getfixturevalue(name)
    figure, metric = FIGURES[result.metric], result.measured_by
    supernet, space = supernet_of(result, data), make_space(SPACE)
    for entry in result.candidates:
        outputs = numeric.outputs_of(supernet.child(space.parse(entry.name)), data.validation.x)
        assert entry.error == pytest.approx(figure(outputs, data.validation.y), abs=1e-5)
    scores = [metric.value(entry.error) for entry in result.candidates]
    assert scores == sorted(scores, reverse=True), "the best candidate is the first"
    network = found_network(result)
    for split, value in (("validation", result.chosen.validation), ("test", result.chosen.test)):
        held_out = getattr(data, split)
        assert value == pytest.approx(figure(network(held_out.x), held_out.y), abs=1e-5)
    values = [entry.validation for entry in result.trained]
    best = max(values) if metric.higher_is_better else min(values)
    assert result.chosen.validation == best and result.best == result.chosen.name


def test_the_one_is_the_other_turned_round(by_r2, by_error, data):
    """Of one target R² is 1 - error / variance: both searches train the same, and end with the same."""
    assert [entry.name for entry in by_r2.candidates] == [entry.name for entry in by_error.candidates]
    spread = float(data.validation.y.double().numpy().var())
    for one, other in zip(by_r2.candidates, by_error.candidates, strict=True):
        assert 1 - other.error / spread == pytest.approx(one.error, abs=1e-5)
    assert by_r2.best == by_error.best and by_r2.pareto == by_error.pareto
    for one, other in zip(by_r2.course(), by_error.course(), strict=True):
        assert one.difference_mean == pytest.approx(fmean(a - b for a, b in zip(one.err1, one.err2, strict=True)))
        assert other.difference_mean == pytest.approx(spread_of(one, other) * one.difference_mean, rel=1e-4)
        assert (one.reward is None) == (other.reward is None) and (one.reward or 0.5) == pytest.approx(
            other.reward or 0.5, abs=1e-5
        ), "rewards do not know the unit"
    assert (by_r2.doubt() == "") == (by_error.doubt() == "")


def spread_of(one, other):
    """The factor between the two metrics on the samples that forgetting is measured on."""
    return other.err1[0] / (1 - one.err1[0])


@pytest.mark.parametrize("name", ["by_r2", "by_error"])
def test_reports_say_the_metric(name, request, capsys):
    result = request.getfixturevalue(name)
    page = result.report.read_text().partition("Configuration")[0]
    assert f"validation {result.metric}" in page and f"{result.measured_by.title} against cost" in page
    assert "accuracy" not in page and "Error against cost" not in page
    assert f"Beside it, {result.metric} on validation data" in result.summary() and " %" not in result.summary()
    values = result.to_json()
    assert values["metric"] == values["measure"]["name"] == result.metric
    assert SearchResult.from_json(values) == replace(result, folder=None)
    assert result.table().headline().best == result.measured_by.best


def test_classes_by_top_k(tmp_path):
    result = search(tmp_path / "run", metric="top:2", plan=replace(PLAN, num_final=1, without_baselines=True))
    data, space = load("digits", train_size=80, eval_size=40, seed=0, validation_fraction=0.4), make_space(SPACE)
    supernet = supernet_of(result, data)
    for entry in result.candidates:
        logits = supernet.child(space.parse(entry.name)).eval()(data.validation.x)
        order = logits.argsort(dim=1, descending=True)[:, :2]
        assert entry.error == pytest.approx((order == data.validation.y[:, None]).any(dim=1).double().mean().item())
    assert result.measured_by == MetricFigures(name="top-2 accuracy") and " %" in result.table().to_text()


def test_a_metric_of_ones_own_goes_to_workers(tmp_path, capsys):
    own, archive = numeric.metrics(tmp_path, "metrics_of_search"), numeric.archive(tmp_path)
    command = ["search", "--space", SPACE, "--data", str(archive), "--metric", f"{own}:spread", "--epochs", "2"]
    command += ["--models-per-epoch", "3", "--strategy-steps", "2", "--warmup-epochs", "1", "--final", "2"]
    command += ["--final-epochs", "2", "--json"]
    main([*command, "--out", str(tmp_path / "one")])
    values = json.loads(capsys.readouterr().out)
    assert values["measure"] == {"name": "spread", "higher_is_better": False, "is_share": False}
    main([*command, "--out", str(tmp_path / "two"), "--workers", "2"])
    assert json.loads(capsys.readouterr().out) == values
    result, data = SearchResult.load(tmp_path / "one"), load(archive, seed=0, validation_fraction=0.4)
    assert result.chosen.test == pytest.approx(numeric.largest_error(found_network(result)(data.test.x), data.test.y))
    assert result.chosen.validation == min(entry.validation for entry in result.trained)
    with pytest.raises(SystemExit):
        main(["resume", str(tmp_path / "one"), "--json"])
    assert "--trust" in capsys.readouterr().err


@pytest.mark.parametrize("metric", ["squared-error", None])
def test_a_staged_search_orders_by_the_metric(metric, data, tmp_path):
    options = StagedOptions(evaluations=8, short_epochs=1.0, listed=8, stages="scores+shared+short+predictor+finalists")
    plan = SearchPlan(staged=options, num_final=1, final_epochs=3, num_candidates=4)
    result = search(tmp_path / "run", data, plan, metric=metric)
    records, figure = records_of(tmp_path / "run"), FIGURES[result.metric]
    space = make_space(SPACE)
    rungs = {key: record for key, record in records.items() if key.startswith("staged/alone/0/")}
    for key, record in list(rungs.items())[:3]:
        arch = space[int(key.rpartition("/")[2])]
        supernet = space.supernet(1, 1)
        name = "-".join(map(str, arch))
        put_weights(supernet, str(tmp_path / "run" / "checkpoints" / f"alone-{name}-0"))
        outputs = numeric.outputs_of(supernet.child(arch), data.validation.x)
        assert record["error"] == pytest.approx(figure(outputs, data.validation.y), abs=1e-5)
    shared = next(stage for stage in result.stages if stage.stage == "shared")
    assert shared.about.endswith(f"by validation {result.metric}") and len(records["staged/shared"]["errors"]) > 2
    assert "validation loss" not in result.report.read_text().partition("Configuration")[0]
    score, found = result.measured_by.value, result.baselines[0].found
    assert any(score(entry.error) > score(found) for entry in result.baselines) == bool(result.doubt())
    network = found_network(result)
    assert result.chosen.test == pytest.approx(figure(network(data.test.x), data.test.y), abs=1e-5)


@pytest.mark.parametrize(("metric", "sign"), [("squared-error", -1), ("r2", 1)])
def test_stages_put_what_is_better_by_the_metric_first(metric, sign, data, tmp_path):
    """What orders is the metric or minus it, on shared weights and after every length of training."""
    options = StagedOptions(evaluations=12, short_epochs=2.0, listed=10, stages="scores+shared+short")
    plan = SearchPlan(staged=options, num_final=0, num_candidates=6, exports=False)
    setup = SupernetSetup(make_space(SPACE), data, SearchRecipe(**RECIPE, metric=metric))
    with Run.create(tmp_path / "run", "search", {}) as run:
        found = StagedSearch(setup, plan, run, Inline())
        found.run()
        records = {record["key"]: record for record in run.records}
    for rung, values in enumerate(found.rungs):
        for place, value in values.items():
            record = records[f"staged/alone/{rung}/{setup.space.index(found.pool[place])}"]
            assert value == pytest.approx(sign * record["error"])
    for place, value in zip(found.listed, records["staged/shared"]["errors"], strict=True):
        assert found.shared[place] == pytest.approx(sign * value)
    places = list(found.rungs[-1])
    order = [place for place in found.order() if place in places]
    merits = [sum(rung[place] for rung in found.rungs) for place in order]
    assert merits[0] > merits[-1] and len(places) > 1


@pytest.mark.parametrize("order", [1, 2])
def test_darts_takes_numbers(order, data, tmp_path):
    plan = SearchPlan(strategy=f"darts:order={order}", epochs=2, warmup_epochs=1, final_epochs=2)
    result = search(tmp_path / "run", data, plan)
    assert result.metric == "R²" and result.found is not None
    assert result.chosen.test == pytest.approx(numeric.r2(found_network(result)(data.test.x), data.test.y), abs=1e-5)


# Rewards

ERROR = Metric("error", lambda outputs, targets: 0.0, higher_is_better=False)
GAIN = Metric("gain", lambda outputs, targets: 0.0)


def test_rewards_lie_between_bounds_and_rise_with_the_score():
    for metric, values in ((ERROR, [5e6, 2e6, 1e6, 3.0, 0.0]), (GAIN, [-1e9, -2.0, 0.0, 0.5, 1e9])):
        rewards = Rewards(metric)
        first = rewards([Score(v, metric.score(v)) for v in values])
        assert first == sorted(first) and first[0] > 0 and first[-1] < 1 and len(set(first)) == 5
        assert first[2] == 0.5, "the median of the first"
        again = rewards([Score(v, metric.score(v)) for v in values[3:]])
        assert again == first[3:], "the scale stays"
        other = Rewards(metric)
        other.load_state(rewards.state())
        assert other([Score(values[0], metric.score(values[0]))]) == first[:1]


def test_rewards_of_shares_are_shares():
    assert Rewards(None)([Score(0.25, 0.75)]) == [0.75]
    assert Rewards(Metric("top", lambda o, t: 0.0, is_share=True))([Score(0.25, 0.25)]) == [0.25]
    lost = Metric("lost", lambda o, t: 0.0, higher_is_better=False, is_share=True)
    assert Rewards(lost)([Score(0.25, -0.25)]) == [0.75]


def test_children_that_are_all_alike_or_diverged_have_rewards():
    assert Rewards(ERROR)([Score(3.0, -3.0)] * 3) == [0.5] * 3
    assert Rewards(ERROR)([Score(0.0, 0.0)] * 3) == [0.5] * 3
    found = Rewards(ERROR)([Score(np.nan, np.nan), Score(1.0, -1.0), Score(2.0, -2.0)])
    assert np.isnan(found[0]) and found[1] > 0.5 > found[2]


def test_a_search_that_goes_on_has_the_same_rewards(data, tmp_path):
    """It is stopped in the middle of the epochs in which the strategy learns, after the scale was set."""
    setup = SupernetSetup(make_space(SPACE), data, SearchRecipe(**RECIPE), seconds_between_checkpoints=0.0)
    plan = replace(PLAN, strategy="enas")
    whole, parts = {}, {}

    def keep(into, stop=None):
        def record(key, **fields):
            into[key] = fields
            if key == stop:
                raise KeyboardInterrupt

        return record

    Search(setup, plan, record=keep(whole)).run()
    with pytest.raises(KeyboardInterrupt):
        Search(setup, plan, record=keep(parts, "epoch/1"), checkpoints=Checkpoints(tmp_path / "kept")).run()
    again = Search(setup, plan, record=keep(parts), checkpoints=Checkpoints(tmp_path / "kept"))
    again.run()
    assert bits(parts) == bits(whole) and whole["epoch/2"]["reward"] is not None


def test_a_mini_batch_of_targets_that_are_all_alike_is_passed_over(data):
    """R² is not defined there, which is no fault of a child's, and must not end a search."""
    y = torch.zeros(len(data.validation))
    y[::9] = data.validation.y[::9]
    rare = replace(data, validation=Split(data.validation.x, y))
    records, plan = {}, replace(PLAN, reward_samples=4, strategy_steps=8)

    def keep(key, **fields):
        records[key] = fields

    setup = SupernetSetup(make_space(SPACE), rare, SearchRecipe(**RECIPE))
    loop = Search(setup, plan, record=keep)
    flat = [bool((y[loop._held_out[step]] == y[loop._held_out[step]][0]).all()) for step in range(16)]
    assert any(flat) and not all(flat), "otherwise nothing is tested"
    loop.run()
    assert loop.best is not None and records["epoch/2"]["reward"] is not None


def test_samples_that_forgetting_is_measured_on_are_looked_at_first(data, tmp_path):
    y = torch.zeros(len(data.validation))
    y[20:] = data.validation.y[20:]
    rare = replace(data, validation=Split(data.validation.x, y))
    with pytest.raises(ConfigError, match="r2 needs targets that differ, but all 20 are 0"):
        search(tmp_path / "run", rare, replace(PLAN, error_samples=20))
    with pytest.raises(ConfigError, match="r2 needs targets that differ, but all 20 are 0"):
        ramet.rank(SPACE, rare, plan=Plan(step_samples=20), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


# Results, and what is refused


def result_of(measure, errors):
    found = [FoundArchitecture(arch=[k], name=str(k), error=e, parameters=1, flops=1) for k, e in enumerate(errors)]
    trained = [
        TrainedArchitecture(name=str(k), arch=[k], validation=e, test=e, tests=[e]) for k, e in enumerate(errors)
    ]
    beside = SearchBaseline(name="random", architecture="9", parameters=1, flops=1, error=0.5, found=errors[0])
    return SearchResult(
        metric="error" if measure is None else measure.name, best="0", candidates=found, trained=trained, pareto={},
        epochs=1, diverged=0, exported=None, cells=[], plan={}, baselines=[beside], measure=measure,
    )  # fmt: skip


def test_the_sign_of_a_metric_decides_what_is_best():
    higher = MetricFigures(name="R²", is_share=False)
    lower = MetricFigures(name="squared error", higher_is_better=False, is_share=False)
    for measure, best, doubted in ((None, "1", True), (lower, "1", True), (higher, "2", False)):
        result = result_of(measure, [0.8, 0.2, 0.9])
        assert result.chosen.name == best and bool(result.doubt()) == doubted
    assert "found 80.0 %" in result_of(None, [0.8]).baseline_words()
    assert "found 0.8," in result_of(higher, [0.8]).baseline_words()


def test_zico_of_numbers_takes_the_squared_error():
    torch.manual_seed(0)
    network, x, y = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1)), torch.randn(8, 3), torch.randn(8)
    weights = [network[0].weight, network[1].weight]
    slopes = [
        torch.autograd.grad((network(x[rows])[:, 0] - y[rows]).square().mean(), weights)
        for rows in (slice(0, 4), slice(4, 8))
    ]
    expected = 0.0
    for one, other in zip(*slopes, strict=True):
        both = torch.stack([one, other]).double()
        expected += float((both.abs().mean(0) / both.std(0, correction=0)).sum().log())
    assert ZiCo(network, x, y)() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--metric", "r2"], "R² is a metric of numbers, but the targets are classes"),
        (["--metric", "top:20"], "k of top must be at most the 10 classes, but got 20"),
        (
            ["--data", "{numbers}", "--metric", "accuracy"],
            "accuracy is a metric of classes, but the targets are numbers",
        ),
        (["--final-recipe", "{recipe}:own"], "the metric of a final recipe must be None, but got 'top:3'"),
        (["--space", "recurrent", "--data", "{numbers}"], "ptb"),
    ],
)
def test_what_does_not_go_together_is_one_line(tmp_path, capsys, given, words):
    (tmp_path / "recipe_of_found.py").write_text("def own():\n    return {'metric': 'top:3'}\n")
    paths = {"numbers": numeric.archive(tmp_path), "recipe": tmp_path / "recipe_of_found.py"}
    with pytest.raises(SystemExit) as refused:
        command = ["search", "--out", str(tmp_path / "run"), *(text.format(**paths) for text in given)]
        main(command if "--space" in given else [*command, "--space", SPACE])
    told = capsys.readouterr().err.strip()
    assert refused.value.code == 2 and "\n" not in told, told
    assert words in told or words == "ptb", told
    assert not (tmp_path / "run").exists()


def test_words_by_their_usual_metric_are_searched_as_without_one():
    from ramet.searching.measures import other_metric

    words, labels = torch.zeros(4, 3, dtype=torch.long), torch.zeros(4, dtype=torch.long)
    assert other_metric(Recipe(), words) is None and other_metric(Recipe(), labels) is None
    assert other_metric(Recipe(metric="perplexity"), words) is None
    assert other_metric(Recipe(metric="bits"), words).name == "bits per token"
    assert other_metric(Recipe(metric="perplexity"), labels).name == "perplexity"
    assert other_metric(Recipe(), labels.float()).name == "R²"
