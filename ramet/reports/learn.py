"""The report of `ramet learn`: from the records of a run to a table, a page, and words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ramet.errors import ConfigError
from ramet.reports.charts import Line, Points, heat_map, line_chart, scatter_chart
from ramet.reports.formats import count, decimals, duration, percent, size
from ramet.reports.page import KeyNumber, Page, Tone
from ramet.reports.tables import Column, Table
from ramet.runs import read_config, read_records

Json = dict[str, Any]

MAX_MAPS = 12


def learn_table(result: Json) -> Table:
    """Every method in a row: how accurate, how forgetful, how large."""
    rows = []
    for name, entry in result["methods"].items():
        figures = {key: value["mean"] for key, value in entry["figures"].items()}
        rows.append(
            [
                name,
                figures["average_accuracy"],
                entry["figures"]["average_accuracy"]["deviation"],
                _points(figures["backward_transfer"]),
                _points(figures["forgetting"]),
                _points(figures["forward_transfer"]),
                _points(figures["average_gain"]),
                figures["paper_gain"],
                figures["parameters"],
                figures["stored_bytes"],
                figures["flops"],
                figures["seconds"],
            ]
        )
    signed = decimals(1)
    columns: list[Column | str] = [
        "method",
        Column("accuracy", percent, best="highest"),
        Column("+-", percent),
        Column("backward", signed, best="highest"),
        Column("forgetting", signed, best="lowest"),
        Column("forward", signed, best="highest"),
        Column("gain", signed, best="highest"),
        Column("paper's gain", decimals(2), best="lowest"),
        Column("parameters", count, best="lowest"),
        Column("stored", size, best="lowest"),
        Column("multiply-adds", count, best="lowest"),
        Column("time", duration),
    ]
    caption = (
        f"Test accuracy over the {len(result['tasks'])} tasks of {result['stream']} at the end, mean of "
        f"{len(result['seeds'])} seed{'s' if len(result['seeds']) > 1 else ''} and its deviation. Backward and forward "
        "transfer, forgetting and the gain over individual networks in points of accuracy. The paper's gain is a sum "
        "of relative errors, so that less is better. Stored: weights, masks and memories."
    )
    return Table(columns, rows, title="Task after task", caption=caption)


def write_learn_report(run: Path) -> Path:
    """Write ``report.html`` into a finished run's directory, and give its path."""
    records = {record["key"]: record for record in read_records(run)}
    if "result" not in records:
        raise ConfigError(f"a run must be finished before its report, but {run} is not; `ramet resume` goes on.")
    path = run / "report.html"
    learn_page(records["result"], read_config(run)).write(path)
    return path


def learn_page(result: Json, config: Json) -> Page:
    """The whole report as a page."""
    page = Page("Task after task in one network", f"{result['stream']}, {len(result['tasks'])} tasks")
    words, because, tone = _verdict(result)
    page.verdict(words, because, tone=tone)
    page.numbers(*_key_numbers(result))
    page.section("Every method")
    page.table(learn_table(result))
    _add_front(page, result)
    _add_growth(page, result)
    _add_matrices(page, result)
    _add_explanations(page, result)
    page.details("Configuration", config)
    return page


def _others(result: Json) -> dict[str, Json]:
    """The methods that share anything; individual networks are their reference."""
    return {name: entry for name, entry in result["methods"].items() if name != "individual"}


def _mean(entry: Json, figure: str) -> float:
    return float(entry["figures"][figure]["mean"])


def _verdict(result: Json) -> tuple[str, str, Tone]:
    others = _others(result)
    if not others:
        return "Individual networks alone: there is nothing to compare them with.", "", "neutral"
    best = max(others, key=lambda name: _mean(others[name], "average_accuracy"))
    entry, alone = others[best], result["methods"]["individual"]
    gain, forgotten = 100 * _mean(entry, "average_gain"), 100 * _mean(entry, "forgetting")
    share = _mean(entry, "parameters") / _mean(alone, "parameters")
    level = f"{abs(gain):.1f} points {'above' if gain > 0 else 'below'}" if abs(gain) >= 0.05 else "level with"
    because = (
        f"It ends {level} individual networks on average, with {share:.0%} of their parameters, and "
        f"forgets {forgotten:.1f} points."
    )
    tone: Tone = "good" if gain > -0.5 and share < 1 else "caution" if gain > -3 else "bad"
    return f"{best} is the most accurate of the methods that share weights.", because, tone


def _key_numbers(result: Json) -> list[KeyNumber]:
    numbers = []
    others = _others(result) or result["methods"]
    best = max(others, key=lambda name: _mean(others[name], "average_accuracy"))
    entry = others[best]
    numbers.append(KeyNumber("average accuracy, %", 100 * _mean(entry, "average_accuracy"), best))
    numbers.append(KeyNumber("forgetting, points", 100 * _mean(entry, "forgetting"), best))
    numbers.append(KeyNumber("parameters, thousands", _mean(entry, "parameters") / 1000, best))
    return numbers


def _add_front(page: Page, result: Json) -> None:
    """Accuracy against size: what there is to choose from."""
    names = list(result["methods"])
    entries = [result["methods"][name] for name in names]
    page.section("Accuracy against size")
    page.chart(
        scatter_chart(
            [
                Points(
                    "methods",
                    [_mean(entry, "parameters") for entry in entries],
                    [100 * _mean(entry, "average_accuracy") for entry in entries],
                    names=names,
                    labelled=list(range(len(names))),
                )
            ],
            x_label="parameters",
            y_label="average accuracy, %",
        ),
        "Up and to the left is better.",
    )


def _add_growth(page: Page, result: Json) -> None:
    places = list(range(1, len(result["tasks"]) + 1))
    if len(places) < 2:
        return
    page.section("Growth")
    page.chart(
        line_chart(
            [Line(name, places, entry["growth"]) for name, entry in list(result["methods"].items())[:8]],
            x_label="tasks learned",
            y_label="parameters",
        ),
        "The parameters of the whole network after each task.",
    )


def _add_matrices(page: Page, result: Json) -> None:
    page.section("Accuracy on each task, after each task")
    for name, entry in list(result["methods"].items())[:MAX_MAPS]:
        page.chart(
            heat_map(
                result["tasks"],
                result["tasks"],
                [[None if value is None else 100 * value for value in row] for row in entry["matrix"]],
                row_label="after learning",
                column_label="accuracy on",
                value_label="accuracy, %",
                centre=None,
                form=decimals(1),
            ),
            f"{name}. A column that fades from its diagonal downwards is a task that is being forgotten.",
            title=name,
        )


def _add_explanations(page: Page, result: Json) -> None:
    said = {name: entry["explanation"] for name, entry in result["methods"].items() if entry["explanation"]}
    if not said:
        return
    page.section("Why")
    for name, lines in said.items():
        page.prose(f"**{name}**\n\n" + "\n".join(f"- {line}" for line in lines))


def _points(value: float | None) -> float | None:
    return None if value is None else 100 * value
