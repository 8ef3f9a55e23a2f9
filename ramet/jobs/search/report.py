"""The report of `ramet search`: rewards, error differences, the cell as a graph, the Pareto front."""

from __future__ import annotations

from collections.abc import Sequence

from ramet.jobs.search.result import SearchEpoch, SearchResult, amount_text
from ramet.reports.charts import Edge, GraphNode, Line, Points, Reference, graph_chart, line_chart, scatter_chart
from ramet.reports.page import KeyNumber, Page
from ramet.reports.tables import Column, Table, legend_table
from ramet.runs.encoding import Json
from ramet.runs.showing import in_words


def table(result: SearchResult) -> Table:
    """What was found: the architectures trained alone, or the candidates if none was."""
    name, form, best = result.metric, result.form, result.measured_by.best
    if result.trained:
        return Table(
            ["architecture", Column(f"validation {name}", form, best=best), Column(f"test {name}", form), "seeds"],
            [[result.shown(entry.name), entry.validation, entry.test, len(entry.tests)] for entry in result.trained],
            title="Trained alone",
            caption="The test split was used once a seed.",
        )
    where = "trained alone" if result.stages else "on shared weights"
    return Table(
        ["architecture", Column(f"{name}, {where}", form, best=best), "parameters"],
        [[result.shown(entry.name), entry.error, entry.parameters] for entry in result.candidates[:10]],
        title="The best candidates" if result.stages else "Best on the shared weights",
    )


def page(result: SearchResult, config: Json, other: Sequence[SearchEpoch] = ()) -> Page:
    """The whole report as a page; ``other`` are the epochs of a search whose curves are drawn beside."""
    job = config.get("config", {})
    space, data = (in_words(job.get(name)) for name in ("space", "data"))
    page = Page("Which architecture is best?", f"{space} on {data}, {result.strategy}")
    page.verdict(result.best, _because(result), heading="The architecture found")
    if result.chosen is not None:
        best, form = result.chosen, result.form
        alone = "trained alone from the given weights" if job.get("start") else "trained alone from scratch"
        page.numbers(
            KeyNumber(f"test {result.metric}", best.test, alone, form),
            KeyNumber(f"validation {result.metric}", best.validation, "on which it was chosen", form),
            *_cost_numbers(result),
        )
    elif result.found is not None:
        page.numbers(*_cost_numbers(result))
    page.section("What was found")
    for cell in result.cells:
        nodes = [GraphNode(key, label) for key, label in cell.nodes]
        edges = [Edge(source, target, label) for source, target, label in cell.edges]
        page.chart(
            graph_chart(nodes, edges),
            "Each arrow is an operation; the cell's output is made of its nodes.",
            title=cell.title,
        )
    page.table(table(result))
    _add_baselines(page, result)
    _add_stages(page, result)
    _add_free_scores(page, result)
    _add_curves(page, result, result.course(), other)
    _add_fronts(page, result)
    if result.legend:
        page.details("What the names of architectures mean", legend_table(result.legend))
    page.details("Configuration", config)
    return page


def _because(result: SearchResult) -> str:
    """Why it was chosen, what it had to beat and what it cost to find, in the markup of a page."""
    lines = []
    if result.budget:
        lines.append(f"The budget is **{result.budget}**.")
    if result.stages:
        lines.append(f"{_first(result)} of what {len(result.stages)} stages left, after **{result.spent_words()}**.")
    else:
        lines.append(f"Guard: {result.guard}; sharing: {result.sharing}; {result.epochs} epochs.")
        if result.diverged:
            lines.append(f"{result.diverged} children diverged, and were skipped.")
    if result.baselines:
        lines.append(
            f"Beside what needs no search ({result.metric} on validation data, {result.compared}): "
            f"**{result.baseline_words()}**."
        )
        lines += [doubt] if (doubt := result.doubt()) else []
    return " ".join(lines)


def _first(result: SearchResult) -> str:
    """By what it was chosen at the end of a search in stages."""
    if len(result.trained) > 1:
        return f"It was the best on validation data of the first {len(result.trained)}, trained alone,"
    return f"It comes first, by {_order(result)},"


def _cost_numbers(result: SearchResult) -> list[KeyNumber]:
    if result.found is None:
        return []
    note = f"the budget is {result.budget}" if result.budget else "no budget was given"
    return [
        KeyNumber("parameters", result.found.parameters, note),
        KeyNumber("multiply-adds", result.found.flops, "for one input"),
    ]


def _add_baselines(page: Page, result: SearchResult) -> None:
    """What needed no search, beside what was found."""
    if not result.baselines:
        return
    form, found = result.form, result.found
    rows: list[list[object]] = [
        [
            "found",
            result.shown(result.best),
            result.baselines[0].found,
            *([found.parameters, found.flops] if found else [None, None]),
        ]
    ]
    rows += [[e.name, result.shown(e.architecture), e.error, e.parameters, e.flops] for e in result.baselines]
    error = Column(f"validation {result.metric}", form, best=result.measured_by.best)
    page.table(
        Table(
            ["chosen by", "architecture", error, "parameters", "multiply-adds"],
            rows,  # type: ignore[arg-type]
            title="Beside what needs no search",
            caption=f"{result.compared[:1].upper()}{result.compared[1:]}. A search that beats none was not worth it.",
        )
    )


