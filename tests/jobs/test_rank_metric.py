"""`ramet rank` by other metrics than the accuracy, and on targets that are numbers, beside plain NumPy and torch."""

from __future__ import annotations

import hashlib
import json
import logging

import numeric
import numpy as np
import pytest
from exactness import bits

import ramet
from ramet.cli import main
from ramet.errors import ConfigError
from ramet.execution.numerics import settled
from ramet.jobs.rank import RankRecipe
from ramet.jobs.rank.result import RankResult
from ramet.ranking import alone
from ramet.ranking.plan import Plan
from ramet.ranking.setup import SupernetSetup
from ramet.ranking.weights import put_weights
from ramet.registry import Spec
from ramet.runs import differences, read_records
from ramet.spaces import make_space
from ramet.training import Recipe

OPTIONS = {"channels": 2, "num_cells": 1, "operations": ["max_pool_3x3", "sep_conv_3x3"]}
SPACE = str(Spec("cells64", options=OPTIONS))
PLAN = Plan(instances=2, last_steps=3, last_epochs=2, truth_seeds=2, fine_tune_steps=2)
SMALL = Plan(instances=1, last_steps=2, last_epochs=1, truth="none", fine_tune_steps=0)
RECIPE = {"epochs": 8, "batch_size": 32, "learning_rate": 0.05}


def rank(folder, data=None, plan=PLAN, name="run", **recipe):
    options = {} if data is not None else {"train_size": 100, "eval_size": 50}
    return ramet.rank(
        SPACE,
        "digits" if data is None else data,
        plan=plan,
        recipe=RankRecipe(**{**RECIPE, **recipe}),
        out=folder / name,
        truth_cache=folder / "truth",
        **options,
    )


def records_of(folder):
    return {record["key"]: record for record in read_records(folder)}


def children(run, data, instance=0):
    """Each child of a trained supernet as a plain network of its own."""
    space = make_space(SPACE)
    supernet = space.supernet(data.in_channels, data.num_outputs)
    put_weights(supernet, str(run / "checkpoints" / f"instance-{instance}" / "group-0"))
    return [supernet.child(arch) for arch in space]


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    """One diagnosis by R² and one by the squared error, of the same seeds."""
    folder = tmp_path_factory.mktemp("numbers")
    data = numeric.images()
    by_r2 = rank(folder, data, name="r2")
    by_error = rank(folder, data, name="error", metric="squared-error")
    return folder, data, by_r2, by_error


def test_numbers_are_ranked_by_r2(numbers):
    folder, data, result, _ = numbers
    assert result.metric.name == "R²" and result.truth_unit == "metric"
    found = [numeric.r2(numeric.outputs_of(child, data.validation.x), data.validation.y)
             for child in children(folder / "r2", data)]  # fmt: skip
    assert result.accuracy.last[0] == pytest.approx(found, abs=1e-5)
    assert records_of(folder / "r2")["instance-0/group-0"]["steps"][-1] == pytest.approx(found, abs=1e-5)
    assert max(found) > 0.3, "otherwise nothing was learned"


def test_a_metric_of_which_lower_is_better_ranks_the_other_way(numbers):
    folder, data, by_r2, result = numbers
    assert not result.metric.higher_is_better
    plain = children(folder / "error", data)
    found = [numeric.squared_error(numeric.outputs_of(child, data.validation.x), data.validation.y) for child in plain]
    assert result.accuracy.last[0] == pytest.approx(found, abs=1e-5), "values are the metric's, not minus it"
    assert records_of(folder / "error")["instance-0/group-0"]["steps"][-1] == pytest.approx([-value for value in found])
    # Of one target R² falls as the squared error rises, so that all rankings and correlations are the same.
    for name, entry in by_r2.correlation.items():
        assert result.correlation[name].tau.value == pytest.approx(entry.tau.value), name
    assert result.stability == by_r2.stability and result.ranks.over_instances == by_r2.ranks.over_instances
    assert result.top == by_r2.top and result.pruning == by_r2.pruning
    spread = float(np.square(data.test.y.double().numpy() - data.test.y.double().numpy().mean()).mean())
    assert result.truth.mean == pytest.approx([spread * (1 - value) for value in by_r2.truth.mean])
    assert result.truth.seeds_scores[1] == pytest.approx(
        [spread * (1 - value) for value in by_r2.truth.seeds_scores[1]]
    )
    assert result.gap.value == pytest.approx(np.mean(result.accuracy.averaged) - np.mean(result.truth.mean)), (
        "above 0 is better alone"
    )
    rows = result.children_table().to_json()
    assert [row["child"] for row in rows] == [row["child"] for row in by_r2.children_table().to_json()]
    assert rows[0]["truth"] == pytest.approx(min(result.truth.mean)) and rows[0]["true rank"] == 1


