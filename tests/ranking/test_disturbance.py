"""Metrics of disturbance: against slow twins and hand-worked examples."""

import numpy as np
import pytest
from scipy.stats import kendalltau

from ramet.errors import ConfigError
from ramet.ranking import (
    accuracy_drops,
    drops_by_distance,
    growth_within_rows,
    performance_change,
    prediction_disturbance,
    rank_consistency,
    stability,
    stability_gain,
)

GENERATOR = np.random.default_rng(0)
ACCURACIES = GENERATOR.random((7, 5))  # [epochs, architectures]


def test_prediction_disturbance_is_the_frobenius_norm_of_the_difference():
    before, after = GENERATOR.random((3, 6, 4)), GENERATOR.random((3, 6, 4))
    expected = [np.linalg.norm(new - old, "fro") for old, new in zip(before, after, strict=True)]
    np.testing.assert_allclose(prediction_disturbance(before, after), expected)
    assert prediction_disturbance(before[0], before[0]) == 0


@pytest.mark.parametrize("shapes", [((2, 3), (3, 2)), ((4,), (4,))])
def test_prediction_disturbance_refuses_other_shapes(shapes):
    with pytest.raises(ConfigError, match="one shape"):
        prediction_disturbance(*[np.zeros(shape) for shape in shapes])


@pytest.mark.parametrize("interval", [1, 3, 6])
def test_change_and_consistency_equal_a_loop_over_epochs(interval):
    starts = range(len(ACCURACIES) - interval)
    change = [(ACCURACIES[i + interval] - ACCURACIES[i]).mean() for i in starts]
    size = [np.abs(ACCURACIES[i + interval] - ACCURACIES[i]).mean() for i in starts]
    taus = [kendalltau(ACCURACIES[i], ACCURACIES[i + interval]).statistic for i in starts]
    np.testing.assert_allclose(performance_change(ACCURACIES, interval), change)
    np.testing.assert_allclose(performance_change(ACCURACIES, interval, absolute=True), size)
    np.testing.assert_allclose(rank_consistency(ACCURACIES, interval), taus)


def test_consistency_counts_ties_as_tau_b_does():
    tied = np.round(ACCURACIES * 3)
    expected = [kendalltau(tied[i], tied[i + 1]).statistic for i in range(6)]
    np.testing.assert_allclose(rank_consistency(tied, 1), expected)


def test_gains_and_losses_cancel_only_in_the_signed_change():
    swapped = [[0.2, 0.8], [0.8, 0.2]]
    assert performance_change(swapped, 1).tolist() == pytest.approx([0.0])
    assert performance_change(swapped, 1, absolute=True).tolist() == pytest.approx([0.6])


@pytest.mark.parametrize("interval", [0, 7, -1])
def test_an_interval_outside_the_epochs_is_refused(interval):
    with pytest.raises(ConfigError, match="interval must be between 1 and 6"):
        performance_change(ACCURACIES, interval)
    with pytest.raises(ConfigError, match="interval must be between 1 and 6"):
        rank_consistency(ACCURACIES, interval)


def test_drops_equal_a_loop_and_never_read_below_the_diagonal():
    values = GENERATOR.random((2, 4, 4))
    spoilt = np.where(np.tri(4, k=-1, dtype=bool), np.inf, values)
    drops = accuracy_drops(spoilt)
    for seed, i, j in np.ndindex(2, 4, 4):
        if j >= i:
            assert drops[seed, i, j] == pytest.approx(values[seed, i, i] - values[seed, i, j])
        else:
            assert np.isnan(drops[seed, i, j])
    for d in (1, 2, 3):
        expected = np.mean([drops[:, i, i + d] for i in range(4 - d)], axis=0)
        np.testing.assert_allclose(drops_by_distance(spoilt)[:, d - 1], expected)


@pytest.mark.parametrize("shape", [(3,), (2, 3), (1, 1)])
def test_drops_refuse_what_is_no_square(shape):
    with pytest.raises(ConfigError, match="n, n"):
        accuracy_drops(np.zeros(shape))


def test_stability_gain_tells_agreeing_instances_from_random_ones():
    generator = np.random.default_rng(1)
    common = generator.random(40)
    agreeing = common + 0.01 * generator.random((3, 40))
    random = generator.random((3, 40))
    value, low, high = stability_gain(agreeing, random, generator=generator, num_resamples=100)
    assert value == pytest.approx(stability(agreeing).mean - stability(random).mean)
    assert 0 < low <= value <= high
    value, low, high = stability_gain(random, random, generator=generator, num_resamples=100)
    assert (value, low, high) == (0, 0, 0)


def test_stability_gain_needs_two_instances_of_the_same_children():
    with pytest.raises(ConfigError, match="two instances"):
        stability_gain(np.zeros((1, 4)), np.zeros((2, 4)), generator=np.random.default_rng(0))


def test_growth_is_taken_within_rows_and_not_across_them():
    grows = np.triu(np.ones((4, 4)), k=1) * np.arange(4.0)  # 1, 2, 3 in each row from the diagonal on
    high = grows + np.array([[9.0], [0.0], [0.0], [0.0]])  # the first row is disturbed far more, and grows all the same
    assert growth_within_rows(grows) == growth_within_rows(high) == pytest.approx(1.0)
    assert growth_within_rows(-grows) == pytest.approx(-1.0)
    assert growth_within_rows(np.stack([grows, -grows])) == pytest.approx([1.0, -1.0])


def test_growth_of_rows_with_ties_and_without_a_change():
    assert growth_within_rows(np.zeros((4, 4))) == 0.0
    one_tie = np.array([[0.0, 1.0, 1.0, 2.0], [0.0, 0.0, 1.0, 2.0], [0.0] * 4, [0.0] * 4])
    tau = kendalltau([1, 2, 3], [1.0, 1.0, 2.0]).statistic  # of the first row
    assert growth_within_rows(one_tie) == pytest.approx((tau + 1.0) / 2)
    with pytest.raises(ConfigError, match="n at least 3"):
        growth_within_rows(np.zeros((2, 2)))
