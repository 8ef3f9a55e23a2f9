"""Figures of a diagnosis against plain loops: the top, the bias of operations, longer training, flat scores."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import kendalltau

from ramet.errors import ConfigError
from ramet.ranking import regret, top_correlation, top_precision
from ramet.ranking.analysis import Scores, analyse
from ramet.ranking.bias import count_options, operation_bias
from ramet.ranking.intervals import agreement_interval, resampled_interval
from ramet.ranking.longer import longer_training
from ramet.ranking.recommendation import recommend
from ramet.ranking.verdict import judge


def drawn(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


def test_the_top_against_plain_loops() -> None:
    scores, truth = drawn(30), drawn(30, seed=1)
    by_score, by_truth = sorted(range(30), key=lambda i: -scores[i]), sorted(range(30), key=lambda i: -truth[i])
    for k in (1, 4, 30):
        assert top_precision(scores, truth, k) == len(set(by_score[:k]) & set(by_truth[:k])) / k
        assert regret(scores, truth, k) == max(truth) - max(truth[i] for i in by_score[:k])
    half = by_truth[:15]
    assert top_correlation(scores, truth) == pytest.approx(kendalltau(scores[half], truth[half]).statistic)
    assert top_correlation(scores, truth, share=1.0) == pytest.approx(kendalltau(scores, truth).statistic)


def test_ties_count_against_the_ranking() -> None:
    assert top_precision([1, 1, 1, 1], [4, 3, 2, 1], 2) == 0.0
    assert regret([1, 1], [0.5, 0.25]) == 0.25
    for bad in ({"k": 0}, {"k": 5}):
        with pytest.raises(ConfigError, match="between 1 and the 4"):
            top_precision([1, 2, 3, 4], [1, 2, 3, 4], **bad)


def test_the_bias_of_an_operation_is_the_mean_over_its_uses() -> None:
    archs = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]
    counts, names = count_options(archs, [("a", ("x", "y", "z")), ("b", ("p", "q"))])
    assert names == ["a: x", "a: y", "a: z", "b: p", "b: q"]
    scores, truth = drawn(6), drawn(6, seed=1)
    place = [{i: 1 - rank / 5 for rank, i in enumerate(sorted(range(6), key=lambda i: -v[i]))} for v in (scores, truth)]
    found = {e.operation: e for e in operation_bias(counts, names, scores, truth, generator=np.random.default_rng(0))}
    for name, members in {"a: y": (2, 3), "b: q": (1, 3, 5)}.items():
        expected = np.mean([place[0][i] - place[1][i] for i in members])
        assert found[name].bias.value == pytest.approx(expected)
        assert found[name].true == pytest.approx(np.mean([place[1][i] for i in members]))
    # What some gain the others lose.
    assert sum(entry.count * entry.bias.value for entry in found.values()) == pytest.approx(0)  # type: ignore[misc]


def test_an_operation_that_is_over_rated_is_found() -> None:
    generator = np.random.default_rng(0)
    archs = generator.integers(3, size=(200, 4))
    counts, names = count_options(archs.tolist(), [(str(edge), ("conv", "pool", "skip")) for edge in range(4)])
    truth = counts[:, 0] + generator.normal(0, 0.3, 200)
    scores = truth + 2 * counts[:, 2] + generator.normal(0, 0.3, 200)
    first, *_, last = operation_bias(counts, names, scores, truth, generator=generator)
    assert first.operation == "skip" and first.bias.is_above_zero
    assert last.bias.is_below_zero


def test_a_rising_correlation_is_drawn_out() -> None:
    """Scores whose noise halves with each doubling; a straight line through plain correlations is the twin."""
    generator = np.random.default_rng(0)
    truth, epochs = generator.normal(size=60), [3, 6, 8, 9, 10, 11, 12]
    scores = np.stack([truth + generator.normal(0, 12 / epoch, 60) for epoch in epochs])[None]
    found = longer_training(epochs, scores, truth, generator=generator)
    assert found is not None
    taus = [kendalltau(row, truth).statistic for row in scores[0]]
    slope, start = np.polyfit(np.log2(epochs), taus, 1)
    assert found["slope"]["value"] == pytest.approx(slope) and found["slope"]["low"] > 0
    assert found["then"]["value"] == pytest.approx(start + slope * np.log2(36))
    assert (found["from_epoch"], found["epochs"], found["then_epochs"]) == (3, 12, 36)
    flat = np.stack([truth + generator.normal(0, 1, 60) for _ in epochs])[None]
    level = longer_training(epochs, flat, truth, generator=generator)
    assert level is not None and level["slope"]["low"] <= 0 <= level["slope"]["high"]
    assert longer_training([11, 12], scores[:, :2], truth, generator=generator) is None


def test_intervals_of_any_measure_and_of_agreement() -> None:
    first, second = drawn(2, 40), drawn(2, 40, seed=1)
    estimate = agreement_interval(first, second, generator=np.random.default_rng(0))
    assert estimate.value == pytest.approx(
        np.mean([kendalltau(a, b).statistic for a, b in zip(first, second, strict=True)])
    )
    same = agreement_interval(first, first, generator=np.random.default_rng(0))
    assert same.value == same.low == same.high == pytest.approx(1)
    mean = resampled_interval(
        lambda scores, truth: float(scores.mean()), first, second[0], generator=np.random.default_rng(0)
    )
    assert mean.value == pytest.approx(first.mean())
    assert mean.low < mean.value < mean.high  # type: ignore[operator]
    # The width is that of a mean over 40 children of the two rankings' mean.
    width = 2 * 1.96 * first.mean(axis=0).std() / np.sqrt(40)
    assert mean.high - mean.low == pytest.approx(width, rel=0.2)  # type: ignore[operator]


def scores_of(steps: Any, truth: Any) -> Scores:
    """Scores of two instances after one evaluation."""
    number = steps.shape[-1]
    return Scores(
        names=[str(place) for place in range(number)],
        epochs=steps[:, -1:],
        steps=steps,
        trained=np.full(steps.shape[:2], -1),
        reestimated=steps[:, -1],
        params=np.arange(number, dtype=float),
        flops=np.arange(number, dtype=float)[::-1] * 2,
        truth=truth,
    )


def test_scores_that_are_all_the_same_rank_nothing() -> None:
    flat, some, sure = np.full((2, 3, 5), 0.1), drawn(2, 3, 5), np.stack([drawn(5), drawn(5)])
    assert judge(analyse(scores_of(flat, sure))).kind == "ranks nothing"
    assert judge(analyse(scores_of(some, np.full((2, 5), 0.5)))).kind == "flat truth"
    for scores in (scores_of(flat, sure), scores_of(flat, np.full((2, 5), 0.5)), scores_of(flat, None)):
        sentences = recommend({**analyse(scores), "variations": [], "smallest_first": {}})
        assert sentences and not any("nan" in sentence for sentence in sentences)


def test_the_gap_to_children_alone() -> None:
    steps, truth = np.full((2, 3, 8), 0.3), np.full((2, 8), 0.9)
    steps[..., 0], truth[:, 0] = 0.2, 0.8
    found = analyse(scores_of(steps, truth))["gap"]
    assert found["value"] == pytest.approx(0.6) and found["low"] == pytest.approx(0.6)


def test_who_disturbs_whom_against_a_plain_loop() -> None:
    steps, trained = drawn(2, 6, 4), np.array([[0, 1, 1, 3, 0, 1], [3, 3, 0, 1, 1, 0]])
    found = analyse(replace(scores_of(steps, None), trained=trained))["disturbance"]
    changes: dict[tuple[int, int], list[float]] = {}
    for instance, step, child in np.ndindex(2, 5, 4):
        change = steps[instance, step + 1, child] - steps[instance, step, child]
        changes.setdefault((trained[instance, step + 1], child), []).append(change)
    for row, column in np.ndindex(4, 4):
        expected = np.mean(changes[row, column]) if (row, column) in changes else None
        assert found["matrix"][row][column] == (expected if expected is None else pytest.approx(expected))
    assert found["matrix"][2] == [None] * 4  # it was never trained


def test_many_children_have_no_matrix_of_each_other() -> None:
    number = 8_000
    steps, trained = drawn(2, 3, number), np.array([[5, 0, 7_999], [1, 2, 3]])
    scores = replace(scores_of(steps, None), trained=trained)
    tracemalloc.start()
    try:
        found = analyse(scores)["disturbance"]
        assert tracemalloc.get_traced_memory()[1] < number * (number - 1) // 2  # not a byte for each pair
    finally:
        tracemalloc.stop()
    change = np.diff(steps, axis=1)
    own = [change[0, 0, 0], change[0, 1, 7_999], change[1, 0, 2], change[1, 1, 3]]
    assert found["matrix"] is None
    assert found["own"] == pytest.approx(np.mean(own))
    assert found["others"] == pytest.approx((change.sum() - np.sum(own)) / (change.size - 4))
