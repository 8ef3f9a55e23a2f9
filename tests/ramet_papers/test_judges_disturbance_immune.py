"""I1 to I6 on made-up figures: both sides of every threshold, every sign, and what is not answered."""

import numpy as np
import pytest
from made_up import SAID, SURE, SURE_OF_MANY, UNSURE, UNSURE_OF_MANY, many, three

from ramet_papers.disturbance_immune.judges import (
    Changes,
    I1Figures,
    I2Figures,
    I3Figures,
    I4Figures,
    I5Figures,
    I6Figures,
    Lambdas,
    OwnGains,
    SharedLayers,
    judge_i1,
    judge_i2,
    judge_i3,
    judge_i4,
    judge_i5,
    judge_i6,
)

NAN = float("nan")


def i1(means, trends, known=0.9):
    """Drops whose means are those of the seeds, and disturbances whose rows grow, or fall by a seed's trend of -1."""
    means = np.asarray(means, float)
    grown = np.triu(np.arange(4.0)[None, :] + np.zeros((4, 4)), k=1)
    return judge_i1(
        I1Figures(
            disturbance=np.stack([trend * grown for trend in trends]),
            drops=np.repeat(means[:, None], 3, axis=1),
            standing=-np.repeat(means[:, None], 3, axis=1),
            own=np.full((len(means), 4), 0.9),
            known=np.full((len(means), 4), known),
            **SAID,
        )
    )


@pytest.mark.parametrize(
    ("means", "trends", "holds"),
    [
        (three(0.1, SURE), [1, 1, 1], True),
        (three(0.1, UNSURE), [1, 1, 1], False),
        (three(-0.1), [1, 1, 1], False),
        (many(0.1, SURE_OF_MANY), [1] * len(many(0.1)), True),
        (many(0.1, UNSURE_OF_MANY), [1] * len(many(0.1)), False),
        (three(0.1), [1, 1, -1], False),  # not beyond chance
        (three(0.1), [0, 0, 0], False),
        (three(0.1), [-1, -1, -1], False),
        ([0.1], [1], None),
    ],
)
def test_i1_wants_a_drop_and_rows_that_grow(means, trends, holds):
    assert i1(means, trends).holds is holds


def test_i1_wants_architectures_that_have_converged():
    assert i1(three(0.1, SURE), [1, 1, 1], known=0.8999).holds is False


def test_i1_says_what_was_measured():
    claim = i1(three(0.1, UNSURE), [1, 1, -1])
    assert claim.id == "I1" and claim.seeds == 3 and claim.command == SAID["command"]
    assert claim.ours == (
        "mean drop 10.0 points of 90.0% (90.0% of the training images); the first one's disturbance (Eq. 3) 0.33 after "
        "the next, 1.00 after the last; rank correlation within rows 0.33"
    )
    assert claim.spread == (
        "95 % intervals [-0.06, 20.06] and [-2.54, 3.20]; batch norm as it stands: -10.00 [-20.06, 0.06] points"
    )
    assert claim.note == (
        "A small setting. Not so: a drop that can be told from 0; a disturbance that surely grows within a row."
    )


NONE = np.zeros(3)


def i2(**changed):
    figures = {
        "plain": Changes(NONE - 7, NONE + 7),  # which no verdict may look at where there is a control
        "guarded": Changes(three(-1.0, SURE), three(1.0, SURE)),
        "control": Changes(NONE, NONE),
        "own_gains": OwnGains(three(2.0), three(2.0)),
        "architectures": 64,
        "images": 2000,
        "batch_norm": "batch",
    }
    return judge_i2(I2Figures(**(figures | changed), **SAID))


