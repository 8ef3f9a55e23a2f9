"""The bootstrap by weights of children against the slow, obvious one."""

import numpy as np
import pytest
from scipy.stats import kendalltau, ttest_1samp

from ramet.errors import ConfigError
from ramet.ranking import intervals
from ramet.ranking.intervals import (
    correlation_gain_interval,
    correlation_interval,
    mean_interval,
    seed_interval,
    t_interval,
)
from ramet.reports import Estimate
from ramet.seeding import numpy_generator


def test_weighted_correlation_is_that_of_the_repeated_children():
    generator = np.random.default_rng(0)
    truth, scores = generator.normal(size=12), generator.integers(0, 5, 12).astype(float)
    weights = generator.multinomial(12, np.full(12, 1 / 12), size=50).astype(float)
    found = intervals._weighted_correlations(scores[None], truth, weights)[0]
    for weight, tau in zip(weights.astype(int), found, strict=True):
        expected = kendalltau(np.repeat(scores, weight), np.repeat(truth, weight)).statistic
        np.testing.assert_allclose(tau, expected, rtol=1e-10, equal_nan=True)


def test_of_several_rankings_it_is_the_mean_of_their_correlations():
    """Value and interval, against Kendall's tau of every ranking under every resample."""
    generator = np.random.default_rng(6)
    truth, ours, theirs = generator.normal(size=9), generator.normal(size=(3, 9)), generator.normal(size=(2, 9))
    draws = np.concatenate(list(intervals.resamples(9, 40, np.random.default_rng(7)))).astype(int)

    def means(rankings, weight):
        taus = [kendalltau(np.repeat(each, weight), np.repeat(truth, weight)).statistic for each in rankings]
        return np.mean(taus)

    once = np.ones(9, dtype=int)
    for found, of in [
        (correlation_interval(ours, truth, generator=np.random.default_rng(7), num_resamples=40), [ours]),
        (
            correlation_gain_interval(ours, theirs, truth, generator=np.random.default_rng(7), num_resamples=40),
            [ours, theirs],
        ),
    ]:
        sign = [1, -1]
        value, *resampled = (
            sum(s * means(r, weight) for s, r in zip(sign, of, strict=False)) for weight in [once, *draws]
        )
        assert found.value == pytest.approx(value)
        assert (found.low, found.high) == pytest.approx(tuple(np.quantile(resampled, [0.025, 0.975])))


def test_children_that_diverged_are_tied_at_the_end():
    low = float("-inf")
    found = correlation_interval([low, low, 1.0, 2.0], [0.1, 0.2, 0.3, 0.4], generator=np.random.default_rng(0))
    assert found.value == pytest.approx(kendalltau([0, 0, 1, 2], [1, 2, 3, 4]).statistic)


def test_a_constant_ranking_has_no_interval():
    found = correlation_interval(np.ones(5), np.arange(5.0), generator=np.random.default_rng(0), num_resamples=10)
    assert np.isnan([found.value, found.low, found.high]).all()


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


@pytest.mark.parametrize("size", [2, 3, 7, 20])
@pytest.mark.parametrize("confidence", [0.95, 0.8])
def test_t_interval_is_that_of_scipy(size, confidence):
    sample = np.random.default_rng(size).normal(size=size)
    found = t_interval(sample, confidence=confidence)
    expected = ttest_1samp(sample, 0.0).confidence_interval(confidence)
    assert found.value == pytest.approx(sample.mean())
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_one_value_has_a_mean_and_no_interval():
    assert t_interval([0.5]) == seed_interval([0.5]) == Estimate(0.5)


def test_few_seeds_have_students_interval_and_more_a_bootstrap():
    values = np.random.default_rng(0).normal(size=8)
    assert seed_interval(values[:7]) == t_interval(values[:7])
    assert seed_interval(values[:7], confidence=0.5) == t_interval(values[:7], confidence=0.5)
    many = seed_interval(values)
    assert many == mean_interval(values, generator=numpy_generator(0, "seed interval"))
    assert many == seed_interval(values) != t_interval(values), "the same figures have the same interval"
    assert seed_interval(values, seed=1) == mean_interval(values, generator=numpy_generator(1, "seed interval"))
    narrow = seed_interval(values, confidence=0.5)
    assert narrow == mean_interval(values, generator=numpy_generator(0, "seed interval"), confidence=0.5)


@pytest.mark.parametrize("values", [[], [[1.0, 2.0]], 1.0])
def test_a_mean_of_no_list_is_refused(values):
    for interval in (t_interval, seed_interval, lambda v: mean_interval(v, generator=np.random.default_rng(0))):
        with pytest.raises(ConfigError, match="at least one value"):
            interval(values)


@pytest.mark.parametrize("confidence", [0.0, 1.0, -0.1, 1.1])
def test_a_confidence_that_is_no_share_is_refused(confidence):
    for interval in (t_interval, seed_interval):
        with pytest.raises(ConfigError, match=r"confidence must lie in \(0, 1\)"):
            interval([1.0, 2.0], confidence=confidence)


def test_students_interval_has_the_coverage_it_says_and_a_bootstrap_of_three_has_not():
    generator = np.random.default_rng(5)
    samples = generator.normal(size=(2000, 3))
    by_t = np.mean([not (i.low <= 0 <= i.high) for i in map(t_interval, samples)])
    by_bootstrap = np.mean(
        [
            not (i.low <= 0 <= i.high)
            for i in (mean_interval(s, generator=generator, num_resamples=200) for s in samples)
        ]
    )
    # Three deviations of a share of 2,000 samples are 0.015 at 0.05; the bootstrap's alarms are far beyond.
    assert abs(by_t - 0.05) < 0.015 and by_bootstrap > 0.15
