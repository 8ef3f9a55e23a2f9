"""W1 to W8 on made-up figures: both sides of every threshold, every sign, and what is not answered."""

import numpy as np
import pytest
from made_up import SAID, SURE, SURE_OF_MANY, UNSURE, UNSURE_OF_MANY, beside, many, three

from ramet_papers.multi_model_forgetting.judges import (
    DifferenceFigures,
    Drops,
    Retrained,
    W1Figures,
    W2Figures,
    W3Figures,
    W6Figures,
    W7Figures,
    W8Figures,
    judge_w1,
    judge_w2,
    judge_w3,
    judge_w4,
    judge_w5,
    judge_w6,
    judge_w7,
    judge_w8,
)


def swapped(size, swaps):
    """Drops of ``size`` settings that rise, but for so many neighbours that have changed places."""
    drops = np.arange(size, dtype=float)
    for place in range(swaps):
        drops[[2 * place, 2 * place + 1]] = drops[[2 * place + 1, 2 * place]]
    return drops


def w1(drops):
    drops = np.asarray(drops, float)
    worst = np.stack([drops - 0.1, drops, drops + 0.1], axis=1)
    return judge_w1(W1Figures(shared=tuple(range(len(drops))), worst=worst, with_head=np.array([20.0, 22.0]), **SAID))


@pytest.mark.parametrize(
    ("drops", "holds"),
    [
        (swapped(4, 0), True),
        (swapped(11, 5), True),  # 45 / 55 = 0.818
        (swapped(5, 1), False),  # 8 / 10, exactly at the threshold
        (swapped(15, 7) + 0.5 * (np.arange(15) == 0), True),  # 91 / 105 = 0.867
        (swapped(4, 1), False),  # 4 / 6
        ([0, 1, 1, 0.5, 3, 4, 5, 6, 2, 7, 8], False),  # 43 / sqrt(54 * 55) = 0.789
        (-swapped(4, 0), False),
        ([1, 1, 1, 1], None),  # nothing rises and nothing falls
    ],
)
def test_w1_wants_drops_that_rise_with_the_layers(drops, holds):
    assert w1(drops).holds is holds


def test_w1_says_what_was_measured():
    claim = w1([0, 1, 3, 2])
    assert claim.id == "W1" and claim.seeds == 3 and claim.command == SAID["command"]
    assert claim.ours == "rank correlation 0.67; worst drops of 0.0, 1.0, 3.0, 2.0 points"
    assert claim.spread == "single seeds from 0.67 to 0.67, mean 0.67"
    assert claim.note == (
        "A small setting. A keeps a head of its own; with a shared head too, the worst drop is 21.0 points."
        " Not so: a drop that rises with the layers."
    )


def test_w1_counts_a_seed_without_a_drop_as_one_without_a_trend():
    worst = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])
    claim = judge_w1(W1Figures(shared=(0, 1, 2), worst=worst, with_head=np.zeros(2), **SAID))
    assert claim.holds is True and claim.spread == "single seeds from 0.00 to 1.00, mean 0.50" and claim.seeds == 2


def drops(lost, left, gain):
    return Drops(np.array([lost - 1, lost, lost + 1]), np.full(3, left), np.array([gain - 0.1, gain, gain + 0.1]))


@pytest.mark.parametrize(
    ("lost", "left", "gain", "holds"),
    [
        (16.0, 0.0, 1.0, True),
        (16.0, 0.78, 0.0, True),
        (16.0, 0.80, 0.0, True),  # 95 %, exactly
        (16.0, 0.82, 0.0, False),
        (16.0, 2.2, 0.0, False),  # 86 %
        (16.0, 0.0, -0.46, True),
        (16.0, 0.0, -0.50, True),
        (16.0, 0.0, -0.54, False),
        (5.0, 0.0, 0.0, True),
        (4.9, 0.0, 0.0, None),
        (4.9, 4.9, -9.0, None),
        (5.1, 5.1, 0.0, False),
        (0.0, 0.0, 0.0, None),
    ],
)
def test_w2_wants_nearly_all_of_the_drop_at_no_cost(lost, left, gain, holds):
    assert judge_w2(W2Figures(drops=drops(lost, left, gain), **SAID)).holds is holds


