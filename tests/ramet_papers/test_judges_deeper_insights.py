"""D1 to D9 on made-up figures: both sides of every threshold, every sign, and what is not answered."""

import numpy as np
import pytest
from made_up import SAID, SURE_OF_MANY, UNSURE_OF_MANY, many, three

from ramet.ranking.metrics import Stability
from ramet_papers.deeper_insights.judges import (
    D1Figures,
    D2Figures,
    D3Figures,
    D4Figures,
    D5Figures,
    D6Figures,
    D7Figures,
    D8Figures,
    D9aFigures,
    D9bFigures,
    judge_d1,
    judge_d2,
    judge_d3,
    judge_d4,
    judge_d5,
    judge_d6,
    judge_d7,
    judge_d8,
    judge_d9a,
    judge_d9b,
)

NAN = float("nan")


def d1(truth, *shared):
    found = {f"experiment {place}": Stability(mean, mean + 0.1, mean - 0.2) for place, mean in enumerate(shared)}
    return judge_d1(D1Figures(truth=Stability(truth, 1.0, -1.0), shared=found, seeds=3, **SAID))


@pytest.mark.parametrize(
    ("truth", "shared", "holds"),
    [
        (0.51, (0.3, 0.5, 0.4), True),
        (0.50, (0.3, 0.5, 0.4), False),
        (0.49, (0.3, 0.5, 0.4), False),
        (0.35, (0.3, 0.5, 0.4), False),
        (0.25, (0.3, 0.5, 0.4), False),
        (0.51, (0.5, 0.3, 0.4), True),
        (0.49, (0.5, 0.3, 0.4), False),
        (0.49, (0.3, 0.4, 0.5), False),
        (NAN, (0.3, 0.5, 0.4), None),
    ],
)
def test_d1_wants_the_truth_above_every_experiment(truth, shared, holds):
    assert d1(truth, *shared).holds is holds


def test_d1_says_what_was_measured():
    claim = d1(0.45, 0.3, 0.5, 0.4)
    assert claim.id == "D1" and claim.seeds == 3 and claim.command == SAID["command"]
    assert claim.ours == "S-Tau 0.45 against 0.30 to 0.50" and claim.spread == "pairs of instances from 0.10 to 0.60"
    assert claim.note == "A small setting. Not so: experiment 1."


def d2(shared, others):
    return judge_d2(D2Figures(shared=np.asarray(shared), others=np.asarray(others, float), seeds=3, **SAID))


@pytest.mark.parametrize(
    ("shared", "others", "holds"),
    [
        (three(0.5), three(0.66), True),
        (three(0.5), three(0.65), True),  # 0.15 in floating point, too
        (three(0.5), three(0.64), False),
        (three(0.5), three(0.35), False),  # as far above
        (three(0.25, 0.5), [0.1, 0.41, 0.7], True),
        (three(0.25, 0.5), [0.1, 0.4, 0.66], False),
        (three(0.5), [], None),
    ],
)
def test_d2_wants_the_shared_ranking_far_below_a_seed_of_the_truth(shared, others, holds):
    assert d2(shared, others).holds is holds


def test_d2_says_what_was_measured():
    claim = d2([0.4, 0.5, 0.6], three(0.6))
    assert claim.id == "D2" and claim.seeds == 3 and claim.command == SAID["command"]
    assert claim.ours == "0.50 against 0.60 of a seed of the truth with the others: 0.10 below"
    assert claim.spread == "95 % interval [0.25, 0.75]"
    assert claim.note == "A small setting. Not so: at least 0.15 below a seed of the truth."


def d3(*deviations):
    taus = [[0.5 - deviation, 0.5 + deviation] * 2 for deviation in deviations]
    return judge_d3(D3Figures(taus=np.array(taus), command="a command", setting=""))


@pytest.mark.parametrize(
    ("deviations", "holds"),
    [
        ((0.051, 0.051), True),
        ((0.0625, 0.0375 + 1e-9), True),
        ((0.049, 0.049), False),
        ((0.09, 0.0), False),
        ((0.11, 0.0), True),
        ((0.0, 0.0), False),
    ],
)
def test_d3_wants_a_ranking_that_varies(deviations, holds):
    assert d3(*deviations).holds is holds


def test_d3_does_not_hold_exactly_at_the_threshold():
    taus = np.array([[0.0, 0.1]])
    assert taus.std(axis=1)[0] == 0.05
    assert judge_d3(D3Figures(taus=taus, **SAID)).holds is False