def test_the_truth_is_the_metric_of_the_child_alone(numbers, monkeypatch):
    folder, data, _, result = numbers
    kept, fit = [], alone.fit

    def keeping(network, *arguments, **options):
        kept.append(network)
        return fit(network, *arguments, **options)

    monkeypatch.setattr(alone, "fit", keeping)
    setup = SupernetSetup(make_space(SPACE), data, RankRecipe(**RECIPE, metric="squared-error"))
    with settled("as an executor runs it", threads=1):  # with two threads sums are rounded otherwise
        found = alone.train_alone(setup, index=5, seed=1)
    plain = kept[0].child(setup.space[5])
    assert found["test"] == pytest.approx(numeric.squared_error(numeric.outputs_of(plain, data.test.x), data.test.y))
    assert bits(found["test"]) == bits(records_of(folder / "error")["truth/child-5/seed-1"]["test"])
    assert bits(result.truth.seeds_scores[1][5]) == bits(found["test"])


def test_reports_say_the_metric_and_its_values(numbers):
    _, _, by_r2, by_error = numbers
    for result, name in ((by_r2, "R²"), (by_error, "squared error")):
        page = result.report.read_text().partition("Configuration")[0]
        assert f"validation {name} with shared weights" in page and f"true {name}" in page
        assert "accurac" not in page and f"change of {name}" in page
        assert f"the test {name}" in result.children_table().to_text()
        way = "higher" if result.metric.higher_is_better else "lower"
        assert f"Children are measured by the {name}, of which {way} is better." in result.summary()
        assert RankResult.load(result.folder) == result
        assert result.to_json()["metric"]["name"] == name


def test_top_k_is_that_of_plain_torch(tmp_path):
    from ramet.data import load

    result = rank(tmp_path, plan=SMALL, metric="top:2")
    data = load("digits", train_size=100, eval_size=50, seed=0)
    for child, score in zip(children(tmp_path / "run", data), result.accuracy.last[0], strict=True):
        order = child.eval()(data.validation.x).argsort(dim=1, descending=True)[:, :2]
        assert score == pytest.approx((order == data.validation.y[:, None]).any(dim=1).double().mean().item())
    assert result.metric.name == "top-2 accuracy" and result.metric.is_share


def test_a_metric_of_ones_own_goes_to_workers_and_needs_trust(tmp_path, capsys):
    own = f"{numeric.metrics(tmp_path, 'metrics_of_rank')}:spread"
    archive = numeric.archive(tmp_path)
    command = ["rank", "--space", SPACE, "--data", str(archive), "--metric", own, "--epochs", "2", "--instances", "2"]
    command += ["--last-steps", "2", "--last-epochs", "1", "--truth-seeds", "1", "--fine-tune-steps", "0"]
    command += ["--json"]
    main([*command, "--out", str(tmp_path / "one"), "--truth-cache", str(tmp_path / "truth")])
    values = json.loads(capsys.readouterr().out)
    assert values["metric"] == {"name": "spread", "higher_is_better": False, "is_share": False}
    main([*command, "--out", str(tmp_path / "two"), "--workers", "2", "--truth-cache", str(tmp_path / "other")])
    assert json.loads(capsys.readouterr().out) == values
    from ramet.data import load

    data = load(archive, seed=0)
    found = [numeric.largest_error(numeric.outputs_of(child, data.validation.x), data.validation.y)
             for child in children(tmp_path / "one", data)]  # fmt: skip
    assert values["accuracy"]["last"][0] == pytest.approx(found, abs=1e-5)
    with pytest.raises(SystemExit) as refused:
        main(["resume", str(tmp_path / "one"), "--json"])
    assert refused.value.code == 2 and "--trust" in capsys.readouterr().err
    main(["resume", str(tmp_path / "one"), "--trust", "--json"])
    assert json.loads(capsys.readouterr().out) == values


