"""How parts make an answer, and what cannot be answered."""

import numpy as np
import pytest

from ramet.reports import Estimate
from ramet_papers.verdicts import (
    above,
    at_least,
    at_most,
    below,
    conclude,
    not_negative,
    surely_negative,
    surely_positive,
)

NAN = float("nan")


@pytest.mark.parametrize(
    ("parts", "unmet", "holds", "reason"),
    [
        ({"a": True, "b": True}, (), True, ""),
        ({"a": True, "b": False}, (), False, " Not so: b."),
        ({"a": False, "b": False}, (), False, " Not so: a; b."),
        ({"a": True, "b": None}, (), None, " Not answered: b."),
        ({"a": None, "b": None}, (), None, " Not answered: a; b."),
        ({"a": False, "b": None}, (), False, " Not so: a. Not known: b."),
        ({"a": False, "b": None, "c": None}, (), False, " Not so: a. Not known: b; c."),
        ({"a": False}, ["few seeds", "no control"], None, " Not answered: few seeds; no control."),
        ({"a": True}, ["few seeds"], None, " Not answered: few seeds."),
        ({"a": np.bool_(False)}, (), False, " Not so: a."),
        ({"a": np.bool_(True)}, (), True, ""),
    ],
)
def test_a_part_that_fails_decides_and_one_that_is_unknown_leaves_open(parts, unmet, holds, reason):
    assert conclude(parts, unmet) == (holds, reason)
    assert conclude(parts, unmet)[0] is holds


@pytest.mark.parametrize(
    ("compare", "lower", "equal", "higher"),
    [
        (at_least, False, True, True),
        (at_most, True, True, False),
        (above, False, False, True),
        (below, True, False, False),
    ],
)
def test_comparisons_on_both_sides_and_at_the_limit(compare, lower, equal, higher):
    assert [compare(value, 0.5) for value in (0.4999, 0.5, 0.5001)] == [lower, equal, higher]
    assert compare(np.float64(0.5), 0.5) is equal
    assert compare(NAN, 0.5) is None and compare(0.5, NAN) is None


@pytest.mark.parametrize(
    ("estimate", "positive", "negative"),
    [
        (Estimate(1.0, 0.001, 2.0), True, False),
        (Estimate(1.0, 0.0, 2.0), False, False),
        (Estimate(1.0, -0.001, 2.0), False, False),
        (Estimate(-1.0, -2.0, 0.001), False, False),
        (Estimate(-1.0, -2.0, 0.0), False, False),
        (Estimate(-1.0, -2.0, -0.001), False, True),
        (Estimate(1.0), None, None),
        (Estimate(NAN, NAN, NAN), None, None),
    ],
)
def test_an_interval_is_apart_from_zero_or_is_not_or_is_none(estimate, positive, negative):
    assert surely_positive(estimate) is positive and surely_negative(estimate) is negative


@pytest.mark.parametrize(
    ("estimate", "answer"),
    [
        (Estimate(0.5, 0.1, 0.9), True),
        (Estimate(0.5, -0.1, 1.1), True),
        (Estimate(0.0, -0.1, 0.1), True),
        (Estimate(-0.01, -1.0, 0.98), None),
        (Estimate(-0.5, -1.0, 0.0), None),
        (Estimate(-0.5, -0.999, -0.001), False),
        (Estimate(0.5), True),
        (Estimate(-0.5), None),
        (Estimate(NAN), None),
        (Estimate(None), None),
    ],
)
def test_too_few_seeds_are_no_evidence_of_equality(estimate, answer):
    assert not_negative(estimate) is answer
