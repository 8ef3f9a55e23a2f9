"""What was forgotten: intervals against slow twins, the verdict's false alarms, which examples and classes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from ramet.errors import ConfigError
from ramet.ranking import forgot, paired_share_interval
from ramet.ranking.paired import one_sided_mcnemar


def likeliest_variance(lost, gained, count, difference):
    """Of lost - gained, by trying every share of gains instead of solving for the likeliest."""
    share = np.linspace(max(0.0, -difference), min(1.0, (1 - difference) / 2), 400_001)[1:-1]
    kept = 1 - difference - 2 * share
    likelihood = lost * np.log(share + difference) + gained * np.log(share) + (count - lost - gained) * np.log(kept)
    best = share[np.argmax(likelihood)]
    return count * (2 * best + difference - difference**2)


@pytest.mark.parametrize(("lost", "gained", "count"), [(30, 10, 1000), (8, 3, 40), (4, 9, 30), (60, 20, 100)])
def test_the_ends_are_where_the_score_test_ceases_to_reject(lost, gained, count):
    found = paired_share_interval(lost, gained, count)
    for end, sign in ((found.low, 1), (found.high, -1)):
        if end != 0.0:
            statistic = (lost - gained - count * end) / math.sqrt(likeliest_variance(lost, gained, count, end))
            # The twin's grid has a step of 2.5e-6, next to which the variance is flat: it is at its likeliest.
            assert statistic == pytest.approx(sign * 1.959964, abs=1e-3)


def test_an_interval_without_changes_is_not_empty():
    found = paired_share_interval(0, 0, 100)
    assert found.value == 0.0
    # Tango's for no change: z^2 / (n + z^2) on both sides.
    assert found.high == pytest.approx(1.959964**2 / (100 + 1.959964**2), abs=1e-6)
    assert found.low == pytest.approx(-found.high, abs=1e-12)


@pytest.mark.parametrize("changes", range(1, 41))
def test_by_chance_alone_at_most_a_fortieth_lies_above_zero(changes):
    """Exact: of each number of changes, every division into losses and gains, by its probability."""
    lost = np.arange(changes + 1)
    alarms = [paired_share_interval(int(k), changes - int(k), 200).low > 0 for k in lost]
    rate = binom.pmf(lost, changes, 0.5)[np.array(alarms)].sum()
    assert rate <= 0.025
    if changes >= 6:
        assert rate > 0, "and it does find what is there"


def test_the_exact_test_counts_coins():
    assert one_sided_mcnemar(0, 0) == 1.0
    assert one_sided_mcnemar(2, 1) == pytest.approx(4 / 8)


def made_up(generator, *, count=300, classes=5, shift=0.0, tolerance=0.0):
    """Old predictions and new ones that change in either direction, each class as often, and then ``shift`` worse."""
    labels = generator.integers(classes, size=count)
    was_right = generator.random(count) < 0.8
    draws = generator.random(count)
    # As many of all examples are lost as gained, 0.8 p = 0.2 q, and besides what may be lost.
    is_right = np.where(was_right, draws >= 0.05 + (tolerance + shift) / 0.8, draws < 0.2)
    wrong = (labels + 1) % classes
    return np.where(was_right, labels, wrong), np.where(is_right, labels, wrong), labels


@pytest.mark.parametrize("tolerance", [0.0, 0.05])
def test_the_verdict_has_the_false_alarms_that_it_says(tolerance):
    """At the very edge of what may be lost, in 500 trainings; 5 % are 25, and 3 deviations of a coin 15 more."""
    generator = np.random.default_rng(7)
    alarms = [forgot(*made_up(generator, tolerance=tolerance), tolerance=tolerance).is_forgotten for _ in range(500)]
    assert sum(alarms) <= 25 + 3 * math.sqrt(500 * 0.05 * 0.95)


def test_a_loss_beyond_what_may_be_lost_is_found():
    generator = np.random.default_rng(8)
    found = [forgot(*made_up(generator, shift=0.15, tolerance=0.05), tolerance=0.05).is_forgotten for _ in range(100)]
    assert sum(found) >= 95


def test_false_alarms_of_scores():
    """The same of losses that are skewed, as losses are."""
    generator, alarms = np.random.default_rng(9), 0
    for _ in range(500):
        before = generator.exponential(size=200)
        noise = generator.exponential(size=200) - generator.exponential(size=200)
        labels = generator.integers(4, size=200)
        alarms += forgot(before, before + noise, labels, lower_is_better=True).is_forgotten
    assert alarms <= 25 + 3 * math.sqrt(500 * 0.05 * 0.95)


def test_which_examples_and_which_classes():
    labels = np.repeat([0, 1, 2], 50)
    before = labels.copy()
    after = labels.copy()
    after[50:70] = 2  # twenty of class 1
    before[100], after[100] = 0, 2  # one of class 2 is gained
    found = forgot(before, after, labels)
    assert found.is_forgotten and not found.is_kept
    assert found.lost == tuple(range(50, 70)) and found.gained == (100,)
    assert [each.name for each in found.lost_classes] == ["1"]
    worst = found.classes[0]
    assert (worst.name, worst.count, worst.num_lost, worst.num_gained, worst.mostly) == ("1", 50, 20, 0, "2")
    assert worst.drop.value == pytest.approx(0.4)
    assert found.drop.value == pytest.approx(19 / 150)
    assert "Lost: class 1." in found.summary()


def test_a_class_that_is_lost_behind_gains_elsewhere_is_found():
    labels = np.repeat([0, 1], 200)
    before, after = labels.copy(), labels.copy()
    before[:60] = 1  # sixty of class 0 are gained
    after[200:260] = 0  # sixty of class 1 are lost
    found = forgot(before, after, labels)
    assert found.drop.value == 0.0 and found.is_forgotten
    assert found.summary().startswith("Forgotten in part")


def test_scores_of_classes_texts_and_truth_values_say_the_same():
    generator = np.random.default_rng(1)
    before, after, labels = made_up(generator, shift=0.2)
    wanted = forgot(before, after, labels)
    one_hot = np.eye(5)
    assert forgot(one_hot[before] * 3.0, one_hot[after] * 2.0, labels) == wanted
    names = np.array(["a", "b", "c", "d", "e"])
    texts = forgot(names[before], names[after], names[labels])
    assert (texts.drop, texts.lost, len(texts.classes)) == (wanted.drop, wanted.lost, 5)
    truths = forgot(before == labels, after == labels)
    assert (truths.drop, truths.lost, truths.classes) == (wanted.drop, wanted.lost, ())
    assert forgot((before == labels).astype(float), (after == labels).astype(float)).drop == wanted.drop


def test_scores_are_compared_by_student_and_in_the_right_direction():
    generator = np.random.default_rng(2)
    before = generator.normal(size=100)
    fall = generator.normal(0.5, 0.1, size=100)
    worse, better = forgot(before, before - fall), forgot(before, before - fall, lower_is_better=True)
    assert worse.is_forgotten and not better.is_forgotten
    assert worse.drop.value == pytest.approx(fall.mean())
    half = 1.984217 * fall.std(ddof=1) / 10  # Student's with 99 degrees of freedom
    assert worse.drop.low == pytest.approx(fall.mean() - half, rel=1e-6)
    assert better.before == pytest.approx(before.mean())
    assert worse.lost[0] == int(fall.argmax()), "the farthest first"


def test_what_may_be_lost_and_what_is_kept():
    before, after = np.ones(2000), np.ones(2000)
    after[:20] = 0  # a point
    assert forgot(before, after).is_forgotten
    assert not forgot(before, after, tolerance=0.01).is_forgotten
    kept = forgot(before, after, tolerance=0.05)
    assert kept.is_kept and kept.summary().startswith("Kept")
    few = forgot(before[:10], after[100:110], tolerance=0.05)
    assert not few.is_forgotten and not few.is_kept


def test_too_few_scores_have_no_verdict():
    found = forgot([1.0, 2.0], [0.5, 1.5])
    assert not found.is_forgotten and not found.drop.has_interval
    assert found.summary().startswith("Nothing can be said")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([1, 2], [1, 2, 3]), r"one shape, but got \(2,\) and \(3,\)"),
        (([1], [1]), r"at least 2"),
        (([[[1]]], [[[1]]]), r"at least 2 of each"),
        (([3, 4, 2], [3, 4, 1]), r"judged by labels, but there are none"),
        ((["a", "b"], ["a", "c"]), r"judged by labels"),
        (([1, 2], [1, 2], [1]), r"one for each of 2 examples"),
        (([0.5, float("nan")], [0.5, 1.0]), r"before must be finite, but is nan at place 1"),
        (([[0.5, 0.1], [0.2, 0.3]], [[0.5, 0.1], [0.2, 0.3]], [0, 2]), r"whole numbers from 0 to 1, but got 2"),
        (([[0.5, 0.1], [0.2, 0.3]], [[0.5, 0.1], [0.2, 0.3]], ["a", "b"]), r"whole numbers from 0 to 1, but got a"),
        (([object(), 1], [object(), 1]), r"numbers or texts, but is an array of object"),
    ],
)
def test_bad_input_is_one_line(arguments, words):
    with pytest.raises(ConfigError, match=words):
        forgot(*arguments)


@pytest.mark.parametrize("options", [{"tolerance": -0.1}, {"confidence": 1.0}])
def test_values_outside_their_range(options):
    with pytest.raises(ConfigError, match="but got"):
        forgot([0, 1], [0, 1], **options)


def test_losses_are_for_scores():
    with pytest.raises(ConfigError, match="lower_is_better is for scores"):
        forgot([0, 1], [0, 1], [0, 1], lower_is_better=True)
