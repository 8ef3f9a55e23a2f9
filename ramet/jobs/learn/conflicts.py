"""Conflicts between tasks in the report of `ramet learn`: layer by layer, with the task that each was bound to."""

from __future__ import annotations

from ramet.jobs.learn.networks import task_signs
from ramet.jobs.learn.result import BoundTask, LayerMap, LearnResult
from ramet.reports.charts import heat_map
from ramet.reports.charts.chart import Chart
from ramet.reports.formats import decimals
from ramet.reports.page import Page

MAX_PAIRS = 28
"""Up to so many pairs of a task and a candidate are shown layer by layer; of more, the norms alone."""


def add_conflicts(page: Page, result: LearnResult) -> None:
    """The section with the conflicts of every method that measured them."""
    measured = {
        name: (outcome.bound, layer_names(outcome.bound, outcome.graph))
        for name, outcome in result.methods.items()
        if outcome.bound
    }
    if not measured:
        return
    page.section("Conflict of layers")
    page.prose(
        "How differently two tasks' networks see the new task's images: 0 is the same representation, 1 no relation, 2 "
        "the opposite. A task is bound to the one with the least conflict over all layers, and gets the layers that "
        "conflict most for itself."
    )
    for name, (decisions, layers) in measured.items():
        page.chart(
            bound_map(decisions, result.tasks, layers),
            "The conflict of each new task with the task that it was bound to; in brackets the norm over layers. A "
            "frame: the task got a layer of its own.",
            title=f"{name}: with the relative it was bound to",
        )
        num_pairs = sum(len(decision.conflicts) for decision in decisions)
        if num_pairs == len(decisions):
            continue
        if num_pairs <= MAX_PAIRS:
            page.chart(
                pair_map(decisions, result.tasks, layers),
                "The conflict of each new task with every task before it; in brackets the norm over layers. A star: "
                "the task that it was bound to.",
                title=f"{name}: with every candidate",
            )
        else:
            page.chart(
                candidate_map(decisions, result.tasks),
                "The norm over layers of the conflict with each task before. A frame: the task that it was bound to.",
                title=f"{name}: with every candidate",
            )


def layer_names(decisions: list[BoundTask], graph: LayerMap | None) -> list[str]:
    """The names of the layers that were compared; numbers where tasks have networks of different layers."""
    names = {node.id: node.layer for node in graph.nodes if node.patches is None} if graph else {}
    lengths = {len(conflict.layers) for decision in decisions for conflict in decision.conflicts}
    ways = [[names[key] for key in keys if key in names][:-1] for keys in graph.paths.values()] if graph else []
    if ways and all(way == ways[0] for way in ways) and lengths == {len(ways[0])}:
        return ways[0]
    return [f"layer {place}" for place in range(1, max(lengths) + 1)]


def bound_map(decisions: list[BoundTask], tasks: list[str], layers: list[str]) -> Chart:
    """A row for each new task, a column for each layer: the conflict with the task that it was bound to."""
    signs = _signs(decisions, tasks)
    rows, values, marked = [], [], []
    for row, decision in enumerate(decisions):
        bound = decision.chosen
        rows.append(f"{signs[decision.task]} → {signs[bound.task]} ({bound.total:.2f})")
        values.append(bound.layers)
        marked += [(row, place) for place in decision.expanded]
    return _map(rows, values, marked, layers, "new task → its relative")


def pair_map(decisions: list[BoundTask], tasks: list[str], layers: list[str]) -> Chart:
    """A row for each new task and candidate, a column for each layer."""
    signs = _signs(decisions, tasks)
    rows, values = [], []
    for decision in decisions:
        for conflict in decision.conflicts:
            star = "★ " if conflict.task == decision.bound_to else ""
            rows.append(f"{star}{signs[decision.task]} → {signs[conflict.task]} ({conflict.total:.2f})")
            values.append(conflict.layers)
    return _map(rows, values, [], layers, "new task → candidate")


def candidate_map(decisions: list[BoundTask], tasks: list[str]) -> Chart:
    """A row for each new task, a column for each candidate: the norm of the conflict."""
    signs = _signs(decisions, tasks)
    candidates = list(dict.fromkeys(each.task for decision in decisions for each in decision.conflicts))
    values, marked = [], []
    for row, decision in enumerate(decisions):
        totals = {conflict.task: conflict.total for conflict in decision.conflicts}
        values.append([totals.get(task) for task in candidates])
        marked.append((row, candidates.index(decision.bound_to)))
    return heat_map(
        [signs[decision.task] for decision in decisions],
        [signs[task] for task in candidates],
        values,
        row_label="the new task",
        column_label="the candidate",
        value_label="norm of the conflict",
        centre=None,
        marked=marked,
        form=decimals(2),
    )


def _map(
    rows: list[str], values: list[list[float]], marked: list[tuple[int, int]], layers: list[str], row_label: str
) -> Chart:
    highest = max(value for line in values for value in line)
    return heat_map(
        rows,
        layers,
        [[*line, *[None] * (len(layers) - len(line))] for line in values],
        row_label=row_label,
        column_label="layers, from the image on",
        value_label="conflict",
        span=(0.0, max(1.0, highest)),
        marked=marked,
        form=decimals(2),
    )


def _signs(decisions: list[BoundTask], tasks: list[str]) -> dict[str, str]:
    known = [conflict.task for decision in decisions for conflict in decision.conflicts]
    return task_signs(tasks, list(dict.fromkeys(known)))
