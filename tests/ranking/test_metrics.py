"""Rank metrics against SciPy where SciPy has them, and against hand-worked examples elsewhere."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from ramet.errors import ConfigError
from ramet.ranking import metrics
from ramet.ranking.metrics import (
    discounted_gain,
    kept_best,
    rank_correlation,
    rank_stability,
    top_n_rank,
    truth_correlation,
)

few_values = st.integers(-3, 3)  # few different values, so that ties are common


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(few_values, few_values), min_size=2, max_size=30))
def test_rank_correlation_is_scipys_tau_b_with_ties(pairs):
    a, b = np.array(pairs, dtype=float).T
    expected = kendalltau(a, b).statistic
    np.testing.assert_allclose(rank_correlation(a, b), expected, rtol=1e-12, equal_nan=True)


def test_rank_correlations_of_many_are_those_of_each_pair():
    generator = np.random.default_rng(0)
    a, b = generator.integers(0, 6, (4, 20)).astype(float), generator.normal(size=(3, 20))
    expected = [[kendalltau(x, y).statistic for y in b] for x in a]
    np.testing.assert_allclose(metrics.rank_correlations(a, b), expected, rtol=1e-12)


def test_infinite_scores_are_ranked_and_tied_with_each_other():
    assert rank_correlation([-np.inf, -np.inf, 1.0, np.inf], [0.0, 0.0, 1.0, 2.0]) == 1.0


def test_rankings_of_other_children_are_refused():
    with pytest.raises(ConfigError, match="same children, but got 2 and 3"):
        metrics.rank_correlations([[1.0, 2.0]], [[1.0, 2.0, 3.0]])


def test_two_children_agree_or_disagree():
    assert rank_correlation([1, 2], [5, 9]) == 1.0
    assert rank_correlation([1, 2], [9, 5]) == -1.0


def test_equal_scores_have_no_order():
    assert np.isnan(rank_correlation([1, 1, 1], [1, 2, 3]))


@pytest.mark.parametrize(
    ("a", "b", "phrase"),
    [
        ([1.0, np.nan], [1.0, 2.0], "NaN"),
        ([1.0], [1.0], "at least 2 children"),
        ([1.0, 2.0], [1.0, 2.0, 3.0], "same children"),
        ([[1.0, 2.0]], [1.0, 2.0], "dimension"),
        (["a", "b"], [1.0, 2.0], "numbers"),
    ],
)
def test_scores_that_cannot_be_ranked_are_refused(a, b, phrase):
    with pytest.raises(ConfigError, match=phrase):
        rank_correlation(a, b)


def test_stability_is_the_mean_highest_and_lowest_of_all_pairs():
    rankings = np.random.default_rng(1).normal(size=(5, 12))
    pairs = [kendalltau(a, b).statistic for a, b in itertools.combinations(rankings, 2)]
    found = metrics.stability(rankings)
    np.testing.assert_allclose(found, [np.mean(pairs), max(pairs), min(pairs)], rtol=1e-12)
    assert rank_stability(rankings) == found.mean


def test_stability_of_one_ranking_is_refused():
    with pytest.raises(ConfigError, match="at least 2 rankings"):
        rank_stability([[1, 2, 3]])


def test_truth_correlation_gives_a_value_a_step():
    scores, truth = np.random.default_rng(2).normal(size=(7, 10)), np.arange(10.0)
    np.testing.assert_allclose(
        truth_correlation(scores, truth), [kendalltau(row, truth).statistic for row in scores], rtol=1e-12
    )
    assert isinstance(truth_correlation(scores[0], truth), float)


def test_top_n_rank_worked_by_hand():
    truth = [0.5, 0.9, 0.7, 0.1]  # true ranks 3, 1, 2, 4
    scores = [0.9, 0.2, 0.8, 0.1]  # order: 0, 2, 1, 3
    assert [top_n_rank(scores, truth, n) for n in (1, 2, 3, 4)] == [3, 2, 1, 1]


def test_top_n_rank_takes_the_pessimistic_side_of_a_tie():
    assert top_n_rank(scores=[1.0, 1.0, 0.0], truth=[0.9, 0.1, 0.5], n=1) == 3


@pytest.mark.parametrize("n", [0, 5])
def test_top_n_rank_refuses_an_impossible_n(n):
    with pytest.raises(ConfigError, match="between 1 and the 4 children"):
        top_n_rank([1, 2, 3, 4], [1, 2, 3, 4], n)


def test_ranks_start_at_one_for_the_best_and_share_ties():
    assert metrics.ranks([0.3, 0.9, 0.3]).tolist() == [2.5, 1.0, 2.5]


def test_kept_best_worked_by_hand():
    truth = [8, 7, 6, 5, 4, 3, 2, 1]  # the best quarter: children 0 and 1
    assert kept_best([1, 8, 7, 6, 5, 4, 3, 2], truth) == 0.5  # child 0 is pruned, child 1 kept
    assert kept_best(truth, truth) == 1.0
    assert kept_best([-t for t in truth], truth) == 0.0


@pytest.mark.parametrize(("scored", "true"), [(3, 2), (2, 3)])
def test_a_ranking_over_other_children_is_refused(scored, true):
    scores, truth = np.arange(float(scored)), np.arange(float(true))
    for call in (truth_correlation, kept_best):
        with pytest.raises(ConfigError, match=f"cover the {true} children of the truth, but cover {scored}"):
            call(scores if call is kept_best else scores[None], truth)
    with pytest.raises(ConfigError, match=f"cover the {true} children of the truth, but cover {scored}"):
        top_n_rank(scores, truth, 1)
    with pytest.raises(ConfigError, match=f"same children, but got {scored} and {true}"):
        rank_correlation(scores, truth)


@pytest.mark.parametrize("scores", [[[[1.0, 2.0]]], 1.0])
def test_scores_of_steps_have_two_dimensions(scores):
    with pytest.raises(ConfigError, match=r"must have 2 dimension\(s\)"):
        truth_correlation(scores, [1.0, 2.0])
    with pytest.raises(ConfigError, match=r"must have 2 dimension\(s\), but have shape \(3,\)"):
        metrics.stability([1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("shares", "refused"),
    [
        ({"pruned": 0.0}, False),
        ({"pruned": 1.0}, True),
        ({"pruned": -0.1}, True),
        ({"pruned": 0.99}, False),
        ({"pruned": 1.5}, True),
        ({"best": 0.0}, True),
        ({"best": 1.0}, False),
        ({"best": 1.1}, True),
        ({"best": 0.01}, False),
        ({"best": -0.1}, True),
    ],
)
def test_shares_of_pruning_have_their_range(shares, refused):
    if not refused:
        assert 0.0 <= kept_best([1, 2, 3, 4], [1, 2, 3, 4], **shares) <= 1.0
        return
    with pytest.raises(ConfigError, match=r"pruned must lie in \[0, 1\) and best in \(0, 1\]"):
        kept_best([1, 2, 3, 4], [1, 2, 3, 4], **shares)


def test_pruning_and_the_best_have_the_shares_that_are_asked():
    truth = [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]
    scores = [1, 10, 9, 8, 7, 6, 5, 4, 3, 2]  # the best child is the worst scored
    assert kept_best(scores, truth, pruned=0.0, best=0.1) == 1.0
    assert kept_best(scores, truth, pruned=0.1, best=0.1) == 0.0
    assert kept_best(scores, truth, pruned=0.09, best=0.1) == 1.0  # not a whole child
    assert kept_best(scores, truth, pruned=0.1, best=0.2) == 0.5
    assert kept_best(scores, truth, pruned=0.1, best=0.01) == 0.0  # at least one child is the best
    assert kept_best(scores, truth, pruned=0.1) == 0.5  # of 10 children a quarter, rounded, is 2
    assert kept_best(scores, truth, best=1.0) == 0.5


def test_pruning_is_pessimistic_and_of_equally_good_children_the_first_count():
    assert kept_best([1, 1, 1, 1], [1, 2, 3, 4], best=0.5) == 0.0  # of tied scores the truly worst are kept
    assert kept_best([4, 3, 2, 1], [1, 1, 1, 1], best=0.5) == 1.0


def test_ranks_of_several_rankings_and_without_nan():
    assert metrics.ranks([[1.0, 2.0], [4.0, 3.0]]).tolist() == [[2.0, 1.0], [1.0, 2.0]]
    with pytest.raises(ConfigError, match="NaN"):
        metrics.ranks([1.0, np.nan])


def test_the_first_nan_is_named():
    with pytest.raises(ConfigError, match=r"the one at \(1, 0\) is"):
        metrics.stability([[1.0, 2.0], [np.nan, np.nan]])


def test_two_rankings_have_a_stability_and_one_child_has_no_rank():
    assert metrics.stability([[1.0, 2.0], [2.0, 1.0]]) == (-1.0, -1.0, -1.0)
    with pytest.raises(ConfigError, match="at least 2 children, but got 1"):
        metrics.stability([[1.0], [2.0], [3.0]])


def test_the_order_of_pairs_with_infinite_scores():
    assert metrics.pair_signs(np.array([np.inf, 1.0, -np.inf])).tolist() == [1.0, 1.0, 1.0]
    assert metrics.pair_signs(np.array([-np.inf, -np.inf, np.inf])).tolist() == [0.0, -1.0, -1.0]


def test_the_true_rank_of_tied_children_is_the_best_of_the_tie():
    assert top_n_rank(scores=[3.0, 2.0, 1.0], truth=[0.5, 0.5, 0.9], n=1) == 2


@pytest.mark.parametrize(
    ("correlation", "seeds", "reliability"), [(0.5, 1, 0.5), (0.5, 3, 0.75), (0.2, 4, 0.5), (0, 9, 0)]
)
def test_the_reliability_of_a_mean_by_hand(correlation, seeds, reliability):
    assert metrics.reliability_of_mean(correlation, seeds) == pytest.approx(reliability)


def test_discounted_gain_by_hand():
    truth = [0.1, 0.9, 0.5, 0.5]  # gains 0, 1, 1/2, 1/2
    weights = [1 / math.log2(place + 2) for place in range(4)]
    best = weights[0] + weights[1] / 2 + weights[2] / 2
    assert discounted_gain([4, 3, 2, 1], truth) == pytest.approx((weights[1] + weights[2] / 2 + weights[3] / 2) / best)
    assert discounted_gain(truth, truth) == 1.0
    assert discounted_gain([4, 3, 2, 1], truth, 1) == 0.0
    assert discounted_gain([1, 1, 1, 1], truth, 1) == 0.0, "of tied children the truly worst come first"
    assert discounted_gain([2, 1], [3.0, 3.0]) == 1.0, "where all are equal, nothing is lost"
