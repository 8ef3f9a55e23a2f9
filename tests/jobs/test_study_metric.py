"""`ramet study` by other metrics than the accuracy, and on targets that are numbers, beside plain NumPy."""

from __future__ import annotations

import json
from dataclasses import replace
from statistics import fmean

import numeric
import numpy as np
import pytest
import safetensors.torch
import text_files

import ramet
from ramet.cli import main
from ramet.continual import JointNetwork, LearnRecipe, Stream, StudyPlan, make_skeleton
from ramet.continual.streams.stream import Task
from ramet.continual.study.sequences import _paper_gain
from ramet.errors import ConfigError
from ramet.jobs.study.result import CLOSE, StudyResult
from ramet.reports.metric import MetricFigures
from ramet.runs import read_records
from ramet.training import Metric

PLAN = StudyPlan(num_trials=2, batch=1, network="mlp:6", method="bind-and-grow:num_samples=12")
RECIPE = {"epochs": 4, "batch_size": 16, "learning_rate": 0.05}
FIGURES = {"R²": numeric.r2, "squared error": numeric.squared_error}


def stream():
    return Stream("sums", [Task(f"task {seed}", numeric.images(60, seed, scale=1.0 + seed)) for seed in range(2)])


def study(out, plan=PLAN, **recipe):
    return ramet.study(stream(), plan=plan, recipe=LearnRecipe(**RECIPE, **recipe), out=out)


def records_of(folder):
    return {record["key"]: record for record in read_records(folder)}


@pytest.fixture(scope="module")
def by_r2(tmp_path_factory):
    return study(tmp_path_factory.mktemp("r2") / "run")


@pytest.fixture(scope="module")
def by_error(tmp_path_factory):
    return study(tmp_path_factory.mktemp("error") / "run", metric="squared-error")


def measured(result, split):
    """What networks alone have of each task, and what those of the front have, all by plain NumPy."""
    figure, tasks = FIGURES[result.metric.name], stream()
    alone = {}
    for number, task in enumerate(tasks):
        network = make_skeleton("mlp:6", in_channels=1, image_size=(4, 4)).make_network(1, 0)
        state = safetensors.torch.load_file(result.folder / "networks" / f"alone-{number}.safetensors")
        network.load_state_dict(state)
        held_out = getattr(task.dataset, split)
        alone[task.name] = figure(numeric.outputs_of(network, held_out.x), held_out.y)
    found = {}
    for point in result.front:
        joint = JointNetwork.load(result.folder / point.file)
        found[point.trial] = {
            task.name: figure(
                numeric.outputs_of(joint.task(task.name), getattr(task.dataset, split).x),
                getattr(task.dataset, split).y,
            )
            for task in tasks
        }
    return alone, found


@pytest.mark.parametrize("name", ["by_r2", "by_error"])
def test_gains_are_those_of_plain_networks(name, request):
    """Above 0 is better than alone, whichever way the metric goes."""
    result = request.getfixturevalue(name)
    sign = 1 if result.metric.higher_is_better else -1
    for split, field in (("validation", "gain"), ("test", "test_gain")):
        alone, found = measured(result, split)
        for point in result.front:
            gains = [sign * (value - alone[task]) for task, value in found[point.trial].items()]
            assert getattr(point, field) == pytest.approx(fmean(gains), abs=1e-5)
        assert getattr(result.alone, f"{split}_accuracy") == pytest.approx(fmean(alone.values()), abs=1e-5)
    _, found = measured(result, "test")
    for point in result.front:
        assert point.accuracies == pytest.approx(found[point.trial], abs=1e-5)
        assert point.test_accuracy == pytest.approx(fmean(found[point.trial].values()), abs=1e-5)
    trials = [record for key, record in records_of(result.folder).items() if key.startswith("trial/")]
    assert all(record["paper_gain"] is None for record in trials), "an unbounded metric has no share of errors"
    for record in trials:
        assert record["gain"] == pytest.approx(fmean(record["gains"].values()))


