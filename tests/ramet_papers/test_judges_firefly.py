"""F1 to F7 on made-up figures: both sides of every threshold, every sign, and what is not answered."""

import numpy as np
import pytest
from made_up import SAID, SURE, UNSURE, three

from ramet_papers.firefly.judges import (
    F1Figures,
    F2Figures,
    F5Figures,
    F6Figures,
    F7Figures,
    Trained,
    WidthFigures,
    judge_f1,
    judge_f2,
    judge_f3,
    judge_f4,
    judge_f5,
    judge_f6,
    judge_f7,
)

NAN = float("nan")


def losses(at_ten, sizes=12, elsewhere=7.0):
    """Losses of three true networks that are what is given at ten neurons, or at the last size."""
    curve = np.full((3, sizes), elsewhere)
    curve[:, min(10, sizes) - 1] = three(at_ten, 0.1)
    return curve


def f1(firefly, splitting, random, sizes=12):
    curves = {"firefly": firefly, "splitting": splitting, "random": random}
    return judge_f1(F1Figures(**{name: losses(loss, sizes) for name, loss in curves.items()}, **SAID))


@pytest.mark.parametrize(
    ("firefly", "splitting", "random", "sizes", "holds"),
    [
        (0.99, 10.0, 2.0, 12, True),
        (1.0, 10.0, 2.0, 12, True),
        (1.01, 10.0, 2.0, 12, False),
        (1.0, 20.0, 1.01, 12, True),
        (1.0, 20.0, 1.0, 12, False),
        (1.0, 20.0, 0.99, 12, False),
        (1.0, 0.5, 2.0, 12, False),
        (1.0, 20.0, 2.0, 10, True),
        (1.0, 20.0, 2.0, 9, None),
        (9.0, 2.0, 2.0, 9, None),
        (NAN, 20.0, 2.0, 12, None),
    ],
)
def test_f1_wants_a_tenth_of_splitting_and_less_than_chance(firefly, splitting, random, sizes, holds):
    assert f1(firefly, splitting, random, sizes).holds is holds


def test_f1_says_what_was_measured():
    claim = f1(2.0, 10.0, 1.0)
    assert claim.id == "F1" and claim.seeds == 3 and claim.command == SAID["command"]
    assert claim.ours == (
        "loss at 10 neurons 2 against 10 by splitting (ratio 0.2) and 1 by random search with the same candidates"
    )
    # Both losses rise together, so that their ratio does not vary; the difference is -1 -+ 0.1 a network.
    assert claim.spread == (
        "ratio 0.2 to 0.2; random search minus Firefly [-1.25, -0.752], Firefly lower in 0% of the networks "
        "(95 % intervals over true networks)"
    )
    assert claim.note == (
        # Eight sizes of 7, and the tenth.
        "Mean loss from 2 to 10 neurons: Firefly 6.4, random search 6.3, splitting 7.3. A small setting. "
        "Not so: at most 0.1 of splitting's loss; below random search's."
    )
    small = f1(1.0, 20.0, 2.0, sizes=4)
    assert small.ours.startswith("loss at 4 neurons 1 against") and "from 2 to 4 neurons: Firefly 5," in small.note
    assert small.note.endswith("Not answered: losses at 10 neurons are asked, and networks have 4.")
    assert f1(1.0, 20.0, 2.0).spread.startswith("ratio 0.05 to 0.05; ")


def test_f1_tells_the_interval_of_the_ratio_from_the_lower_end():
    curves = {"firefly": [0.5, 1.0, 1.5], "splitting": [10.0] * 3, "random": [9.0] * 3}
    figures = {name: np.repeat(np.array(values)[:, None], 10, axis=1) for name, values in curves.items()}
    claim = judge_f1(F1Figures(**figures, **SAID))
    assert claim.spread.startswith(
        "ratio -0.024 to 0.22; random search minus Firefly [6.76, 9.24], Firefly lower in 100%"
    )
    equal = judge_f1(F1Figures(**(figures | {"random": figures["firefly"]}), **SAID))
    assert "Firefly lower in 0% of" in equal.spread
    alone = judge_f1(F1Figures(**{name: curve[:1] for name, curve in figures.items()}, **SAID))
    assert alone.spread.startswith("ratio ? to ?; ") and alone.holds is True


