"""The comparison of guards: its streams, its control of the same gain, and every method for one short course."""

from __future__ import annotations

import pytest
import torch

from benchmarks.compare_guards import METHODS, NUM_TASKS, Course, at_same_gain, row, summary, tasks_of
from ramet.data import load


@pytest.fixture(scope="module")
def digits():
    return load("digits", train_size=200, eval_size=100)


def test_the_control_is_what_unguarded_training_keeps_where_it_learns_as_much():
    frontier = [(0.5, 0.9), (0.7, 0.8), (0.9, 0.4)]
    assert at_same_gain(0.85, frontier) == pytest.approx(0.6)
    assert at_same_gain(0.6, frontier) == pytest.approx(0.8)
    assert at_same_gain(0.95, frontier) == 0.5 and at_same_gain(0.1, frontier) == 0.9


def test_gains_are_paired_by_seed():
    """Guarded and control differ by 2 points in every seed, however much seeds differ: the interval has no width."""
    found = [(0.5 + 0.04 * n, 0.9) for n in range(9)]
    made = row("any", "split", 1.0, found, [kept - 0.02 for kept, _ in found])
    assert made["gain"] == 2.0 and made["interval"] == [2.0, 2.0] and made["learned"] == 90.0


def test_streams_are_made_of_all_images(digits):
    split = tasks_of("split", digits, "test", 0)
    assert len(split) == NUM_TASKS and sum(len(task.train[1]) for task in split) == len(digits.train)
    assert all(set(task.train[1].tolist()) == {0, 1} for task in split)
    permuted = tasks_of("permuted", digits, "test", 0)
    flat = digits.train.x.flatten(1)
    for task in permuted:
        assert torch.equal(task.train[0].sort(1).values, flat.sort(1).values) and not torch.equal(task.train[0], flat)
    again = tasks_of("permuted", digits, "validation", 0)
    assert torch.equal(permuted[3].train[0], again[3].train[0]), "the pixels change places as the seed says"
    assert summary({"own": [1.0, 0.8, 0.6], "end": [0.5, 0.7, 0.6]}) == (0.6, pytest.approx(0.7))


@pytest.mark.parametrize("name", METHODS)
def test_every_method_runs(name, digits):
    method = METHODS[name]
    course = Course(tasks_of("split", digits, "test", 1), method, method.strengths[0], 1, 1.0, epochs=20).run()
    assert len(course["own"]) == len(course["end"]) == NUM_TASKS
    assert all(0 <= value <= 1 for value in course["own"] + course["end"]) and course["own"][0] > 0.6
