"""The metrics of forgetting, against worked examples and a plain loop."""

import numpy as np
import pytest

from ramet.errors import ConfigError
from ramet.ranking import (
    final_drop,
    forgetting,
    reduction_interval,
    relative_reduction,
    worst_drop,
)
from ramet.ranking.drops import reduction_over_seeds
from ramet.ranking.intervals import t_interval
from ramet.reports import Estimate
from ramet.seeding import numpy_generator


def test_forgetting_agrees_with_a_plain_loop():
    generator = np.random.default_rng(0)
    before, after = generator.random(40), generator.random(40)
    found = forgetting(before, after)
    pairs = sorted(zip(before, after, strict=True))
    assert found.mean == pytest.approx(sum(b - a for a, b in pairs) / 40)
    assert found.best_five == pytest.approx(sum(b - a for a, b in pairs[:5]) / 5)
    assert found.maximum == pytest.approx(max(b - a for a, b in pairs))


def test_the_best_models_are_those_of_the_lowest_error_before():
    found = forgetting([3, 1, 2], [3, 11, 2], num_best=1)  # perplexities: the best model lost 10
    assert found == (pytest.approx(10 / 3), 10.0, 10.0)
    assert forgetting([3, 1, 2], [3, 11, 2], num_best=7).best_five == pytest.approx(10 / 3)


def test_drops_are_measured_from_the_first_accuracy():
    curves = [[0.9, 0.7, 0.95, 0.85], [0.5, 0.6, 0.7, 0.8]]
    assert worst_drop(curves) == pytest.approx([0.2, 0.0])
    assert final_drop(curves) == pytest.approx([0.05, -0.3])


def test_reduction_is_that_of_the_means():
    assert relative_reduction([0.0, 10.0], [1.0, 1.0]) == pytest.approx(0.8)
    assert relative_reduction([5.0], [6.0]) == pytest.approx(-0.2)
    assert np.isnan(relative_reduction([0.0, 0.0], [0.0, 0.0]))


def test_the_interval_of_a_reduction_resamples_both_sides_together():
    drops = np.array([5.0, 10.0, 20.0, 40.0])
    paired = reduction_interval(drops, drops / 10, generator=np.random.default_rng(0))
    assert (paired.value, paired.low, paired.high) == (pytest.approx(0.9), pytest.approx(0.9), pytest.approx(0.9))
    apart = reduction_interval(drops, drops[::-1] / 10, generator=np.random.default_rng(0))
    assert apart.low < 0.85 < 0.9 < apart.high


def test_few_seeds_have_students_interval_of_the_reduction_to_first_order():
    drops, guarded = np.array([8.0, 10.0, 12.0]), np.array([1.0, 2.0, 0.0])
    found = reduction_over_seeds(drops, guarded)
    # r = 0.9, and the residuals 0.1 d - d' are -0.2, -1.0 and 1.2: of a mean of 0 and a deviation of 1.11355.
    half = 4.302653 * 1.113553 / np.sqrt(3) / 10
    assert (found.value, found.low, found.high) == pytest.approx((0.9, 0.9 - half, 0.9 + half), rel=1e-6)


def test_a_reduction_over_seeds_is_a_bootstrap_from_eight_on():
    generator = np.random.default_rng(0)
    drops, guarded = 10 + generator.random(8), generator.random(8)
    found = reduction_over_seeds(drops, guarded)
    assert found == reduction_interval(drops, guarded, generator=numpy_generator(0, "reduction over seeds"))
    again = reduction_over_seeds(drops, guarded, seed=1)
    assert again == reduction_interval(drops, guarded, generator=numpy_generator(1, "reduction over seeds"))
    few = reduction_over_seeds(drops[:7], guarded[:7])
    share = relative_reduction(drops[:7], guarded[:7])
    assert few == t_interval(share + ((1 - share) * drops[:7] - guarded[:7]) / drops[:7].mean())


def test_nothing_forgotten_has_no_reduction_over_seeds():
    found = reduction_over_seeds([0.0, 0.0], [1.0, 1.0])
    assert np.isnan(found.value) and not found.has_interval
    assert reduction_over_seeds([4.0], [1.0]) == Estimate(0.75)


def test_the_interval_of_nothing_forgotten_is_not_defined():
    found = reduction_interval([0.0, 0.0], [0.0, 0.0], generator=np.random.default_rng(0))
    assert np.isnan(found.value)
    assert not found.has_interval


@pytest.mark.parametrize(
    "call",
    [
        lambda: forgetting([1.0], [1.0, 2.0]),
        lambda: forgetting([], []),
        lambda: forgetting([1.0], [float("nan")]),
        lambda: forgetting([1.0], [1.0], num_best=0),
        lambda: worst_drop([]),
        lambda: final_drop(0.5),
        lambda: reduction_interval([1.0], [1.0], generator=np.random.default_rng(0), confidence=1.0),
    ],
)
def test_bad_input_is_refused(call):
    with pytest.raises(ConfigError):
        call()
