"""Twins: a task and its slightly rotated or re-coloured copy among strangers; is the right one found?"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from ramet.continual import TaskData
from ramet.continual.methods.bind_and_grow.method import BindAndGrow
from ramet.continual.streams.makers import rotate
from ramet.continual.streams.stream import TaskInfo
from ramet.data import Split
from ramet.reports import Column
from ramet.reports.formats import percent
from ramet.runs.encoding import Json
from ramet.seeding import numpy_generator
from ramet_papers.bind_and_grow.presets import PRESETS
from ramet_papers.bind_and_grow.trials import BindingSetup, BindingTrials
from ramet_papers.experiment import Experiment, Outcome, Row, tabled

NEEDED = 0.9
"""The share of twins that must be found."""

SETTINGS = (("all layers anew, old ones frozen", 1.0, "frozen"), ("delta 0.55, old layers slow", 0.55, "slow"))


def twins(experiment: Experiment) -> Outcome:
    """How often a task's copy is bound to the task itself, by each measure."""
    preset = PRESETS[experiment.preset_name]
    trials = BindingTrials(experiment, preset, preset.strangers, "twins")
    tasks = {
        (measure, which): (
            f"{measure}/{which}",
            find_twins,
            {"measure": measure, "which": which, "count": preset.twins},
        )
        for measure in ("rsa", "cka")
        for which in range(len(SETTINGS))
    }
    rows: list[Row] = []
    for (measure, which), results in trials.over_seeds(tasks, "looking for twins").items():
        twins = [entry for result in results for entry in result["twins"]]
        found = {kind: [e["found"] for e in twins if e["kind"] == kind] for kind in ("rotated", "re-coloured")}
        share = sum(map(sum, found.values())) / len(twins)
        rows.append(
            {
                "measure": measure,
                "network": SETTINGS[which][0],
                "twins": len(twins),
                **{
                    Column(f"{kind}, found", percent): sum(hits) / len(hits) if hits else None
                    for kind, hits in found.items()
                },
                Column("all, found", percent): share,
                f"at least {NEEDED:.0%}": share >= NEEDED,
            }
        )
    table = tabled(rows, f"Twins among the tasks of {preset.strangers.source}, {preset.seeds} seeds")
    notes = [
        "A twin is a task's images rotated by 15 degrees to either side, or with their colours scaled by 0.7 and "
        f"shifted; by chance one of {len(trials.setup.streams[0])} is right. {preset.setting(preset.strangers)}"
    ]
    return Outcome("Learn to bind and grow, twins", [table], notes=notes)


def find_twins(setup: BindingSetup, *, number: int, measure: str, which: int, count: int) -> Json:
    """Learn the strangers, then ask where each twin would be bound."""
    stream, seed = setup.streams[number], setup.seeds[number]
    _, delta, old = SETTINGS[which]
    method = BindAndGrow(measure=measure, delta=delta, old_weights=old)  # type: ignore[arg-type]
    method.start(setup.skeleton, setup.settings, seed)
    for task in stream:
        method.learn(task.data())
    generator = numpy_generator(seed, "twins")
    entries = []
    for place in range(count):
        original = stream[int(generator.integers(len(stream)))]
        kind = ("rotated", "re-coloured")[place % 2]
        degrees = float(generator.choice([-15.0, 15.0]))
        shift = float(generator.uniform(-0.5, 0.5))
        info: TaskInfo = replace(original.info, name=f"twin {place}")
        train = _changed(original.dataset.train, kind, degrees, shift)
        validation = _changed(original.dataset.validation, kind, degrees, shift)
        decision = method.decide(TaskData(info, train, validation))
        entries.append({"kind": kind, "found": decision.bound_to == original.name, "bound_to": decision.bound_to})
    return {"twins": entries}


def _changed(split: Split, kind: str, degrees: float, shift: float) -> Split:
    x: Tensor = rotate(split.x, degrees) if kind == "rotated" else 0.7 * split.x + shift
    return Split(x, split.y)