def test_d3_says_what_was_measured():
    claim = d3(0.01, 0.04)
    assert claim.id == "D3" and claim.seeds == 2 and claim.command == "a command"
    assert claim.ours == "deviation 0.025, from 0.46 to 0.54" and claim.spread == "deviations from 0.010 to 0.040"
    assert claim.note == "Over the last 4 epochs of each of 2 supernets. Not so: a deviation above 0.05."


def d4(*kept):
    return judge_d4(D4Figures(kept={f"run {place}": value for place, value in enumerate(kept)}, seeds=9, **SAID))


@pytest.mark.parametrize(
    ("kept", "holds"),
    [
        ((0.91, 0.91), True),
        ((0.9, 0.9), True),
        ((1.0, 0.8), True),
        ((0.89, 0.89), False),
        ((1.0, 0.78), False),
        ((0.8, 1.02), True),
    ],
)
def test_d4_wants_nine_tenths_of_the_best_kept(kept, holds):
    assert d4(*kept).holds is holds


def test_d4_says_what_was_measured():
    claim = d4(1.0, 0.75)
    assert claim.id == "D4" and claim.seeds == 9 and claim.command == SAID["command"]
    assert claim.ours == "pruning half by the mean over the last epochs keeps 88% of the true best quarter"
    assert claim.spread == "100% (run 0), 75% (run 1)"
    assert claim.note == "A small setting. Not so: 90% kept."


def d5(full, frozen=(0.5, 0.5, 0.5, 0.5), points=(0, 1, 10, 11), supernets=2):
    def curves(means):
        return np.stack([np.asarray(means, float) + shift for shift in np.linspace(-0.25, 0.25, supernets)])

    return judge_d5(
        D5Figures(
            points=points,
            full=curves(full),
            half=curves([0.1, 0.2, 0.4, 0.9]),
            frozen=None if frozen is None else curves(frozen),
            **SAID,
        )
    )


@pytest.mark.parametrize(
    ("full", "frozen", "holds"),
    [
        ([0.5, 0.61, 0.5, 0.5], (0.5, 0.5, 0.5, 0.5), True),
        ([0.5, 0.5, 0.61, 0.5], (0.5, 0.5, 0.5, 0.5), True),
        ([0.5, 0.59, 0.59, 0.5], (0.5, 0.5, 0.5, 0.5), False),
        ([0.5, 0.5, 0.5, 0.9], (0.5, 0.5, 0.5, 0.5), False),  # only after more than ten mini-batches
        ([0.5, 0.3, 0.4, 0.3], (0.5, 0.5, 0.5, 0.5), False),
        ([0.5, 0.625, 0.5, 0.5], (0.25, 0.25, 0.3125, 0.9), True),
        ([0.5, 0.625, 0.5, 0.5], (0.25, 0.375, 0.25, 0.25), False),  # batch norm alone does as much
        ([0.5, 0.625, 0.5, 0.5], (0.25, 0.25, 0.5, 0.25), False),
        ([0.5, 0.625, 0.5, 0.5], (0.25, 0.25, 0.37, 0.25), True),
        ([0.5, 0.7, 0.5, 0.5], None, None),
        ([0.5, 0.55, 0.5, 0.5], None, False),
    ],
)
def test_d5_wants_a_rise_within_ten_mini_batches_beyond_that_of_batch_norm(full, frozen, holds):
    assert d5(full, frozen).holds is holds


def test_d5_holds_exactly_at_the_threshold():
    full, flat = np.array([[0.0, 0.1], [0.0, 0.1]]), np.zeros((2, 2))
    assert judge_d5(D5Figures(points=(0, 5), full=full, half=flat, frozen=flat, **SAID)).holds is True


def test_d5_says_what_was_measured():
    claim = d5([0.5, 0.52, 0.53, 0.9], frozen=None)
    assert claim.id == "D5" and claim.seeds == 2 and claim.command == SAID["command"]
    assert claim.ours == "0.50 to 0.53 in 10"
    assert claim.spread == "rise 0.03 [0.03, 0.03]; from half of the training +0.30"
    assert claim.note == (
        "A small setting. Not so: a rise of 0.1 within 10 mini-batches. Not known: a higher rise than by batch norm "
        "alone, the weights frozen."
    )
    assert d5([0.5, 0.3, 0.4, 0.3]).ours == "0.50 to 0.40 in 10"
    assert d5([0.5, 0.7, 0.6, 0.9], (0.5, 0.4, 0.6, 0.9)).spread == (
        "rise 0.20 [0.20, 0.20]; from half of the training +0.10; with frozen weights +0.10"
    )


