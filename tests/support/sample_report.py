"""A whole report with made-up but plausible numbers: every block and every chart, for the tests and for looking at."""

from __future__ import annotations

import math
import random
from itertools import product

from ramet.reports import (
    Chart,
    Column,
    Edge,
    Estimate,
    GraphNode,
    KeyNumber,
    Line,
    Page,
    Points,
    Reference,
    Table,
    bar_chart,
    box_chart,
    dot_chart,
    formats,
    graph_chart,
    heat_map,
    line_chart,
    scatter_chart,
)

NAN = float("nan")
HOSTILE = "<script>window.hacked = 1</script> & \"quotes\" 'too' \x00\x0b\ud800"
LONG = "a name that nobody would give but somebody will " * 4

CHILDREN = [f"{first}{second}{third}" for first, second, third in product("1234", repeat=3)]


def sample_report() -> Page:
    """The diagnosis of a supernet with 64 children, and what the other jobs draw."""
    chance = random.Random(0)
    truth = sorted((0.86 + 0.08 * chance.random() ** 0.6 for _ in CHILDREN), reverse=True)
    scores = [0.30 + 5.0 * (value - 0.86) + chance.gauss(0, 0.09) for value in truth]
    names = chance.sample(CHILDREN, len(CHILDREN))
    page = Page("How far can this ranking be trusted?", "cells64 on digits · 3 instances · 10 epochs · seed 0")
    page.verdict(
        "Trust it to drop the worst half, not to pick the winner.",
        "The shared weights rank the children clearly better than chance, but no better than **parameter counts**."
        "\n\n- Averaging the last 64 evaluations raises the correlation from 0.41 to 0.55, at no cost.\n"
        "- Fine-tuning 10 mini-batches raises it to 0.68, at 1.4 times the cost.",
        tone="caution",
    )
    page.numbers(
        KeyNumber("Correlation with the truth", Estimate(0.412, 0.29, 0.52), "Kendall's tau, shared weights"),
        KeyNumber("Stability over instances", Estimate(0.33, 0.21, 0.44), "mean of 3 pairs"),
        KeyNumber("True rank of the best", 7, "of 64; 1 would be the winner"),
        KeyNumber("Lost by dropping half", -0.042, "negative: fewer than by chance"),
    )
    _rankings(page)
    _over_time(page, chance)
    _children(page, chance, names, truth, scores)
    _disturbance(page, chance)
    _other_jobs(page, chance)
    page.section("How this was made")
    page.details(
        "Configuration", {"seed": 0, "space": {"name": "cells64", "channels": 16}, "order": "cyclic", "lr": [0.1, 0.0]}
    )
    page.details("Environment", {"python": "3.11.9", "torch": "2.13.0", "threads": 1, "commit": "0123456789abcdef" * 3})
    page.details(
        "All children", Table(["child", Column("truth", formats.percent)], list(zip(names, truth, strict=True)))
    )
    page.details("Log", "step 0  loss 2.31\nstep 1  loss 2.29  " + "a long line that must not widen the page " * 6)
    return page


def _rankings(page: Page) -> None:
    rows = [
        ("shared weights", Estimate(0.412, 0.29, 0.52), 7, 0.0),
        ("averaged over the last 64 mini-batches", Estimate(0.554, 0.45, 0.64), 4, 0.0),
        ("batch norm re-estimated", Estimate(0.437, 0.32, 0.54), 7, 41.0),
        ("fine-tuned for 10 mini-batches", Estimate(0.681, 0.60, 0.75), 2, 312.0),
        ("parameter count", Estimate(0.507, 0.41, 0.60), 9, None),
        ("FLOPs", Estimate(0.493, 0.39, 0.59), 9, None),
    ]
    page.section("Which ranking is closest to the truth")
    page.chart(
        dot_chart(
            [row[0] for row in rows],
            [row[1] for row in rows],
            x_label="Kendall's tau with the truth",
            reference=0.0,
            muted=[4, 5],
        ),
        "Only fine-tuning is clearly better than counting parameters (grey): its interval does not reach theirs.",
        title="Rank correlation with the truth, 95 % intervals over children",
    )
    columns: list[Column | str] = [
        "ranking",
        Column("correlation", best="highest"),
        Column("true rank of its best", best="lowest"),
        Column("extra cost", formats.duration),
    ]
    caption = "Intervals are 95 % bootstrap intervals over the 64 children."
    page.table(Table(columns, rows, title="All rankings", caption=caption))


