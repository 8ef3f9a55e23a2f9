"""Sums over pairs of children against a loop over all pairs, in both ways, and what they hold in memory."""

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ramet.ranking import concordance, intervals, rank_consistency, rank_correlations, stability
from ramet.ranking.bias import operation_bias
from ramet.ranking.concordance import concordances, untied_pairs, untied_weight, weighted_concordance
from ramet.ranking.intervals import agreement_interval, correlation_gain_interval, correlation_interval, mean_interval

few_values = st.sampled_from([-np.inf, -1e308, -1.0, -0.0, 0.0, 5e-324, 1.0, 1e308, np.inf])  # ties are common


def order(one, other):
    return int(one > other) - int(one < other)


def slow_concordance(a, b, weights):
    """The definition, one pair after the other."""
    pairs = itertools.combinations(range(len(a)), 2)
    return sum(weights[i] * weights[j] * order(a[i], a[j]) * order(b[i], b[j]) for i, j in pairs)


def drawn(num_children, num_rankings, *, seed, num_values=None):
    generator = np.random.default_rng(seed)
    if num_values is None:
        return generator.normal(size=(num_rankings, num_children))
    return generator.integers(num_values, size=(num_rankings, num_children)).astype(float)


@pytest.mark.parametrize("sorts", [True, False])
@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(few_values, few_values, few_values), min_size=2, max_size=20), st.integers(1, 40))
def test_both_ways_give_the_sum_over_all_pairs(sorts, rows, block):
    a, b, c = np.array(rows).T
    once = np.ones(len(a))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(concordance, "_sorts", lambda *counts: sorts)
        patch.setattr(concordance, "BLOCK", block)
        found = concordances(np.stack([a, b]), np.stack([a, b, c]))
    assert found.tolist() == [[slow_concordance(one, other, once) for other in (a, b, c)] for one in (a, b)]
    assert untied_pairs(np.stack([a, b])).tolist() == [slow_concordance(one, one, once) for one in (a, b)]


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.tuples(few_values, few_values, st.lists(st.integers(0, 4), min_size=5, max_size=5)), min_size=2),
    st.integers(1, 5),
    st.sampled_from([1, 2, 4]),
)
def test_weighted_sums_are_those_over_all_pairs(rows, num_resamples, widest):
    a, b = (np.array([row[place] for row in rows]) for place in (0, 1))
    weights = np.array([row[2] for row in rows], dtype=float).T[:num_resamples].copy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(concordance, "_WIDEST", widest)
        found = weighted_concordance(a, b, weights)
    assert found.tolist() == [slow_concordance(a, b, row) for row in weights]
    assert untied_weight(a, weights).tolist() == [slow_concordance(a, a, row) for row in weights]


@pytest.mark.parametrize("num_values", [None, 7])
@pytest.mark.parametrize("num_children", [255, 256, 257, 1100])
def test_many_children_have_the_same_bits_in_both_ways(num_children, num_values, monkeypatch):
    scores = drawn(num_children, 3, seed=0, num_values=num_values)
    found = []
    for sorts in (True, False):
        monkeypatch.setattr(concordance, "_sorts", lambda *counts, sorts=sorts: sorts)
        found.append(rank_correlations(scores, scores))
    assert found[0].tobytes() == found[1].tobytes()
    assert np.diagonal(found[0]).tolist() == [1.0] * 3
    first, second = np.triu_indices(num_children, k=1)
    signs = np.sign(scores[:, first] - scores[:, second])
    resamples = np.random.default_rng(1).multinomial(num_children, np.full(num_children, 1 / num_children), size=600)
    weights = resamples.astype(float)
    pairs = weights[:4, first] * weights[:4, second]
    expected = pairs @ (signs[0] * signs[1])
    assert weighted_concordance(scores[0], scores[1], weights)[:4].tolist() == expected.tolist()


def test_what_is_drawn_does_not_depend_on_the_blocks(monkeypatch):
    ours, theirs = drawn(30, 10, seed=2), drawn(30, 10, seed=3)

    def figures():
        generator = np.random.default_rng(4)
        return [
            correlation_interval(ours, theirs[0], generator=generator, num_resamples=50),
            correlation_gain_interval(ours, theirs, theirs[0], generator=generator, num_resamples=50),
            agreement_interval(ours, theirs, generator=generator, num_resamples=50),
            intervals.slope_interval(
                ours.reshape(2, 5, 30), theirs[0], np.arange(5), generator=generator, num_resamples=50
            ),
            intervals.resampled_interval(
                lambda scores, truth: float(scores @ truth), ours, theirs[0], generator=generator, num_resamples=50
            ),
            mean_interval(ours[0], generator=generator, num_resamples=50),
            int(generator.integers(1 << 40)),
        ]

    whole = figures()
    for block in (1, 7 * 30, 49 * 30):
        monkeypatch.setattr(concordance, "BLOCK", block)
        assert figures() == whole


def test_without_resamples_there_is_a_value_and_no_interval():
    found = correlation_interval([1, 2, 3], [1, 3, 2], generator=np.random.default_rng(0), num_resamples=0)
    assert found.value == pytest.approx(1 / 3)
    assert np.isnan([found.low, found.high]).all()


def peak_of(work):
    """The most bytes that were held at once while something was done."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


NUM_CHILDREN = 20_000
NUM_PAIRS = NUM_CHILDREN * (NUM_CHILDREN - 1) // 2


@pytest.mark.parametrize(
    "work",
    [
        lambda a, b: rank_correlations(a, b[:1]),
        lambda a, b: stability(a),
        lambda a, b: rank_consistency(a, 1),
        lambda a, b: correlation_interval(a, b[0], generator=np.random.default_rng(0), num_resamples=20),
        lambda a, b: agreement_interval(a, b, generator=np.random.default_rng(0), num_resamples=20),
        lambda a, b: operation_bias(a.T, ["x", "y"], b, a[0], generator=np.random.default_rng(0), num_resamples=400),
    ],
    ids=["correlations", "stability", "consistency", "interval", "agreement", "bias"],
)
def test_no_pair_of_children_has_a_byte_of_its_own(work, monkeypatch):
    """Nor any matrix of signs; with the pairs of 20,000 children that would also be slow."""
    monkeypatch.setattr(concordance, "_signs", None)
    a, b = drawn(NUM_CHILDREN, 2, seed=5, num_values=500), drawn(NUM_CHILDREN, 2, seed=6)
    assert peak_of(lambda: work(a, b)) < NUM_PAIRS / 4


def test_blocks_of_pairs_hold_no_more_than_a_block(monkeypatch):
    monkeypatch.setattr(concordance, "BLOCK", 1 << 14)
    monkeypatch.setattr(concordance, "_sorts", lambda *counts: False)
    scores = drawn(600, 20, seed=7)
    assert peak_of(lambda: rank_correlations(scores, scores)) < 20 * 600 * 599 // 2  # a byte a ranking and pair


def test_resamples_hold_no_more_than_a_block(monkeypatch):
    monkeypatch.setattr(concordance, "BLOCK", 10_000)
    scores, truth = drawn(500, 2, seed=8), drawn(500, 1, seed=9)[0]
    few, many = (
        peak_of(
            lambda count=count: correlation_interval(
                scores, truth, generator=np.random.default_rng(0), num_resamples=count
            )
        )
        for count in (40, 800)
    )
    assert many < few + 10_000 * 8  # less than one block more, where 760 resamples have 38
