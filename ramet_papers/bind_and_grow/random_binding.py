"""Figure 2: growth that follows similarity against random growth, at the same number of parameters.

Random growth binds a task to a random one and makes random layers anew, their number drawn too, as in the paper. What
is drawn for all tasks together has as many parameters as similarity took. A second comparison gives random growth the
same number for each task, which tells it how much each task needs, and, where layers have different sizes, even which.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ramet.execution import WorkItem
from ramet.ranking.metrics import Floats
from ramet.runs.encoding import Json
from ramet_papers.bind_and_grow.judges import B1Figures, Guided, judge_b1
from ramet_papers.bind_and_grow.presets import PRESETS, BindingPreset
from ramet_papers.bind_and_grow.trials import RULES, BindingTrials, grown, grown_at_random, sizes_of
from ramet_papers.experiment import Experiment, Outcome, Row, tabled, values


@dataclass(frozen=True)
class _Measured:
    """What a stream shows; test gains are [seeds, coefficients], those of random growth means over draws."""

    guided: Floats  # gains of growth by similarity
    random: Floats  # of random growth, as large in all
    for_each: Floats  # of random growth, as large for each task
    parameters: Floats  # of the first
    anew: Floats  # the share of tasks that have a layer anew by similarity, [layers]

    def ahead(self) -> Guided:
        """Points by which similarity is ahead, a mean over coefficients for each seed."""
        in_all, for_each = (100 * (self.guided - random).mean(axis=1) for random in (self.random, self.for_each))
        return Guided(in_all, for_each)


def figure_2(experiment: Experiment) -> Outcome:
    """Guided against random growth on several streams and networks; claim B1 is answered on the first, the paper's."""
    preset = PRESETS[experiment.preset_name]
    measured: dict[tuple[str, str], _Measured] = {}
    for label, stream_setting in preset.guided.items():
        trials = BindingTrials(experiment, preset, stream_setting, "figure-2", label, preset.guided_seeds)
        references = trials.alone(label)
        for rule in RULES:
            measured[label, rule] = _measure(preset, trials, label, rule, references)
    rows: list[Row] = []
    for (label, rule), result in measured.items():
        ahead = result.ahead()
        difference, stricter = experiment.mean(ahead.in_all), experiment.mean(ahead.for_each)
        rows.append(
            {
                "stream": f"{preset.guided[label].source}, {label}",
                "rule": rule,
                "parameters": int(result.parameters.mean()),
                "gain by similarity, points": experiment.mean(100 * result.guided.mean(axis=1)),
                "by random growth": experiment.mean(100 * result.random.mean(axis=1)),
                "difference": difference,
                "difference, as large for each task": stricter,
            }
        )
    deltas = " and ".join(f"{delta:g}" for delta in preset.matched)
    title = f"Figure 2: test gain over the tasks alone, delta {deltas}, {preset.guided_seeds} seeds"
    first, (paper, own) = next(iter(preset.guided)), RULES
    figures = B1Figures(
        command=experiment.command,
        setting=preset.setting(preset.guided[first]),
        paper={label: measured[label, paper].ahead() for label in preset.guided},
        own={label: measured[label, own].ahead() for label in preset.guided},
        anew=measured[first, paper].anew,
    )
    return Outcome("Learn to bind and grow, Figure 2", [tabled(rows, title)], [judge_b1(figures)])


def _measure(preset: BindingPreset, trials: BindingTrials, label: str, rule: str, references: list[Json]) -> _Measured:
    kind, setup = f"{label}/{' '.join(RULES[rule].values())}", trials.setup
    cells = [(number, delta) for number in range(preset.guided_seeds) for delta in preset.matched]
    tasks = [
        WorkItem(
            f"{kind}/guided/{number}/{delta:g}",
            grown,
            {"number": number, "delta": delta, "alone": references[number], "options": RULES[rule]},
        )
        for number, delta in cells
    ]
    guided = trials.run.in_order(tasks, "growth by similarity")
    sizes = [sizes_of(setup, result["expanded"]) for result in guided]
    random: list[Floats] = []
    shape = (preset.guided_seeds, len(preset.matched))
    for words, for_each in (("in all", False), ("for each", True)):
        tasks = [
            WorkItem(
                f"{kind}/random {words}/{number}/{delta:g}/{draw}",
                grown_at_random,
                {"number": number, "draw": draw, "sizes": own, "alone": references[number], "for_each": for_each},
            )
            for (number, delta), own in zip(cells, sizes, strict=True)
            for draw in range(preset.draws)
        ]
        gains = values(trials.run.in_order(tasks, "random growth"), "test_gain")
        random.append(gains.reshape(*shape, preset.draws).mean(axis=2))
    ours, parameters = (values(guided, name).reshape(shape) for name in ("test_gain", "parameters"))
    places = [places for result in guided for places in result["expanded"].values()]
    anew = np.array([np.mean([layer in own for own in places]) for layer in range(len(setup.skeleton.layers))])
    return _Measured(ours, random[0], random[1], parameters, anew)