def _over_time(page: Page, chance: random.Random) -> None:
    steps = list(range(64))
    taus = [0.41 + 0.08 * math.sin(step / 3) + chance.gauss(0, 0.05) for step in steps]
    smooth = [0.45 + 0.1 * step / 64 for step in steps]
    page.section("How stable it is")
    page.chart(
        line_chart(
            [
                Line(
                    "each mini-batch",
                    steps,
                    [None if step == 30 else tau for step, tau in zip(steps, taus, strict=True)],
                ),
                Line("averaged so far", steps, smooth, [tau - 0.08 for tau in smooth], [tau + 0.08 for tau in smooth]),
            ],
            x_label="mini-batch, counted from the end of training",
            y_label="Kendall's tau with the truth",
            references=[Reference(0.507, "parameter count"), Reference(0.0, "chance")],
        ),
        "The correlation changes by 0.2 from one mini-batch to the next; the average is steadier and higher.",
        title="Correlation over the last 64 mini-batches",
    )
    tuned = [0, 1, 2, 5, 10, 20, 50]
    gain = [0.41, 0.52, 0.58, 0.64, 0.68, 0.69, 0.68]
    page.chart(
        line_chart(
            [Line("fine-tuned", tuned, gain, [tau - 0.07 for tau in gain], [tau + 0.07 for tau in gain])],
            x_label="mini-batches of fine-tuning",
            y_label="Kendall's tau with the truth",
            events=[(10, "recommended")],
        ),
        "Ten mini-batches bring nearly all of the gain.",
        title="Fine-tuning each child from the same snapshot",
    )


def _children(page: Page, chance: random.Random, names: list[str], truth: list[float], scores: list[float]) -> None:
    page.section("Children")
    samples = [
        [min(64, max(1, round(chance.gauss(10 + 0.7 * rank, 3 + 6 * chance.random())))) for _ in range(64)]
        for rank in range(1, 65)
    ]
    page.chart(
        box_chart(
            names,
            samples,
            x_label="child, the truly best on the left",
            y_label="rank (1 is best)",
            truth=list(range(1, 65)),
            truth_name="true rank",
            ranks=True,
        ),
        "Boxes that follow the bars would be a perfect ranking. The best children spread over a third of all ranks.",
        title="Where each child ranks over the last 64 mini-batches",
    )
    page.chart(
        scatter_chart(
            [Points("children", truth, scores, names, labelled=range(4))],
            x_label="accuracy trained alone",
            y_label="accuracy with shared weights",
        ),
        "The four truly best children are named.",
        title="Shared score against the truth",
    )


def _disturbance(page: Page, chance: random.Random) -> None:
    page.section("Who disturbs whom")
    likeness = [[sum(a == b for a, b in zip(one, other, strict=True)) for other in CHILDREN] for one in CHILDREN]
    change = [[0.02 * (same - 1.2) + chance.gauss(0, 0.012) for same in row] for row in likeness]
    change[3][60] = float("nan")
    page.chart(
        heat_map(
            CHILDREN,
            CHILDREN,
            change,
            row_label="child trained one step",
            column_label="child evaluated",
            value_label="change of accuracy",
        ),
        "Children that share their first operation help each other (blocks on the diagonal); the others are disturbed.",
        title="Change of each child's accuracy when another is trained",
    )
    tasks = ["digits 0–1", "digits 2–3", "digits 4–5", "digits 6–7", "digits 8–9"]
    accuracy = [
        [0.99 - 0.03 * (row - column) ** 1.5 if column <= row else None for column in range(5)] for row in range(5)
    ]
    page.chart(
        heat_map(
            tasks,
            tasks,
            accuracy,
            row_label="after learning",
            column_label="tested on",
            centre=None,
            form=formats.number,
        ),
        "Reading down a column shows what is forgotten.",
        title="Accuracy of each task after each task",
    )