def test_w2_says_what_was_measured():
    claim = judge_w2(W2Figures(drops=drops(16.0, 1.6, -2.0), **SAID))
    assert claim.id == "W2" and claim.seeds == 3 and claim.command == SAID["command"]
    assert claim.ours == "90.0% of a worst drop of 16.0 points; B -2.00 points"
    # 0.1 d_i / 16 deviates by 0.1 / 16, and so the interval's half is 2.4842 times that.
    assert claim.spread == "95 % interval [88.4 %, 91.6 %]; B [-2.25, -1.75]"
    assert claim.note == "A small setting. Not so: 95% of the drop removed; B within 0.5 points."
    unanswered = judge_w2(W2Figures(drops=drops(3.0, 0.0, 0.0), **SAID))
    assert unanswered.note == "A small setting. Not answered: unguarded, A must lose 5 points for it."


def w3(lost=16.0, left=0.0, gain=0.0, lowest=0.38):
    levels = {0.55: drops(lost, left, gain), lowest: drops(10.0, 12.0, -30.0)}
    return judge_w3(W3Figures(levels=levels, **SAID))


@pytest.mark.parametrize(
    ("figures", "holds"),
    [
        ({"left": 7.9}, True),
        ({"left": 8.0}, True),
        ({"left": 8.1}, False),
        ({"gain": -4.9}, True),
        ({"gain": -5.0}, True),
        ({"gain": -5.1}, False),
        ({"gain": 7.0}, True),
        ({"lost": 5.0}, True),
        ({"lost": 4.9}, None),
        ({"lowest": 0.37}, True),
        ({"lowest": 0.39}, None),
        ({"lowest": 0.39, "left": 16.0}, None),
    ],
)
def test_w3_wants_half_of_the_drop_at_little_cost_and_the_trend(figures, holds):
    assert w3(**figures).holds is holds


def test_w3_says_what_was_measured():
    claim = w3(left=1.6, gain=-18.0, lowest=0.43)
    assert claim.id == "W3" and claim.seeds == 3 and claim.command == SAID["command"]
    assert claim.ours == "90% at 55%; B -18.0 points"
    assert claim.spread == "95 % interval [88.4 %, 91.6 %]; B [-18.25, -17.75]"
    assert claim.note == (
        "Trend: 90% of 16.0 points at 55%, B -18.0; -20% of 10.0 points at 43%, B -30.0. A small setting."
        " Not answered: the trend is to be shown down to 38%."
    )
    both = judge_w3(W3Figures(levels={0.55: drops(1.0, 0.0, 0.0)}, **SAID))
    assert both.note.endswith(
        " Not answered: unguarded, A must lose 5 points for it; the trend is to be shown down to 38%."
    )


def lowered(mean, others=None):
    others = np.array([[4.0, 3.0]] * len(mean)) if others is None else others
    return DifferenceFigures(mean=mean, best_five=others, largest=2 * others, remark=" A remark.", **SAID)


@pytest.mark.parametrize("judge", [judge_w4, judge_w5])
@pytest.mark.parametrize(
    ("mean", "holds"),
    [
        (beside(three(1.0), base=0.96), True),  # lower by 51 %
        (beside(three(1.0), base=1.0), True),  # by half
        (beside(three(1.0), base=1.04), False),  # by 49 %
        (beside(three(1.0, SURE), base=0.5), True),
        (beside(three(1.0, UNSURE), base=0.5), False),
        (beside(many(1.0, SURE_OF_MANY), base=0.5), True),
        (beside(many(1.0, UNSURE_OF_MANY), base=0.5), False),
        (beside(three(-1.0), base=1.2), False),  # higher
        (beside(three(1.0), base=-0.9), True),  # to below 0
        (beside(three(1.0), base=-1.0), None),  # nothing was forgotten without the guard
        (beside(three(1.0), base=-1.5), None),
        (beside([1.0], base=0.1), None),  # one seed has no interval
    ],
)
def test_w4_and_w5_want_the_mean_lower_by_half(judge, mean, holds):
    assert judge(lowered(mean)).holds is holds