def f2(means, first=99.0):
    """Curves whose mean from two to ten neurons is what is given; what comes before and after does not count."""
    curves = {}
    for new, mean in means.items():
        curve = np.full((3, 12), mean) + 0.25 * np.array([[-1.0], [0.0], [1.0]])
        curve[:, 0], curve[:, 10:] = first, first
        curves[new] = curve
    return judge_f2(F2Figures(curves=curves, **SAID))


@pytest.mark.parametrize(
    ("means", "holds"),
    [
        ({0: 11.0, 1: 3.0, 5: 1.0, 10: 0.05}, True),  # 0.95 of 10 are won beyond five
        ({0: 11.0, 1: 3.0, 5: 1.0, 10: -0.05}, False),
        ({0: 12.0, 1: 3.0, 5: 2.0, 10: 1.0}, False),  # a tenth, exactly
        ({0: 11.0, 1: 3.0, 5: 1.0, 7: -0.05, 10: 0.5}, False),
        ({0: 11.0, 1: 3.0, 5: 1.0, 10: 5.0}, True),
        ({0: 11.0, 1: 1.0, 5: 1.0, 10: 1.0}, True),
        ({0: 11.0, 1: 0.9, 5: 1.0, 10: 1.0}, False),  # five are worse than one
        ({0: 11.0, 1: 10.9, 5: 1.0, 10: 1.0}, True),
        ({0: 11.0, 1: 11.0, 5: 1.0, 10: 1.0}, False),  # one does not help
        ({0: 11.0, 1: 11.1, 5: 1.0, 10: 1.0}, False),
        ({0: 11.0, 1: 3.0, 2: 99.0, 5: 1.0, 10: 1.0}, True),
        ({0: 11.0, 1: 3.0, 2: -9.0, 5: 1.0, 10: 1.0}, True),  # only more than five count as more
    ],
)
def test_f2_wants_a_gain_that_is_soon_saturated(means, holds):
    assert f2(means).holds is holds


def test_f2_says_what_was_measured():
    claim = f2({0: 1.0, 1: 2.0, 5: 3.0, 10: 0.5})
    assert claim.id == "F2" and claim.seeds == 3 and claim.command == SAID["command"]
    assert claim.ours == "mean loss from 2 to 10 neurons: 1 with 0, 2 with 1, 3 with 5, 0.5 with 10"
    assert claim.spread == "gain of the first -1 [-1, -1] (95 % interval over true networks)"
    assert "one candidate is enough: 1 with 0, 2 with 1, 3 with 5, 0.5 with 10. That was" in claim.note
    assert claim.note.endswith(
        " A small setting. Not so: one candidate helps; five are no worse than one; saturated at five."
    )
    assert f2({0: 1.0, 1: 2.0, 5: 3.0, 10: 10.0}).note.endswith("one candidate helps; five are no worse than one.")
    short = judge_f2(F2Figures(curves={new: np.arange(6.0).reshape(2, 3) for new in (0, 1, 5, 6)}, **SAID))
    assert short.ours.startswith("mean loss from 2 to 3 neurons: 3 with 0") and "3.5 with 0" in short.note


ABOVE = np.array([[0.05, 0.01], [0.05, 0.01]])  # two seeds, two sizes
UNEVEN = np.array([[0.05, -0.02], [0.05, 0.03]])  # above by 0.005 on average at the second size
EVEN = np.array([[0.05, -0.02], [0.05, 0.02]])
BELOW = np.array([[-0.05, 0.08], [0.04, 0.08]])


def width(seconds=1.0, splitting=4.0, flops=True, **changed):
    gaps = {"Splitting (steepest)": -10 * ABOVE, "Net2Net": ABOVE, "random splits": ABOVE, "NASH": -ABOVE}
    in_params = gaps | {name: gap for name, gap in changed.items() if name in gaps}
    in_flops = gaps | {name.removeprefix("flops "): gap for name, gap in changed.items() if name.startswith("flops")}
    return WidthFigures(
        gaps=in_params,
        flops_gaps=in_flops if flops else None,
        seconds=np.array([[seconds, seconds], [seconds, seconds]]),
        splitting_seconds=np.array([[splitting, 2 * splitting], [splitting, 0.0]]),
        **SAID,
    )


