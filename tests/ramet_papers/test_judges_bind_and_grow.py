"""B1 to B3 on made-up figures: both sides of every threshold, every sign, and what is not answered."""

import numpy as np
import pytest
from made_up import SAID, SURE, SURE_OF_MANY, UNSURE, UNSURE_OF_MANY, many, three

from ramet_papers.bind_and_grow.judges import (
    B1Figures,
    B2Figures,
    B3Figures,
    Fronts,
    Guided,
    Point,
    StreamFronts,
    judge_b1,
    judge_b2,
    judge_b3,
)


def b1(ahead, own=1.0, elsewhere=-5.0):
    ahead = np.asarray(ahead)
    in_all = np.full_like(ahead, 9.0)  # a looser control, which is told, but does not decide
    paper = {"first": Guided(in_all, ahead), "second": Guided(three(-9.0), three(elsewhere))}
    default = {"first": Guided(three(-7.0), three(own, SURE)), "second": Guided(three(-9.0), three(4.0))}
    return judge_b1(B1Figures(paper=paper, own=default, anew=np.array([0.0, 0.52]), **SAID))


@pytest.mark.parametrize(
    ("ahead", "holds"),
    [
        (three(1.0, SURE), True),
        (three(1.0, UNSURE), False),
        (many(1.0, SURE_OF_MANY), True),
        (many(1.0, UNSURE_OF_MANY), False),
        (many(1.0, 1.2, num=8), True),
        (three(-1.0), False),
        (three(0.0), False),
        ([1.0], None),
    ],
)
def test_b1_wants_guided_growth_surely_ahead(ahead, holds):
    assert b1(ahead).holds is holds
    assert b1(ahead, own=-1.0, elsewhere=5.0).holds is holds  # which are told, but do not decide


def test_b1_says_what_was_measured():
    claim = b1(three(-2.0, UNSURE))
    assert claim.id == "B1" and claim.seeds == 3 and claim.command == SAID["command"]
    assert claim.ours == (
        "-2.00 points of average gain with as many parameters for each task; +1.00 by this library's default"
    )
    assert claim.spread == "95 % interval [-4.01, 0.01] over seeds, [0.01, 1.99]"
    assert claim.note.startswith("A small setting. Old layers train at a tenth")
    assert "anew in 0%, 52% of the cases" in claim.note
    assert (
        "by it, as many parameters for each task: first -2.00 [-4.01, 0.01]; second -5.00 [-5.00, -5.00]" in claim.note
    )
    assert "as many in all: first +9.00 [9.00, 9.00]; second -9.00 [-9.00, -9.00]. By the default" in claim.note
    assert "before it, for each task: first +1.00 [0.01, 1.99]; second +4.00 [4.00, 4.00]; in all" in claim.note
    assert claim.note.endswith(
        "in all: first -7.00 [-7.00, -7.00]; second -9.00 [-9.00, -9.00]. Not so: surely ahead of random growth."
    )


def b2(ahead, saved=0.1, validation=(0.1, 0.3, 0.2, 0.9)):
    """Of four coefficients the second is the best on validation data; the last is the full expansion."""
    ahead = np.asarray(ahead)
    test = np.stack([np.full_like(ahead, 50.0), 10 + ahead, np.full_like(ahead, -50.0), np.full_like(ahead, 10.0)])
    sizes = np.array([1.0, 100 * (1 - saved), 1000.0, 100.0])
    shape = (4, len(ahead))
    return judge_b2(
        B2Figures(
            deltas=(0.0, 0.55, 0.8, 1.0),
            validation=np.broadcast_to(np.array(validation)[:, None], shape),
            test=test,
            parameters=np.broadcast_to(sizes[:, None], shape),
            **SAID,
        )
    )


@pytest.mark.parametrize(
    ("ahead", "saved", "holds"),
    [
        (three(1.0, SURE), 0.1, True),
        (three(1.0, UNSURE), 0.1, False),
        (three(-1.0), 0.1, False),
        (three(0.0), 0.1, False),
        (three(1.0), 0.01, True),
        (three(1.0), 0.0, False),
        (three(1.0), -0.01, False),
        ([1.0], 0.1, None),
        ([1.0], -0.1, False),
    ],
)
def test_b2_wants_a_smaller_network_with_surely_more_gain(ahead, saved, holds):
    assert b2(ahead, saved).holds is holds


def test_b2_chooses_on_validation_data():
    assert b2(three(1.0), validation=(0.4, 0.3, 0.2, 0.9)).ours.startswith("delta 0 has +40.00 points")
    assert b2(three(1.0), validation=(0.1, 0.2, 0.3, 0.9)).ours.startswith("delta 0.8 has -60.00 points")


def test_b2_says_what_was_measured():
    claim = b2(three(-1.0, UNSURE), saved=-0.2)
    assert claim.id == "B2" and claim.seeds == 3 and claim.command == SAID["command"]
    assert claim.ours == "delta 0.55 has -1.00 points against the full expansion with -20% fewer parameters"
    assert claim.spread == "95 % interval [-2.01, 0.01] over seeds"
    assert claim.note == (
        "Chosen on validation data, compared on test data. A small setting. Not so: surely more gain; fewer parameters."
    )