def test_w4_and_w5_say_what_was_measured():
    mean = np.array([[2.0, 0.5], [4.0, 3.5], [3.0, 3.5]])
    for judge, name, search in ((judge_w4, "W4", "ENAS RNN search"), (judge_w5, "W5", "ENAS CNN search")):
        claim = judge(lowered(mean))
        assert claim.id == name and claim.seeds == 3 and claim.command == SAID["command"]
        assert claim.claim == f"{search}: plasticity lowers the mean error difference."
        assert claim.ours == "-17 % / -25 % / -25 % (mean / best five / largest)"
        assert claim.spread == (
            "mean 3 to 2.5, lower by 0.50 [-1.98, 2.98] and in 2 of 3 seeds; "
            "best five 4 to 3, lower by 1.00 [1.00, 1.00] and in 3 of 3 seeds; "
            "largest 8 to 6, lower by 2.00 [2.00, 2.00] and in 3 of 3 seeds"
        )
        assert claim.note == (
            "A small setting. Not so: a mean lower by 50%; a difference of the means that can be told from 0 over "
            "seeds. A remark."
        )
    assert "nothing to lower" in judge_w4(lowered(-mean)).note
    assert "nothing to lower" in judge_w4(lowered(mean - [[2.0, 0.0], [4.0, 0.0], [3.0, 0.0]])).note
    assert judge_w4(lowered(mean * [[1.0, -1.0]])).ours.startswith("-183 % / ")
    assert "lower by 0.00 [0.00, 0.00] and in 0 of 3 seeds" in judge_w4(lowered(beside(three(0.0), base=1.0))).spread
    assert judge_w4(lowered(mean)).paper == "-95 / -59 / -51 %" and judge_w5(lowered(mean)).paper == "Fig. B"


LOWER, HIGHER = many(-1.0, SURE_OF_MANY), many(1.0, SURE_OF_MANY)


def w6(early=LOWER, late=HIGHER, alphas=(60.0, 60.0, 59.0)):
    return judge_w6(W6Figures(early=np.asarray(early), late=np.asarray(late), alphas=alphas, **SAID))


@pytest.mark.parametrize(
    ("figures", "holds"),
    [
        ({}, True),
        ({"early": many(-1.0, UNSURE_OF_MANY)}, False),
        ({"late": many(1.0, UNSURE_OF_MANY)}, False),
        ({"early": many(1.0)}, False),
        ({"late": many(-1.0)}, False),
        ({"early": many(0.0)}, False),
        ({"late": many(0.0)}, False),
        ({"early": np.full(11, -1.0), "late": np.ones(11)}, None),
        ({"early": np.full(11, 1.0), "late": np.ones(11)}, None),
        ({"early": np.full(13, -1.0), "late": np.ones(13)}, True),
        ({"alphas": (60.0, 60.0)}, None),
        ({"alphas": (59.0, 60.0)}, None),
        ({"alphas": (60.0, 59.0, 60.0)}, None),
        ({"alphas": (60.0, 61.0, 60.0)}, True),
        ({"alphas": (60.0, float("nan"))}, None),
        ({"alphas": ()}, None),
        ({"early": np.full(12, np.nan)}, None),
    ],
)
def test_w6_wants_both_halves_over_twelve_seeds_while_alpha_falls(figures, holds):
    assert w6(**figures).holds is holds


def test_w6_says_what_was_measured():
    claim = w6(early=[0.1] * 3, late=[0.2] * 3, alphas=(2.0, 1.0, 3.0))
    assert claim.id == "W6" and claim.seeds == 3 and claim.command == SAID["command"]
    assert claim.ours == "+0.1 in the first half, +0.2 in the second"
    assert claim.spread == "intervals [+0.1, +0.1] and [+0.2, +0.2]"
    assert claim.note == (
        "A small setting. Alpha from 3 to 3. Not answered: at least 12 paired seeds are asked, and there are 3; "
        "alpha does not fall within the run."
    )
    assert w6(late=many(-1.0), alphas=(3.0, 1.0)).note == (
        "A small setting. Alpha from 3 to 1. Not so: a higher reward in the second half."
    )
    assert "a lower reward in the first half" in w6(early=many(1.0)).note
    assert "Alpha from" not in w6(alphas=()).note


