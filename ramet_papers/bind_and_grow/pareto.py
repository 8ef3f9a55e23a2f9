"""The Pareto front of grow sequences, against one grow coefficient for all tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ramet.continual.study.plan import Sampler
from ramet.continual.study.result import SearchResult, dominates
from ramet.continual.study.search import SequenceSearch
from ramet.continual.study.space import STARTS, SequenceSpace
from ramet.execution import WorkItem
from ramet.reports import Column, Table
from ramet.runs import Run
from ramet.runs.encoding import Json
from ramet_papers.bind_and_grow.presets import PRESETS, BindingPreset, StreamSetting
from ramet_papers.bind_and_grow.trials import RULES, BindingSetup, grown, open_run, run_alone, run_tasks
from ramet_papers.claims import Claim
from ramet_papers.workspace import Outcome, Workspace

FIXED = 0.5
"""The coefficient that the search must dominate."""


@dataclass(frozen=True)
class _Kind:
    """How sequences are searched.

    Args:
        rule: how layers are compared and made anew.
        sampler: how the next sequence is found.
    """

    rule: str
    sampler: Sampler

    @property
    def options(self) -> Json:
        return RULES[self.rule]

    def __str__(self) -> str:
        return "-".join([*self.options.values(), self.sampler])


PAPER, OWN = RULES
KINDS = (_Kind(PAPER, "thompson"), _Kind(PAPER, "nsga2"), _Kind(OWN, "thompson"))
"""What is searched; the first answers the claim, the second has the paper's sampler."""


def pareto(workspace: Workspace, preset_name: str) -> Outcome:
    """Forty trials over a coefficient for each task, on several streams; claim B3."""
    preset = PRESETS[preset_name]
    found = {
        name: _searched(workspace, preset, stream_setting, f"pareto-{name}")
        for name, stream_setting in preset.searched.items()
    }
    tables = [_table(preset, stream_setting, found[name]) for name, stream_setting in preset.searched.items()]
    return Outcome("Learn to bind and grow, Pareto front", tables, [_claim(preset, found)]).kept(workspace.results)


@dataclass(frozen=True)
class _Searched:
    """The searches of one kind on a stream, a seed.

    Args:
        fronts: what was found.
        fixed: one coefficient for all tasks.
        num_validation: images a task that the search chooses by, the fewest of any.
    """

    fronts: list[SearchResult]
    fixed: list[Json]
    num_validation: int = 0


def _searched(
    workspace: Workspace, preset: BindingPreset, stream_setting: StreamSetting, figure: str
) -> dict[_Kind, _Searched]:
    """What is found on a stream by each kind of search."""
    with open_run(workspace, preset, figure) as run:
        setup = BindingSetup.of(workspace, preset, stream_setting, run.path / "networks")
        references = run_alone(workspace, run, setup, "split")
        fixed = {rule: _fixed(workspace, preset, setup, run, rule, references) for rule in RULES}
        fronts = {
            kind: [_search(workspace, preset, setup, run, n, kind) for n in range(preset.seeds)] for kind in KINDS
        }
        images = min(len(task.dataset.validation) for stream in setup.streams for task in stream)
        return {kind: _Searched(fronts[kind], fixed[kind.rule], images) for kind in KINDS}


def _table(preset: BindingPreset, stream_setting: StreamSetting, searched: dict[_Kind, _Searched]) -> Table:
    rows: list[list[Any]] = []
    for kind, found in searched.items():
        for number, (result, reference) in enumerate(zip(found.fronts, found.fixed, strict=True)):
            rows.append(_row(kind, number, f"delta {FIXED:g}", reference))
            rows += [_row(kind, number, f"trial {row['trial']}", row) for row in result.front]
    columns: list[Column | str] = [
        "rule",
        "sampler",
        "seed",
        "network",
        "parameters",
        "gain, validation, points",
        "gain, test, points",
    ]
    return Table(
        columns, rows, title=f"{stream_setting.source}: the Pareto front of {preset.trials} grow sequences, a seed"
    )


def _fixed(
    workspace: Workspace, preset: BindingPreset, setup: BindingSetup, run: Run, rule: str, references: Sequence[Json]
) -> list[Json]:
    """One coefficient for all tasks, a seed."""
    tasks = [
        WorkItem(
            f"fixed/{'-'.join(RULES[rule].values())}/{number}",
            grown,
            {"number": number, "delta": FIXED, "alone": references[number], "options": RULES[rule]},
        )
        for number in range(preset.seeds)
    ]
    return run_tasks(workspace, run, tasks, setup, f"delta {FIXED:g} for all tasks")


def _search(
    workspace: Workspace, preset: BindingPreset, setup: BindingSetup, run: Run, number: int, kind: _Kind
) -> SearchResult:
    """The search of one seed, in a run of its own beside the figure's."""
    path = run.path / f"search-{kind}-{number}"
    config: Json = {"trials": preset.trials, "number": number, "rule": kind.options, "sampler": kind.sampler}
    own = Run.open(path) if (path / "config.json").exists() else Run.create(path, "grow-sequences", config)
    search = SequenceSearch(
        space=SequenceSpace(delta="per-task"), num_trials=preset.trials, sampler=kind.sampler, batch=2
    )
    with own:
        return search.run(
            setup.streams[number],
            setup.skeleton,
            setup.settings,
            own,
            workspace.executor,
            seed=setup.seeds[number],
            options={**setup.options, **kind.options},
        )


def _row(kind: _Kind, number: int, name: str, values: Json) -> list[Any]:
    return [
        kind.rule,
        kind.sampler,
        number,
        name,
        int(values["parameters"]),
        100 * values["gain"],
        100 * values["test_gain"],
    ]


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


def _claim(preset: BindingPreset, found: dict[str, dict[_Kind, _Searched]]) -> Claim:
    judged = {name: {kind: _Judged.of(searched[kind]) for kind in KINDS} for name, searched in found.items()}
    first, *others = preset.searched
    asked, evolved, own = (judged[first][kind] for kind in KINDS)

    def elsewhere(name: str) -> str:
        its, its_evolved, ours = (judged[name][kind] for kind in KINDS)
        stream_setting = preset.searched[name]
        return (
            f" On {stream_setting.source} ({stream_setting.network}, {images(name)} a task): {its.text()}, "
            f"{its.spread()}; by NSGA-II {its_evolved.text()}; by the default rule {ours.text()}, {ours.spread()}."
        )

    def images(name: str) -> str:
        return f"{found[name][KINDS[0]].num_validation} validation images"

    return Claim(
        id="B3",
        claim="The search over grow sequences recovers a Pareto front that dominates one coefficient for all tasks.",
        paper="20 trials; balanced at 0.55 with fewer than 10 M parameters",
        ours=f"delta {FIXED:g} is dominated {asked.text()}; by NSGA-II {evolved.text()}; by this library's default "
        f"rule {own.text()}",
        spread=f"{asked.spread()}; {evolved.spread()}; {own.spread()}",
        seeds=preset.seeds,
        holds=asked.holds,
        command=f"ramet reproduce bind-and-grow/pareto --preset {preset.name}",
        note=f"{preset.trials} trials of Thompson sampling over what each task gains by its layers (NSGA-II is the "
        f"paper's), a coefficient for each task, the first {len(STARTS)} with one for all, searched and judged on "
        f"validation data, {images(first)} a task; layers are compared and made anew by the paper's rule. The paper's "
        f"own figure is of split CIFAR-100. {preset.setting(preset.searched[first])}"
        + "".join(elsewhere(name) for name in others),
    )