def d6(**shares):
    shares = {order: three(share, 0.01) for order, share in shares.items()}
    return judge_d6(
        D6Figures(shares=shares, median_ranks={"cyclic": 3.0, "shuffled": 26.4}, children=64, seeds=3, **SAID)
    )


@pytest.mark.parametrize(
    ("cyclic", "shuffled", "holds"),
    [
        (0.51, 0.51, True),
        (0.5, 0.9, False),
        (0.9, 0.5, False),
        (0.49, 0.9, False),
        (0.9, 0.49, False),
        (0.54, 0.9, True),
    ],
)
def test_d6_wants_most_steps_in_both_orders(cyclic, shuffled, holds):
    assert d6(cyclic=cyclic, shuffled=shuffled).holds is holds


def test_d6_says_what_was_measured():
    claim = d6(cyclic=0.6, shuffled=0.3)
    assert claim.id == "D6" and claim.seeds == 3 and claim.command == SAID["command"]
    assert claim.ours == "in the best quarter in 60% of steps (cyclic), 30% of steps (shuffled)"
    assert claim.spread.endswith("; median rank 3 (cyclic), 26 (shuffled) of 64")
    assert claim.spread.startswith("60.0 % [") and "30.0 % [" in claim.spread
    assert claim.note == "A small setting. Not so: most steps (shuffled)."


def spread_by(mean, half):
    """Three seeds whose 95 % interval is the mean -+ a half."""
    return mean + half / 2.484138 * np.array([-1.0, 0.0, 1.0])


def d7(full=(0.5, 0.1), random=(0.2, 0.1), similar=(0.8, 0.1)):
    taus = (spread_by(*interval) for interval in (full, random, similar))
    return judge_d7(D7Figures(**dict(zip(("full", "random", "similar"), taus, strict=True)), groups=16, **SAID))


@pytest.mark.parametrize(
    ("figures", "holds"),
    [
        ({}, True),
        ({"random": (0.2, 0.19)}, True),  # [0.01, 0.39] below [0.40, 0.60]
        ({"random": (0.2, 0.21)}, False),
        ({"similar": (0.8, 0.19)}, True),
        ({"similar": (0.8, 0.21)}, False),
        ({"full": (0.5, 0.19)}, True),
        ({"full": (0.5, 0.21)}, False),
        ({"random": (0.8, 0.1)}, False),
        ({"similar": (0.2, 0.1)}, False),
        ({"random": (0.8, 0.1), "similar": (0.2, 0.1)}, False),
        ({"random": (0.5, 0.0), "full": (0.5, 0.0)}, False),
        ({"similar": (0.5, 0.0), "full": (0.5, 0.0)}, False),
    ],
)
def test_d7_wants_both_directions_with_intervals_apart(figures, holds):
    assert d7(**figures).holds is holds


@pytest.mark.parametrize("alone", ["full", "random", "similar"])
def test_d7_is_open_where_a_seed_is_alone(alone):
    taus = {"full": three(0.5), "random": three(0.2), "similar": three(0.8)}
    taus[alone] = taus[alone][:1]
    assert judge_d7(D7Figures(**taus, groups=16, **SAID)).holds is None


def test_d7_says_what_was_measured():
    claim = d7(random=(0.4, 0.1), similar=(0.6, 0.1))
    assert claim.id == "D7" and claim.seeds == 3 and claim.command == SAID["command"]
    assert claim.ours == "0.40 random, 0.60 similar at 16 groups, 0.50 shared by all"
    assert claim.spread == "random [0.30, 0.50], similar [0.50, 0.70], all [0.40, 0.60]"
    assert claim.note == (
        "A small setting. Not so: random groups clearly worse than full sharing; similar groups clearly better than "
        "full sharing."
    )


def d8(long, short):
    def taus(means):
        return {k: three(mean) for k, mean in enumerate(means)}

    return judge_d8(D8Figures(long=taus(long), short=taus(short), **SAID))


