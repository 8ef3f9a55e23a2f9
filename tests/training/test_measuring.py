"""Metrics by name, each against scikit-learn or by hand, and the same however samples are cut into batches."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn import metrics as sklearn_metrics
from torch import nn

from ramet.errors import ConfigError, RunError
from ramet.training import Metric, Recipe, accuracy, evaluation, measure
from ramet.training.registry import METRICS

RANDOM = torch.Generator().manual_seed(0)
LOGITS, LABELS = torch.randn(37, 6, generator=RANDOM), torch.randint(6, (37,), generator=RANDOM)
NUMBERS = 1000 + torch.randn(37, 3, generator=RANDOM)
GUESSES = NUMBERS + torch.randn(37, 3, generator=RANDOM) * torch.tensor([0.1, 0.5, 2.0])
TOKENS = torch.randint(6, (9, 4), generator=RANDOM)
TOKEN_LOGITS = torch.randn(9, 4, 6, generator=RANDOM)


def value(source, outputs, targets, **options):
    return Recipe(metric=source, **options).metric_for(targets)(outputs, targets)


def entropy(logits, targets):
    """The mean cross-entropy in nats, by NumPy."""
    rows, places = logits.double().numpy().reshape(-1, logits.shape[-1]), targets.numpy().ravel()
    shares = np.exp(rows) / np.exp(rows).sum(1, keepdims=True)
    return -np.log(shares[np.arange(len(rows)), places]).mean()


def test_classes_against_scikit_learn():
    for k in (1, 2, 5):
        expected = sklearn_metrics.top_k_accuracy_score(LABELS, LOGITS, k=k, labels=range(6))
        assert value(f"top:{k}", LOGITS, LABELS) == pytest.approx(expected, abs=1e-12)
    assert value("accuracy", LOGITS, LABELS) == sklearn_metrics.accuracy_score(LABELS, LOGITS.argmax(1))


def test_numbers_against_scikit_learn():
    pairs = {
        "squared-error": sklearn_metrics.mean_squared_error,
        "absolute-error": sklearn_metrics.mean_absolute_error,
        "r2": sklearn_metrics.r2_score,
    }
    for name, twin in pairs.items():
        expected = twin(NUMBERS.double(), GUESSES.double())
        assert value(name, GUESSES, NUMBERS) == pytest.approx(expected, rel=1e-12), name
        one = twin(NUMBERS[:, 0].double(), GUESSES[:, 0].double())
        for outputs, targets in ((GUESSES[:, :1], NUMBERS[:, 0]), (GUESSES[:, 0], NUMBERS[:, :1])):
            assert value(name, outputs, targets) == pytest.approx(one, rel=1e-12), "an axis of 1 does not count"


def test_tokens_by_hand():
    expected = entropy(TOKEN_LOGITS, TOKENS)  # float32 logits: a relative error of 2^-23 for each of a few operations
    assert value("perplexity", TOKEN_LOGITS, TOKENS) == pytest.approx(math.exp(expected), rel=1e-5)
    assert value("bits", TOKEN_LOGITS, TOKENS) == pytest.approx(expected / math.log(2), rel=1e-5)
    assert value("accuracy", TOKEN_LOGITS, TOKENS) == float((TOKEN_LOGITS.argmax(-1) == TOKENS).double().mean())
    for name in ("perplexity", "accuracy", "top:2"):  # as torch has the axes
        assert value(name, TOKEN_LOGITS.mT, TOKENS) == pytest.approx(value(name, TOKEN_LOGITS, TOKENS), rel=1e-6)


def test_where_the_length_is_the_vocabulary_classes_come_last_for_loss_and_metric():
    logits, targets = torch.randn(5, 4, 4, generator=RANDOM), torch.randint(4, (5, 4), generator=RANDOM)
    loss = float(Recipe().loss_for(targets)(logits, targets))
    assert loss == pytest.approx(entropy(logits, targets), rel=1e-5)
    assert value("perplexity", logits, targets) == pytest.approx(math.exp(loss), rel=1e-5)


def test_an_endless_perplexity_is_infinite():
    logits = torch.tensor([[0.0, 2000.0]])
    assert value("perplexity", logits, torch.tensor([0])) == math.inf


@pytest.mark.parametrize("size", [1, 5, 36, 100])
@pytest.mark.parametrize("name", ["r2", "squared-error", "absolute-error", "loss", "own"])
def test_the_value_does_not_depend_on_the_batches(monkeypatch, name, size):
    monkeypatch.setattr(evaluation, "EVALUATION_BATCH", size)
    recipe = Recipe(metric=spearman if name == "own" else name)
    metric = recipe.metric_for(NUMBERS)
    whole = metric(GUESSES, NUMBERS)
    assert measure(nn.Identity(), GUESSES, NUMBERS, metric) == pytest.approx(whole, rel=1e-6)
    with_means = np.mean([metric(GUESSES[start : start + 5], NUMBERS[start : start + 5]) for start in range(0, 35, 5)])
    if name in ("r2", "own"):
        assert abs(with_means - whole) > 1e-3, "the mean of batches is another number"


def spearman(outputs, targets):
    """A metric that no sum over batches gives."""
    places = [values[:, 0].argsort().argsort().double() for values in (outputs, targets)]
    return torch.corrcoef(torch.stack(places))[0, 1]


def test_batches_of_tokens_are_small(monkeypatch):
    monkeypatch.setattr(evaluation, "EVALUATION_TOKENS", 8)
    sizes = [len(inputs) for inputs, _ in evaluation.in_batches(TOKENS, TOKENS)]
    assert sizes == [2, 2, 2, 2, 1]
    assert [len(inputs) for inputs, _ in evaluation.in_batches(LOGITS, LABELS)] == [8, 8, 8, 8, 5]


def test_measuring_takes_logits_of_an_object_and_puts_modes_back():
    class Wrapped(nn.Module):
        def forward(self, x):
            assert not self.training and not torch.is_grad_enabled()
            return {"logits": x, "hidden": x}

    network = Wrapped().train()
    assert accuracy(network, LOGITS, LABELS) == value("accuracy", LOGITS, LABELS)
    assert network.training


def test_the_default_follows_the_targets_and_the_loss():
    assert Recipe().metric_for(LABELS).name == "accuracy"
    assert Recipe().metric_for(NUMBERS).name == "R²"
    assert Recipe(loss="huber:delta=2").metric_for(NUMBERS).name == "R²"
    assert Recipe(loss="binary").metric_for(NUMBERS).name == "loss"
    assert Recipe(loss=lambda outputs, targets: outputs.mean()).metric_for(NUMBERS).name == "loss"
    given = Recipe().metric_for(LABELS, loss=lambda outputs, targets: outputs.mean())
    assert given.name == "loss" and given(LOGITS, LABELS) == pytest.approx(float(LOGITS.mean()), rel=1e-6)


def test_the_loss_is_the_recipes_own():
    expected = float(Recipe(loss="cross-entropy:smoothing=0.2").loss_for(LABELS)(LOGITS, LABELS))
    assert value("loss", LOGITS, LABELS, loss="cross-entropy:smoothing=0.2") == pytest.approx(expected, rel=1e-6)


def test_every_metric_says_which_way_is_better():
    better = {name: Recipe(metric=name) for name in METRICS}
    for name, recipe in better.items():
        targets = NUMBERS if name in ("squared-error", "absolute-error", "r2") else LABELS
        metric = recipe.metric_for(targets)
        assert metric.higher_is_better == (name in ("accuracy", "top", "r2")), name
        assert metric.score(2.0) == (2.0 if metric.higher_is_better else -2.0)


def test_a_function_in_a_file_and_an_object(tmp_path):
    code = (
        "from ramet.training import Metric\n"
        "def worst(outputs, targets, scale=1.0):\n    return scale * (outputs - targets).abs().max()\n"
        "worst.higher_is_better = False\n"
        "best = Metric('best case', lambda outputs, targets: (outputs - targets).abs().min().item())\n"
    )
    (tmp_path / "my_metrics.py").write_text(code)
    made = Recipe(metric=f"{tmp_path / 'my_metrics.py'}:worst:scale=2").metric_for(NUMBERS)
    assert made.name == "worst" and not made.higher_is_better
    assert made(GUESSES, NUMBERS) == pytest.approx(2 * float((GUESSES - NUMBERS).abs().max()))
    made = Recipe(metric=f"{tmp_path / 'my_metrics.py'}:best").metric_for(NUMBERS)
    assert made.name == "best case" and made(GUESSES, NUMBERS) == float((GUESSES - NUMBERS).abs().min())
    assert Recipe(metric="nowhere.py:f").code() == ["nowhere.py:f"], "data that name it need trust"


@pytest.mark.parametrize(
    ("source", "outputs", "targets", "message"),
    [
        ("accuracy", GUESSES, NUMBERS, "accuracy is a metric of classes, but the targets are numbers"),
        ("perplexity", GUESSES, NUMBERS, "perplexity is a metric of classes, but the targets are numbers"),
        ("r2", LOGITS, LABELS, "R² is a metric of numbers, but the targets are classes"),
        ("top:7", LOGITS, LABELS, "k of top must be at most the 6 classes, but got 7"),
        ("top:0", LOGITS, LABELS, "k of top must be a whole number of at least 1, but got 0"),
        ("squared-error", LOGITS, NUMBERS, r"of shape \[37, 3\], but its outputs have shape \[37, 6\]"),
        ("accuracy", LOGITS, TOKENS, r"targets of shape \[9, 4\], but its outputs have shape \[37, 6\]"),
        (lambda outputs, targets: outputs.sum(1), LOGITS, LABELS, r"must be one number, but <lambda> has shape \[37\]"),
        (lambda outputs, targets: "good", LOGITS, LABELS, "must be one number, but <lambda> gives str"),
        (lambda outputs, targets: None, LOGITS, LABELS, "must be one number, but <lambda> gives NoneType"),
        ("r2", GUESSES[:, 0], torch.full((37,), 2.5), "r2 needs targets that differ, but all 37 are 2.5"),
    ],
)
def test_what_cannot_be_measured_is_refused(source, outputs, targets, message):
    with pytest.raises(ConfigError, match=message):
        value(source, outputs, targets)


def test_a_metric_that_is_nan_is_refused():
    with pytest.raises(RunError, match="a metric must be a number, but worst is NaN"):
        Metric("worst", lambda outputs, targets: math.nan)(LOGITS, LABELS)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("acuracy", "a metric is one of accuracy, .*did you mean accuracy"),
        ("r2:k=3", "options of r2 are none, but got k"),
        (3, "a metric is a text or a function, but got 3"),
    ],
)
def test_a_recipe_refuses_what_names_no_metric(source, message):
    with pytest.raises(ConfigError, match=message):
        Recipe(metric=source)
