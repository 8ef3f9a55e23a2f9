"""The bootstrap as matrix products against the slow, obvious one."""

import numpy as np
import pytest
from scipy.stats import kendalltau

from ramet.errors import ConfigError
from ramet.ranking import intervals
from ramet.ranking.intervals import correlation_gain_interval, correlation_interval, mean_interval


def test_weighted_correlation_is_that_of_the_repeated_children():
    generator = np.random.default_rng(0)
    truth, scores = generator.normal(size=12), generator.integers(0, 5, 12).astype(float)
    weights = generator.multinomial(12, np.full(12, 1 / 12), size=50).astype(float)
    found = intervals._weighted_correlations(scores[None], truth, weights)[0]
    for weight, tau in zip(weights.astype(int), found, strict=True):
        expected = kendalltau(np.repeat(scores, weight), np.repeat(truth, weight)).statistic
        np.testing.assert_allclose(tau, expected, rtol=1e-10, equal_nan=True)


def test_interval_covers_the_true_correlation_about_as_often_as_it_says():
    generator = np.random.default_rng(1)
    # For normal variables with correlation r, Kendall's tau is 2 / pi * arcsin(r).
    r = 0.6
    true_tau = 2 / np.pi * np.arcsin(r)
    covered = 0
    for _ in range(200):
        truth = generator.normal(size=64)
        scores = r * truth + np.sqrt(1 - r**2) * generator.normal(size=64)
        found = correlation_interval(scores, truth, generator=generator, num_resamples=300)
        covered += found.low <= true_tau <= found.high
    assert 0.88 <= covered / 200 <= 0.99


def test_gain_of_a_ranking_over_itself_is_zero():
    generator = np.random.default_rng(2)
    truth, scores = generator.normal(size=20), generator.normal(size=20)
    gain = correlation_gain_interval(scores, scores, truth, generator=generator)
    assert (gain.value, gain.low, gain.high) == (0.0, 0.0, 0.0)


def test_gain_interval_is_paired():
    """Two rankings that make the same mistakes differ by little, whichever children are drawn."""
    generator = np.random.default_rng(3)
    truth = generator.normal(size=40)
    noisy = truth + generator.normal(size=40)
    better = noisy + 0.05 * truth
    paired = correlation_gain_interval(better, noisy, truth, generator=generator)
    alone = correlation_interval(noisy, truth, generator=generator)
    assert paired.high - paired.low < (alone.high - alone.low) / 3


def test_mean_interval_of_equal_values_has_no_width():
    found = mean_interval([0.5, 0.5, 0.5], generator=np.random.default_rng(0))
    assert (found.value, found.low, found.high) == (0.5, 0.5, 0.5)


def test_mean_interval_narrows_with_more_values():
    generator = np.random.default_rng(4)
    few, many = generator.normal(size=5), generator.normal(size=500)
    width = [i.high - i.low for i in (mean_interval(v, generator=generator) for v in (few, many))]
    assert width[1] < width[0] / 3


def test_impossible_confidence_is_refused():
    with pytest.raises(ConfigError, match="confidence"):
        correlation_interval([1, 2, 3], [1, 2, 3], generator=np.random.default_rng(0), confidence=1.5)