def test_a_better_network_has_more_gain_by_both(by_r2, by_error):
    """The same networks: their squared errors fall as R² rises, task by task."""
    trials = [{key: record for key, record in records_of(result.folder).items() if key.startswith("trial/")}
              for result in (by_r2, by_error)]  # fmt: skip
    assert trials[0].keys() == trials[1].keys()
    spreads = {task.name: float(task.dataset.validation.y.double().numpy().var()) for task in stream()}
    for key, record in trials[0].items():
        for task, gain in record["gains"].items():
            assert trials[1][key]["gains"][task] == pytest.approx(spreads[task] * gain, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("name", ["by_r2", "by_error"])
def test_reports_say_the_metric(name, request):
    result = request.getfixturevalue(name)
    page = result.report.read_text().partition("Configuration")[0]
    metric = result.metric.name
    assert f"average gain, {metric}" in page and f"{metric}, test" in page and "accuracy" not in page
    assert "a sum of ratios of errors, is left out" in page
    assert " points" not in result.words()[0] and "points" not in result.table().to_text()
    assert StudyResult.from_json(result.to_json()) == replace(result, folder=None)
    assert result.to_json()["metric"]["name"] == metric == records_of(result.folder)["setting"]["metric"]["name"]


def test_level_is_a_share_of_what_individual_networks_have(by_error):
    metric = MetricFigures(name="squared error", higher_is_better=False, is_share=False)
    front = by_error.front[0]
    points = [replace(front, trial=k, gain=gain, parameters=size) for k, (gain, size) in
              enumerate([(100.0, 30), (99.0, 20), (90.0, 10)])]  # fmt: skip
    alone = replace(by_error.alone, validation_accuracy=1000.0)
    result = replace(by_error, metric=metric, front=points, alone=alone)
    assert result.level == 1000 * CLOSE and result.recommended.trial == 1
    assert replace(result, alone=replace(alone, validation_accuracy=1.0)).recommended.trial == 0
    worse = replace(result, front=[replace(points[0], gain=-50.0)])
    assert not worse.reaches_individual and "is worth 50 of squared error on validation data" in worse.words()[0]
    shares = replace(result, metric=MetricFigures(), front=[replace(p, gain=p.gain / 1e5) for p in points])
    assert shares.level == CLOSE and shares.recommended.trial == 2


def test_the_papers_gain_is_one_of_shares():
    matrix, alone = [[0.9, np.nan], [0.8, 0.95]], [0.9, 0.9]
    right = Metric("right", lambda o, t: 0.0, is_share=True)
    wrong = Metric("wrong", lambda o, t: 0.0, higher_is_better=False, is_share=True)
    assert _paper_gain(matrix, alone, right) == 0.5
    errors = [[0.1, np.nan], [0.2, 0.05]]
    assert _paper_gain(errors, [0.1, 0.1], wrong) == pytest.approx(0.5)
    assert _paper_gain(matrix, alone, Metric("own", lambda o, t: 0.0)) is None


def test_tables_by_a_metric_of_ones_own_from_the_command_line(tmp_path, capsys):
    tasks = []
    for name in ("first", "second"):
        text_files.table(tmp_path, 60, f"{name}.csv", shift=len(name))
        tasks.append({"name": name, "data": f"{name}.csv:target=price"})
    (tmp_path / "tables.json").write_text(json.dumps(tasks))
    own = f"{numeric.metrics(tmp_path, 'metrics_of_study')}:spread"
    command = ["study", "--stream", str(tmp_path / "tables.json"), "--network", "mlp:4", "--metric", own, "--json"]
    command += ["--trials", "2", "--batch", "1", "--epochs", "2"]
    main([*command, "--out", str(tmp_path / "one")])
    values = json.loads(capsys.readouterr().out)
    assert values["metric"] == {"name": "spread", "higher_is_better": False, "is_share": False}
    main([*command, "--out", str(tmp_path / "two"), "--workers", "2"])
    assert json.loads(capsys.readouterr().out) == values


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--metric", "r2"], "R² is a metric of numbers, but the targets are classes"),
        (["--metric", "top:9"], "k of top must be at most the 2 classes, but got 9"),
        (["--metric", "nothing"], "nothing"),
    ],
)
def test_what_does_not_go_together_is_one_line(tmp_path, capsys, given, words):
    with pytest.raises(SystemExit) as refused:
        main(["study", "--train-size", "60", "--eval-size", "60", "--out", str(tmp_path / "run"), *given])
    told = capsys.readouterr().err.strip()
    assert refused.value.code == 2 and words in told and "\n" not in told, told
    assert not (tmp_path / "run").exists()


def test_a_guard_of_classes_is_refused_for_numbers(tmp_path):
    plan = replace(PLAN, method="bind-and-grow:num_samples=12,old_weights=guarded")
    with pytest.raises(ConfigError, match="guards weights for classes, but these tasks have others"):
        study(tmp_path / "run", plan)
    assert not (tmp_path / "run").exists()