@pytest.mark.parametrize("judge", [judge_f3, judge_f4])
@pytest.mark.parametrize(
    ("changed", "holds"),
    [
        ({}, True),
        *[({prefix + name: UNEVEN}, True) for prefix in ("", "flops ") for name in ("Net2Net", "random splits")],
        *[({prefix + name: EVEN}, False) for prefix in ("", "flops ") for name in ("Net2Net", "random splits")],
        *[({prefix + name: BELOW}, False) for prefix in ("", "flops ") for name in ("Net2Net", "random splits")],
        ({"flops": False}, None),
        ({"flops": False, "Net2Net": BELOW}, False),
        ({"flops": False, "seconds": 4.0}, False),
        ({"seconds": 1.0, "splitting": 3.0}, True),
        ({"seconds": 1.01, "splitting": 3.0}, False),
        ({"seconds": 0.99, "splitting": 3.0}, True),
        ({"seconds": 1.07, "splitting": 3.0}, False),
    ],
)
def test_f3_and_f4_want_every_size_in_both_units_and_a_third_of_the_time(judge, changed, holds):
    assert judge(width(**changed)).holds is holds


def test_f3_and_f4_say_what_was_measured():
    figures = width(seconds=2.0, flops=False, **{"Net2Net": UNEVEN, "random splits": BELOW})
    for judge, name, ending in ((judge_f3, "F3", "splitting."), (judge_f4, "F4", "On a MobileNet.")):
        claim = judge(figures)
        assert claim.id == name and claim.claim.endswith(ending) and claim.seeds == 2
        assert claim.command == SAID["command"]
        assert claim.ours == (
            "mean gap in points at equal parameters: Splitting (steepest) -30.0 (least -50.0); Net2Net +2.8 (least "
            "+0.5); random splits +3.8 (least -0.5); NASH -3.0 (least -5.0); a step takes 0.50 of splitting's time"
        )
        # Two seeds of 1.5 and 4.0 points: 12.706 deviations of the mean, which is 1.25.
        assert "Net2Net [-13.13, 18.63]" in claim.spread and "NASH [-3.00, -3.00]" in claim.spread
        assert claim.note == (
            "A small setting. Not so: above random splits at every size in parameters; a step within a third of "
            "splitting's time. Not known: above Net2Net at every size in multiply-adds; above random splits at every "
            "size in multiply-adds."
        )
    assert judge_f3(figures).paper.endswith("full accuracy at 4 % of the size")
    assert judge_f4(figures).paper == "above all baselines"


def trained(gap, params):
    """What a method ends with that another, with 0.5 everywhere, is above by so many points."""
    return Trained(0.5 - np.asarray(gap) / 100, np.full(len(gap), float(params)))


OURS = Trained(np.full(3, 0.5), np.array([90.0, 100.0, 110.0]))


def f5(**changed):
    others = {"AutoGrow": trained(three(1.0), 150), "NASH": trained(three(1.0), 150)}
    elsewhere = dict(others)
    for key, value in changed.items():
        (elsewhere if key.startswith("second") else others)[key.removeprefix("second_")] = value
    data = {"mnist": others, "fashion-mnist": elsewhere}
    return judge_f5(F5Figures(firefly=dict.fromkeys(data, OURS), others=data, **SAID))


@pytest.mark.parametrize("other", ["AutoGrow", "NASH", "second_AutoGrow", "second_NASH"])
@pytest.mark.parametrize(
    ("theirs", "holds"),
    [
        (trained(three(1.0), 101), True),
        (trained(three(1.0), 100), False),  # no smaller
        (trained(three(1.0), 99), False),
        (trained(three(0.0), 150), True),
        (trained(three(1.0, 5.0), 150), True),
        (trained(three(-1.0, UNSURE), 150), None),  # less accurate, but perhaps by chance
        (trained(three(-1.0, SURE), 150), False),
        (trained(three(-1.0, UNSURE), 99), False),
    ],
)
def test_f5_wants_equal_accuracy_with_fewer_parameters_everywhere(other, theirs, holds):
    assert f5(**{other: theirs}).holds is holds


