"""The report of `ramet search`: rewards, error differences, the cell as a graph, the Pareto front."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ramet.errors import ConfigError
from ramet.reports.charts import Edge, GraphNode, Line, Points, Reference, graph_chart, line_chart, scatter_chart
from ramet.reports.formats import Format, number, percent
from ramet.reports.page import KeyNumber, Page
from ramet.reports.tables import Column, Table
from ramet.runs import read_config, read_records
from ramet.runs.encoding import Json

_GENE = re.compile(r"\('([a-z0-9_]+)', (\d+)\)")
_BENCHMARK = re.compile(r"([a-z0-9_]+)~(\d)")


def search_table(result: Json) -> Table:
    """What was found: the architectures trained alone, or the candidates if none was."""
    name, form = result["metric"], _form(result)
    if result["trained"]:
        rows = [[entry["name"], entry["validation"], entry["test"], len(entry["tests"])] for entry in result["trained"]]
        columns: list[Column | str] = [
            "architecture",
            Column(f"validation {name}", form, best="lowest"),
            Column(f"test {name}", form),
            "seeds",
        ]
        return Table(columns, rows, title="Trained alone from scratch", caption="The test split was used once a seed.")
    rows = [[entry["name"], entry["error"], entry["parameters"]] for entry in result["candidates"][:10]]
    columns = ["architecture", Column(f"{name} on shared weights", form, best="lowest"), "parameters"]
    return Table(columns, rows, title="Best on the shared weights")


def _form(result: Json) -> Format:
    """How an error is written: a share of wrong labels in per cent, a perplexity as it is."""
    return percent if result["metric"] == "error" else number


def write_search_report(run: Path, beside: Path | None = None) -> Path:
    """Write ``report.html`` into a finished run's directory, and give its path.

    Args:
        run: the run directory.
        beside: another run, without the guard for example, whose curves are drawn beside this one's.
    """
    records = {record["key"]: record for record in read_records(run)}
    if "result" not in records:
        raise ConfigError(f"a run must be finished before its report, but {run} is not; `ramet resume` goes on.")
    other = [] if beside is None else _epochs(read_records(beside))
    path = run / "report.html"
    search_page(records["result"], _epochs(list(records.values())), read_config(run), other).write(path)
    return path


def search_page(result: Json, epochs: list[Json], config: Json, other: list[Json]) -> Page:
    """The whole report as a page."""
    job, plan = config.get("config", {}), result["plan"]
    page = Page("Which architecture is best?", f"{job.get('space')} on {job.get('data')}, {plan['strategy']}")
    because = f"Guard: {plan['guard']}; sharing: {plan['sharing']}; {result['epochs']} epochs."
    page.verdict(result["best"], because, heading="The architecture found")
    if result["trained"]:
        best, form = min(result["trained"], key=lambda entry: float(entry["validation"])), _form(result)
        page.numbers(
            KeyNumber(f"test {result['metric']}", best["test"], "trained alone from scratch", form),
            KeyNumber(f"validation {result['metric']}", best["validation"], "on which it was chosen", form),
            KeyNumber("children that diverged", result["diverged"], "and were skipped"),
        )
    page.section("What was found")
    page.table(search_table(result))
    for title, nodes, edges in _recorded(result) or cell_graphs(result["best"], result.get("operations") or ()):
        page.chart(
            graph_chart(nodes, edges),
            "Each arrow is an operation; the cell's output is made of its nodes.",
            title=title,
        )
    _add_free_scores(page, result)
    _add_curves(page, epochs, other, str(plan["guard"]), str(result["metric"]))
    _add_fronts(page, result)
    page.details("Configuration", config)
    return page


def _add_free_scores(page: Page, result: Json) -> None:
    """What untrained networks say of the candidates, beside what the shared weights say."""
    entries = result["candidates"][:10]
    if not any(entry.get("synflow") is not None for entry in entries):
        return
    columns: list[Column | str] = [
        "architecture",
        Column(f"{result['metric']} on shared weights", _form(result), best="lowest"),
        "parameters",
        Column("synflow", best="highest"),
        Column("Jacobian covariance", best="highest"),
    ]
    rows = [[e["name"], e["error"], e["parameters"], e["synflow"], e["jacobian"]] for e in entries]
    caption = "Synflow (a logarithm) and the Jacobian's covariance are taken on an untrained network: more is better."
    page.table(Table(columns, rows, title="The candidates, and scores that need no training", caption=caption))


def _add_curves(page: Page, epochs: list[Json], other: list[Json], guard: str, metric: str) -> None:
    runs = [(f"guard {guard}", epochs)] + ([("beside it", other)] if other else [])
    rewarded = [(name, [record for record in run if record.get("reward") is not None]) for name, run in runs]
    page.section("The course of the search")
    if any(run for _, run in rewarded):
        lines = [Line(name, _numbers(run), [record["reward"] for record in run]) for name, run in rewarded if run]
        page.chart(
            line_chart(lines, x_label="epoch", y_label="mean reward"), "The mean reward of what the strategy proposes."
        )
    measured = [record for record in epochs if record.get("difference_mean") is not None]
    if measured:
        kinds = {"difference_mean": "mean", "difference_best5": "best five", "difference_max": "largest"}
        lines = [Line(words, _numbers(measured), [r[key] for r in measured]) for key, words in kinds.items()]
        again = [record for record in other if record.get("difference_mean") is not None]
        if again:
            lines.append(Line("mean, beside it", _numbers(again), [r["difference_mean"] for r in again]))
        page.chart(
            line_chart(
                lines, x_label="epoch", y_label=f"difference of {metric}", references=[Reference(0.0, "nothing lost")]
            ),
            "A child's error at the end of an epoch, less its error right after it was trained. Above the line, others "
            "have made it forget.",
        )
    open_shares = [r for r in epochs if "open_share" in r.get("guard", {})]
    if open_shares:
        line = Line("open", _numbers(open_shares), [r["guard"]["open_share"] for r in open_shares])
        page.chart(line_chart([line], x_label="epoch", y_label="share of open directions"), "What can still be learnt.")


def _add_fronts(page: Page, result: Json) -> None:
    entries = result["candidates"]
    if len(entries) < 2:
        return
    page.section("Error against cost")
    for cost, front in result["pareto"].items():
        groups = []
        for name, chosen in (("not beaten", True), ("beaten", False)):
            rows = [entry for entry in entries if (entry["name"] in front) == chosen]
            names = [entry["name"] for entry in rows]
            groups.append(Points(name, [r[cost] for r in rows], [r["error"] for r in rows], names=names))
        chart = scatter_chart(
            [group for group in groups if group.x], x_label=cost, y_label=f"{result['metric']}, shared weights"
        )
        page.chart(chart, "No candidate is both cheaper and better than one that is not beaten.")


def _recorded(result: Json) -> list[tuple[str, list[GraphNode], list[Edge]]]:
    """The cells as the space drew them; runs of earlier versions have none."""
    return [
        (cell["title"], [GraphNode(*node) for node in cell["nodes"]], [Edge(*edge) for edge in cell["edges"]])
        for cell in result.get("cells", ())
    ]


def cell_graphs(name: str, operations: Sequence[str] = ()) -> list[tuple[str, list[GraphNode], list[Edge]]]:
    """The cells of a notation as graphs; nothing for a notation that draws no cell.

    Args:
        name: the architecture in its space's own notation.
        operations: of the space, for notations that give operations by number: those of cells64 and enas-micro.
    """
    if operations and name.isdecimal():
        return _dense_cell([operations[int(digit) - 1] for digit in name])
    if operations and " | " in name:
        rows = [list(map(int, row.split(" "))) for row in name.split(" | ")]
        return [
            _two_input(title, [(operations[row[place + 1]], str(row[place])) for place in range(0, len(row), 2)])
            for title, row in zip(("Normal cell", "Reduction cell"), rows, strict=True)
        ]
    if name.startswith("Genotype("):
        halves = name.split("reduce=")
        return [
            _two_input(title, _GENE.findall(half))
            for title, half in zip(("Normal cell", "Reduction cell"), halves, strict=True)
        ]
    if "~" in name:
        nodes = [GraphNode(str(place), "input" if place == 0 else f"node {place}") for place in range(4)]
        edges = [
            Edge(start, str(end), operation)
            for end, part in enumerate(name.split("+"), start=1)
            for operation, start in _BENCHMARK.findall(part)
            if operation != "none"
        ]
        return [("The cell", nodes, edges)]
    if ":" in name and "=" not in name:
        first, *rest = name.split(" ")
        nodes = [
            GraphNode("x", "word and state"),
            *(GraphNode(str(place), f"node {place}") for place in range(1 + len(rest))),
        ]
        edges = [Edge("x", "0", first)]
        edges += [Edge(part.split(":")[0], str(place), part.split(":")[1]) for place, part in enumerate(rest, start=1)]
        return [("The cell", nodes, edges)]
    return []


def _dense_cell(labels: list[str]) -> list[tuple[str, list[GraphNode], list[Edge]]]:
    """A cell in which every node adds up operations on all that came before; edges by end, then start."""
    edges: list[Edge] = []
    end = 0
    while len(edges) < len(labels):
        end += 1
        edges += [Edge(str(start), str(end), labels[len(edges) + start]) for start in range(end)]
    nodes = [GraphNode(str(place), "input" if place == 0 else f"node {place}") for place in range(end + 1)]
    return [("The cell", nodes, edges)]


def _two_input(title: str, genes: list[tuple[str, str]]) -> tuple[str, list[GraphNode], list[Edge]]:
    nodes = [GraphNode("0", "cell before the last"), GraphNode("1", "last cell")]
    nodes += [GraphNode(str(2 + place), f"node {2 + place}") for place in range(len(genes) // 2)]
    edges = [Edge(start, str(2 + place // 2), operation) for place, (operation, start) in enumerate(genes)]
    return title, nodes, [edge for edge in edges if edge.label != "none"]


def _epochs(records: list[Json]) -> list[Json]:
    return [record for record in records if record["key"].startswith("epoch/")]


def _numbers(records: list[Json]) -> list[int]:
    return [int(record["key"].split("/")[1]) + 1 for record in records]