@pytest.mark.parametrize(
    ("changed", "holds"),
    [
        ({}, True),
        ({"guarded": Changes(three(-1.0, UNSURE), three(1.0))}, False),
        ({"guarded": Changes(three(-1.0), three(1.0, UNSURE))}, False),
        ({"guarded": Changes(three(1.0), three(1.0))}, False),
        ({"guarded": Changes(three(-1.0), three(-1.0))}, False),
        ({"guarded": Changes(NONE, three(1.0))}, False),
        ({"guarded": Changes(three(-1.0), NONE)}, False),
        ({"control": Changes(three(-1.0), NONE)}, False),
        ({"control": Changes(NONE, three(1.0))}, False),
        ({"guarded": Changes(np.array([-1.0]), np.array([1.0])), "control": Changes(NONE[:1], NONE[:1])}, None),
        ({"guarded": Changes(three(-1.0), np.array([1.0, 1.0, NAN]))}, None),
        ({"control": None}, None),
        ({"own_gains": None}, None),
        ({"own_gains": OwnGains(three(2.0), three(2.19))}, True),
        ({"own_gains": OwnGains(three(2.0), three(2.21))}, None),
        ({"own_gains": OwnGains(three(2.0), three(1.81))}, True),
        ({"own_gains": OwnGains(three(2.0), three(1.79))}, None),
        ({"own_gains": OwnGains(np.full(3, 10.0), np.full(3, 11.0))}, True),  # exactly a tenth
        ({"own_gains": OwnGains(np.full(3, -10.0), np.full(3, -10.0))}, True),
        ({"architectures": 63}, None),
        ({"architectures": 65}, None),
        ({"images": 2001}, True),
        ({"images": 1999}, None),
        ({"batch_norm": "running"}, None),
        ({"batch_norm": "reestimated"}, None),
        ({"batch_norm": "another"}, None),
        ({"images": 1999, "guarded": Changes(three(1.0), three(-1.0))}, None),
    ],
)
def test_i2_wants_both_measures_against_a_fair_control(changed, holds):
    assert i2(**changed).holds is holds


def test_i2_says_what_was_measured():
    claim = i2(control=None, architectures=8, images=360, batch_norm="running")
    assert claim.id == "I2" and claim.seeds == 3 and claim.command == SAID["command"]
    assert claim.ours == "absolute change -700.0% to -100.0%, KTau 7.00 to 1.00"
    assert claim.spread == "differences 600.0 % [500.6 %, 699.4 %] and -6.00 [-6.99, -5.01]"
    assert claim.note == (
        "A small setting. Not answered: an unguarded control of equal own gain was not measured; 64 architectures are "
        "asked, and there are 8; at least 2,000 images are asked, and there are 360; statistics of the batch are "
        "asked, and they are running."
    )
    assert i2(own_gains=OwnGains(three(2.0), three(1.5))).note == (
        "A small setting. Not answered: the control's own gain is 1.5, and projection's 2."
    )
    assert i2(own_gains=None).note.endswith(" Not answered: an unguarded control of equal own gain was not measured.")
    assert i2(guarded=Changes(NONE, NONE)).note.endswith("Not so: a change surely lower; a consistency surely higher.")
    assert i2().ours == "absolute change 0.0% to -100.0%, KTau 0.00 to 1.00"


def i3(gain, supernets=8, **changed):
    figures = {
        "plain": np.full(supernets, 7.0),  # which no verdict may look at where there is a control
        "guarded": gain,
        "control": np.zeros(supernets),
        "own_gains": OwnGains(three(2.0), three(2.0)),
    }
    return judge_i3(I3Figures(**(figures | changed), **SAID))


@pytest.mark.parametrize(
    ("claim", "holds"),
    [
        (i3(many(1.0, 1.2, num=8)), True),
        (i3(many(1.0, 1.8, num=8)), False),
        (i3(many(-1.0, num=8)), False),
        (i3(many(0.0, num=8)), False),
        (i3(np.ones(9), supernets=9), True),
        (i3(np.ones(7), supernets=7), None),
        (i3(-np.ones(7), supernets=7), None),
        (i3(many(1.0, num=8), control=None), None),
        (i3(many(1.0, num=8), own_gains=None), None),
        (i3(many(1.0, num=8), own_gains=OwnGains(three(2.0), three(2.25))), None),
        (i3(many(1.0, num=8), own_gains=OwnGains(three(2.0), three(1.81))), True),
    ],
)
def test_i3_wants_eight_supernets_surely_higher_than_a_fair_control(claim, holds):
    assert claim.holds is holds


