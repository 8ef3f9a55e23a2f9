"""Figure 2: growth that follows similarity against random growth, at the same number of parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ramet.execution import Task
from ramet.papers.bind_and_grow.presets import PRESETS, Bed, Preset
from ramet.papers.bind_and_grow.trials import Bench, grown, grown_at_random, open_run, run_alone, run_tasks, sizes_of
from ramet.papers.claims import Claim
from ramet.papers.desk import Desk, Outcome
from ramet.ranking.intervals import mean_interval
from ramet.ranking.metrics import Floats
from ramet.reports import Column, Estimate, Table
from ramet.runs import Run
from ramet.seeding import numpy_generator


def figure_2(desk: Desk, preset_name: str) -> Outcome:
    """Guided against random growth on several streams and networks; claim B1 is answered on the first, the paper's."""
    preset = PRESETS[preset_name]
    generator = numpy_generator(desk.seed, "figure-2")
    rows: list[list[Any]] = []
    differences: dict[str, Estimate] = {}
    anew: dict[str, Floats] = {}
    with open_run(desk, preset, "figure-2") as run:
        for label, bed in preset.guided.items():
            measured = _measure(desk, preset, bed, run, label)
            guided, random = measured.guided, measured.random
            anew.setdefault(label, measured.anew)
            by_seed = 100 * (guided - random).mean(axis=1)  # [seeds], points
            differences[label] = mean_interval(by_seed, generator=generator)
            for place, delta in enumerate(preset.matched):
                rows.append(
                    [
                        f"{bed.source}, {label}",
                        delta,
                        int(measured.parameters[:, place].mean()),
                        mean_interval(100 * guided[:, place], generator=generator),
                        mean_interval(100 * random[:, place], generator=generator),
                        mean_interval(100 * (guided - random)[:, place], generator=generator),
                    ]
                )
    columns: list[Column | str] = [
        "stream",
        "delta",
        "parameters of both",
        "average gain by similarity, points",
        "by random growth, points",
        "difference, points",
    ]
    table = Table(columns, rows, title=f"Figure 2: test gain over the tasks alone, {preset.seeds} seeds")
    (first, decisive), *others = differences.items()
    bed = preset.guided[first]
    also = "; ".join(f"{label} {value.value:+.2f} {value.interval_text()}" for label, value in others)
    claim = Claim(
        id="B1",
        claim="Growth guided by similarity beats random growth at equal parameters.",
        paper="Figure 2, no figure given",
        ours=f"{decisive.value:+.2f} points of average gain",
        spread=f"95 % interval {decisive.interval_text()} over seeds",
        seeds=preset.seeds,
        holds=decisive.is_above_zero,
        command=f"ramet reproduce bind-and-grow/figure-2 --preset {preset.name}",
        note=f"{preset.setting(bed)} Old layers train at a tenth of the rate, as in the paper. By similarity a task "
        f"has layer after layer anew in {', '.join(f'{share:.0%}' for share in anew[first])} of the cases; a layer "
        f"that none has anew is moved by all. Elsewhere, points: {also}.",
    )
    return Outcome("Learn to bind and grow, Figure 2", [table], [claim]).kept(desk.results)


@dataclass(frozen=True)
class _Measured:
    """What a bed shows.

    Args:
        guided: test gains of growth by similarity, [seeds, coefficients].
        random: the same of random growth, the mean over draws.
        parameters: of both.
        anew: the share of tasks that have a layer anew by similarity, [layers].
    """

    guided: Floats
    random: Floats
    parameters: Floats
    anew: Floats


def _measure(desk: Desk, preset: Preset, bed: Bed, run: Run, label: str) -> _Measured:
    bench = Bench.of(desk, preset, bed, run.path / "networks" / label)
    references = run_alone(desk, run, bench, label)
    cells = [(number, delta) for number in range(preset.seeds) for delta in preset.matched]
    tasks = [
        Task(
            f"{label}/guided/{number}/{delta:g}",
            grown,
            {"number": number, "delta": delta, "alone": references[number]},
        )
        for number, delta in cells
    ]
    guided = run_tasks(desk, run, tasks, bench, "growth by similarity")
    tasks = [
        Task(
            f"{label}/random/{number}/{delta:g}/{draw}",
            grown_at_random,
            {
                "number": number,
                "draw": draw,
                "sizes": sizes_of(bench, result["expanded"]),
                "alone": references[number],
            },
        )
        for (number, delta), result in zip(cells, guided, strict=True)
        for draw in range(preset.draws)
    ]
    random = run_tasks(desk, run, tasks, bench, "random growth")
    shape = (preset.seeds, len(preset.matched))
    ours = np.array([result["test_gain"] for result in guided]).reshape(shape)
    theirs = np.array([result["test_gain"] for result in random]).reshape(*shape, preset.draws).mean(axis=2)
    parameters = np.array([result["parameters"] for result in guided], dtype=float).reshape(shape)
    places = [places for result in guided for places in result["expanded"].values()]
    anew = np.array([np.mean([layer in own for own in places]) for layer in range(len(bench.skeleton.layers))])
    return _Measured(ours, theirs, parameters, anew)
