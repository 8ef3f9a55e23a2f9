"""Each sentence of the recommendation follows from the figures that it is given."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ramet.ranking.recommendation import recommend

NAN = float("nan")


def estimate(value: float, low: float, high: float) -> dict[str, float]:
    return {"value": value, "low": low, "high": high}


def ranking(tau: float, gain: float = 0.0, low: float = -1.0, high: float = 1.0) -> dict[str, Any]:
    """A ranking of a correlation, and how much it gains over the trivial ones and over the last scores."""
    return {
        "tau": estimate(tau, tau - 0.1, tau + 0.1),
        **{f"gain_over_{other}": estimate(gain, low, high) for other in ("last", "parameters", "flops")},
    }


RESULT: dict[str, Any] = {
    "children": ["a", "b", "c", "d"],
    "truth": {"reliability_of_halves": 0.8, "reliability_of_one_seed": 0.7, "spread": 0.1},
    "stability": {"instances": {"mean": 0.5, "highest": 0.9, "lowest": 0.1}},
    "correlation": {
        "last": ranking(0.4, gain=0.2, low=0.1, high=0.3),
        "averaged": ranking(0.6, gain=0.4, low=0.2, high=0.5),
        "reestimated": ranking(0.5, gain=0.1, low=-0.1, high=0.3),
        "parameters": {"tau": estimate(0.2, 0.1, 0.3)},
        "flops": {"tau": estimate(0.1, 0.0, 0.2)},
    },
    "smallest_first": {"parameters": False, "flops": False},
    "top": {"last": {"top_1": 2.0}},
    "over_time": {
        "averaging_last": {"evaluations": [1, 2, 4, 8], "tau": [0.4, 0.5, 0.55, 0.6]},
        "fine_tuned": [0.4, 0.45, 0.55],
        "fine_tuned_after": [0, 1, 2],
        "mean_over_steps": 0.42,
        "deviation_over_steps": 0.05,
    },
    "pruning": {"averaged": 0.95},
    "costs": {"supernet": 100, "averaging": 25, "fine_tuning": 50},
    "variations": [],
}


def words(**changes: Any) -> str:
    """The recommendation, with ``a__b__c=value`` changing ``result["a"]["b"]["c"]``."""
    result = copy.deepcopy(RESULT)
    for path, value in changes.items():
        *parents, name = path.split("__")
        place = result
        for parent in parents:
            place = place[parent]
        place[name] = value
    return "\n".join(recommend(result))


CASES = [
    (
        "verdict",
        {},
        "0.40 [0.30, 0.50]; two seeds of the truth correlate with each other at 0.70. Its best child has the true rank",
    ),
    ("good truth", {}, "!noisy"),
    (
        "noisy truth",
        {"truth__reliability_of_halves": 0.49},
        "two halves of its seeds correlate at only 0.49. Nothing firm",
    ),
    ("just good enough", {"truth__reliability_of_halves": 0.5}, "!Nothing firm"),
    (
        "one seed",
        {"truth__reliability_of_halves": None, "truth__reliability_of_one_seed": None},
        "The truth has a single seed",
    ),
    ("one seed, no ceiling", {"truth__reliability_of_one_seed": None}, "!two seeds of the truth"),
    ("seeds that rank nothing", {"truth__reliability_of_halves": NAN}, "score every child the same"),
    ("truth that ranks nothing", {"truth__spread": 0}, "The truth gives every child the same score"),
    (
        "beats",
        {},
        "(which alone has 0.20 [0.10, 0.30]): the best of its rankings (averaged) gains 0.40",
    ),
    (
        "not clearly better",
        {"correlation__averaged": ranking(0.6, 0.4, -0.1, 0.9)},
        "It is not clearly better than the number of parameters",
    ),
    (
        "does not beat",
        {"correlation__averaged": ranking(0.6, 0.0, -0.2, 0.2)},
        "It does not beat the number of parameters",
    ),
    (
        "does not beat: what to do",
        {"correlation__averaged": ranking(0.6, -0.1, -0.2, -0.05)},
        "Do not choose an architecture by these shared weights",
    ),
    (
        "flops are the better size",
        {"correlation__flops__tau": estimate(0.3, 0.2, 0.4)},
        "It beats the number of multiply-adds",
    ),
    ("the small ones are better", {"smallest_first__parameters": True}, "the number of parameters, fewest first"),
    (
        "parameters all equal",
        {"correlation__parameters__tau": estimate(NAN, NAN, NAN)},
        "It beats the number of multiply-adds",
    ),
    (
        "averaging",
        {},
        "last 8 evaluations raises the correlation from 0.40 to 0.60 (gain 0.40 [0.20, 0.50]), at 0.25 times the cost",
    ),
    (
        "averaging does not help",
        {"correlation__averaged": ranking(0.3, -0.1, -0.2, 0.0)},
        "Averaging the last 8 evaluations does not help",
    ),
    (
        "averaging may help",
        {"correlation__averaged": ranking(0.45, 0.05, -0.1, 0.2)},
        "Averaging the last 8 evaluations does not clearly help (0.05 [-0.10, 0.20])",
    ),
    ("nothing to average", {"over_time__averaging_last": {"evaluations": [1], "tau": [0.4]}}, "!Averaging"),
    ("fine-tuning", {}, "for 2 mini-batches raises the correlation from 0.40 to 0.55, at 0.50 times the cost"),
    (
        "fine-tuning, best early",
        {"over_time__fine_tuned": [0.4, 0.6, 0.5]},
        "for 1 mini-batches raises the correlation from 0.40 to 0.60, at 0.25 times",
    ),
    (
        "fine-tuning does not help",
        {"over_time__fine_tuned": [0.4, 0.41, 0.3]},
        "Fine-tuning each child for up to 2 mini-batches does not raise",
    ),
    ("no fine-tuning", {"over_time__fine_tuned": None}, "!Fine-tuning"),
    ("fine-tuned scores that rank nothing", {"over_time__fine_tuned": [NAN, 0.4, 0.5]}, "!Fine-tuning"),
    ("batch norm unclear", {}, "for each child does not clearly change the correlation (0.10 [-0.10, 0.30])"),
    (
        "batch norm raises",
        {"correlation__reestimated": ranking(0.5, 0.2, 0.1, 0.3)},
        "for each child raises the correlation",
    ),
    (
        "batch norm lowers",
        {"correlation__reestimated": ranking(0.5, -0.2, -0.3, -0.1)},
        "for each child lowers the correlation",
    ),
    ("pruning is safe", {}, "is safe: it keeps 95% of the truly best quarter"),
    ("pruning loses", {"pruning__averaged": 0.5}, "would lose 50% of the truly best quarter"),
    (
        "a variation",
        {"variations": [{"variation": "momentum=0", "mean_over_steps": 0.3, "deviation_over_steps": 0.1}]},
        "With momentum=0 the correlation over the last mini-batches is 0.30 with a deviation of 0.10, against 0.42",
    ),
    (
        "a variation that ranks nothing",
        {"variations": [{"variation": "momentum=0", "mean_over_steps": NAN, "deviation_over_steps": NAN}]},
        "!momentum=0",
    ),
]


@pytest.mark.parametrize(("changes", "phrase"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_sentence_follows_from_the_figures(changes: dict[str, Any], phrase: str) -> None:
    text = words(**changes)
    assert (phrase.removeprefix("!") in text) != phrase.startswith("!"), text
    assert "nan" not in text


def test_scores_that_rank_nothing_are_called_that() -> None:
    nothing = ranking(NAN, NAN, NAN, NAN)
    text = words(correlation__last=nothing, correlation__averaged=nothing, correlation__reestimated=nothing)
    assert "last scores are the same for every child" in text
    assert "nan" not in text and "beat" not in text


def test_sizes_that_rank_nothing_are_not_beaten() -> None:
    equal = {"tau": estimate(NAN, NAN, NAN)}
    text = words(correlation__parameters=equal, correlation__flops=equal)
    assert "All children have the same size" in text
    assert "beats" not in text


def test_without_a_truth_only_stability_is_judged() -> None:
    result = {"stability": RESULT["stability"], "variations": []}
    assert recommend(result) == [
        "No truth is known, so only stability can be judged, and a stable ranking can still be wrong.",
        "Two instances agree at a rank correlation of 0.50 (between 0.10 and 0.90).",
    ]
    assert len(recommend(result | {"stability": {"instances": None}})) == 1
    assert len(recommend(result | {"stability": {"instances": {"mean": NAN, "highest": NAN, "lowest": NAN}}})) == 1
