"""The tuner: the strength for a wanted trade-off, and the frontier."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from ramet.errors import ConfigError
from ramet.guards import ElasticConsolidation, OrthogonalProjection, WeightPlasticity, diagonal_fisher, tune
from ramet.guards.tuning import Trade, Tuning
from ramet.params import named_params
from ramet.testing.guards import make_batch, make_network, make_optimizer, train


def trade_off(strength):
    """A stronger guard keeps more and learns less; half of each at a strength of 1."""
    share = strength / (1 + strength)
    return share, 1 - share


def trial(guard):
    """A larger lambda of a projection is weaker."""
    is_projection = isinstance(guard, OrthogonalProjection)
    return trade_off(1 / guard.regularisation if is_projection else guard.strength)


@pytest.mark.parametrize("guard", ["plasticity", WeightPlasticity, "projection:unit=energy", ElasticConsolidation])
@pytest.mark.parametrize(("goal", "value"), [("keep", 0.9), ("learn", 0.75)])
def test_the_goal_is_met_and_hardly_more(guard, goal, value):
    tuning = tune(guard, trial, **{goal: value}, num_trials=25, margin=1.0)
    assert tuning.is_met and len(tuning.rows) == 25
    found, other = (
        (tuning.chosen.kept, tuning.chosen.learned) if goal == "keep" else (tuning.chosen.learned, tuning.chosen.kept)
    )
    # Of the gap of 10 / 11 magnitudes, 13 trials leave less than a thousandth of one.
    assert value <= found < value + 1e-3 and other == pytest.approx(1 - value, abs=1e-3)
    strengths = [row.strength for row in tuning.rows]
    assert (
        strengths == sorted(strengths) and strengths[0] == pytest.approx(1e-2) and strengths[-1] == pytest.approx(1e8)
    )
    assert set(tuning.frontier) == set(tuning.rows)


@pytest.mark.parametrize("margin", [2.0, 10.0])
@pytest.mark.parametrize("guard", ["plasticity", "projection:unit=energy"])
@pytest.mark.parametrize(("goal", "value", "edge"), [("keep", 0.9, 9.0), ("learn", 0.75, 1 / 3)])
def test_a_margin_is_left_to_the_strengths_that_miss_the_goal(guard, goal, value, edge, margin):
    tuning = tune(guard, trial, **{goal: value}, num_trials=25, margin=margin)
    wanted = edge * margin if goal == "keep" else edge / margin  # of a guard that keeps more with a larger strength
    wanted = 1 / wanted if guard.startswith("projection") else wanted
    # The edge is known to a thousandth of a magnitude, as above.
    assert tuning.is_met and tuning.chosen.strength == pytest.approx(wanted, rel=5e-3)
    assert tuning.margin == pytest.approx(margin) and len(tuning.rows) == 25


def window(low, high):
    """A goal that is met between two strengths alone; what is learned falls with the strength."""
    return lambda guard: (float(low <= guard.strength <= high), -guard.strength)


def test_between_two_edges_that_are_near_the_middle_is_taken():
    tuning = tune("plasticity", window(30.0, 300.0), keep=1.0, num_trials=30, margin=100.0, between=(1.0, 1e4))
    below = max(row.strength for row in tuning.rows if not row.kept and row.strength < 100.0)
    above = min(row.strength for row in tuning.rows if not row.kept and row.strength > 100.0)
    assert tuning.is_met and tuning.chosen.strength == pytest.approx((below * above) ** 0.5)
    assert tuning.margin == pytest.approx((above / below) ** 0.5) and tuning.margin < 100.0


def test_between_two_edges_that_are_far_both_margins_are_kept():
    tuning = tune("plasticity", window(3.0, 3e5), keep=1.0, num_trials=30, margin=10.0)
    assert tuning.chosen.strength == pytest.approx(30.0, rel=5e-3) and tuning.margin >= 10.0 * (1 - 1e-9)


def test_a_margin_ends_where_the_range_ends():
    tuning = tune("plasticity", trial, keep=0.9, num_trials=20, margin=1e3, between=(0.1, 100.0))
    assert tuning.is_met and tuning.chosen.strength == pytest.approx(100.0)
    assert tuning.margin == pytest.approx(100.0 / 9.0, rel=5e-3)


def test_where_all_meet_the_goal_no_margin_is_needed():
    tuning = tune("plasticity", trial, keep=0.0, num_trials=8)
    assert tuning.chosen == tuning.rows[0] and tuning.margin == float("inf")


def test_a_guard_of_a_text_has_its_options():
    made = []
    tune("projection:unit=energy,rank=3", lambda guard: made.append(guard) or (0.0, 0.0), keep=1.0, num_trials=3)
    assert [guard.rank for guard in made] == [3] * 3 and {guard.unit for guard in made} == {"energy"}
    assert [guard.regularisation for guard in made] == pytest.approx([1e-2, 1e3, 1e8])


def test_where_no_strength_meets_the_goal_the_nearest_is_given():
    tuning = tune("plasticity", lambda guard: (min(trial(guard)[0], 0.8), trial(guard)[1]), keep=0.9)
    assert not tuning.is_met and tuning.chosen.kept == 0.8 and tuning.margin == 1.0
    assert tuning.chosen.learned == max(row.learned for row in tuning.rows if row.kept == 0.8)


def test_the_frontier_leaves_out_what_another_beats():
    rows = (
        Trade(1.0, 0.2, 0.9),
        Trade(2.0, 0.3, 0.8),
        Trade(3.0, 0.25, 0.7),
        Trade(4.0, 0.3, 0.6),
        Trade(5.0, 0.9, 0.1),
    )
    tuning = Tuning(rows, rows[4], True)
    assert [row.strength for row in tuning.frontier] == [1.0, 2.0, 5.0]
    assert [row["on_frontier"] for row in tuning.to_rows()] == [True, True, False, False, True]
    assert tuning.to_rows()[4] == {"strength": 5.0, "kept": 0.9, "learned": 0.1, "on_frontier": True, "chosen": True}
    lines = str(tuning).splitlines()
    assert len(lines) == 6 and lines[-1].endswith("chosen") and lines[1].endswith("on the frontier")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "one of keep and learn must be given, but got None and None"),
        ({"keep": 0.5, "learn": 0.5}, "one of keep and learn must be given, but got 0.5 and 0.5"),
        ({"keep": 0.5, "between": (1.0, 1.0)}, "the smaller first"),
        ({"keep": 0.5, "between": (0.0, 1.0)}, "two numbers above 0"),
        ({"keep": 0.5, "num_trials": 2}, "at least 3, but got 2"),
        ({"keep": 0.5, "margin": 0.5}, "a factor of at least 1, but got 0.5"),
        ({"keep": 0.5, "margin": float("nan")}, "a factor of at least 1, but got nan"),
    ],
)
def test_bad_goals_are_refused(options, words):
    with pytest.raises(ConfigError, match=words):
        tune("plasticity", trial, **options)


def test_two_models_on_shared_weights():
    """The real thing, small: the first path's loss after the second was trained, against the second's."""
    x, y = make_batch(0)
    first = make_network()
    train(WeightPlasticity(), first, make_optimizer(first), steps=40)
    fisher = diagonal_fisher(first.eval(), cross_entropy, x, y)

    def learn(guard):
        network = make_network()
        network.load_state_dict(first.state_dict())
        guard.remember(named_params(network), fisher)
        train(guard, network.train(), make_optimizer(network), path=1, steps=20, seed=100)
        with torch.no_grad():
            return -float(cross_entropy(network(x, 0), y)), -float(cross_entropy(network(x, 1), y))

    plain, _ = learn(WeightPlasticity(0.0))
    with torch.no_grad():
        before = -float(cross_entropy(first(x, 0), y))
    assert plain < before, "without a guard it forgets"
    wanted = (plain + before) / 2
    tuning = tune(WeightPlasticity, learn, keep=wanted, between=(1e-2, 1e6), num_trials=6)
    assert tuning.is_met and tuning.chosen.kept >= wanted
    assert tuning.rows[-1].kept > tuning.rows[0].kept
