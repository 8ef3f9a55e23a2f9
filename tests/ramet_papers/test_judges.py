"""Every claim has one judge: a function of frozen figures, and of nothing else."""

import dataclasses
import importlib
import inspect
import typing

import pytest

from ramet_papers.claims import Claim, Figures

PAPERS = {
    "multi_model_forgetting": [f"w{number}" for number in range(1, 9)],
    "deeper_insights": [*(f"d{number}" for number in range(1, 9)), "d9a", "d9b"],
    "disturbance_immune": [f"i{number}" for number in range(1, 7)],
    "firefly": [f"f{number}" for number in range(1, 8)],
    "bind_and_grow": [f"b{number}" for number in range(1, 4)],
}


def judges_of(paper):
    return importlib.import_module(f"ramet_papers.{paper}.judges")


def test_there_are_33_claims_one_of_which_has_two_halves():
    assert sum(map(len, PAPERS.values())) == 34


@pytest.mark.parametrize("paper", PAPERS)
def test_every_claim_has_a_judge_that_takes_figures_alone(paper):
    module = judges_of(paper)
    judges = {name: value for name, value in vars(module).items() if name.startswith("judge_")}
    assert sorted(judges) == sorted(f"judge_{claim}" for claim in PAPERS[paper])
    for name, judge in judges.items():
        hints = typing.get_type_hints(judge)
        assert hints.pop("return") is Claim
        (figures,) = hints.values()
        assert issubclass(figures, Figures) and len(inspect.signature(judge).parameters) == 1
        claim = name.removeprefix("judge_").capitalize()
        assert judge.__doc__.startswith(f"{claim}: "), "the rule stands in the docstring"


@pytest.mark.parametrize("paper", PAPERS)
def test_figures_are_frozen_and_named(paper):
    module = judges_of(paper)
    made = [value for value in vars(module).values() if inspect.isclass(value) and value.__module__ == module.__name__]
    assert made
    for kind in made:
        assert dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen
        if issubclass(kind, Figures):
            assert all(field.kw_only for field in dataclasses.fields(kind))