FIXED = Point(gain=0.1, parameters=100, test_gain=0.125)
TIE, SMALLER, LARGER = Point(0.1, 100, 0.9), Point(0.1, 80, 0.25), Point(0.3, 101, 0.9)
BETTER, EQUAL, WORSE = Point(0.2, 100, 0.14), Point(0.2, 100, 0.125), Point(0.2, 100, 0.12)
LESS = Point(0.09, 50, 0.9)


def fronts(*found):
    return Fronts([list(front) for front in found], [FIXED] * len(found))


def b3(*found, drawn=None, trials=40, coefficient=0.5, others=()):
    chance = fronts(*([drawn or [LARGER]] * len(found)))  # by default nothing to compare with: too large
    first = StreamFronts(fronts(*found), chance, fronts([TIE]), fronts([SMALLER]), about="the first")
    return judge_b3(B3Figures(streams=[first, *others], trials=trials, coefficient=coefficient, **SAID))


@pytest.mark.parametrize(
    ("found", "holds"),
    [
        ([[SMALLER, LARGER], [SMALLER]], True),
        ([[BETTER]], True),
        ([[EQUAL]], True),
        ([[WORSE]], False),  # chosen on validation data, and behind on test data
        ([[SMALLER, WORSE]], False),  # of those that dominate the one with the most gain is taken
        ([[WORSE], [SMALLER]], True),  # on average ahead
        ([[SMALLER], [TIE]], False),
        ([[TIE], [SMALLER]], False),
        ([[SMALLER], [LARGER]], False),
        ([[SMALLER], [LESS]], False),
        ([[TIE]], False),
        ([[]], False),
    ],
)
def test_b3_wants_every_seed_dominated_and_ahead_on_test_data(found, holds):
    assert b3(*found).holds is holds


@pytest.mark.parametrize(
    ("drawn", "holds"),
    [
        ([EQUAL], True),  # 1.5 points behind the one that is asked
        ([BETTER], True),  # level with it
        ([Point(0.15, 90, 0.141)], False),
        ([Point(0.15, 90, 0.139), Point(0.14, 80, 0.9)], True),  # the best on validation data is compared
        ([Point(0.9, 101, 0.9)], True),  # larger than the fixed one
        ([Point(0.01, 100, 0.9)], False),  # as large, and not dominating anything
    ],
)
def test_b3_wants_no_random_sequences_of_its_size_ahead(drawn, holds):
    assert b3([BETTER], drawn=drawn).holds is holds


@pytest.mark.parametrize("changed", [{"trials": 39}, {"trials": 41}, {"coefficient": 0.55}, {"coefficient": 0.45}])
@pytest.mark.parametrize("found", [[SMALLER], [TIE]])
def test_b3_is_open_at_other_trials_and_coefficients(found, changed):
    assert b3(found, **changed).holds is None


def test_b3_wants_as_many_fronts_as_fixed_networks():
    with pytest.raises(ValueError, match="shorter"):
        _ = Fronts([[SMALLER], [SMALLER]], [FIXED]).dominating


def test_b3_says_what_was_measured():
    other = StreamFronts(
        fronts([BETTER]), fronts([LARGER]), fronts([SMALLER], []), fronts([LARGER]), about="another (mlp)"
    )
    claim = b3([WORSE], [SMALLER], [TIE], drawn=[SMALLER], others=[other])
    assert claim.id == "B3" and claim.seeds == 3 and claim.command == SAID["command"]
    assert claim.ours == (
        "delta 0.5 is dominated in 2 of 3 seeds, on test data by +6.00 points with 10% fewer parameters (+17.33 points "
        "against random sequences of its size); by random sequences in 3 of 3 seeds, on test data by +12.50 points "
        "with 20% fewer parameters; by Thompson sampling, a coefficient for each task, in 0 of 1 seeds; the same by "
        "this library's default rule in 1 of 1 seeds, on test data by +12.50 points with 20% fewer parameters"
    )
    assert claim.spread == (
        "test difference from -0.50 to +12.50 points; no dominating point; test difference from +12.50 to +12.50 points"
    )
    assert claim.note == (
        "A small setting. On another (mlp): in 1 of 1 seeds, on test data by +1.50 points with 0% fewer parameters "
        "(not comparable against random sequences of its size); by random sequences in 0 of 1 seeds; by Thompson "
        "sampling, a coefficient for each task, in 1 of 2 seeds, on test data by +12.50 points with 20% fewer "
        "parameters; the same by this library's default rule in 0 of 1 seeds. Not so: dominated in every seed."
    )
    assert b3([TIE], [WORSE]).note.endswith(" Not so: dominated in every seed; ahead on test data.")
    assert b3([TIE], [WORSE], drawn=[Point(0.1, 9, 0.95)]).note.endswith("on test data; not behind random sequences.")
    assert b3([TIE], trials=6, coefficient=0.6).note == (
        "A small setting. Not answered: 40 trials are asked, and there are 6; delta = 0.5 is asked, and it is 0.6."
    )