def _add_stages(page: Page, result: SearchResult) -> None:
    """What each stage cost, how far it agrees with the dearer ones, and how many it dropped."""
    if not result.stages:
        return
    page.section("How sure")
    measured = "loss" if result.measure is None else result.measure.name
    rows: list[list[object]] = [
        [s.stage, s.about, amount_text(result.unit, s.cost), s.agreement, s.compared, s.seen, s.dropped]
        for s in result.stages
    ]
    page.table(
        Table(
            ["stage", "what it did", "cost", "agreement", "over", "seen", "dropped"],
            rows,  # type: ignore[arg-type]
            title="The stages",
            caption=f"Agreement is Kendall's tau between a stage's order and the validation {measured} of the next "
            "longer trainings, over the architectures that have both; the predictor's is of trainings that it left out."
            " The search spent the rest of its budget by it. Over fewer than 10 architectures it is hardly a hint.",
        )
    )


def _add_free_scores(page: Page, result: SearchResult) -> None:
    """What untrained networks say of the candidates, beside what the shared weights say."""
    entries = result.candidates[:10]
    if not any(entry.synflow is not None for entry in entries):
        return
    free = [Column(name, best="highest") for name in ("synflow", "Jacobian covariance")]
    caption = "Synflow (a logarithm) and the Jacobian's covariance are taken on an untrained network: more is better."
    if result.stages:
        columns = [Column(f"{result.metric}, trained alone", result.form), Column("steps")]
        caption += f" The rows are in the order of the search, by {_order(result)}; "
        caption += f"one {result.metric} alone may order them otherwise, and one after more steps is smaller."
    else:
        columns = [Column(f"{result.metric}, on shared weights", result.form, best=result.measured_by.best)]
    rows = [
        [
            result.shown(entry.name),
            *([entry.error, entry.steps] if result.stages else [entry.error]),
            *(entry.parameters, entry.synflow, entry.jacobian),
        ]
        for entry in entries
    ]
    title = "The candidates, and scores that need no training"
    page.table(Table(["architecture", *columns, "parameters", *free], rows, title=title, caption=caption))


def _add_curves(page: Page, result: SearchResult, course: Sequence[SearchEpoch], other: Sequence[SearchEpoch]) -> None:
    if not course and not other:
        return
    page.section("The course of the search")
    lines = []
    for name, epochs in ((f"guard {result.guard}", course), ("beside it", other)):
        line = _line(name, epochs, "reward")
        lines += [line] if line.x else []
    if lines:
        page.chart(
            line_chart(lines, x_label="epoch", y_label="mean reward"),
            "The mean reward of what the strategy proposes." + _reward_words(result),
        )
    kinds = {"difference_mean": "mean", "difference_best5": "best five", "difference_max": "largest"}
    lines = [_line(words, course, figure) for figure, words in kinds.items()]
    if lines[0].x:
        again, is_lost = _line("mean, beside it", other, "difference_mean"), result.measured_by.higher_is_better
        page.chart(
            line_chart(
                [*lines, again] if again.x else lines,
                x_label="epoch",
                y_label=f"{result.metric} lost" if is_lost else f"difference of {result.metric}",
                references=[Reference(0.0, "nothing lost")],
            ),
            _forgetting_words(result),
        )
    shares = [(epoch.number + 1, epoch.guard["open_share"]) for epoch in course if "open_share" in epoch.guard]
    if shares:
        line = Line("open", [place for place, _ in shares], [share for _, share in shares])
        page.chart(line_chart([line], x_label="epoch", y_label="share of open directions"), "What can still be learnt.")


def _reward_words(result: SearchResult) -> str:
    """What a reward is, where it is not plainly 1 minus an error."""
    if result.measure is None or result.measure.is_share:
        return ""
    return f" It follows from the {result.metric}: 0.5 is the median of the first children, 1 the best there could be."


def _forgetting_words(result: SearchResult) -> str:
    name = result.metric
    if result.measured_by.higher_is_better:
        words = f"A child's {name} right after it was trained, less its {name} at the end of the epoch."
    else:
        words = f"A child's {name} at the end of an epoch, less its {name} right after it was trained."
    return f"{words} Above the line, others have made it forget."


def _line(name: str, epochs: Sequence[SearchEpoch], figure: str) -> Line:
    """A figure of the epochs that have it."""
    known = [(epoch.number + 1, value) for epoch in epochs if (value := getattr(epoch, figure)) is not None]
    return Line(name, [place for place, _ in known], [value for _, value in known])


def _add_fronts(page: Page, result: SearchResult) -> None:
    scored = [e for e in result.candidates if e.comparable is not None and e.comparable == e.comparable]
    if len(scored) < 2:
        return
    page.section(f"{result.measured_by.title} against cost" if result.measure else "Error against cost")
    # Of a search in stages all candidates have had a short training; longer ones would not be comparable.
    where, is_share = "after the short training" if result.stages else "shared weights", result.measured_by.is_share
    y_label = f"{result.metric}, {where}" + (", %" if is_share else "")
    for cost, front in result.pareto.items():
        groups = []
        for name, chosen in (("not beaten", True), ("beaten", False)):
            entries = [entry for entry in scored if (entry.name in front) == chosen]
            sizes = [float(getattr(entry, cost)) for entry in entries]
            names = [result.shown(entry.name) for entry in entries]
            errors = [(100 if is_share else 1) * float(entry.comparable or 0.0) for entry in entries]
            groups.append(Points(name, sizes, errors, names=names))
        chart = scatter_chart([group for group in groups if group.x], x_label=_COSTS.get(cost, cost), y_label=y_label)
        page.chart(chart, "No candidate is both cheaper and better than one that is not beaten.")


def _order(result: SearchResult) -> str:
    """What a search in stages chooses by; see ``staged.search``."""
    return f"validation {result.ordered_by} at every length of training, size, and what similar architectures had"


_COSTS = {"flops": "multiply-adds"}
"""What a cost is called where people read it."""
