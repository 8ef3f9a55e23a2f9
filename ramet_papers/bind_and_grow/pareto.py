"""The Pareto front of grow sequences, against one grow coefficient for all tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ramet.continual.study.plan import Sampler
from ramet.continual.study.result import FoundSequences
from ramet.continual.study.search import SequenceSearch
from ramet.continual.study.space import STARTS, SequenceSpace
from ramet.reports import Table
from ramet.runs.encoding import Json
from ramet_papers.bind_and_grow.judges import FIXED, B3Figures, Fronts, Point, StreamFronts, judge_b3
from ramet_papers.bind_and_grow.presets import PRESETS, BindingPreset, StreamSetting
from ramet_papers.bind_and_grow.trials import RULES, BindingTrials, grown
from ramet_papers.experiment import Experiment, Outcome, Row, tabled
from ramet_papers.recorded import open_recorded


@dataclass(frozen=True)
class _Kind:
    """How sequences are searched."""

    rule: str  # how layers are compared and made anew
    sampler: Sampler  # how the next sequence is found
    delta: Literal["shared", "per-task"] = "per-task"  # whose the coefficient is

    @property
    def options(self) -> Json:
        return RULES[self.rule]

    def __str__(self) -> str:
        return "-".join([*self.options.values(), self.sampler, self.delta])


PAPER, OWN = RULES
KINDS = (_Kind(PAPER, "nsga2", "shared"), _Kind(PAPER, "random"), _Kind(PAPER, "thompson"), _Kind(OWN, "thompson"))
"""What is searched: the first is as the paper has it and answers the claim, the second is chance."""


@dataclass(frozen=True)
class _Searched:
    """The searches of one kind on a stream, a seed."""

    fronts: list[FoundSequences]  # what was found
    fixed: list[Json]  # one coefficient for all tasks

    def points(self) -> Fronts:
        """What a judge looks at."""
        fronts = [[_point(row) for row in result.front] for result in self.fronts]
        return Fronts(fronts, [_point(row) for row in self.fixed])


def _point(values: Mapping[str, Any]) -> Point:
    return Point(float(values["gain"]), float(values["parameters"]), float(values["test_gain"]))


def pareto(experiment: Experiment) -> Outcome:
    """Forty trials over a coefficient for all tasks, or one for each, on several streams; claim B3."""
    preset = PRESETS[experiment.preset_name]
    tables, streams, images = [], [], []
    for name, stream_setting in preset.searched.items():
        trials = BindingTrials(experiment, preset, stream_setting, f"pareto-{name}")
        found = _searched(experiment, preset, trials)
        tables.append(_table(preset, stream_setting, found))
        num = min(len(task.dataset.validation) for stream in trials.setup.streams for task in stream)
        images.append(f"{num} validation images a task")  # the fewest that the search chooses by
        about = f"{stream_setting.source} ({stream_setting.network}, {images[-1]})"
        asked, drawn, taught, own = (found[kind].points() for kind in KINDS)
        streams.append(StreamFronts(asked, drawn, taught, own, about))
    first = next(iter(preset.searched.values()))
    figures = B3Figures(
        command=experiment.command,
        setting=f"{preset.trials} trials of NSGA-II over one coefficient for all tasks, as in the paper; Thompson "
        f"sampling over a coefficient for each task begins with {len(STARTS)} of one for all. Searched and judged on "
        f"validation data, {images[0]}; layers are compared and made anew by the paper's rule. The paper's own "
        f"figure is of split CIFAR-100. {preset.setting(first)}",
        streams=streams,
        trials=preset.trials,
        coefficient=FIXED,
    )
    return Outcome("Learn to bind and grow, Pareto front", tables, [judge_b3(figures)])


def _searched(experiment: Experiment, preset: BindingPreset, trials: BindingTrials) -> dict[_Kind, _Searched]:
    """What is found on a stream by each kind of search, and by one coefficient for all tasks."""
    alone = trials.alone("split")
    tasks: dict[str, Any] = {
        rule: (f"fixed/{'-'.join(options.values())}", grown, {"delta": FIXED, "options": options})
        for rule, options in RULES.items()
    }
    fixed = trials.over_seeds(tasks, f"delta {FIXED:g} for all tasks", alone=alone)
    return {
        kind: _Searched([_search(experiment, preset, trials, n, kind) for n in range(preset.seeds)], fixed[kind.rule])
        for kind in KINDS
    }


def _search(
    experiment: Experiment, preset: BindingPreset, trials: BindingTrials, number: int, kind: _Kind
) -> FoundSequences:
    """The search of one seed, in a run of its own beside the figure's."""
    setup = trials.setup
    config: Json = {"trials": preset.trials, "number": number, "rule": kind.options, "sampler": kind.sampler}
    space = SequenceSpace(delta=kind.delta)
    search = SequenceSearch(space=space, num_trials=preset.trials, sampler=kind.sampler, batch=2)
    with open_recorded(trials.run.path / f"search-{kind}-{number}", "grow-sequences", config) as run:
        subject = (setup.streams[number], setup.skeleton, setup.settings, run, experiment.workspace.executor)
        return search.run(*subject, seed=setup.seeds[number], options={**setup.options, **kind.options})


def _table(preset: BindingPreset, stream_setting: StreamSetting, searched: Mapping[_Kind, _Searched]) -> Table:
    rows: list[Row] = []
    for kind, found in searched.items():
        for number, (result, fixed) in enumerate(zip(found.fronts, found.fixed, strict=True)):
            networks = [(f"delta {FIXED:g}", fixed), *((f"trial {row['trial']}", row) for row in result.front)]
            rows += [
                {
                    "rule": kind.rule,
                    "sampler": kind.sampler,
                    "coefficient": kind.delta,
                    "seed": number,
                    "network": name,
                    "parameters": int(row["parameters"]),
                    "gain, validation, points": 100 * row["gain"],
                    "gain, test, points": 100 * row["test_gain"],
                }
                for name, row in networks
            ]
    return tabled(rows, f"{stream_setting.source}: the Pareto front of {preset.trials} grow sequences, a seed")
