"""`ramet learn` on texts and tables: the metric in its results, its report and its records."""

from __future__ import annotations

import json

import pytest
import text_files

import ramet
from ramet.cli import main
from ramet.continual import LearnPlan, LearnRecipe
from ramet.errors import ConfigError
from ramet.jobs.learn.learning import analyse
from ramet.jobs.learn.result import LearnResult
from ramet.reports.metric import MetricFigures
from ramet.runs import read_records

RECIPE = LearnRecipe(epochs=1, batch_size=16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("learn")
    for name, words in (("first", "abcd"), ("second", "dcba")):
        text_files.text(folder, 60, f"{name}.txt", words)
        text_files.table(folder, 60, f"{name}.csv", shift=len(name))
    texts = [{"name": name, "data": f"text:{name}.txt:length=8"} for name in ("first", "second")]
    tables = [{"name": name, "data": f"{name}.csv:target=price"} for name in ("first", "second")]
    (folder / "texts.json").write_text(json.dumps(texts))
    (folder / "tables.json").write_text(json.dumps(tables))
    return folder


def test_texts_by_perplexity_from_the_command_line(folder, capsys):
    network = f"{text_files.networks(folder)}:transformer"
    command = ["learn", "--stream", str(folder / "texts.json"), "--network", network, "--metric", "perplexity"]
    command += ["--method", "naive,bind-and-grow", "--epochs", "1", "--out", str(folder / "texts-run")]
    main([*command, "--json"])
    values = json.loads(capsys.readouterr().out)
    assert values["metric"] == {"name": "perplexity", "higher_is_better": False, "is_share": False}
    assert values["rows"] == "tokens"
    records = {record["key"]: record for record in read_records(folder / "texts-run")}
    assert records["setting"]["metric"] == values["metric"]
    result = LearnResult.load(folder / "texts-run")
    for name, outcome in result.methods.items():
        last = outcome.matrix[-1]
        assert outcome.figures.average_accuracy.mean == pytest.approx(sum(last) / 2) and min(last) > 1, name
        fell = outcome.matrix[1][0] - outcome.matrix[0][0]
        assert outcome.figures.forgetting.mean == pytest.approx(fell), "a perplexity that rises is forgotten"
    page = result.report.read_text()
    before = page.rpartition("How this was made")[0]
    assert "Test perplexity" in before and "Down and to the left is better" in before
    assert "accuracy" not in before.lower()
    assert "perplexity" in result.summary() and "accuracy" not in result.summary()
    main(["resume", str(folder / "texts-run"), "--trust", "--json"])
    assert json.loads(capsys.readouterr().out) == values


def test_tables_by_r2_from_python(folder):
    plan = LearnPlan(methods="naive,replay", network="mlp:6")
    result = ramet.learn(str(folder / "tables.json"), plan=plan, recipe=RECIPE, out=folder / "tables-run")
    assert result.metric.name == "R²" and result.rows == "rows"
    assert "R² against size" in result.report.read_text()


def test_images_by_accuracy_say_nothing_new(tmp_path):
    plan = LearnPlan(methods="naive", network="mlp:4")
    result = ramet.learn("split-digits:2", plan=plan, recipe=RECIPE, out=tmp_path / "run", train_size=60, eval_size=20)
    records = {record["key"]: record for record in read_records(tmp_path / "run")}
    for key in ("setting", "result"):
        assert not {"metric", "rows"} & set(records[key]), "records are those of earlier versions"
    page = result.report.read_text()
    assert "Accuracy against size" in page and "Multiply-adds of one image" in page and "Up and to the left" in page


def rows(*matrix):
    costs = {"parameters": 10, "stored_bytes": 40, "flops": 5, "seconds": 1.0, "notes": {}}
    return [{"test": list(line), **costs} for line in matrix]


def test_figures_of_a_metric_of_which_lower_is_better():
    """By hand: the first task goes from 50 to 60, the second ends at 40; alone they have 50 and 45."""
    metric = MetricFigures(name="perplexity", higher_is_better=False, is_share=False)
    found = analyse({"individual": [rows([50.0], [50.0, 45.0])], "naive": [rows([50.0], [60.0, 40.0])]}, metric=metric)
    figures = {name: each["mean"] for name, each in found["naive"]["figures"].items()}
    assert figures["average_accuracy"] == 50 and figures["forgetting"] == 10 and figures["backward_transfer"] == -10
    assert figures["average_gain"] == -2.5 and figures["forward_transfer"] == 5
    assert figures["paper_gain"] == pytest.approx((60 - 50) / 50 + (40 - 45) / 45)


def test_the_papers_gain_of_a_metric_without_an_end_is_not_known():
    metric = MetricFigures(name="own", is_share=False)
    found = analyse({"individual": [rows([5.0], [5.0, 4.0])], "naive": [rows([5.0], [6.0, 4.0])]}, metric=metric)
    assert found["naive"]["figures"]["paper_gain"]["mean"] is None
    assert found["naive"]["figures"]["average_gain"]["mean"] == 0.5


def test_what_does_not_go_together_is_refused_before_anything_is_written(folder, tmp_path):
    plan = LearnPlan(methods="elastic", network="mlp:6")
    with pytest.raises(ConfigError, match="the method elastic needs one class for each input"):
        ramet.learn(str(folder / "tables.json"), plan=plan, recipe=RECIPE, out=tmp_path / "run")
    recipe = LearnRecipe(epochs=1, metric="accuracy")
    with pytest.raises(ConfigError, match="accuracy is a metric of classes, but the targets are numbers"):
        ramet.learn(str(folder / "tables.json"), plan=LearnPlan(network="mlp:6"), recipe=recipe, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
