"""The report of `ramet grow`: from the records of a run to tables, a page, and words."""

from __future__ import annotations

from pathlib import Path

from ramet.errors import ConfigError
from ramet.reports.charts import Block, Line, heat_map, layer_chart, line_chart
from ramet.reports.formats import count, decimals, duration, percent, times
from ramet.reports.page import KeyNumber, Page
from ramet.reports.tables import Column, Table
from ramet.runs import read_config, read_records
from ramet.runs.encoding import Json


def grow_table(result: Json) -> Table:
    """Every method in a row: what it started from, what it ended with, and why it ended."""
    rows = [
        [name, len(m["steps"]) - 1, m["params"], m["validation"], m["test"], m["stopped"]]
        for name, m in result["methods"].items()
    ]
    columns: list[Column | str] = [
        "method",
        "steps",
        Column("parameters", count),
        Column("validation", percent, best="highest"),
        Column("test", percent, best="highest"),
        "ended because",
    ]
    first = next(iter(result["methods"].values()))["steps"][0]
    caption = (
        f"All start from {count(first['sizes']['params'])} parameters and {percent(first['score'])} of the validation "
        "images. The test images were looked at once, with the last network of each method."
    )
    return Table(columns, rows, title="What each method made of the same network", caption=caption)


def write_grow_report(run: Path) -> Path:
    """Write ``report.html`` into a finished run's directory, and give its path."""
    records = {record["key"]: record for record in read_records(run)}
    if "result" not in records:
        raise ConfigError(f"a run must be finished before its report, but {run} is not; `ramet resume` goes on.")
    path = run / "report.html"
    grow_page(records["result"], read_config(run), seconds_of(records)).write(path)
    return path


def seconds_of(records: dict[str, Json]) -> dict[str, list[Json]]:
    """What the steps of each method took, from their own records."""
    found: dict[str, list[Json]] = {}
    for key in sorted(key for key in records if key.endswith("/seconds")):
        found.setdefault(key.split("/")[0], []).append(records[key])
    return found


def grow_page(result: Json, config: Json, seconds: dict[str, list[Json]]) -> Page:
    """The whole report as a page."""
    page = Page("Where did this network get larger?", f"{result['network']} on {result['data_name']}")
    best = max(result["methods"], key=lambda name: (result["methods"][name]["validation"], -_params(result, name)))
    page.verdict(_verdict(result, best), _because(result, best), tone="neutral")
    page.numbers(*_key_numbers(result, best, seconds))
    page.section("Accuracy against size")
    _add_curves(page, result)
    page.table(grow_table(result))
    page.section("Before and after")
    for name in result["methods"]:
        _add_picture(page, result, name)
    page.section("What grew where, when and why")
    for name in result["methods"]:
        _add_history(page, result, name, seconds.get(name, []))
    page.section("What could not grow")
    _add_refusals(page, result)
    page.section("Using the network")
    page.prose(_usage(result, best))
    page.details("Configuration", config)
    return page


def _params(result: Json, name: str) -> float:
    return float(result["methods"][name]["params"])


def _verdict(result: Json, best: str) -> str:
    method = result["methods"][best]
    first = method["steps"][0]
    gain = 100 * (method["validation"] - first["score"])
    larger = times(method["params"] / first["sizes"]["params"])
    if gain <= 0:
        return f"Growing did not help: {larger} the parameters gave {gain:+z.1f} points of validation accuracy."
    return (
        f"{larger} the parameters gave {gain:+z.1f} points: from {percent(first['score'])} to "
        f"{percent(method['validation'])} of the validation images."
    )


def _because(result: Json, best: str) -> str:
    method = result["methods"][best]
    words = (
        f"Grown by **{best}**, in {_plural(len(method['steps']) - 1, 'step')}; it ended because {method['stopped']}."
    )
    if len(result["methods"]) > 1:
        words += " It is the best of the methods by validation accuracy."
    enough = _large_enough(method)
    if enough is not None:
        words += (
            f" Step {enough['number']}, with {count(enough['sizes']['params'])} parameters, was already within half a "
            "point of the best."
        )
    return words


def _large_enough(method: Json) -> Json | None:
    """The first step that is within half a point of the best, unless it is the last one."""
    top = max(step["score"] for step in method["steps"])
    found: Json = next(step for step in method["steps"] if step["score"] >= top - 0.005)
    return None if found["number"] == method["steps"][-1]["number"] else found


def _key_numbers(result: Json, best: str, seconds: dict[str, list[Json]]) -> list[KeyNumber]:
    method = result["methods"][best]
    first = method["steps"][0]
    growing = sum(entry["growing"] for entry in seconds.get(best, []))
    training = sum(entry["training"] for entry in seconds.get(best, []))
    numbers = [
        KeyNumber("parameters", method["params"], f"from {count(first['sizes']['params'])}", count),
        KeyNumber("validation accuracy", method["validation"], f"from {percent(first['score'])}", percent),
        KeyNumber("test accuracy", method["test"], "looked at once, at the end", percent),
    ]
    if training:
        numbers.append(KeyNumber("time for growing", growing, f"beside {duration(training)} of training", duration))
    return numbers


def _add_curves(page: Page, result: Json) -> None:
    lines = []
    for name, method in result["methods"].items():
        steps = method["steps"]
        lines.append(Line(name, [s["sizes"]["params"] for s in steps], [100 * s["score"] for s in steps]))
    page.chart(
        line_chart(lines, x_label="parameters", y_label="validation accuracy, %", x_log=True),
        "Each mark is the network after a growth and the training that followed. Higher and further left is better.",
    )


