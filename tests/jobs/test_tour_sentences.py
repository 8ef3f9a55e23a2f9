"""What the tour says of its figures, on both sides of every threshold."""

from __future__ import annotations

import pytest
import tour_figures as made

from ramet.jobs.tour import sentences


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, "beats size"),
        ({"reliability": 0.7}, "beats size"),
        ({"reliability": 0.699}, "truth too noisy"),
        ({"reliability": float("nan")}, "truth too noisy"),
        ({"reliability": None}, "truth too noisy"),
        ({"gain_low": 0.001}, "beats size"),
        ({"gain_low": 0.0}, "not clearly better"),
        ({"gain_low": -0.1, "gain": 0.001}, "not clearly better"),
        ({"gain_low": -0.1, "gain": 0.0}, "no better than size"),
    ],
)
def test_a_supernet_judged(changes, outcome):
    assert sentences.judged(made.judged(**changes)).outcome == outcome


def test_the_judgement_names_its_figures():
    told = sentences.judged(made.judged())
    assert "its 4 children correlates with the truth at 0.20, and at 0.70 when" in told.words
    assert "the number of parameters alone has 0.50" in told.words
    assert "asked better" not in sentences.judged(made.judged(best="last evaluation")).words


@pytest.mark.parametrize(
    ("largest", "outcome"),
    [
        (0.929, "beats the largest"),
        (0.931, "level with the largest"),
        (0.969, "level with the largest"),
        (0.971, "worse than the largest"),
    ],
)
def test_the_best_child_found(largest, outcome):
    figures = made.found({"a": 0.5, "b": 0.95, "c": 0.96, "d": largest})
    told = sentences.found(figures)
    assert told.outcome == outcome
    rank = 1 + sum(value > 0.95 for value in (0.5, 0.96, largest))  # counted by hand, not by the figures
    assert f"found b, number {rank} of 4 by the truth, 95.0 %" in told.words
    assert "With 18 % of the work" in told.words
    assert f"a random choice gives {100 * (0.5 + 0.95 + 0.96 + largest) / 4:.1f} % on average" in told.words


def test_the_largest_may_be_what_is_found_and_a_truth_may_be_unknown():
    assert sentences.found(made.found(largest="b")).outcome == "found the largest"
    assert sentences.found(made.found(found="z")).outcome == "truth not known"
    assert sentences.found(made.found(largest="z")).outcome == "truth not known"


@pytest.mark.parametrize(
    ("tests", "outcome"),
    [
        ([(0.95, 0.9), (0.95, 0.949)], "growing wins"),
        ([(0.95, 0.9), (0.95, 0.951)], "level"),  # one seed says otherwise
        ([(0.95, 0.941)], "level"),
        ([(0.95, 0.939)], "growing wins"),
        ([(0.941, 0.95)], "level"),
        ([(0.939, 0.95)], "plain training wins"),
        ([(0.9, 0.95), (0.951, 0.95)], "level"),
    ],
)
def test_a_network_grown(tests, outcome):
    told = sentences.grown(made.grown(*tests))
    assert told.outcome == outcome
    assert f"has {100 * sum(grown for grown, _ in tests) / len(tests):.1f} %" in told.words
    assert "from 100 to 300 parameters" in told.words
    assert ("(once)" in told.words) == (len(tests) == 1)


@pytest.mark.parametrize(
    ("growing", "naive", "outcome"),
    [
        (0.0, 0.2, "nothing forgotten"),
        (-0.001, 0.2, "nothing forgotten"),
        (0.001, 0.2, "growing forgets, too"),
        (0.0, 0.011, "nothing forgotten"),
        (0.0, 0.009, "nothing to forget"),
    ],
)
def test_tasks_learned(growing, naive, outcome):
    told = sentences.learned(made.learned(growing, naive))
    assert told.outcome == outcome
    assert f"forgets {100 * naive:.1f} points" in told.words
    assert "2,700 parameters, where a network for each task takes 8,800" in told.words


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, "kept"),
        ({"old": 0.921}, "kept"),
        ({"old": 0.919}, "not kept"),
        ({"new": 0.921}, "kept"),
        ({"new": 0.919}, "kept at a price"),
        ({"old_free": 0.919}, "kept"),
        ({"old_free": 0.921}, "nothing to keep"),
    ],
)
def test_a_guard_in_a_plain_loop(changes, outcome):
    told = sentences.guarded(made.guarded(**changes))
    assert told.outcome == outcome
    kept = 100 * changes.get("old", 0.95)
    assert f"the old task keeps {kept:.1f} % of its 97.0 %" in told.words
    assert f"without them {100 * changes.get('old_free', 0.7):.1f} % are left" in told.words
