"""The report of `ramet rank`: a table, a page, and words."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from ramet.jobs.rank.choosing import add_choosing, correlation_chart, ranking_name, ranking_table
from ramet.jobs.rank.result import OverTime, RankResult, TruthFigures
from ramet.ranking.verdict import judge
from ramet.reports.charts import Line, Points, Reference, box_chart, heat_map, line_chart, scatter_chart
from ramet.reports.formats import count, percent, significant
from ramet.reports.page import KeyNumber, Page
from ramet.reports.tables import Cell, Column, Columns, Table, legend_table
from ramet.runs.encoding import Json
from ramet.runs.showing import in_words

MOST_SHOWN = 2000
"""Children in the table and in the cloud of the page, a kilobyte each; a page of many more is slow to open."""


def table(result: RankResult) -> Table:
    """Every ranking in a row: its correlation with the truth, its best picks, and what pruning by it keeps."""
    if not result.correlation:
        return _stability_table(result)
    return ranking_table(result, _measured_words(result))


def _measured_words(result: RankResult) -> str:
    """What children are measured by; nothing of the accuracy, which is meant everywhere else."""
    metric = result.metric
    if metric.name == "accuracy":
        return ""
    way = "higher" if metric.higher_is_better else "lower"
    return f"Children are measured by the {metric.name}, of which {way} is better."


def page(result: RankResult, config: Json) -> Page:
    """The whole report as a page."""
    job = config.get("config", {})
    space, data = in_words(job.get("space", "a space")), in_words(job.get("data", "data"))
    page = Page("How far can this ranking be trusted?", f"{space} on {data}")
    judgement = judge(result.to_json())
    page.verdict(judgement.headline, result.recommendation[0], tone=judgement.tone)
    page.numbers(*_key_numbers(result))
    page.section("What to do")
    page.prose("\n".join(f"- {line}" for line in result.recommendation[1:]))
    page.section("Every ranking, and the trivial ones")
    page.table(table(result))
    if result.truth is not None:
        _add_correlation(page, result, result.truth)
        add_choosing(page, result)
    page.section("How stable the ranking is")
    page.table(_stability_table(result))
    if result.truth is not None and result.over_time is not None:
        _add_time(page, result.truth, result.over_time)
    _add_ranks(page, result)
    _add_disturbance(page, result)
    _add_variations(page, result)
    number = len(result.children)
    words = f"All {number} children" if number <= MOST_SHOWN else f"The best {MOST_SHOWN} of {number} children"
    page.details(words, children_table(result, most=MOST_SHOWN))
    if result.legend:
        page.details("What the names of children mean", legend_table(result.legend))
    page.details("Configuration", config)
    return page


def children_table(result: RankResult, *, most: int | None = None) -> Table:
    """Every child in a row, the best by the truth first, or by the averaged scores where there is no truth.

    Only the first ``most`` of them, if given.
    """
    last, averaged = ([fmean(column) for column in zip(*rows, strict=True)] for rows in _shared_scores(result))
    truth = None if result.truth is None else result.truth.mean
    sizes = result.sizes
    columns: list[Column | str] = ["child"]
    columns += [] if sizes is None else [Column("parameters", count), Column("multiply-adds", count)]
    metric, by_metric = result.metric, result.truth_unit == "metric"
    columns += [Column("last score", metric.form), Column("averaged score", metric.form)]
    form = metric.form if by_metric else percent if result.truth_is_share else None
    best = metric.best if by_metric else "highest"
    columns += [] if truth is None else [Column("truth", form, best=best), "true rank"]
    scores = [metric.value(value) for value in averaged] if truth is None else _truth_scores(result)
    order = sorted(range(len(result.children)), key=lambda place: -scores[place])
    rising = sorted(scores)
    rows: list[list[Cell]] = []
    for place in order[:most]:
        size = [] if sizes is None else [sizes.parameters[place], sizes.flops[place]]
        true = [] if truth is None else [truth[place], 1 + len(rising) - bisect_right(rising, scores[place])]
        rows.append([result.shown[place], *size, last[place], averaged[place], *true])
    if metric.name == "accuracy":
        measured, tested = "validation accuracies", "a test accuracy"
    else:
        measured, tested = f"the validation {metric.name}", f"the test {metric.name}" if by_metric else "a table's"
    caption = f"Scores with shared weights are {measured}, the mean of the instances"
    return Table(columns, rows, caption=caption + ("." if truth is None else f"; the truth is {tested}."))


def _truth_scores(result: RankResult) -> list[float]:
    """The truth of each child as a score, of which more is better; nothing without a truth."""
    return [] if result.truth is None else [result.truth_score(value) for value in result.truth.mean]


def _shared_scores(result: RankResult) -> tuple[list[list[float]], list[list[float]]]:
    """The last and the averaged scores, by instance, then child."""
    return result.accuracy.last, result.accuracy.averaged


def _key_numbers(result: RankResult) -> list[KeyNumber]:
    rows = result.stability.instances
    numbers = [KeyNumber("agreement of two instances", None if rows is None else rows.mean, "rank correlation, S-Tau")]
    if result.truth is not None:
        best = max(result.correlation, key=lambda name: result.correlation[name].tau.value)
        numbers = [
            KeyNumber("last evaluation", result.correlation["last"].tau.estimate, "correlation with the truth"),
            KeyNumber("best ranking", result.correlation[best].tau.estimate, ranking_name(best, result)),
            *numbers,
            KeyNumber("two seeds of the truth", result.truth.reliability_of_one_seed, "the ceiling for one run"),
        ]
    return numbers


def _add_correlation(page: Page, result: RankResult, known: TruthFigures) -> None:
    page.chart(*correlation_chart(result))
    metric, scores = result.metric, _truth_scores(result)
    truth = [100 * value if result.truth_is_share else value for value in known.mean]
    shared = [metric.in_units(value) for value in result.accuracy.averaged[0]]
    rising = sorted(range(len(truth)), key=lambda place: scores[place])
    drawn = sorted(spread(rising, MOST_SHOWN))
    labelled = [drawn.index(place) for place in (*rising[:2], *rising[-3:])]
    x, y = ([values[place] for place in drawn] for values in (shared, truth))
    names = [result.shown[place] for place in drawn]
    page.chart(
        scatter_chart(
            [Points("children", x, y, names=names, labelled=labelled)],
            x_label=f"validation {metric.name} with shared weights{', %' * metric.is_share} (first instance, averaged)",
            y_label=_truth_label(result),
        ),
        "Each dot is a child. A cloud that rises from left to right is a ranking that can be used; the best three and "
        "the worst two are named."
        + ("" if len(drawn) == len(truth) else f" {len(drawn)} of the {len(truth)} children are drawn, good and bad."),
    )


def _truth_label(result: RankResult) -> str:
    if result.truth_unit == "metric":
        return f"true {result.metric.unit}"
    return "true accuracy, %" if result.truth_is_share else "true score"


def spread(places: Sequence[int], most: int) -> list[int]:
    """At most so many of some places, evenly, the first two and the last three among them.

    >>> spread(range(20), 8)
    [0, 1, 2, 7, 12, 17, 18, 19]
    """
    if len(places) <= most:
        return list(places)
    between, number = places[2:-3], most - 5
    return [*places[:2], *(between[which * len(between) // number] for which in range(number)), *places[-3:]]


def _add_time(page: Page, truth: TruthFigures, over_time: OverTime) -> None:
    ceiling = truth.reliability_of_one_seed
    references = [] if ceiling is None else [Reference(ceiling, "two seeds of the truth")]
    steps = over_time.steps
    page.section("How it changes from one mini-batch to the next")

    def add(lines: list[Line], x_label: str, caption: str, *, x_log: bool = False) -> None:
        y_label = "correlation with the truth"
        page.chart(line_chart(lines, x_label=x_label, y_label=y_label, references=references, x_log=x_log), caption)

    add(
        [Line(f"instance {i + 1}", list(range(1, len(taus) + 1)), taus) for i, taus in enumerate(steps[:6])],
        "mini-batch, of the last ones",
        "When the ranking is taken decides how good it is: "
        f"the deviation over the last {len(steps[0])} mini-batches is {over_time.deviation_over_steps:z.2f}.",
    )
    averaging = over_time.averaging_last
    if len(averaging.evaluations) > 1:
        line = Line("mean of the instances", averaging.evaluations, averaging.tau)
        words = "number of last evaluations that are averaged"
        add([line], words, "Averaging evaluations costs no training.", x_log=True)
    if over_time.fine_tuned is not None:
        add(
            [Line("first instance", over_time.fine_tuned_after, over_time.fine_tuned)],
            "mini-batches of fine-tuning for each child",
            "Each child is fine-tuned alone from one snapshot of the supernet, and scored on its own weights.",
        )


def _add_ranks(page: Page, result: RankResult) -> None:
    order = list(range(len(result.children)))
    label = "children in the order of the space"
    if result.truth is not None:
        scores = _truth_scores(result)
        order.sort(key=lambda place: -scores[place])
        label = "children, the truly best first"
    order = order[:128]  # more boxes than that are a grey band
    for samples, words in (
        (result.ranks.over_instances, "over the instances"),
        (result.ranks.over_epochs, "over the last epochs of one instance"),
    ):
        if len(samples[0]) < 2:
            continue
        page.chart(
            box_chart(
                [result.shown[place] for place in order],
                [samples[place] for place in order],
                x_label=label,
                y_label="rank",
                ranks=True,
            ),
            f"The rank that each child gets {words}. Tall boxes: the ranking does not know.",
        )


def _add_disturbance(page: Page, result: RankResult) -> None:
    entry = result.disturbance
    if entry is None or entry.matrix is None or len(result.children) > 128:
        return
    share, metric = result.trained_is_best.share_in_best_quarter, result.metric

    def change(score: float) -> str:
        value = metric.value(score)
        return f"{100 * value:+z.2f} points" if metric.is_share else f"{'+' if value > 0 else ''}{significant(value)}"

    page.section("Who disturbs whom")
    page.prose(
        f"A mini-batch that trains a child changes its own {metric.name} by **{change(entry.own)}** and that "
        f"of the others by **{change(entry.others)}** on average. Right after it has been trained, a "
        f"child is among the best quarter in **{share or 0.0:.0%}** of the steps."
    )
    changes = [
        [None if score is None else metric.in_units(metric.value(score)) for score in row] for row in entry.matrix
    ]
    page.chart(
        heat_map(
            result.shown,
            result.shown,
            changes,
            row_label="trained child",
            column_label="child that is scored",
            value_label=f"change of {metric.name}{', points' * metric.is_share}",
        ),
        f"A row is a child that was trained for one mini-batch, a column a child whose {metric.name} changed.",
    )


def _add_variations(page: Page, result: RankResult) -> None:
    if not result.variations:
        return
    page.section("With one thing changed")
    rows: list[list[Any]] = []
    if result.over_time is not None:
        base = result.over_time
        tau = result.correlation["averaged"].tau.estimate
        rows.append(["as above", result.accuracy.mean, tau, None, base.mean_over_steps, base.deviation_over_steps])
    for row in result.variations:
        figures = [None if entry is None else entry.estimate for entry in (row.tau, row.gain)]
        rows.append([row.variation, row.accuracy, *figures, row.mean_over_steps, row.deviation_over_steps])
    columns: Columns = [
        "setting",
        Column(result.metric.name, result.metric.form),
        Column("correlation", best="highest"),
        "gain",
    ]
    columns = [*columns, "mean over mini-batches", "its deviation"]
    caption = "The correlation is that of the averaged scores; the last columns are over the last mini-batches."
    page.table(Table(columns, rows, caption=caption))


def _stability_table(result: RankResult) -> Table:
    stability = result.stability
    rows: list[list[Any]] = []
    for row, name in (
        (stability.instances, "instances, last evaluation"),
        (stability.instances_averaged, "instances, mean of the last evaluations"),
        (stability.instances_reestimated, "instances, batch norm re-estimated"),
        (stability.truth, "seeds of the truth"),
    ):
        if row is not None:
            rows.append([name, row.mean, row.lowest, row.highest])
    for value, name in (
        (stability.epochs, "last epochs of one instance"),
        (stability.steps, "last mini-batches of one instance"),
    ):
        if value is not None:
            rows.append([name, value, None, None])
    columns: Columns = ["over", "rank correlation of two", "lowest pair", "highest pair"]
    return Table(columns, rows, title="How alike two rankings are", caption="Kendall's tau-b, the mean over all pairs.")
