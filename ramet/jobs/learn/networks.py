"""The joint network in the report of `ramet learn`: each task's path, or the units that it uses of each other's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ramet.jobs.learn.result import LayerMap, LearnResult, UnitUses
from ramet.reports.charts import Route, Stop, heat_map, path_chart
from ramet.reports.charts.chart import Chart
from ramet.reports.formats import count, percent
from ramet.reports.page import Page
from ramet.reports.tables import Cell, Column, Columns, Table


def task_signs(tasks: Sequence[str], known: Sequence[str] = ()) -> dict[str, str]:
    """A short sign for each task: its number in the stream, or E and a number for one that was learned earlier.

    >>> task_signs(["b", "c"], known=["a", "b", "c"])
    {'a': 'E1', 'b': '1', 'c': '2'}
    """
    signs = {task: str(place) for place, task in enumerate(tasks, start=1)}
    earlier = [task for task in known if task not in signs]
    return {task: f"E{place}" for place, task in enumerate(earlier, start=1)} | signs


def add_networks(page: Page, result: LearnResult) -> None:
    """The section with a drawing or a table for each method whose tasks have parts of their own."""
    drawn = {name: outcome for name, outcome in result.methods.items() if outcome.graph or outcome.units}
    if not drawn:
        return
    page.section("The joint network")
    has_earlier = False
    for name, outcome in drawn.items():
        graph, units = outcome.graph, outcome.units
        known = list(graph.paths if graph else units.uses if units else ())
        signs = task_signs(result.tasks, known)
        has_earlier = has_earlier or any(sign.startswith("E") for sign in signs.values())
        if graph:
            page.chart(network_map(graph, signs), _map_caption(graph, signs), title=name)
        elif units:
            page.chart(units_map(units, signs), _units_caption(units), title=name)
            page.table(units_table(units, signs))
    if has_earlier:
        page.prose("E1, E2 and so on are tasks that the network had learned before this stream.")


def network_map(graph: LayerMap, signs: Mapping[str, str]) -> Chart:
    """The graph of a method as a map: a box for each copy of a layer, a line for each task."""
    tasks = list(graph.paths)
    patches = {node.id: node.patches for node in graph.nodes if node.patches is not None}
    stops = [
        Stop(
            node.id, node.layer, tasks.index(node.task), count(node.parameters), f"{count(node.parameters)} parameters"
        )
        for node in graph.nodes
        if node.id not in patches
    ]
    routes = [
        Route(
            signs[task],
            task,
            [key for key in keys if key not in patches],
            [patches[key] for key in keys if key in patches],
        )
        for task, keys in graph.paths.items()
    ]
    return path_chart(stops, routes)


def _map_caption(graph: LayerMap, signs: Mapping[str, str]) -> str:
    nodes = graph.nodes
    users = {node.id: [task for task, keys in graph.paths.items() if node.id in keys] for node in nodes}
    num_shared = sum(len(tasks) > 1 for tasks in users.values())
    last = list(graph.paths)[-1]
    own = sum(node.task == last for node in nodes)
    words = (
        "Each task is a line from the image to its head. A box is a copy of a layer: the task that it was made for, "
        f"and its parameters. Copies that serve several tasks: {num_shared} of {len(nodes)}; made for the last task, "
        f"{signs[last]}: {own}."
    )
    if any(node.patches is not None for node in nodes):
        words += " A plus sign: the task changes the shared layer for itself, by a patch beside it."
    return words


def units_map(units: UnitUses, signs: Mapping[str, str]) -> Chart:
    """Whose neurons or weights each task uses, all layers together."""
    tasks = list(units.uses)
    totals = [[sum(layer[place] for layer in units.uses[task]) for place in range(len(own[0]))]
              for task, own in units.uses.items()]  # fmt: skip
    return heat_map(
        [f"{signs[task]} {task}" for task in tasks],
        [signs[task] for task in tasks],
        [[*row, *[None] * (len(tasks) - len(row))] for row in totals],
        row_label="task",
        column_label=f"the task whose {units.unit} it uses",
        value_label=units.unit,
        span=(0.0, float(max(max(row) for row in totals))),
        form=count,
    )


def _units_caption(units: UnitUses) -> str:
    return (
        f"How many {units.unit} each task uses of those that were made for it (on the diagonal) and for earlier "
        "tasks (left of it), over all layers below the heads."
    )


def units_table(units: UnitUses, signs: Mapping[str, str]) -> Table:
    """The units of each layer that a task uses, and how many of them are its own."""
    counted = [Column(name, count) for name in (*units.layers, "all layers", "its own")]
    columns: Columns = ["task", *counted, Column("of all", lambda share: percent(share, 0))]
    rows: list[list[Cell]] = []
    for task, layers in units.uses.items():
        used = [sum(layer) for layer in layers]
        own = sum(layer[-1] for layer in layers)
        share = own / sum(used) if sum(used) else None
        rows.append([f"{signs[task]} {task}", *used, sum(used), own, share])
    caption = f"The {units.unit} of each layer that a task's network consists of, and those that were made for it."
    return Table(columns, rows, caption=caption)
