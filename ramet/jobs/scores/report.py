"""The report of given scores: a table and a page."""

from __future__ import annotations

from ramet.jobs.rank.choosing import correlation_chart, ranking_table, top_table
from ramet.jobs.scores.result import ScoresResult
from ramet.ranking.verdict import judge
from ramet.reports.formats import percent
from ramet.reports.page import KeyNumber, Page
from ramet.reports.tables import Cell, Column, Table
from ramet.runs.encoding import Json


def table(result: ScoresResult) -> Table:
    """Every ranking in a row; without a truth, how alike they are."""
    if result.correlation:
        return ranking_table(result)
    rows = result.stability.instances
    cells: list[list[Cell]] = [] if rows is None else [["all rankings", rows.mean, rows.lowest, rows.highest]]
    columns = ["over", "rank correlation of two", "lowest pair", "highest pair"]
    return Table(columns, cells, title="How alike two rankings are", caption="Kendall's tau-b.")


def page(result: ScoresResult, config: Json) -> Page:
    """The whole report as a page."""
    job = config.get("config", {})
    page = Page("How far can these rankings be trusted?", f"{job.get('scores', 'scores')} against {job.get('truth')}")
    judgement = judge(result.to_json())
    page.verdict(judgement.headline, result.recommendation[0], tone=judgement.tone)
    if judgement.best is not None:
        tau = result.correlation[judgement.best].tau.estimate
        page.numbers(KeyNumber("best ranking", tau, judgement.best))
    page.section("What follows")
    page.prose("\n".join(f"- {line}" for line in result.recommendation[1:]))
    page.section("Every ranking")
    page.table(table(result))
    if result.truth is not None:
        page.chart(*correlation_chart(result))
        page.table(top_table(result))
        page.details(f"All {len(result.children)} children", _children(result, result.truth.mean))
    page.details("Configuration", config)
    return page


def _children(result: ScoresResult, truth: list[float]) -> Table:
    order = sorted(range(len(truth)), key=lambda place: -truth[place])
    form = percent if result.truth_is_share else None
    rows: list[list[Cell]] = [[result.children[place], truth[place]] for place in order]
    return Table(["child", Column("truth", form)], rows, caption="The truly best first.")