def _add_picture(page: Page, result: Json, name: str) -> None:
    method = result["methods"][name]
    known = {layer["name"]: layer["units"] for layer in result["layers"]}
    reasons = {refusal["name"]: refusal["reason"] for refusal in result["refusals"]}
    blocks = [
        Block(
            layer["name"],
            layer["kind"],
            known.get(layer["name"]) if not layer["new"] else None,
            layer["units"],
            f"not grown: {reasons[layer['name']]}" if layer["name"] in reasons else "",
        )
        for layer in method["layers"]
    ]
    first = method["steps"][0]["sizes"]["params"]
    page.chart(
        layer_chart(
            blocks,
            before=f"before: {count(first)} parameters",
            after=f"after: {count(method['params'])} parameters",
        ),
        f"The network from its input at the top to its output, as **{name}** left it. A block is as wide as the layer "
        "has channels; the figure is their number.",
        title=name if len(result["methods"]) > 1 else "",
    )


def _add_history(page: Page, result: Json, name: str, seconds: list[Json]) -> None:
    method = result["methods"][name]
    steps = method["steps"][1:]
    if not steps:
        page.prose(f"**{name}** added nothing: {method['stopped']}.")
        return
    order = [layer["name"] for layer in result["layers"]]
    found = dict.fromkeys(place for step in steps for place in [*step["widened"], *map(_behind, step["layers"])])
    places = sorted(found, key=lambda place: order.index(place) if place in order else len(order))
    added = [[_added(step, place) for step in steps] for place in places]
    if len(places) > 1 and len(steps) > 1:
        page.chart(
            heat_map(
                places,
                [str(step["number"]) for step in steps],
                added,
                row_label="channels of",
                column_label="growth step",
                value_label="channels added",
                centre=None,
            ),
            f"Where **{name}** put its channels in each step.",
        )
    every = method["steps"]
    _add_words(page, name, every)
    rows = [
        [
            str(step["number"]),
            step["num_candidates"] or None,
            best_score(step),
            step["loss_before"],
            step["loss_after"],
            step["loss"],
            seconds[number]["growing"] if number < len(seconds) and number else None,
        ]
        for number, step in enumerate(every)
    ]
    columns: list[Column | str] = [
        "step",
        Column("candidates", count),
        Column("best score", _score),
        Column("loss before", decimals(3)),
        Column("just after", decimals(3)),
        Column("trained", decimals(3)),
        Column("growing took", duration),
    ]
    page.details(f"The steps of {name} in figures", Table(columns, rows))


def _add_words(page: Page, name: str, steps: list[Json]) -> None:
    rows = [
        [
            str(step["number"]),
            words_of(step) if step["number"] else "the network as it was",
            step["sizes"]["params"],
            step["score"],
        ]
        for step in steps
    ]
    columns: list[Column | str] = [
        "step",
        "what grew",
        Column("parameters", count),
        Column("validation", percent, best="highest"),
    ]
    caption = (
        "Split: a channel got a copy, and both share its outgoing weights. New: a channel of its own. Why these: they "
        "had the best scores of all candidates that fitted the step. The scores, in the method's own measure, and the "
        "training losses before the growth, just after it and once trained are below."
    )
    page.table(Table(columns, rows, title=f"The steps of {name}", caption=caption))


def _score(value: float) -> str:
    return f"{value:.2g}"


def best_score(step: Json) -> float | None:
    """The highest score of anything that a step chose."""
    scores = [group["best_score"] for group in step["widened"].values() if group["best_score"] is not None]
    return max(scores, default=None)


def _behind(site: str) -> str:
    return f"a new layer behind {site}"


def _added(step: Json, place: str) -> int:
    if place in step["widened"]:
        group = step["widened"][place]
        return len(group["split"]) + int(group["new"])
    return int(next((width for site, width in step["layers"].items() if _behind(site) == place), 0))


def words_of(step: Json, most: int = 99) -> str:
    """What grew in a step, in words.

    >>> words_of({"widened": {"conv1": {"split": [3, 5], "new": 1}}, "layers": {"conv2": 4}})
    'conv1 +3 (2 split, 1 new), a new layer behind conv2 with 4'
    """
    parts = []
    for place, group in step["widened"].items():
        split, new = len(group["split"]), group["new"]
        kinds = [f"{split} split"] * bool(split) + [f"{new} new"] * bool(new)
        parts.append(f"{place} +{split + new} ({', '.join(kinds)})")
    parts += [f"{_behind(site)} with {width}" for site, width in step["layers"].items()]
    hidden = len(parts) - most
    return ", ".join(parts[:most]) + (f" and {hidden} more" if hidden > 0 else "")


def _add_refusals(page: Page, result: Json) -> None:
    if not result["refusals"]:
        page.prose("Everything in this network can grow.")
        return
    rows = [[refusal["name"], refusal["reason"]] for refusal in result["refusals"]]
    caption = "In the network as it was at first. Everything else could grow."
    page.table(Table(["layer or weight", "why it is left alone"], rows, caption=caption))


def _usage(result: Json, best: str) -> str:
    method = result["methods"][best]
    folder = method["network"]
    lines = []
    if method["not_exported"]:
        lines.append(f"`torch.export` could not write this network ({method['not_exported']}); its weights are there.")
    else:
        lines.append(
            f'- Without ramet: `torch.export.load("{folder}/network.pt2").module()` gives the network, to run.'
        )
    lines.append(f'- As a module, to go on with: `ramet.growth.load_network("{folder}")`.')
    lines.append(f"- The weights alone: `{folder}/weights.safetensors`, by the names of `state_dict()`.")
    return "\n".join(lines)


def _plural(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")
