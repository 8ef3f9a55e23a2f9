"""Which network a comparison says to take, and what it says that training longer, size and the choice of place gave."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ramet.growth.budget import Budget
from ramet.jobs.grow.advice import Gains, advice, attribution, gains
from ramet.jobs.grow.result import (
    ArmFigures,
    GroupFigures,
    GrowResult,
    MethodFigures,
    SizeFigures,
    StepFigures,
    step_line,
)
from ramet.reports.metric import MetricFigures

SIZES = SizeFigures(neurons=9, params=100, flops=1000.0)


def arm(validation: float, flops: float = 1000.0) -> ArmFigures:
    return ArmFigures(
        params=100, flops=flops, work=1e6, num_steps=10, validation=validation, test=0.5, layers=[], network="",
        not_exported="",
    )  # fmt: skip


def compared(grown: float = 0.9, num_validation: int = 100_000, **against: float) -> GrowResult:
    steps = [
        StepFigures(number=number, sizes=SIZES, score=score, growing_work=1.0, training_work=2.0)
        for number, score in enumerate((0.6, grown))
    ]
    method = MethodFigures(
        stopped="the budget is reached", steps=steps, params=100, flops=1000.0, neurons=9, validation=grown, test=0.5,
        layers=[], network="", not_exported="", work_in_vain=4.0,
    )  # fmt: skip
    return GrowResult(
        network="vgg", data_name="digits", data="", seed=0, budget=Budget("params", 100.0), layers=[], refusals=[],
        methods={"firefly": method}, against={name: arm(value) for name, value in against.items()},
        num_validation=num_validation,
    )  # fmt: skip


def test_the_better_network_is_taken() -> None:
    ahead = compared(plain=0.88, scratch=0.85)
    assert ahead.taken == "firefly" and ahead.methods["firefly"].work == 10.0
    assert advice(ahead) == (
        "Take networks/firefly: growing is 2.0 points ahead of a plain network of the same size that had as much work."
    )
    behind = compared(plain=0.93, pruned=0.91)
    assert behind.taken == "plain"
    assert advice(behind).startswith("Take networks/plain, not the grown network: a plain network of the same size")
    assert "3.0 points ahead. Growing did not pay here." in advice(behind)


def test_of_equal_ones_the_cheaper_is_taken_and_then_the_growth() -> None:
    equal = compared(plain=0.9)
    assert equal.taken == "firefly"
    cheaper = replace(equal, against={"plain": arm(0.9, flops=500.0)})
    assert cheaper.taken == "plain"


def test_what_chance_may_do_is_said() -> None:
    assert "200 validation images cannot tell" in advice(compared(plain=0.89, num_validation=200))
    assert "cannot tell" not in advice(compared(plain=0.89))


def test_lower_may_be_better() -> None:
    loss = MetricFigures(name="perplexity", higher_is_better=False, is_share=False)
    result = replace(compared(grown=-30.0, plain=28.0), metric=loss)
    method = replace(result.methods["firefly"], validation=30.0)
    result = replace(result, methods={"firefly": method})
    assert result.taken == "plain" and gains(result).both == pytest.approx(-2.0)


def test_gains_are_told_apart() -> None:
    found = gains(compared(start=0.8, plain=0.85, scratch=0.88))
    expected = Gains(longer=0.2, size=0.05, shape=0.03, weights=0.02, both=0.05)
    for name, value in vars(expected).items():
        assert getattr(found, name) == pytest.approx(value), name
    assert gains(compared(plain=0.85)) == Gains(both=pytest.approx(0.05))
    words = attribution(compared(start=0.8, plain=0.85, scratch=0.88))
    assert "training the start for as much work gave +20.0 points" in words
    assert "the choice of place +3.0 points" in words
    assert attribution(compared()) == ""


def test_a_start_that_was_widened_has_no_first_training() -> None:
    told = compared(start=0.8, plain=0.85)
    method = told.methods["firefly"]
    first = replace(method.steps[0], widened={"0": GroupFigures(units=3, new=2)})
    wider = replace(told, methods={"firefly": replace(method, steps=[first, *method.steps[1:]])})
    assert gains(told).longer == pytest.approx(0.2) and gains(wider).longer is None
    assert gains(wider).size == gains(told).size
    assert step_line("even", first).endswith("wider from the start")
    assert step_line("even", method.steps[0]).endswith("as it was")