@pytest.mark.parametrize(
    ("long", "short", "holds"),
    [
        ([0.7, 0.6, 0.5], [0.1, 0.2, 0.3], True),
        ([0.7, 0.5, 0.6], [0.1, 0.3, 0.2], True),
        ([0.7, 0.7, 0.5], [0.1, 0.2, 0.3], False),  # no better than another
        ([0.7, 0.8, 0.5], [0.1, 0.2, 0.3], False),
        ([0.7, 0.5, 0.8], [0.1, 0.2, 0.3], False),
        ([0.7, 0.6, 0.5], [0.2, 0.2, 0.3], False),
        ([0.7, 0.6, 0.5], [0.25, 0.2, 0.3], False),
        ([0.7, 0.6, 0.5], [0.25, 0.3, 0.2], False),
        ([0.7, 0.6], [0.1, 0.2], True),
    ],
)
def test_d8_wants_the_best_and_the_worst(long, short, holds):
    assert d8(long, short).holds is holds


def test_d8_says_what_was_measured():
    claim = d8([0.15, 0.42, 0.47], [-0.1, -0.3, 0.25])
    assert claim.id == "D8" and claim.seeds == 3 and claim.command == SAID["command"]
    first = "k = 0: 0.15 [0.15, 0.15] long, -0.10 [-0.10, -0.10] short"
    assert claim.ours == f"{first}; best long: k = 2, worst short: k = 1"
    assert claim.spread == (
        f"{first}; k = 1: 0.42 [0.42, 0.42] long, -0.30 [-0.30, -0.30] short; "
        "k = 2: 0.47 [0.47, 0.47] long, 0.25 [0.25, 0.25] short"
    )
    assert claim.note == "A small setting. Not so: best when trained long; worst when trained short."
    taus = {0: three(0.5), 1: three(0.4)[:2]}
    assert judge_d8(D8Figures(long=taus, short=taus, **SAID)).seeds == 3


MORE, UNSURELY_MORE = many(1.0, SURE_OF_MANY), many(1.0, UNSURE_OF_MANY)


PLAIN = np.full(12, 5.0)


def d9a(less=MORE, num=12):
    return judge_d9a(D9aFigures(plain=PLAIN[:num], lower=(PLAIN - less)[:num], **SAID))


def d9b(more=MORE, faster=MORE, num=12):
    faster = None if faster is None else (PLAIN + faster)[:num]
    return judge_d9b(D9bFigures(plain=PLAIN[:num], without=(PLAIN + more)[:num], faster=faster, **SAID))


@pytest.mark.parametrize(
    ("figures", "holds"),
    [
        ({}, True),
        ({"less": UNSURELY_MORE}, False),
        ({"less": -MORE}, False),
        ({"num": 10}, True),
        ({"num": 9}, None),
        ({"num": 9, "less": -MORE}, None),
    ],
)
def test_d9a_wants_a_sure_difference_over_ten_supernets(figures, holds):
    assert d9a(**figures).holds is holds


@pytest.mark.parametrize(
    ("figures", "holds"),
    [
        ({}, True),
        ({"more": UNSURELY_MORE}, False),
        ({"faster": UNSURELY_MORE}, False),
        ({"more": -MORE}, False),
        ({"faster": -MORE}, False),
        ({"faster": None}, None),
        ({"faster": None, "more": -MORE}, False),
        ({"num": 10}, True),
        ({"num": 9}, None),
        ({"num": 9, "more": -MORE}, None),
    ],
)
def test_d9b_wants_both_differences_over_ten_supernets(figures, holds):
    assert d9b(**figures).holds is holds


def test_d9_says_what_was_measured():
    claim = d9a(many(1.0), num=3)
    assert claim.id == "D9a" and claim.seeds == 3 and claim.command == SAID["command"]
    assert claim.ours == "deviation of GT-Tau 5.000, 4.000 with a lower momentum"
    assert claim.spread == "steadier by 1.000 [1.000, 1.000]"
    assert claim.note == "A small setting. Not answered: at least 10 supernets are asked, and there are 3."
    assert d9a(-MORE).note == "A small setting. Not so: steadier by a lower momentum of batch norm."
    claim = d9b(many(-2.0), None, num=3)
    assert claim.id == "D9b" and claim.seeds == 3 and claim.command == SAID["command"]
    assert claim.ours == "deviation of GT-Tau 5.000, 3.000 without momentum"
    assert claim.spread == "less stable by -2.000 [-2.000, -2.000], at ten times the learning rate not measured"
    assert d9b(faster=many(1.0)).spread.endswith("at ten times the learning rate 1.000 [1.000, 1.000]")
    assert d9b(-MORE, -MORE).note == (
        "A small setting. Not so: less stable without SGD's momentum; less stable without SGD's momentum at ten times "
        "the learning rate."
    )
