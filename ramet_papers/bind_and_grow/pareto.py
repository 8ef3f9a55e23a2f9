"""The Pareto front of grow sequences, against one grow coefficient for all tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ramet.continual.study.plan import Sampler
from ramet.continual.study.result import SearchResult
from ramet.continual.study.search import SequenceSearch
from ramet.continual.study.space import STARTS, SequenceSpace
from ramet.execution import WorkItem
from ramet.reports import Column, Table
from ramet.runs import Run
from ramet.runs.encoding import Json
from ramet_papers.bind_and_grow.judges import FIXED, B3Figures, Fronts, Point, StreamFronts, judge_b3
from ramet_papers.bind_and_grow.presets import PRESETS, BindingPreset, StreamSetting
from ramet_papers.bind_and_grow.trials import RULES, BindingSetup, grown, open_run, run_alone, run_tasks
from ramet_papers.workspace import Outcome, Workspace


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
    return Outcome("Learn to bind and grow, Pareto front", tables, [judge_b3(_figures(preset, found))]).kept(
        workspace.results
    )


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


def _figures(preset: BindingPreset, found: dict[str, dict[_Kind, _Searched]]) -> B3Figures:
    first = next(iter(preset.searched))

    def images(name: str) -> str:
        return f"{found[name][KINDS[0]].num_validation} validation images a task"

    return B3Figures(
        command=f"ramet reproduce bind-and-grow/pareto --preset {preset.name}",
        setting=f"{preset.trials} trials of Thompson sampling over what each task gains by its layers (NSGA-II is the "
        f"paper's), a coefficient for each task, the first {len(STARTS)} with one for all, searched and judged on "
        f"validation data, {images(first)}; layers are compared and made anew by the paper's rule. The paper's own "
        f"figure is of split CIFAR-100. {preset.setting(preset.searched[first])}",
        streams=[
            _stream(found[name], f"{stream_setting.source} ({stream_setting.network}, {images(name)})")
            for name, stream_setting in preset.searched.items()
        ],
        trials=preset.trials,
        coefficient=FIXED,
    )


def _stream(found: dict[_Kind, _Searched], about: str) -> StreamFronts:
    asked, evolved, own = (_fronts(found[kind]) for kind in KINDS)
    return StreamFronts(asked, evolved, own, about)


def _fronts(found: _Searched) -> Fronts:
    return Fronts([[_point(row) for row in result.front] for result in found.fronts], [_point(p) for p in found.fixed])


def _point(values: Json) -> Point:
    return Point(float(values["gain"]), float(values["parameters"]), float(values["test_gain"]))