RATES = (0.0, 0.25, 0.5, 0.75)


def w7(**changed):
    values = {f"{rate:g}": beside(three(1.0, SURE), base=1.0) for rate in RATES} | changed
    return judge_w7(W7Figures(differences={float(rate): v for rate, v in values.items() if v is not None}, **SAID))


@pytest.mark.parametrize("rate", [f"{rate:g}" for rate in RATES])
@pytest.mark.parametrize(
    ("values", "holds"),
    [
        (beside(three(1.0, SURE), base=1.0), True),
        (beside(three(1.0, UNSURE), base=1.0), False),
        (beside(three(-1.0), base=1.0), False),
        (beside(three(0.0), base=1.0), False),
        (beside([1.0]), None),
        (None, None),
    ],
)
def test_w7_wants_every_rate_surely_lower(rate, values, holds):
    assert w7(**{rate: values}).holds is holds


def test_w7_says_what_was_measured():
    claim = w7(**{"0.5": np.array([[1.0, 0.5], [1.0, 1.5]]), "0.75": None, "0.25": None})
    assert claim.id == "W7" and claim.seeds == 2 and claim.command == SAID["command"]
    assert claim.ours == "0: 2 to 1; 0.5: 1 to 1"
    assert claim.spread == "lower by 0: 1.00 [0.01, 1.99], in 3 of 3 seeds; 0.5: 0.00 [-6.35, 6.35], in 1 of 2 seeds"
    assert claim.note == "A small setting. Not answered: not measured at a rate of 0.25, 0.75."
    equal = w7(**{"0.5": beside(three(0.0))})
    assert (
        equal.note == "A small setting. Not so: surely lower at 0.5." and "0.00 [0.00, 0.00], in 0 of 3" in equal.spread
    )


def w8(recurrent, convolutional, means):
    names, gains = ("recurrent", "convolutional"), (recurrent, convolutional)
    searches = {
        # Without the guard the mean error is 5 plus the gain's mean, so 6 if that is 1.
        name: Retrained(beside(gain, base=5.0), np.array([mean - 1, mean + 1]))
        for name, gain, mean in zip(names, gains, means, strict=True)
    }
    return judge_w8(W8Figures(searches=searches, **SAID))


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize(
    ("first", "mean", "holds"),
    [
        (three(1.0, SURE), 7.0, True),
        (three(1.0, UNSURE), 7.0, False),
        (three(-1.0), 7.0, False),
        (three(1.0), 6.1, True),
        (three(1.0), 6.0, None),  # the unguarded search is no better than chance
        (three(1.0), 5.9, None),
        (three(-1.0), 3.9, None),
        ([1.0], 7.0, None),
    ],
)
def test_w8_wants_both_found_surely_better_where_the_search_finds_anything(swap, first, mean, holds):
    gains, means = [first, three(1.0, SURE)], [mean, 7.0]
    assert w8(*(gains[::-1] if swap else gains), means[::-1] if swap else means).holds is holds


def test_w8_fails_by_one_search_although_the_other_found_nothing():
    assert w8(three(1.0), three(-1.0), (6.0, 7.0)).holds is False
    assert w8(three(1.0), three(1.0), (6.0, 6.0)).holds is None


def test_w8_says_what_was_measured():
    claim = w8(three(1.0, SURE), [-1.0, -1.0], (6.0, 7.0))
    assert claim.id == "W8" and claim.seeds == 3 and claim.command == SAID["command"]
    assert claim.ours == "recurrent: 6 to 5, at random 6; convolutional: 4 to 5, at random 7"
    assert claim.spread == "gain of recurrent (3 seeds) [0.00634, 1.99]; gain of convolutional (2 seeds) [-1, -1]"
    assert claim.note == (
        "A small setting. Not so: surely better (convolutional). Not known: the unguarded search does not beat the "
        "mean of the space (recurrent)."
    )