# The cache of truths


def by_hand(setup):
    """The name of a cache of accuracies, as earlier versions made it."""
    space = {"kind": "cells64", **{n: v for n, v in OPTIONS.items() if n != "channels"}, "channels": 2}
    settings = differences(setup.settings, defaults_of=Recipe)
    values = {"space": space, "data": setup.data.fingerprint(), "settings": settings}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def test_the_cache_knows_the_metric_and_keeps_its_name_for_accuracies(tmp_path):
    from ramet.data import load

    data, space = load("digits", train_size=100, eval_size=50), make_space(SPACE)
    plain = SupernetSetup(space, data, RankRecipe(**RECIPE))
    assert plain.fingerprint() == by_hand(plain), "a cache that is there is found"
    own = numeric.metrics(tmp_path, "metrics_of_cache")
    named = [SupernetSetup(space, data, RankRecipe(**RECIPE, metric=text))
             for text in ("top:2", "top:3", "bits", f"{own}:spread", f"{own}:tightness")]  # fmt: skip
    names = [setup.fingerprint() for setup in (plain, *named)]
    assert len(set(names)) == 6
    assert all(setup.former_fingerprint() is None for setup in named)
    own.write_text(own.read_text().replace("max()", "mean()"))
    assert named[3].fingerprint() != names[4], "an edited function measures something else"


def test_an_accuracy_never_passes_for_another_metric(tmp_path):
    plan = Plan(instances=1, last_steps=2, last_epochs=1, truth_seeds=1, fine_tune_steps=0, children=4)
    accuracies = rank(tmp_path, plan=plan, name="accuracy")
    first = rank(tmp_path, plan=plan, name="top", metric="top:2")
    again = rank(tmp_path, plan=plan, name="again", metric="top:2")
    assert len(list((tmp_path / "truth").glob("*.jsonl"))) == 2
    assert bits(first.truth.mean) == bits(again.truth.mean) and first.truth.mean != accuracies.truth.mean
    assert all(top >= one for top, one in zip(first.truth.mean, accuracies.truth.mean, strict=True))


def test_an_object_is_not_told_by_its_name(tmp_path, caplog):
    plan = Plan(instances=1, last_steps=2, last_epochs=1, truth_seeds=1, fine_tune_steps=0, children=2)
    data = numeric.images(60)
    with caplog.at_level(logging.WARNING):
        high = rank(tmp_path, data, plan, "high", metric=lambda outputs, targets: 1.0 + outputs.var())
        low = rank(tmp_path, data, plan, "low", metric=lambda outputs, targets: -1.0 - outputs.var())
    assert min(high.truth.mean) >= 1 and max(low.truth.mean) <= -1
    assert not list((tmp_path / "truth").glob("*.jsonl"))
    assert "a metric that is an object is not told by its name" in caplog.text


# What is refused


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--metric", "r2"], "R² is a metric of numbers, but the targets are classes"),
        (["--metric", "top:20"], "k of top must be at most the 10 classes, but got 20"),
        (["--metric", "accurracy"], "accurracy"),
        (
            ["--data", "{numbers}", "--metric", "accuracy"],
            "accuracy is a metric of classes, but the targets are numbers",
        ),
        (
            ["--data", "{numbers}", "--loss", "cross-entropy"],
            "a loss must take outputs of shape [8, 1] and targets of [8]",
        ),
        (["--metric", "{own}:nothing"], "must define nothing"),
    ],
)
def test_what_does_not_go_together_is_one_line(tmp_path, capsys, given, words):
    paths = {"numbers": numeric.archive(tmp_path), "own": numeric.metrics(tmp_path, f"refused_{tmp_path.name[-8:]}")}
    with pytest.raises(SystemExit) as refused:
        main(["rank", "--space", SPACE, "--out", str(tmp_path / "run"), *(text.format(**paths) for text in given)])
    told = capsys.readouterr().err.strip()
    assert refused.value.code == 2 and words in told and "\n" not in told, told
    assert not (tmp_path / "run").exists()


def test_a_metric_that_gives_no_number_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ConfigError, match=r"a metric must be one number, but <lambda> has shape \[60\]"):
        rank(tmp_path, numeric.images(), metric=lambda outputs, targets: outputs.flatten())
    assert not (tmp_path / "run").exists()