def _other_jobs(page: Page, chance: random.Random) -> None:
    page.section("Drawn by the other jobs")
    methods = ["firefly", "splitting", "net2net", "random"]
    sizes = [20_000.0, 40_000.0, 80_000.0, 160_000.0, 320_000.0]
    page.chart(
        scatter_chart(
            [
                Points(
                    method,
                    sizes,
                    [0.95 - 0.1 / (1 + math.log2(size / 10_000)) - 0.008 * rank for size in sizes],
                    joined=True,
                )
                for rank, method in enumerate(methods)
            ],
            x_label="parameters",
            y_label="test accuracy",
            x_log=True,
        ),
        "At every size firefly is above the others.",
        title="Accuracy against size",
    )
    page.chart(
        bar_chart(
            [*methods, "a method with a very long name that does not fit beside its bar at all"],
            [Estimate(value, value - 0.4, value + 0.4) for value in (3.1, 9.4, 1.2, 1.0)] + [Estimate(None)],
            x_label="seconds for a growth step",
        ),
        "Splitting pays for its second-order scores.",
        title="Cost of a step",
    )
    page.chart(
        graph_chart(
            [
                GraphNode("in", "input"),
                *[
                    GraphNode(f"c{layer}", f"conv {layer} · {8 * layer} channels", marked=layer in (2, 3))
                    for layer in (1, 2, 3)
                ],
                GraphNode("skip", "1×1 beside conv 2", group=1, marked=True),
                GraphNode("h0", "head: digits 0–4", group=0),
                GraphNode("h1", "head: digits 5–9", group=1),
            ],
            [
                *[Edge(a, b, group=0) for a, b in (("in", "c1"), ("c1", "c2"), ("c2", "c3"), ("c3", "h0"))],
                *[Edge(a, b, group=1) for a, b in (("in", "c1"), ("c1", "skip"), ("c3", "h1"))],
                Edge("skip", "c3", "added", group=1),
            ],
            groups=["task 1", "task 2"],
        ),
        "Filled boxes are new. The tasks part after the first layer and meet again.",
        title="The joint network",
    )
    page.chart(line_chart([], y_label="loss"), "A chart without data says so.", title="Nothing recorded")


def values(kind: str) -> list[float | None]:
    """Awkward data, by its kind."""
    return {
        "empty": [],
        "one": [0.5],
        "equal": [3.0] * 5,
        "zero": [0.0] * 4,
        "gaps": [None, 1.0, NAN, 2.0, float("inf"), 1.5],
        "missing": [None, NAN],
        "tiny": [1e-12, 2e-12, 3e-12],
        "huge": [1e15, -3e15, 2e15],
        "close": [1e6, 1e6 + 1e-7],
        "many": [math.sin(index) for index in range(1200)],
        "64": [float(index % 7) for index in range(64)],
    }[kind]


def all_charts(data: list[float | None], name: str) -> list[Chart]:
    """Every family of charts, with the same data and with a name that stands wherever a name can stand."""
    few = data[:64]
    names = [f"{name}{index}" for index in range(len(few))]
    steps = list(range(len(data)))
    low = [None if value is None else value - 1 for value in data]
    high = [None if value is None else value + 1 for value in data]
    estimates = [Estimate(value, one, other) for value, one, other in zip(few, low, high, strict=False)]
    line = Line(name, steps, data, low, high)
    return [
        line_chart([line], x_label=name, y_label=name, references=[Reference(0.5, name)], events=[(0, name)]),
        line_chart([line] * 9, x_log=True, y_log=True),
        scatter_chart([Points(name, few, few, names)], x_label=name, y_label=name, diagonal=True),
        scatter_chart([Points(name, few, few, joined=True)] * 3, x_log=True, y_log=True),
        box_chart(names, [[value, 1.0, 2.0, None] for value in few], x_label=name, y_label=name),
        box_chart(names, [[value] for value in few], truth=few, ranks=True),
        heat_map(
            names, names[:3], [[value, None, 1.0][: len(names)] for value in few], value_label=name, row_label=name
        ),
        heat_map(names, names, [list(few) for _ in names], centre=None, column_label=name),
        dot_chart(names, estimates, x_label=name, reference=0.0, muted=[0]),
        bar_chart(names, estimates, x_label=name),
        graph_chart(
            [GraphNode(str(index), one) for index, one in enumerate(names[:8])],
            [Edge(str(index), str(index + 1), name) for index in range(min(7, len(names) - 1))],
        ),
    ]


def hostile_page() -> Page:
    """A report in which every text tries to break out."""
    page = Page(HOSTILE, HOSTILE)
    page.verdict(HOSTILE, HOSTILE, heading=HOSTILE)
    page.numbers(KeyNumber(HOSTILE, HOSTILE, HOSTILE))
    for _ in range(3):
        page.section(HOSTILE)
        page.prose(HOSTILE + "\n- " + HOSTILE)
        page.table(Table([HOSTILE, "b"], [[HOSTILE, HOSTILE]], title=HOSTILE, caption=HOSTILE))
    for chart in all_charts(values("gaps"), HOSTILE):
        page.chart(chart, HOSTILE, title=HOSTILE)
    page.details(HOSTILE, {HOSTILE: HOSTILE, "nested": {HOSTILE: [HOSTILE]}})
    page.details(HOSTILE, HOSTILE)
    return page
