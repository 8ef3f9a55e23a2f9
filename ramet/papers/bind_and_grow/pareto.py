"""The Pareto front of grow sequences, against one grow coefficient for all tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ramet.continual.search_result import SearchResult, dominates
from ramet.continual.sequence_search import SequenceSearch, population_for
from ramet.continual.sequences import STARTS, SequenceSpace
from ramet.execution import Task
from ramet.papers.bind_and_grow.presets import PRESETS, SEARCHED, Bed, Preset
from ramet.papers.bind_and_grow.trials import RULES, Bench, Json, grown, open_run, run_alone, run_tasks
from ramet.papers.claims import Claim
from ramet.papers.desk import Desk, Outcome
from ramet.reports import Column, Table
from ramet.runs import Run

FIXED = 0.5
"""The coefficient that the search must dominate."""


def pareto(desk: Desk, preset_name: str) -> Outcome:
    """Forty trials of NSGA-II over a coefficient for each task, on the paper's stream and on others; claim B3."""
    preset = PRESETS[preset_name]
    split = _searched(desk, preset, preset.split, "pareto")
    others = {name: _searched(desk, preset, bed, f"pareto-{name}") for name, bed in SEARCHED.items()}
    tables = [_table(preset, preset.split, split)]
    tables += [_table(preset, SEARCHED[name], searched) for name, searched in others.items()]
    claim = _claim(preset, split, others)
    return Outcome("Learn to bind and grow, Pareto front", tables, [claim], [_generations(preset, split)]).kept(
        desk.results
    )


@dataclass(frozen=True)
class _Searched:
    """The searches of one rule on a stream, a seed.

    Args:
        fronts: what was found.
        fixed: one coefficient for all tasks.
    """

    fronts: list[SearchResult]
    fixed: list[Json]


def _searched(desk: Desk, preset: Preset, bed: Bed, figure: str) -> dict[str, _Searched]:
    """What is found on a stream with each rule."""
    with open_run(desk, preset, figure) as run:
        bench = Bench.of(desk, preset, bed, run.path / "networks")
        references = run_alone(desk, run, bench, "split")
        fixed = {rule: _fixed(desk, preset, bench, run, rule, references) for rule in RULES}
        return {
            rule: _Searched(
                [_search(desk, preset, bench, run, number, rule) for number in range(preset.seeds)], fixed[rule]
            )
            for rule in RULES
        }


def _table(preset: Preset, bed: Bed, searched: dict[str, _Searched]) -> Table:
    rows: list[list[Any]] = []
    for rule, found in searched.items():
        for number, (result, reference) in enumerate(zip(found.fronts, found.fixed, strict=True)):
            rows.append(_row(rule, number, f"delta {FIXED:g}", reference))
            rows += [_row(rule, number, f"trial {row['trial']}", row) for row in result.front]
    columns: list[Column | str] = [
        "rule",
        "seed",
        "network",
        "parameters",
        "gain, validation, points",
        "gain, test, points",
    ]
    return Table(columns, rows, title=f"{bed.source}: the Pareto front of {preset.trials} grow sequences, a seed")


def _fixed(desk: Desk, preset: Preset, bench: Bench, run: Run, rule: str, references: Sequence[Json]) -> list[Json]:
    """One coefficient for all tasks, a seed."""
    tasks = [
        Task(
            f"fixed/{_kind(rule)}/{number}",
            grown,
            {"number": number, "delta": FIXED, "alone": references[number], "options": RULES[rule]},
        )
        for number in range(preset.seeds)
    ]
    return run_tasks(desk, run, tasks, bench, f"delta {FIXED:g} for all tasks")


def _kind(rule: str) -> str:
    return "-".join(RULES[rule].values())


