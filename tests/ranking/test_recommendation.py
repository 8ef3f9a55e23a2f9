"""Each sentence of the recommendation follows from the figures that it is given."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from ramet.ranking.recommendation import recommend
from ramet.ranking.verdict import is_far_below, judge

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
    "truth": {
        "reliability_of_halves": 0.8,
        "halves": estimate(0.8, 0.7, 0.9),
        "reliability_of_one_seed": 0.7,
        "one_seed": estimate(0.7, 0.6, 0.8),
        "spread": 0.1,
    },
    "accuracy": {"mean": 0.85},
    "stability": {"instances": {"mean": 0.5, "highest": 0.9, "lowest": 0.1}},
    "correlation": {
        "last": ranking(0.4, gain=0.2, low=0.1, high=0.3),
        "averaged": ranking(0.6, gain=0.4, low=0.2, high=0.5),
        "reestimated": ranking(0.5, gain=0.1, low=-0.1, high=0.3),
        "parameters": {"tau": estimate(0.2, 0.1, 0.3)},
        "flops": {"tau": estimate(0.1, 0.0, 0.2)},
    },
    "smallest_first": {"parameters": False, "flops": False},
    "top": {"last": {"top_1": 2.0, "top_1_best": 1.0, "top_1_worst": 4.0}},
    "over_time": {
        "averaging_last": {"evaluations": [1, 2, 4, 8], "tau": [0.4, 0.5, 0.55, 0.6]},
        "fine_tuned": [0.4, 0.45, 0.55],
        "fine_tuned_after": [0, 1, 2],
        "fine_tuned_gain": estimate(0.15, 0.05, 0.25),
        "mean_over_steps": 0.42,
        "deviation_over_steps": 0.05,
    },
    "pruning": {"averaged": 0.95},
    "pruning_interval": estimate(0.95, 0.9, 1.0),
    "gap": estimate(0.05, 0.04, 0.06),
    "longer": {
        "from_epoch": 3,
        "epochs": 12,
        "then_epochs": 36,
        "slope": estimate(0.05, -0.01, 0.1),
        "then": estimate(0.66, 0.5, 0.8),
    },
    "costs": {"supernet": 100, "averaging": 25, "fine_tuning": 50},
    "variations": [],
}


def changed(**changes: Any) -> dict[str, Any]:
    result = copy.deepcopy(RESULT)
    for path, value in changes.items():
        *parents, name = path.split("__")
        place = result
        for parent in parents:
            place = place[parent]
        place[name] = value
    return result


def words(**changes: Any) -> str:
    """The recommendation, with ``a__b__c=value`` changing ``result["a"]["b"]["c"]``."""
    return "\n".join(recommend(changed(**changes)))


RISING = RESULT["longer"] | {"slope": estimate(0.1, 0.02, 0.18)}
CASES = [
    (
        "the last scores",
        {},
        "0.40 [0.30, 0.50]; two seeds of the truth correlate with each other at 0.70 [0.60, 0.80]. Its best child has "
        "the true rank 2 of 4 (between 1 and 4 over the instances).",
    ),
    ("good truth", {}, "!noisy"),
    (
        "noisy truth",
        {"truth__reliability_of_halves": 0.49, "truth__halves": estimate(0.49, 0.3, 0.6)},
        "Nothing can be concluded about the ranking, because the truth is too noisy: two halves of its seeds correlate "
        "at 0.49 [0.30, 0.60]",
    ),
    ("just good enough", {"truth__reliability_of_halves": 0.5}, "!Nothing can be concluded"),
    (
        "one seed",
        {"truth__reliability_of_halves": None, "truth__one_seed": None},
        "The truth has a single seed",
    ),
    ("one seed, no ceiling", {"truth__one_seed": None}, "!two seeds of the truth"),
    ("seeds that rank nothing", {"truth__reliability_of_halves": NAN}, "score every child the same"),
    ("truth that ranks nothing", {"truth__spread": 0}, "The truth gives every child the same score"),
    ("beats", {}, "which alone has 0.20 [0.10, 0.30]: the best ranking (averaged) gains 0.40 [0.20, 0.50]."),
    (
        "not clearly better",
        {"correlation__averaged": ranking(0.6, 0.4, -0.1, 0.9)},
        "It is not clearly better than the number of parameters, which alone has 0.20 [0.10, 0.30] and costs nothing",
    ),
    (
        "as good",
        {"correlation__averaged": ranking(0.6, 0.0, -0.2, 0.2)},
        "It is not clearly better than the number of parameters",
    ),
    (
        "does not beat",
        {"correlation__averaged": ranking(0.6, -0.1, -0.2, -0.05)},
        "Do not choose by these scores: the number of parameters alone has 0.20 [0.10, 0.30]",
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
        "last 8 evaluations raises the correlation by 0.40 [0.20, 0.50] to 0.60 [0.50, 0.70], at 0.25 times the cost",
    ),
    ("nothing was smoothed", {}, "!moothing"),
    (
        "smoothing",
        {"correlation__smoothed": ranking(0.55, 0.15, 0.05, 0.25)},
        "costs nothing and raises the correlation of the last ones by 0.15 [0.05, 0.25] to 0.55 [0.45, 0.65].",
    ),
    (
        "smoothing may help",
        {"correlation__smoothed": ranking(0.55, 0.15, -0.05, 0.25)},
        "does not clearly change the correlation of the last ones (0.15 [-0.05, 0.25]).",
    ),
    (
        "smoothing harms",
        {"correlation__smoothed": ranking(0.3, -0.1, -0.2, -0.05)},
        "lowers the correlation of the last ones (-0.10 [-0.20, -0.05]).",
    ),
    (
        "a smoothed seed of the truth",
        {
            "truth__seed_with_others": estimate(0.53, 0.4, 0.6),
            "truth__smoothed_with_others": estimate(0.64, 0.5, 0.7),
        },
        "agrees with the mean of the others at 0.53 [0.40, 0.60], smoothed over the space at 0.64 [0.50, 0.70].",
    ),
    (
        "a smoothed seed of a noisy truth",
        {
            "truth__reliability_of_halves": 0.4,
            "truth__seed_with_others": estimate(0.43, 0.4, 0.6),
            "truth__smoothed_with_others": estimate(0.64, 0.5, 0.7),
        },
        "smoothed over the space at 0.64 [0.50, 0.70].",
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
    ("fine-tuning", {}, "for 2 mini-batches raises the correlation by 0.15 [0.05, 0.25], at 0.50 times the cost"),
    (
        "fine-tuning, best early",
        {"over_time__fine_tuned": [0.4, 0.6, 0.5]},
        "for 1 mini-batches raises the correlation by 0.15 [0.05, 0.25], at 0.25 times",
    ),
    (
        "fine-tuning with an interval around 0",
        {"over_time__fine_tuned_gain": estimate(0.15, -0.42, 0.89)},
        "for 2 mini-batches does not clearly raise the correlation (0.15 [-0.42, 0.89])",
    ),
    (
        "fine-tuning does not help",
        {"over_time__fine_tuned": [0.4, 0.3, 0.3]},
        "Fine-tuning each child for up to 2 mini-batches does not raise",
    ),
    ("no fine-tuning", {"over_time__fine_tuned": None}, "!Fine-tuning"),
    ("fine-tuned scores that rank nothing", {"over_time__fine_tuned_gain": None}, "!Fine-tuning"),
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
    ("pruning is safe", {}, "Pruning is safe: pruning the worst half by the averaged scores keeps 95% [90%, 100%]"),
    ("pruning may be safe", {"pruning_interval": estimate(0.95, 0.7, 1.0)}, "Pruning may be safe"),
    ("pruning loses", {"pruning_interval": estimate(0.5, 0.3, 0.7)}, "Pruning is not safe"),
    ("long enough", {}, "!Train"),
    (
        "train longer",
        {"longer": RISING},
        "Train longer: from epoch 3 to 12 the correlation changes by 0.10 [0.02, 0.18] with each doubling. If that "
        "went on, 36 epochs would give 0.66 [0.50, 0.80]; --also epochs=36 measures it.",
    ),
    (
        "hardly trained",
        {"gap": estimate(0.57, 0.5, 0.6), "accuracy__mean": 0.33},
        "Shared weights are hardly trained: children have 33.0% with them and are 57.0 points [50.0, 60.0] better",
    ),
    ("hardly trained, slope unclear", {"gap": estimate(0.57, 0.5, 0.6)}, "Where the correlation goes is not clear"),
    ("a gap that may be small", {"gap": estimate(0.12, 0.09, 0.15)}, "!hardly trained"),
    ("a noisy truth says nothing of slopes", {"longer": RISING, "truth__reliability_of_halves": 0.4}, "!Train longer"),
    (
        "a variation",
        {
            "variations": [
                {"variation": "momentum=0", "tau": estimate(0.3, 0.2, 0.4), "gain": estimate(-0.3, -0.4, -0.2)}
            ]
        },
        "momentum=0 lowers the correlation of the averaged scores: 0.30 [0.20, 0.40], a gain of -0.30 [-0.40, -0.20].",
    ),
    (
        "a variation that ranks nothing",
        {"variations": [{"variation": "momentum=0", "tau": estimate(NAN, NAN, NAN), "gain": estimate(NAN, NAN, NAN)}]},
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
    assert "Every child has the same score, so that nothing is ranked" in text
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
        "Two rankings agree at a rank correlation of 0.50 (between 0.10 and 0.90).",
    ]
    assert len(recommend(result | {"stability": {"instances": None}})) == 1
    assert len(recommend(result | {"stability": {"instances": {"mean": NAN, "highest": NAN, "lowest": NAN}}})) == 1


# One judgement, and nothing that contradicts it


ADVICE = ("Do not choose", "It beats", "not clearly better", "Pruning is", "raises the correlation")
KINDS = {
    "noisy truth": {"truth__reliability_of_halves": 0.3},
    "no better": {"correlation__averaged": ranking(0.6, -0.1, -0.2, -0.05)},
    "unclear": {"correlation__averaged": ranking(0.6, 0.4, -0.1, 0.9)},
    "better": {},
}


@pytest.mark.parametrize("kind", KINDS)
def test_one_function_decides_and_the_sentences_follow(kind: str) -> None:
    judgement, text = judge(changed(**KINDS[kind])), words(**KINDS[kind])
    assert judgement.kind == kind
    verdicts = {"no better": "Do not choose", "unclear": "not clearly better", "better": "It beats"}
    for other, phrase in verdicts.items():
        assert (phrase in text) == (other == kind), text
    if kind == "noisy truth":
        assert not any(phrase in text for phrase in ADVICE), "nothing can be concluded, and something is"
        assert "For the record, against this truth: the best ranking (averaged) 0.60 [0.50, 0.70]; " in text


def test_the_best_trivial_ranking_is_the_one_to_beat() -> None:
    assert judge(RESULT).trivial == "parameters"
    assert judge(changed(correlation__flops__tau=estimate(0.3, 0.2, 0.4))).trivial == "flops"


def test_every_figure_in_a_sentence_has_its_interval() -> None:
    """A correlation, a gain or a share without brackets would look surer than it is."""
    for line in recommend(changed(longer=RISING, gap=estimate(0.57, 0.5, 0.6))):
        figures = re.findall(r"-?\d\.\d\d(?! times)(?! \[)", re.sub(r"\[[^]]*\]", "[]", line))
        assert not figures, line


def test_far_below_is_in_spreads_of_the_truth_where_the_metric_is_no_share() -> None:
    """The spread is 0.1: 10 points of a share, or three spreads of another metric, are far."""
    told = {"name": "squared error", "higher_is_better": False, "is_share": False}
    for low, is_far in ((0.05, False), (0.29, False), (0.31, True)):
        result = copy.deepcopy(RESULT) | {"metric": told, "gap": estimate(low + 0.1, low, low + 0.2)}
        result["accuracy"]["mean"] = -1234.5  # a score
        assert is_far_below(result) == is_far
        words = [line for line in recommend(result) if "hardly trained" in line]
        assert bool(words) == is_far
        if is_far:
            assert "children have squared error 1,234 with them and are 0.41 [0.31, 0.51] better alone" in words[0]
    for told in ({"name": "top-5 accuracy", "higher_is_better": True, "is_share": True}, None):
        result = copy.deepcopy(RESULT) | {"gap": estimate(0.2, 0.15, 0.3)} | ({} if told is None else {"metric": told})
        words = next(line for line in recommend(result) if "hardly trained" in line)
        has = "85.0%" if told is None else "top-5 accuracy 85.0 %"
        assert f"children have {has} with them and are 20.0 points [15.0, 30.0] better" in words
