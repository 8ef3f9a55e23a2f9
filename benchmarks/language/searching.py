"""Searched: what `ramet search` finds among language models, beside chance and beside the largest that fits."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

import ramet
from benchmarks.language.records import Record, Records
from benchmarks.language.scale import Scale
from benchmarks.language.training import RECIPE, read_treebank
from ramet.jobs.search import SearchRecipe
from ramet.ranking.setup import SupernetSetup
from ramet.searching import SearchPlan
from ramet.searching.costs import ArchCosts
from ramet.searching.final import train_final
from ramet.seeding import derive_seed, torch_generator
from ramet.spaces import Arch, Space, make_space

SPACE = f"{Path(__file__).parent / 'space.py'}:language_models"
NUM_RANDOM = 2
"""Architectures that are drawn by chance for each seed."""


def recipe_of(scale: Scale, rate: float) -> SearchRecipe:
    """The recipe of all parts; scores are perplexities whatever it says."""
    return SearchRecipe(batch_size=scale.batch_size, learning_rate=rate, **{**RECIPE, "metric": None})


def search(scale: Scale, rate: float, seed: int, out: Path) -> Record:
    """The architecture that a search ends with, trained alone by it."""
    plan = SearchPlan(
        strategy="evolution:population_size=16,tournament_size=4",
        budget=f"params={scale.budget}",
        batch_norm="running",
        num_candidates=8,
        num_final=1,
        final_epochs=1,
        exports=False,
        **dict(scale.plan),
    )
    result = ramet.search(
        SPACE, read_treebank(scale), plan=plan, recipe=recipe_of(scale, rate), seed=seed, out=out / f"search-{seed}"
    )
    assert result.chosen is not None
    found = next(entry for entry in result.candidates if entry.name == result.chosen.name)
    return in_bits(result.chosen.validation, result.chosen.test, found.parameters, result.chosen.name)


def in_bits(validation: float, test: float, parameters: float, name: str) -> Record:
    """Perplexities as bits a character."""
    return {"validation": math.log2(validation), "test": math.log2(test), "parameters": int(parameters), "name": name}


def alone(scale: Scale, rate: float, seed: int, arch: Arch) -> Record:
    """An architecture trained alone, just as a search with this seed trains what it finds."""
    space, data = make_space(SPACE), read_treebank(scale)
    recipe = replace(recipe_of(scale, rate), epochs=1)
    found = train_final(SupernetSetup(space, data, recipe), arch=list(arch), seed=derive_seed(seed, "final", 0))
    return in_bits(found["validation"], found["test"], found["parameters"], space.name(arch))


def fitting(space: Space, costs: ArchCosts, budget: float) -> list[tuple[float, Arch]]:
    """All architectures within the budget with their parameters, which add up over the decisions."""
    nothing = costs("params", (0,) * len(space.num_options))
    added = [
        [costs("params", tuple(option if at == place else 0 for at in range(len(space.num_options)))) - nothing
         for option in range(options)]
        for place, options in enumerate(space.num_options)
    ]  # fmt: skip
    sized = ((nothing + sum(row[choice] for row, choice in zip(added, arch, strict=True)), arch) for arch in space)
    return [(size, arch) for size, arch in sized if size <= budget]


def compare(scale: Scale, records: Records, out: Path) -> None:
    """A search, architectures by chance and one of the largest, for each seed."""
    torch.set_num_threads(1)
    rate = scale.rates[len(scale.rates) // 2]
    space, data = make_space(SPACE), read_treebank(scale)
    fit = fitting(space, ArchCosts(space, data.form.shape, data.num_classes), scale.budget)
    most = max(size for size, _ in fit)
    largest = [arch for size, arch in fit if size == most]
    for seed in scale.seeds:
        generator = torch_generator(seed, "chance")
        key = {"part": "searched", "seed": seed, "rate": rate}
        records.once(partial(search, scale, rate, seed, out), arm="search", **key)
        place = int(torch.randint(len(largest), (), generator=generator))
        records.once(partial(alone, scale, rate, seed, largest[place]), arm="largest that fits", **key)
        for number in range(NUM_RANDOM):
            place = int(torch.randint(len(fit), (), generator=generator))
            records.once(partial(alone, scale, rate, seed, fit[place][1]), arm=f"chance {number}", **key)