def test_i3_says_what_was_measured():
    claim = i3(three(0.5), supernets=3, control=None)
    assert claim.id == "I3" and claim.seeds == 3 and claim.command == SAID["command"]
    assert claim.ours == "GT-Tau 7.00 to 0.50" and claim.spread == "gain -6.50 [-6.50, -6.50] over supernets"
    assert claim.note == (
        "A small setting. Not answered: an unguarded control of equal own gain was not measured; at least 8 paired "
        "supernets are asked, and there are 3."
    )
    assert i3(np.zeros(8)).note == "A small setting. Not so: a correlation surely higher."
    assert i3(np.ones(8)).ours == "GT-Tau 0.00 to 1.00"


LAYERS = np.array([2.0, 7.0, 12.0, 17.0])
RISES, FALLS, FLAT = [0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.2, 0.1]
MOSTLY = [0.1, 0.2, 0.4, 0.3]  # 4 / 6


def shared(*curves):
    return SharedLayers(LAYERS, np.array(curves).T)


def i4(pairs=(RISES,) * 3, mean=None, others=None, measured=True):
    lambdas = {"mean inputs": mean or {0.1: 0.9, 1.0: 0.9}, "all inputs": others or {1.0: 0.5, 10.0: 0.9}}
    curves = {way: {value: three(accuracy) for value, accuracy in curve.items()} for way, curve in lambdas.items()}
    return judge_i4(
        I4Figures(
            shared=shared(*pairs) if pairs else None,
            lambdas=Lambdas(curves, three(0.25)) if measured else None,
            seeds=3,
            **SAID,
        )
    )


@pytest.mark.parametrize(
    ("figures", "holds"),
    [
        ({}, True),
        ({"pairs": (FALLS,) * 3}, False),
        ({"pairs": (FLAT,) * 3}, False),
        ({"pairs": (RISES, RISES, MOSTLY)}, True),  # 1, 1, 0.67: 0.89 -+ 0.48
        ({"pairs": (RISES, RISES, FLAT)}, False),  # 1, 1, 0: 0.67 -+ 1.43
        ({"pairs": (RISES,)}, None),
        ({"pairs": None}, None),
        ({"pairs": (FALLS,) * 3, "measured": False}, False),
        ({"measured": False}, None),
        ({"mean": {0.1: 0.909, 1.0: 0.9}}, True),
        ({"mean": {0.1: 0.91, 1.0: 0.9}}, True),
        ({"mean": {0.1: 0.9107, 1.0: 0.9}}, False),
        ({"mean": {0.1: 0.2, 1.0: 0.9, 10.0: 0.95}}, False),
        ({"mean": {0.1: 0.2, 1.0: 0.9, 10.0: 0.3}}, True),
        ({"mean": {0.1: 0.9}}, None),
        ({"mean": {0.1: 0.95, 1.0: 0.9}, "others": {1.0: 0.9}}, False),
    ],
)
def test_i4_wants_a_trend_and_a_good_default_for_mean_inputs(figures, holds):
    assert i4(**figures).holds is holds