def _search(desk: Desk, preset: Preset, bench: Bench, run: Run, number: int, rule: str) -> SearchResult:
    """The search of one seed, in a run of its own beside the figure's."""
    path = run.path / f"search-{_kind(rule)}-{number}"
    config: Json = {"trials": preset.trials, "number": number, "rule": RULES[rule]}
    own = Run.open(path) if (path / "config.json").exists() else Run.create(path, "grow-sequences", config)
    search = SequenceSearch(space=SequenceSpace(delta="per-task"), num_trials=preset.trials)
    with own:
        return search.run(
            bench.streams[number],
            bench.skeleton,
            bench.settings,
            own,
            desk.executor,
            seed=bench.seeds[number],
            options={**bench.options, **RULES[rule]},
        )


def _row(rule: str, number: int, name: str, values: Json) -> list[Any]:
    return [rule, number, name, int(values["parameters"]), 100 * values["gain"], 100 * values["test_gain"]]


@dataclass(frozen=True)
class _Judged:
    """How the fronts of all seeds stand to one coefficient for all tasks.

    Args:
        dominated: for each seed, whether a point of the front dominates it on validation data.
        tests: where one does, points of test gain by which the best of them is ahead.
        savings: and the share of parameters that it saves.
    """

    dominated: list[bool]
    tests: list[float]
    savings: list[float]

    @classmethod
    def of(cls, found: _Searched) -> _Judged:
        judged = cls([], [], [])
        for result, reference in zip(found.fronts, found.fixed, strict=True):
            point = (reference["gain"], float(reference["parameters"]))
            better = [row for row in result.front if dominates((row["gain"], float(row["parameters"])), point)]
            judged.dominated.append(bool(better))
            if better:
                chosen = max(better, key=lambda row: row["gain"])
                judged.tests.append(100 * (chosen["test_gain"] - reference["test_gain"]))
                judged.savings.append(1 - chosen["parameters"] / reference["parameters"])
        return judged

    @property
    def holds(self) -> bool:
        """A search picks the luckiest of its trials on validation data: what it found must hold on test data too."""
        return all(self.dominated) and bool(np.mean(self.tests) >= 0)

    def text(self) -> str:
        words = f"in {sum(self.dominated)} of {len(self.dominated)} seeds"
        if self.tests:
            points, saved = np.mean(self.tests), np.mean(self.savings)
            words += f", on test data by {points:+z.2f} points with {saved:.0%} fewer parameters"
        return words

    def spread(self) -> str:
        if not self.tests:
            return "no dominating point"
        return f"test difference from {min(self.tests):+z.2f} to {max(self.tests):+z.2f} points"


def _claim(preset: Preset, split: dict[str, _Searched], others: dict[str, dict[str, _Searched]]) -> Claim:
    paper, own = (_Judged.of(split[rule]) for rule in RULES)

    def elsewhere(name: str) -> str:
        its, ours = (_Judged.of(others[name][rule]) for rule in RULES)
        bed = SEARCHED[name]
        return f" On {bed.source} ({bed.network}): {its.text()}; by the default {ours.text()}, {ours.spread()}."

    return Claim(
        id="B3",
        claim="The search over grow sequences recovers a Pareto front that dominates one coefficient for all tasks.",
        paper="20 trials; balanced at 0.55 with fewer than 10 M parameters",
        ours=f"delta {FIXED:g} is dominated {paper.text()}; by this library's default {own.text()}",
        spread=f"{paper.spread()}; {own.spread()}",
        seeds=preset.seeds,
        holds=paper.holds,
        command=f"ramet reproduce bind-and-grow/pareto --preset {preset.name}",
        note=f"{preset.trials} trials of NSGA-II, a coefficient for each task, the first {len(STARTS)} with one for "
        f"all, searched and judged on validation data. {preset.setting(preset.split)}"
        + "".join(elsewhere(name) for name in others),
    )


def _generations(preset: Preset, searched: dict[str, _Searched]) -> str:
    """Whether later generations beat the first: how many points of the front each gave."""
    size = population_for(preset.trials)
    fronts = [row for found in searched.values() for result in found.fronts for row in result.front]
    later, total = sum(row["generation"] > 0 for row in fronts), len(fronts)
    starts = ", ".join(f"{value:g}" for value in STARTS)
    return (
        f"NSGA-II with a population of {size}: {later} of {total} points of the fronts come from later generations "
        f"than the first, which has {starts} for all tasks and is random otherwise."
    )
