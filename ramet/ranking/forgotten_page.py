"""The report of `ramet forgot`: a table and a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ramet.ranking.forgotten import Forgotten, scaled
from ramet.reports.charts import dot_chart
from ramet.reports.page import KeyNumber, Page, Tone
from ramet.reports.tables import Cell, Column, Table

MOST_CLASSES, MOST_EXAMPLES = 40, 200
"""How many are drawn, and listed: a page is read by a person."""


def class_table(found: Forgotten) -> Table:
    """A row a class, the one that fell farthest first."""
    form, lost = found.form, set(found.lost_classes)
    is_share = found.measure == "accuracy"
    rows: list[list[Cell]] = []
    for each in found.classes:
        drop = scaled(each.drop, found.scale)
        row: list[Cell] = [each.name, each.count, each.before, each.after, drop, each.num_lost, each.num_gained]
        rows.append([*row, *([each.mostly] if is_share else []), "yes" if each in lost else "no"])
    columns: list[Column | str] = ["class", "examples", Column("before", form), Column("after", form)]
    columns += [
        Column("loss, points" if is_share else "loss", found.scaled_form),
        "lost",
        "gained",
        *(["mostly taken for"] if is_share else []),
        "forgotten",
    ]
    caption = (
        f"Intervals of {100 * found.confidence:g} % for all {len(found.classes)} classes at once. Forgotten: the "
        f"interval lies above {found.amount(found.tolerance)}."
    )
    return Table(columns, rows, title="Each class", caption=caption)


def page(
    found: Forgotten,
    *,
    before: ArrayLike,
    after: ArrayLike,
    labels: ArrayLike | None,
    settings: Mapping[str, Any],
) -> Page:
    """The whole report; the measurements themselves are there to show the examples that were lost."""
    form = found.form
    page = Page("What was forgotten?", f"{found.count:,} old examples, before and after a training")
    tone: Tone = "bad" if found.is_forgotten else "good" if found.is_kept else "caution"
    words, _, rest = found.summary().partition(": ")
    page.verdict(f"{words}.", rest[:1].upper() + rest[1:], tone=tone)
    name, unit = ("accuracy", "points") if found.measure == "accuracy" else ("mean score", "of the mean score")
    page.numbers(
        KeyNumber(f"{name} before", found.before, form=form),
        KeyNumber(f"{name} after", found.after, form=form),
        KeyNumber("loss", scaled(found.drop, found.scale), unit, form=found.scaled_form),
        KeyNumber("examples lost", len(found.lost), f"and {len(found.gained):,} gained"),
    )
    if found.classes:
        page.section("Which classes")
        drawn = found.classes[:MOST_CLASSES]
        page.chart(
            dot_chart(
                [f"class {each.name}" for each in drawn],
                [scaled(each.drop, found.scale) for each in drawn],
                x_label="loss, points" if found.measure == "accuracy" else "loss of the mean score",
                reference=found.scale * found.tolerance,
                include=[0.0],
                form=found.scaled_form,
            ),
            "A class is forgotten if its interval lies to the right of the line, which is what may be lost."
            + (f" The {MOST_CLASSES} that fell farthest." if len(found.classes) > MOST_CLASSES else ""),
        )
        page.table(class_table(found))
    if found.lost:
        page.section("Which examples")
        more = f", the first {MOST_EXAMPLES} of them" if len(found.lost) > MOST_EXAMPLES else ""
        page.details(
            f"{len(found.lost):,} lost examples{more}", example_table(found.lost[:MOST_EXAMPLES], before, after, labels)
        )
    page.section("How it is judged")
    page.prose(_judgement(found))
    page.details("Settings", dict(settings))
    return page


def example_table(places: Sequence[int], before: ArrayLike, after: ArrayLike, labels: ArrayLike | None) -> Table:
    """What was said of some examples, by their places in the files, counted from 0."""
    old, new = np.asarray(before), np.asarray(after)
    if old.ndim == 2:
        old, new = old.argmax(1), new.argmax(1)
    truth = None if labels is None else np.asarray(labels)
    rows: list[list[Cell]] = []
    for place in places:
        shown = [_cell(old[place]), _cell(new[place])]
        rows.append([place, *([] if truth is None else [str(truth[place])]), *shown])
    return Table(["example", *([] if truth is None else ["class"]), "before", "after"], rows)


def _cell(value: Any) -> Cell:
    return float(value) if isinstance(value, np.floating) else str(value)


def _judgement(found: Forgotten) -> str:
    half = (1 - found.confidence) / 2

    def share(value: float) -> str:
        return f"{100 * value:.3g} %"

    if found.measure == "accuracy":
        how = (
            "Each example is compared with itself, so that only those that changed count. The interval of the loss is "
            "Tango's for paired shares; that it lies above 0 needs the exact test of McNemar to agree."
        )
    else:
        how = "Each example is compared with itself: the interval is Student's, of the mean difference."
    return (
        f"{how}\n\nMore than {found.amount(found.tolerance)} is **forgotten** if the interval of all examples lies "
        "above it, or that of a class, for which the intervals are so wide that all of them hold at once. A training "
        f"that loses no more is called so in at most **{share(1 - found.confidence)}** of cases: {share(half)} by all "
        f"examples and {share(half)} by classes. A loss that the intervals do not show may be there all the same: more "
        "examples show smaller ones."
    )
