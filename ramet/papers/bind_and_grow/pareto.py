"""The Pareto front of grow sequences, against one grow coefficient for all tasks."""

from __future__ import annotations

from typing import Any

import numpy as np

from ramet.continual.search_result import SearchResult, dominates
from ramet.continual.sequence_search import SequenceSearch, population_for
from ramet.continual.sequences import STARTS, SequenceSpace
from ramet.execution import Task
from ramet.papers.bind_and_grow.presets import PRESETS, Preset
from ramet.papers.bind_and_grow.trials import Bench, Json, grown, open_run, run_alone, run_tasks
from ramet.papers.claims import Claim
from ramet.papers.desk import Desk, Outcome
from ramet.reports import Column, Table
from ramet.runs import Run

FIXED = 0.5
"""The coefficient that the search must dominate."""


def pareto(desk: Desk, preset_name: str) -> Outcome:
    """Forty trials of NSGA-II over a coefficient for each task; claim B3."""
    preset = PRESETS[preset_name]
    with open_run(desk, preset, "pareto") as run:
        bench = Bench.of(desk, preset, preset.split, run.path / "networks")
        references = run_alone(desk, run, bench, "split")
        tasks = [
            Task(f"fixed/{number}", grown, {"number": number, "delta": FIXED, "alone": references[number]})
            for number in range(preset.seeds)
        ]
        fixed = run_tasks(desk, run, tasks, bench, f"delta {FIXED:g} for all tasks")
        found = [_search(desk, preset, bench, run, number) for number in range(preset.seeds)]
    rows: list[list[Any]] = []
    for number, (result, reference) in enumerate(zip(found, fixed, strict=True)):
        rows.append(_row(number, f"delta {FIXED:g}", reference))
        rows += [_row(number, f"trial {row['trial']}", row) for row in result.front]
    columns: list[Column | str] = ["seed", "network", "parameters", "gain, validation, points", "gain, test, points"]
    table = Table(columns, rows, title=f"The Pareto front of {preset.trials} grow sequences, a seed")
    return Outcome(
        "Learn to bind and grow, Pareto front", [table], [_claim(preset, found, fixed)], [_generations(preset, found)]
    ).kept(desk.results)


def _search(desk: Desk, preset: Preset, bench: Bench, run: Run, number: int) -> SearchResult:
    """The search of one seed, in a run of its own beside the figure's."""
    path = run.path / f"search-{number}"
    config = {"trials": preset.trials, "number": number}
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
            options=bench.guided,
        )


def _row(number: int, name: str, values: Json) -> list[Any]:
    return [number, name, int(values["parameters"]), 100 * values["gain"], 100 * values["test_gain"]]


def _claim(preset: Preset, found: list[SearchResult], fixed: list[Json]) -> Claim:
    dominated, tests, savings = [], [], []
    for result, reference in zip(found, fixed, strict=True):
        point = (reference["gain"], float(reference["parameters"]))
        better = [row for row in result.front if dominates((row["gain"], float(row["parameters"])), point)]
        dominated.append(bool(better))
        if better:
            chosen = max(better, key=lambda row: row["gain"])
            tests.append(100 * (chosen["test_gain"] - reference["test_gain"]))
            savings.append(1 - chosen["parameters"] / reference["parameters"])
    ours = f"delta {FIXED:g} is dominated in {sum(dominated)} of {len(found)} seeds"
    spread = "no dominating point"
    if tests:
        ours += f"; on test data {np.mean(tests):+.2f} points with {np.mean(savings):.0%} fewer parameters"
        spread = f"test difference from {min(tests):+.2f} to {max(tests):+.2f} points"
    return Claim(
        id="B3",
        claim="The search over grow sequences recovers a Pareto front that dominates one coefficient for all tasks.",
        paper="20 trials; balanced at 0.55 with fewer than 10 M parameters",
        ours=ours,
        spread=spread,
        seeds=preset.seeds,
        # A search picks the luckiest of its trials on validation data: what it found must hold on test data too.
        holds=bool(all(dominated) and np.mean(tests) >= 0),
        command=f"ramet reproduce bind-and-grow/pareto --preset {preset.name}",
        note=f"{preset.trials} trials, a coefficient for each task, searched and judged on validation data. "
        f"{preset.setting(preset.split)}",
    )


def _generations(preset: Preset, found: list[SearchResult]) -> str:
    """Whether later generations beat the first: how many points of the front each gave."""
    size = population_for(preset.trials)
    later = sum(row["generation"] > 0 for result in found for row in result.front)
    total = sum(len(result.front) for result in found)
    starts = ", ".join(f"{value:g}" for value in STARTS)
    return (
        f"NSGA-II with a population of {size}: {later} of {total} points of the fronts come from later generations "
        f"than the first, which has {starts} for all tasks and is random otherwise."
    )