def test_i4_says_what_was_measured():
    claim = i4(pairs=(RISES, FALLS, FLAT), mean={0.1: 0.95, 1.0: 0.9})
    assert claim.id == "I4" and claim.seeds == 3 and claim.command == SAID["command"]
    assert claim.ours == (
        "disturbance 0.20 with 2 shared layers, 0.20 with 17; rank correlation with their number 0.00 [-2.48, 2.48]; "
        "mean inputs: 90.0% at lambda 1, 95.0% at the best, 0.1; all inputs: 50.0% at lambda 1, 90.0% at the best, 10; "
        "unguarded 25.0%"
    )
    assert claim.spread == "more disturbance by more shared layers: no; lambda = 1 within 0.01 of the best: no"
    assert claim.note == (
        "A small setting. Not so: more disturbance by more shared layers; lambda = 1 within 0.01 of the best."
    )
    assert i4().spread == "more disturbance by more shared layers: yes; lambda = 1 within 0.01 of the best: yes"
    nothing = i4(pairs=None, measured=False)
    assert nothing.ours == "shared layers not measured; lambda not measured"
    assert nothing.spread.count("not measured") == 2


def i5(float32=1e-6, float64=1e-11, shares=(0.5, 0.2, 0.9), **changed):
    differences = {"float32": np.array([[0.0, float32], [0.0, 0.0]]), "float64": np.array([[float64], [0.0]])}
    return judge_i5(
        I5Figures(differences=changed.get("differences", differences), shares=np.array(shares), instances=4, **SAID)
    )


@pytest.mark.parametrize(
    ("figures", "holds"),
    [
        ({}, True),
        ({"float32": 0.99e-5}, True),
        ({"float32": 1e-5}, True),
        ({"float32": 1.01e-5}, False),
        ({"float64": 0.99e-10}, True),
        ({"float64": 1e-10}, True),
        ({"float64": 1.01e-10}, False),
        ({"float64": NAN}, None),
        ({"differences": {"float64": np.zeros(3)}}, None),
        ({"shares": (0.5, 1.0)}, True),
        ({"shares": (0.5, 1.0001)}, False),
        ({"shares": (0.5, NAN)}, False),
        ({"shares": ()}, None),
    ],
)
def test_i5_wants_equal_forms_and_a_bound_that_holds(figures, holds):
    assert i5(**figures).holds is holds


def test_i5_says_what_was_measured():
    claim = i5(float32=2e-5, float64=3e-10, shares=(0.1, 0.2, 0.4, 1.5))
    assert claim.id == "I5" and claim.seeds == 4 and claim.command == SAID["command"]
    assert claim.ours == (
        "largest difference 2.0e-05 in float32, 3.0e-10 in float64; the bound broken in 1 of 4 instances"
    )
    assert claim.spread == "change at most 1.5 of the bound, 0.3 in the median"
    assert claim.note == ("A small setting. Not so: exact in float32; exact in float64; a bound that is never broken.")
    assert i5(shares=()).spread == ""


def i6(gain, guards_part=0.0):
    found = np.stack([np.asarray(gain) - guards_part, gain], axis=1) + 40
    return judge_i6(I6Figures(found=found, random=np.array([38.0, 42.0]), **SAID))


@pytest.mark.parametrize(
    ("gain", "holds"),
    [
        (three(1.0, SURE), True),
        (three(1.0, UNSURE), False),
        (many(1.0, SURE_OF_MANY), True),
        (many(1.0, UNSURE_OF_MANY), False),
        (three(-1.0), False),
        (three(0.0), False),
        ([1.0], None),
    ],
)
def test_i6_wants_the_found_surely_better_than_random(gain, holds):
    assert i6(gain).holds is holds
    assert i6(gain, guards_part=9.0).holds is holds  # which is told, but does not decide


def test_i6_says_what_was_measured():
    claim = i6(three(1.0, UNSURE), guards_part=0.25)
    assert claim.id == "I6" and claim.seeds == 3 and claim.command == SAID["command"]
    assert claim.ours == "41.00 against 40.00 (without the guard 40.75)"
    assert claim.spread == (
        "gain +1.00 [-0.01, +2.01] points, the guard's own part +0.25 [+0.25, +0.25]; random architectures deviate by "
        "2.00"
    )
    assert claim.note == "A small setting. Not so: surely better than random architectures."
