"""`ramet grow` on a table of numbers and on a text: measured by their own metrics, resumed, loaded, reported."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import text_files
import torch
from sklearn.metrics import r2_score
from torch import nn

import ramet
from ramet.cli import main
from ramet.data import load
from ramet.errors import ConfigError
from ramet.growth import GrowPlan, load_network
from ramet.growth.budget import Ends
from ramet.jobs.grow import GrowRecipe
from ramet.runs import read_config, read_records
from ramet.training import Metric

PLAN = GrowPlan(methods=("random",), budget="params=200,step=30%", ends=Ends(max_steps=1))
RECIPE = GrowRecipe(epochs=2, batch_size=16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("targets")


@pytest.fixture(scope="module")
def table(folder):
    return f"{text_files.table(folder)}:target=price"


@pytest.fixture(scope="module")
def text(folder):
    return f"text:{text_files.text(folder)}:length=8"


@pytest.fixture(scope="module")
def networks(folder):
    return text_files.networks(folder)


@pytest.fixture(scope="module")
def grown_on_text(folder, text, networks):
    """By the command line, with a perplexity."""
    main(
        [
            "grow", "--data", text, "--network", f"{networks}:transformer", "--recipe", "adamw:learning_rate=0.01",
            "--metric", "perplexity", "--epochs", "2", "--batch-size", "32", "--budget", "params=2000,step=30%",
            "--method", "random", "--max-steps", "1", "--out", str(folder / "text-run"),
        ]
    )  # fmt: skip
    return folder / "text-run"


def test_a_perceptron_grows_on_a_table(folder, table):
    result = ramet.grow("mlp:3,3", table, plan=PLAN, recipe=RECIPE, out=folder / "table-run")
    data, method = load(table), result.methods["random"]
    assert result.metric.name == "R²" and result.rows == "rows" and len(method.steps) == 2
    for split, value in ((data.test, method.test), (data.validation, method.validation)):
        network = load_network(result.networks["random"])
        with torch.no_grad():
            expected = r2_score(split.y.double(), network(split.x)[:, 0].double())
        assert value == pytest.approx(expected, rel=1e-9)
    assert method.steps[-1].score == method.validation
    page = result.report.read_text()
    assert "R² against size" in page and "accuracy" not in page.partition("Configuration")[0].lower()
    card = (result.networks["random"] / "network.md").read_text()
    assert "R² on test rows" in card and "deviation of targets" in card


def test_a_transformer_grows_on_a_text_by_perplexity(grown_on_text, text):
    data, records = load(text), {record["key"]: record for record in read_records(grown_on_text)}
    assert records["setting"]["metric"] == {"name": "perplexity", "higher_is_better": False, "is_share": False}
    result = records["result"]
    method = result["methods"]["random"]
    network = load_network(grown_on_text / "networks" / "random", trust=True)
    with torch.no_grad():
        logits = network(data.test.x).double().numpy()
    shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    entropy = -np.log(np.take_along_axis(shares, data.test.y.numpy()[..., None], -1)).mean()
    assert method["test"] == pytest.approx(math.exp(entropy), rel=1e-4)  # of float32 logits
    assert method["validation"] == -method["steps"][-1]["score"] > 1
    before, after = (step["sizes"]["params"] for step in method["steps"])
    assert after > before
    page = (grown_on_text / "report.html").read_text()
    assert "validation perplexity" in page and "Lower and further left is better" in page


def test_a_growth_on_text_is_resumed_and_reported(grown_on_text, capsys):
    before = (grown_on_text / "records.jsonl").read_text()
    main(["resume", str(grown_on_text), "--trust", "--json"])
    assert json.loads(capsys.readouterr().out)["metric"]["name"] == "perplexity"
    assert (grown_on_text / "records.jsonl").read_text() == before


def test_the_file_of_a_text_is_named_from_the_root(grown_on_text, folder):
    data = read_config(grown_on_text)["config"]["data"]
    assert data.startswith(f"text:{folder}")


def test_a_relative_text_is_found_again_from_another_folder(tmp_path, monkeypatch):
    text_files.text(tmp_path, lines=60)
    monkeypatch.chdir(tmp_path)
    job = ramet.jobs.grow.GrowJob(data="text:story.txt:tokens=characters,length=8").anchored()
    monkeypatch.chdir("/")
    assert load(job.data).name == "story"


def test_a_target_is_a_value_of_the_metric(folder, table):
    reached = GrowPlan(methods=("random",), budget="params=200", ends=Ends(target=1e9))
    recipe = GrowRecipe(epochs=1, batch_size=16, metric="squared-error")
    result = ramet.grow("mlp:3,3", table, plan=reached, recipe=recipe, out=folder / "target-run")
    method = result.methods["random"]
    assert method.stopped == "the target is reached" and method.validation == -method.steps[0].score > 0


def test_a_metric_of_ones_own_decides_between_methods(folder, table):
    def negative(outputs, targets):
        return -float((outputs[:, 0] - targets).abs().max())

    plan = GrowPlan(methods=("random", "net2net"), budget="params=200", ends=Ends(max_steps=0))
    worst = Metric("worst error", lambda o, t: (o[:, 0] - t).abs().max(), higher_is_better=False)
    found = {}
    for name, metric in (("negative", negative), ("worst", worst)):
        recipe = GrowRecipe(epochs=1, batch_size=16, metric=metric)
        found[name] = ramet.grow("mlp:3,3", table, plan=plan, recipe=recipe, out=folder / f"own-{name}")
    assert found["negative"].best == found["worst"].best
    for name in ("random", "net2net"):
        assert found["worst"].methods[name].test == -found["negative"].methods[name].test


def test_vectors_of_classes_keep_the_accuracy(folder):
    x = torch.randn(120, 4, generator=torch.Generator().manual_seed(0))
    result = ramet.grow(
        nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)),
        (x.numpy(), (x[:, 0] > 0).long().numpy()),
        plan=GrowPlan(methods=("random",), budget="params=60", ends=Ends(max_steps=1)),
        recipe=RECIPE,
        out=folder / "classes-run",
    )
    assert result.metric.name == "accuracy" and "metric" not in read_records(folder / "classes-run")[0]
    assert "of the validation rows" in result.report.read_text()


def test_accuracy_of_images_says_nothing_new(tmp_path):
    plan = GrowPlan(methods=("random",), budget="params=400", ends=Ends(max_steps=0))
    ramet.grow("mlp:3", plan=plan, recipe=RECIPE, out=tmp_path / "run", train_size=60, eval_size=30)
    for record in read_records(tmp_path / "run"):
        assert not {"metric", "rows"} & set(record), "records are those of earlier versions"
    assert "of the validation images" in (tmp_path / "run" / "report.html").read_text()


WIDE = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
MORE_WORDS = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 9))


@pytest.mark.parametrize(
    ("network", "data", "options", "message"),
    [
        ("vgg", "table", {}, "a network must run on vectors of 3 features, but vgg raises"),
        ("perceptron", "table", {"metric": "accuracy"}, "accuracy is a metric of classes, but the targets are numbers"),
        ("transformer", "text", {"metric": "r2"}, "R² is a metric of numbers, but the targets are classes"),
        ("transformer", "text", {"metric": "top:99"}, "k of top must be at most the 6 classes, but got 99"),
        ("perceptron", "text", {}, "must be given num_features"),
        ("transformer", "text", {"augment": "noise"}, "noise is for inputs that are broken numbers, .*int64"),
        ("transformer", "text", {"augment": "mixup"}, "mixup is for inputs that are broken numbers, .*int64"),
        ("perceptron", "table", {"augment": "crop"}, r"crop is for images, .* but got shape \[8, 3\]"),
        ("transformer", "table", {}, "must be given words, length"),
        ("mlp", "text", {}, "must be given in_channels, image_size"),
        ("perceptron", "table", {"loss": lambda o, t: (o[:, 0] - t).square()}, r"must be one number, the mean"),
        ("perceptron", "table", {"loss": lambda o, t: o.nothing()}, "a loss must take outputs of shape .* raises"),
        ("perceptron", "table", {"metric": lambda o, t: o}, r"must be one number, but <lambda> has shape \[32, 1\]"),
        ("perceptron", "table", {"metric": lambda o, t: o.nothing()}, "a metric must run, but <lambda> raises"),
        (WIDE, "table", {}, r"\[8\], but its outputs have shape \[8, 2\]"),
        (MORE_WORDS, "text", {}, r"shape \[4, 8, 6\] for 4 texts, but got \[4, 8, 9\]"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_before_anything_is_written(
    request, networks, tmp_path, network, data, options, message
):
    if network in ("perceptron", "transformer"):
        network = f"{networks}:{network}"
    recipe = GrowRecipe(epochs=1, batch_size=16, **options)
    with pytest.raises(ConfigError, match=message):
        ramet.grow(network, request.getfixturevalue(data), recipe=recipe, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_text_shorter_than_a_window_is_one_line(tmp_path, capsys):
    (tmp_path / "short.txt").write_text("too short")
    with pytest.raises(SystemExit) as ended:
        main(["grow", "--data", f"text:{tmp_path / 'short.txt'}", "--out", str(tmp_path / "run")])
    assert ended.value.code == 2 and capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "run").exists()
