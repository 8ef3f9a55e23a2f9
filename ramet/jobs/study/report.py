"""The report of `ramet study`: the Pareto front as a plot and a table, how the search went, how each is learned."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from ramet.jobs.study.result import CLOSE, FinishedTrial, FrontPoint, StudyResult
from ramet.reports.charts import Line, Points, line_chart, scatter_chart
from ramet.reports.formats import Format, count, decimals, number, percent, significant
from ramet.reports.metric import MetricFigures
from ramet.reports.page import KeyNumber, Page, Tone
from ramet.reports.tables import Cell, Column, Columns, Table
from ramet.runs.encoding import Json

_SAMPLERS = {"nsga2": "NSGA-II", "gp": "a Gaussian process", "thompson": "Thompson sampling", "random": "random search"}


def table(result: StudyResult) -> Table:
    """The Pareto front, the smallest network first."""
    alone, metric = result.alone.parameters, result.metric
    rows = [
        [
            f"trial {row.trial}",
            row.parameters,
            row.parameters / alone,
            metric.in_units(row.gain),
            metric.in_units(row.test_gain),
            row.test_accuracy,
            row.file or "with another run of the study",
        ]
        for row in result.front
    ]
    sizes = [Column("parameters", count, best="lowest"), Column("of individual", lambda share: percent(share, 0))]
    gains = [Column(f"gain, {split}", _signed(metric), best="highest") for split in ("validation", "test")]
    tested = Column(f"{metric.name}, test", metric.form, best=metric.best)
    columns: Columns = ["network", *sizes, *gains, tested, "file"]
    unit = f"in points of {metric.name}" if metric.is_share else f"in units of {metric.name}"
    unit += "" if metric.higher_is_better else ", above 0 where the network is better"
    caption = (
        f"The {len(rows)} of {result.num_trials} trials that no other beats in both gain and size. The gain over "
        f"individual networks, which have {count(alone)} parameters and a test {metric.name} of "
        f"{metric.form(result.alone.test_accuracy)}, is {unit}. The search saw validation data only; "
        "the front was tested once, at the end."
    )
    if not metric.is_share:
        caption += f" The paper's gain, a sum of ratios of errors, is left out: {metric.name} is no share."
    return Table(columns, rows, title="The Pareto front", caption=caption)


def page(result: StudyResult, config: Json) -> Page:
    """The whole report as a page."""
    tasks = result.tasks
    page = Page("How should this stream be learned?", f"{result.stream}, {len(tasks)} tasks, {_how(result)}")
    chosen, metric = result.recommended, result.metric
    unit, signed = _unit(metric), _signed(metric)
    _add_verdict(page, result, chosen)
    page.numbers(
        KeyNumber(f"gain on validation data, {unit}", metric.in_units(chosen.gain), f"trial {chosen.trial}", signed),
        KeyNumber(f"gain on test data, {unit}", metric.in_units(chosen.test_gain), "measured once, at the end", signed),
        KeyNumber("parameters", chosen.parameters, f"of {count(result.alone.parameters)} alone", count),
    )
    page.section("The Pareto front")
    _add_front(page, result)
    page.table(table(result))
    _add_search(page, result)
    page.section(f"How trial {chosen.trial} is learned")
    page.table(_sequence_table(chosen, metric))
    for row in result.front:
        if row.trial != chosen.trial:
            page.details(f"How trial {row.trial} is learned", _sequence_table(row, metric))
        if row.explanation:
            page.details(f"Why trial {row.trial} became what it is", "\n".join(row.explanation))
    page.details("All trials", _all_trials(result))
    page.details("Configuration", config)
    return page


def _how(result: StudyResult) -> str:
    population = f" with a population of {result.population}" if result.population else ""
    return f"{result.num_trials} trials of {_SAMPLERS.get(result.sampler, result.sampler)}{population}"


def _add_verdict(page: Page, result: StudyResult, chosen: FrontPoint) -> None:
    share = chosen.parameters / result.alone.parameters
    gain = chosen.gain if chosen.test_gain is None else chosen.test_gain
    where = "validation" if chosen.test_gain is None else "test"
    # In points of a share, or in per cent of what individual networks have by another metric.
    points = 100 * gain / (result.scale or 1.0)
    level = "level with" if abs(points) < 0.05 else f"{result.amount(abs(gain))} {_way(result, gain)}"
    words = f"Begin with trial {chosen.trial}: {share:.0%} of the parameters of individual networks."
    if not result.reaches_individual:
        best = f"trial {chosen.trial}, the best, has {share:.0%} of their parameters"
        words = f"No trial reaches individual networks: {best}."
    because = (
        f"On {where} data it is {level} individual networks on average. It is the smallest network of the front whose "
        f"gain on validation data is within {_close_words(result)} of the highest."
    )
    if not result.reaches_individual:
        because += (
            f" On validation data it is {result.amount(-chosen.gain)} {_way(result, chosen.gain)} them: keep "
            "individual networks, unless the smaller size is worth that."
        )
    if chosen.file:
        because += f" It is `{chosen.file}`, and takes further tasks by `ramet learn --onto`."
    tone: Tone = "good" if points > -0.5 and share < 1 else "caution" if points > -3 else "bad"
    if tone == "good" and not result.reaches_individual:
        tone = "caution"
    page.verdict(words, because, tone=tone)


def _way(result: StudyResult, gain: float) -> str:
    """Which way a gain goes."""
    if result.metric.is_share and result.metric.higher_is_better:
        return "above" if gain > 0 else "below"
    return "better than" if gain > 0 else "worse than"


def _close_words(result: StudyResult) -> str:
    return f"{100 * CLOSE:g} points" if result.metric.is_share else result.amount(result.level)


def _unit(metric: MetricFigures) -> str:
    """What gains are in."""
    return "points" if metric.is_share else metric.name


def _add_front(page: Page, result: StudyResult) -> None:
    front, alone = result.front, result.alone.parameters
    others = [row for row in result.trials if not row.on_front]
    metric = result.metric
    shown, hidden = _sizes_and_gains(front, metric), _sizes_and_gains(others, metric)
    kinds = [
        Points("front, validation", *shown, names=[f"trial {row.trial}" for row in front], joined=True),
        Points("dominated trials", *hidden, names=[f"trial {row.trial}" for row in others], labelled=()),
        Points("individual networks", [alone], [0.0], names=["individual networks"]),
    ]
    tested = [row for row in front if row.test_gain is not None]
    if tested:
        gains = [metric.in_units(row.test_gain) for row in tested]
        names = [f"trial {row.trial}, test" for row in tested]
        kinds.append(Points("front, test", [row.parameters for row in tested], gains, names=names, labelled=()))
    page.chart(
        scatter_chart(kinds, x_label="parameters", y_label=f"average gain, {_unit(metric)}"),
        "Up and to the left is better. The line joins the trials that no other beats. Where a point of the front lies "
        "far above its own test figure, the search was lucky on validation data.",
    )


def _sizes_and_gains(trials: Sequence[FinishedTrial], metric: MetricFigures) -> tuple[list[int], list[float]]:
    return [row.parameters for row in trials], [metric.in_units(row.gain) for row in trials]


def _add_search(page: Page, result: StudyResult) -> None:
    trials = result.trials
    if len(trials) < 3:
        return
    metric = result.metric
    gains = [metric.in_units(gain) for gain in accumulate((row.gain for row in trials), max)]
    each = [metric.in_units(row.gain) for row in trials]
    places = list(range(1, len(trials) + 1))
    page.section("How the search went")
    page.chart(
        line_chart(
            [Line("best so far", places, gains), Line("each trial", places, each)],
            x_label="trials",
            y_label=f"average gain, {_unit(metric)}",
        ),
        "The gain on validation data. A best that still climbs at the end asks for more trials.",
    )


def _sequence_table(row: FrontPoint, metric: MetricFigures) -> Table:
    """How one network is learned: the order of the tasks, what each is bound to, and how much it grows."""
    sequence, bound = row.sequence, row.bound_to or {}
    rows = []
    began_trained = sequence.order[0] in bound  # to the weights that came, where others found the network
    for place, task in enumerate(sequence.order):
        is_founder = place == 0 and not began_trained
        to = "founds the network" if is_founder else f"{bound.get(task, '')}{', given' * (task in sequence.bindings)}"
        delta = None if is_founder else sequence.deltas.get(task)
        rows.append([task, to, delta, (row.accuracies or {}).get(task)])
    measured = Column(f"{metric.name}, test", metric.form)
    columns: Columns = ["task, in order", "bound to", Column("delta", decimals(2)), measured]
    caption = (
        "Delta is the share of the conflict between layers that is removed by growing: 0 shares all layers, 1 gives "
        "the task layers of its own. A binding that is not given follows from the least conflict."
    )
    if began_trained:
        caption += " The weights that the network started with are never changed, and its parameters hold them once."
    return Table(columns, rows, caption=caption)


def _all_trials(result: StudyResult) -> Table:
    rows: list[list[Cell]] = [
        [
            row.trial,
            row.parameters,
            result.metric.in_units(row.gain),
            row.on_front,
            ", ".join(f"{task} {delta:g}" for task, delta in row.sequence.deltas.items()),
        ]
        for row in result.trials
    ]
    sizes = [Column("parameters", count), Column("gain, validation", _signed(result.metric))]
    return Table(["trial", *sizes, "on the front", "deltas"], rows)


def _signed(metric: MetricFigures) -> Format:
    """A difference in points, or in units of a metric that is no share; its sign says which way."""
    if metric.is_share:
        return lambda value: ("+" if round(value, 2) > 0 else "") + number(value)
    return lambda value: ("+" if value > 0 else "") + significant(value)