def test_f5_says_what_was_measured():
    claim = f5(NASH=trained(three(-1.0, SURE), 99), AutoGrow=trained(three(-1.0, UNSURE), 150))
    assert claim.id == "F5" and claim.seeds == 3 and claim.command == SAID["command"]
    assert claim.ours == (
        "mnist: Firefly 50.00% at 100; AutoGrow 51.00% at 150; NASH 51.00% at 99; "
        "fashion-mnist: Firefly 50.00% at 100; AutoGrow 49.00% at 150; NASH 49.00% at 150"
    )
    assert claim.spread == (
        "mnist, minus AutoGrow -1.00 [-2.01, 0.01] points; mnist, minus NASH -1.00 [-1.99, -0.01] points; "
        "fashion-mnist, minus AutoGrow 1.00 [1.00, 1.00] points; fashion-mnist, minus NASH 1.00 [1.00, 1.00] points"
    )
    assert claim.note == (
        "A small setting. Not so: not worse than NASH on mnist; smaller than NASH on mnist. "
        "Not known: not worse than AutoGrow on mnist."
    )


def test_f5_has_as_many_seeds_as_the_data_set_with_the_fewest():
    fewer = Trained(OURS.test[:2], OURS.params[:2])
    others = {"one": {"NASH": trained(three(1.0), 150)}, "another": {"NASH": trained(three(1.0)[:2], 150)}}
    assert judge_f5(F5Figures(firefly={"one": OURS, "another": fewer}, others=others, **SAID)).seeds == 2


def f6(gain):
    ours = 0.2 - np.asarray(gain) / 100
    darts = np.full(len(ours), 0.2)
    return judge_f6(F6Figures(firefly=ours, darts=darts, random=darts + 0.05, **SAID))


@pytest.mark.parametrize(
    ("gain", "holds"),
    [
        (three(1.0, SURE), True),
        (three(0.01, 99.0), True),
        (three(0.0), True),
        (three(-1.0, UNSURE), None),
        (three(-0.01, 99.0), None),
        (three(-1.0, SURE), False),
        ([1.0], True),
        ([-1.0], None),
    ],
)
def test_f6_wants_cells_that_are_not_worse_than_those_of_darts(gain, holds):
    assert f6(gain).holds is holds


def test_f6_says_what_was_measured():
    claim = f6(three(-1.0, SURE))
    assert claim.id == "F6" and claim.seeds == 3 and claim.command == SAID["command"]
    assert claim.ours == "error 21.0% against 20.0% by DARTS"
    assert claim.spread == (
        "lower by -1.00 [-1.99, -0.01] points (95 % interval over seeds); than that of random cells by +4.00 points"
    )
    assert claim.note == "A small setting. Not so: not worse than DARTS."


LARGER, SMALLEST = Trained(np.full(3, 0.9), np.full(3, 130.0)), Trained(np.full(3, 0.1), np.full(3, 60.0))


def f7(gap, params=101, **others):
    """Firefly's network of 100 parameters beside a larger one that is more accurate, and a smaller one that is less."""
    firefly = {"6": LARGER, "4": OURS, "2": SMALLEST} | others
    return judge_f7(F7Figures(firefly=firefly, cpg=trained(gap, params), individual=trained([9.0], 1000), **SAID))


@pytest.mark.parametrize(
    ("gap", "params", "holds"),
    [
        (three(1.0, SURE), 101, True),
        (three(1.0, UNSURE), 101, False),
        (three(-1.0), 101, False),
        (three(1.0), 100, True),
        (three(1.0), 99, False),  # the smallest is judged, and is behind
        (three(1.0), 129, True),
        (three(-39.0), 129, False),
        (three(-39.0), 130, True),  # the larger one is judged
    ],
)
def test_f7_wants_a_network_of_the_size_that_is_surely_more_accurate(gap, params, holds):
    assert f7(gap, params).holds is holds


def test_f7_does_not_hold_where_all_are_larger():
    assert f7(three(60.0), 59).holds is False
    assert f7(three(60.0), 59).note.endswith("Not so: no larger.")


def test_f7_says_what_was_measured():
    claim = f7(three(1.0, UNSURE), 50)
    assert claim.id == "F7" and claim.seeds == 3 and claim.command == SAID["command"]
    assert claim.ours == "Firefly 10.00% at 60, CPG 49.00% at 50, each task alone 41.00% at 1,000"
    assert claim.spread == "Firefly minus CPG -39.00 [-40.01, -37.99] points; parameters 1.20 of CPG's"
    assert claim.note == (
        "A small setting. Judged is the largest that is no larger than CPG's. All of them: 6 90.00% at 130; 4 50.00% "
        "at 100; 2 10.00% at 60. Not so: surely more accurate; no larger."
    )
