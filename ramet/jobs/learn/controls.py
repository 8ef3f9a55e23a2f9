"""What a method must beat: networks for each task alone, of the same work, and of the same size and work."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ramet.continual.loop import learn
from ramet.continual.methods.individual import Individual
from ramet.continual.methods.separate import Separate, separate_as
from ramet.continual.networks.template import Template
from ramet.execution import WorkItem
from ramet.jobs.learn.specs import file_name
from ramet.runs.encoding import Json

if TYPE_CHECKING:
    from ramet.continual.method import Method
    from ramet.jobs.learn.learning import StreamSetup

Control = Literal["individual", "separate"]
Rows = list[dict[str, Any]]

KINDS: tuple[Control, ...] = ("individual", "separate")


def control_name(kind: Control, method: str) -> str:
    """How a control is called in records and tables.

    >>> control_name("separate", "firefly")
    'separate, as firefly'
    """
    return f"{kind}, as {method}"


def controlled(
    rows: Mapping[str, Sequence[Rows]], methods: Mapping[str, Method], which: str, *, higher_is_better: bool = True
) -> list[str]:
    """The methods that get controls: all that share weights or knowledge, or the best of them on validation data.

    Args:
        rows: what each method measured, by its name, for each seed.
        methods: the methods themselves; individual networks, and what needs earlier data, are no candidates.
        which: ``best``, ``all`` or ``none``.
        higher_is_better: of the metric.
    """
    known = [
        name
        for name, method in methods.items()
        if not isinstance(method, Individual) and not method.needs_earlier and _knows_work(rows[name])
    ]
    if which == "none" or not known:
        return []
    if which == "all":
        return known

    def score(name: str) -> float:
        mean = statistics.fmean(statistics.fmean(seed[-1]["validation"]) for seed in rows[name])
        return mean if higher_is_better else -mean

    return [max(known, key=score)]


def make_control(kind: Control, template: Template, classes: Sequence[int], rows: Rows) -> Separate | None:
    """The control of a method that gave these rows.

    None where a network of another size can't be made, or for individual networks where separate ones are the same.
    """
    work = [float(row["work"]) for row in rows]
    separate = None if template.is_trained else separate_as(template, classes, rows[-1]["parameters"], work)
    if kind == "separate":
        return separate
    return None if separate is not None and separate.width == 1 else Separate(work=work)


def _knows_work(seeds: Sequence[Rows]) -> bool:
    """Whether all rows say what they took: those of earlier versions do not."""
    return all("work" in row for rows in seeds for row in rows)


def control_items(setup: StreamSetup, rows: Mapping[str, list[Rows]]) -> list[WorkItem]:
    """The controls of the methods that get any, seed by seed: each has the size and the work of the method's own."""
    items = []
    methods = {spec: setup.method(spec) for spec in setup.methods}
    for of in controlled(rows, methods, setup.controls, higher_is_better=setup.metric.higher_is_better):
        for kind in KINDS:
            for place, seed in enumerate(setup.seeds):
                classes = [task.info.num_classes for task in setup.streams[place]]
                made = make_control(kind, setup.template, classes, rows[of][place])
                if made is not None:
                    name = control_name(kind, of)
                    arguments: Json = {"name": name, "of": of, "place": place, "options": made.options}
                    items.append(WorkItem(f"{name}/{seed}", learn_control, arguments))
    return items


def learn_control(setup: StreamSetup, name: str, of: str, place: int, options: dict[str, Any]) -> Json:
    """A control with one seed: a task of the executor. Its networks are not kept."""
    learned = learn(
        setup.streams[place],
        method=Separate(**options),
        network=setup.template,
        settings=setup.recipe,
        seed=setup.seeds[place],
        folder=setup.folder / "checkpoints" / f"{file_name(name)}-{setup.seeds[place]}",
        device=setup.device,
        seconds_between_checkpoints=setup.seconds_between_checkpoints,
        identity=setup.identity,
        rates=setup.rates,
    )
    return {"rows": learned.rows, "forgets_nothing": True}
