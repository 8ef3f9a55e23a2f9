"""The joint network in the report of `ramet learn`: each task's path or units, and why: the conflicts of layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ramet.jobs.learn.result import BoundTask, LayerMap, LearnResult, UnitUses
from ramet.reports.charts import Route, Stop, heat_map, path_chart
from ramet.reports.charts.chart import Chart
from ramet.reports.formats import count, decimals, percent
from ramet.reports.page import Page
from ramet.reports.tables import Cell, Column, Columns, Table

MAX_PAIRS = 28
"""Up to so many pairs of a task and a candidate are shown layer by layer; of more, the norms alone."""

MAX_TASKS = 100
"""Up to so many tasks are drawn in a map of tasks against tasks; of more, some in equal distances."""


def drawn_places(number: int) -> list[int]:
    """Which of so many tasks a map shows, counted from 0; the last one is always there.

    >>> drawn_places(3), drawn_places(250)[:3], drawn_places(250)[-1], len(drawn_places(250))
    ([0, 1, 2], [0, 3, 6], 249, 84)
    """
    distance = -(-number // MAX_TASKS)
    return sorted(range(number - 1, -1, -distance))


def left_out(number: int) -> str:
    """A sentence for the end of a caption: which tasks a map shows, where it does not show all."""
    distance = -(-number // MAX_TASKS)
    return f" Of the {number} tasks one in {distance} is drawn." if distance > 1 else ""


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
            page.chart(network_map(graph, signs), _map_caption(graph, signs, result.input), title=name)
        elif units:
            page.chart(units_map(units, signs), _units_caption(units), title=name)
            page.table(units_table(units, signs))
    if has_earlier:
        page.prose(
            "E1, E2 and so on are what the network knew before this stream: tasks, or the weights that it started with."
        )


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


def _map_caption(graph: LayerMap, signs: Mapping[str, str], first: str) -> str:
    nodes = graph.nodes
    users = {node.id: [task for task, keys in graph.paths.items() if node.id in keys] for node in nodes}
    num_shared = sum(len(tasks) > 1 for tasks in users.values())
    last = list(graph.paths)[-1]
    own = sum(node.task == last for node in nodes)
    words = (
        f"Each task is a line from the {first} to its head. A box is a copy of a layer: the task that it was made for, "
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
    places = drawn_places(len(tasks))
    return heat_map(
        [f"{signs[tasks[place]]} {tasks[place]}" for place in places],
        [signs[tasks[place]] for place in places],
        [[totals[user][maker] if maker < len(totals[user]) else None for maker in places] for user in places],
        row_label="task",
        column_label=f"the task whose {units.unit} it uses",
        value_label=units.unit,
        span=(0.0, float(max(max(row) for row in totals))),
        form=count,
    )


def _units_caption(units: UnitUses) -> str:
    return (
        f"How many {units.unit} each task uses of those that were made for it (on the diagonal) and for earlier "
        f"tasks (left of it), over all layers below the heads.{left_out(len(units.uses))}"
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
        f"How differently two tasks' networks see the new task's {result.input}s: 0 is the same representation, 1 no "
        "relation, 2 the opposite. A task is bound to the one with the least conflict over all layers, and gets the "
        "layers that conflict most for itself."
    )
    for name, (decisions, layers) in measured.items():
        page.chart(
            bound_map(decisions, result.tasks, layers, result.input),
            "The conflict of each new task with the task that it was bound to; in brackets the norm over layers. A "
            "frame: the task got a layer of its own.",
            title=f"{name}: with the relative it was bound to",
        )
        num_pairs = sum(len(decision.conflicts) for decision in decisions)
        if num_pairs == len(decisions):
            continue
        if num_pairs <= MAX_PAIRS:
            page.chart(
                pair_map(decisions, result.tasks, layers, result.input),
                "The conflict of each new task with every task before it; in brackets the norm over layers. A star: "
                "the task that it was bound to.",
                title=f"{name}: with every candidate",
            )
        else:
            page.chart(
                candidate_map(decisions, result.tasks),
                "The norm over layers of the conflict with each task before. A frame: the task that it was bound to."
                + left_out(len(decisions)),
                title=f"{name}: with every candidate",
            )


def layer_names(decisions: list[BoundTask], graph: LayerMap | None) -> list[str]:
    """The names of the layers that were compared; numbers where tasks have networks of different layers."""
    nodes = [node for node in graph.nodes if node.patches is None and node.layer != "head"] if graph else []
    names = {node.id: node.layer for node in nodes}
    lengths = {len(conflict.layers) for decision in decisions for conflict in decision.conflicts}
    ways = [[names[key] for key in keys if key in names] for keys in graph.paths.values()] if graph else []
    if ways and all(way == ways[0] for way in ways) and lengths == {len(ways[0])}:
        return ways[0]
    return [f"layer {place}" for place in range(1, max(lengths) + 1)]


def bound_map(decisions: list[BoundTask], tasks: list[str], layers: list[str], first: str = "image") -> Chart:
    """A row for each new task, a column for each layer: the conflict with the task that it was bound to."""
    signs = _signs(decisions, tasks)
    rows, values, marked = [], [], []
    for row, decision in enumerate(decisions):
        bound = decision.chosen
        rows.append(f"{signs[decision.task]} → {signs[bound.task]} ({bound.total:.2f})")
        values.append(bound.layers)
        marked += [(row, place) for place in decision.expanded]
    return _map(rows, values, marked, layers, "new task → its relative", first)


def pair_map(decisions: list[BoundTask], tasks: list[str], layers: list[str], first: str = "image") -> Chart:
    """A row for each new task and candidate, a column for each layer."""
    signs = _signs(decisions, tasks)
    rows, values = [], []
    for decision in decisions:
        for conflict in decision.conflicts:
            star = "★ " if conflict.task == decision.bound_to else ""
            rows.append(f"{star}{signs[decision.task]} → {signs[conflict.task]} ({conflict.total:.2f})")
            values.append(conflict.layers)
    return _map(rows, values, [], layers, "new task → candidate", first)


def candidate_map(decisions: list[BoundTask], tasks: list[str]) -> Chart:
    """A row for each new task, a column for each candidate: the norm of the conflict."""
    signs = _signs(decisions, tasks)
    candidates = list(dict.fromkeys(each.task for decision in decisions for each in decision.conflicts))
    shown = [decisions[place] for place in drawn_places(len(decisions))]
    values, marked = [], []
    for row, decision in enumerate(shown):
        totals = {conflict.task: conflict.total for conflict in decision.conflicts}
        values.append([totals.get(task) for task in candidates])
        marked.append((row, candidates.index(decision.bound_to)))
    return heat_map(
        [signs[decision.task] for decision in shown],
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
    rows: list[str],
    values: list[list[float]],
    marked: list[tuple[int, int]],
    layers: list[str],
    row_label: str,
    first: str,
) -> Chart:
    highest = max(value for line in values for value in line)
    return heat_map(
        rows,
        layers,
        [[*line, *[None] * (len(layers) - len(line))] for line in values],
        row_label=row_label,
        column_label=f"layers, from the {first} on",
        value_label="conflict",
        span=(0.0, max(1.0, highest)),
        marked=marked,
        form=decimals(2),
    )


def _signs(decisions: list[BoundTask], tasks: list[str]) -> dict[str, str]:
    known = [conflict.task for decision in decisions for conflict in decision.conflicts]
    return task_signs(tasks, list(dict.fromkeys(known)))
