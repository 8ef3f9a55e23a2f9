"""What a diagnosis shows of the choice itself: what rankings are called, what each is worth at the top, its bias."""

from __future__ import annotations

from ramet.jobs.rank.result import RankingQuality, RankResult
from ramet.ranking.verdict import TRIVIAL
from ramet.reports.formats import as_number
from ramet.reports.page import Page
from ramet.reports.tables import Cell, Column, Table

NAMES = {
    "last": "shared weights, last evaluation",
    "averaged": "shared weights, mean of the last evaluations",
    "averaged over epochs": "shared weights, mean over the last epochs",
    "averaged over instances": "shared weights, mean over all instances",
    "reestimated": "shared weights, batch norm re-estimated",
    "fine-tuned": "shared weights, each child fine-tuned",
    "parameters": "number of parameters",
    "flops": "number of multiply-adds",
}


def ranking_name(ranking: str, result: RankResult) -> str:
    """What a ranking is called."""
    turned = ranking in TRIVIAL and result.smallest_first[ranking]
    return NAMES.get(ranking, ranking) + (", fewest first" if turned else "")


def orders(entry: RankingQuality) -> bool:
    """Whether a ranking is one: of scores that are all the same, nothing is the best."""
    return as_number(entry.tau.value) is not None


def add_choosing(page: Page, result: RankResult) -> None:
    """What each ranking is worth where one chooses, and which operations shared weights over-rate."""
    entries = {name: figures for name, figures in result.top_weighted.items() if orders(result.correlation[name])}
    if entries:
        page.table(_top_table(result))
    if result.bias:
        page.table(_bias_table(result))


def _top_table(result: RankResult) -> Table:
    are_points = result.truth_unit != "score"
    rows: list[list[Cell]] = [
        [ranking_name(name, result), figures.top_half, figures.precision, figures.regret * (100 if are_points else 1)]
        for name, figures in result.top_weighted.items()
        if orders(result.correlation[name])
    ]
    tenth = next(iter(result.top_weighted.values())).precision_at
    half, precision = Column("top half", best="highest"), Column(f"precision at {tenth}", best="highest")
    return Table(
        ["ranking by", half, precision, Column("regret", best="lowest")],
        rows,
        title="Where one chooses",
        caption="Top half: Kendall's tau-b among the truly best half, because correlations over all are mostly made of "
        f"the bad ones. Precision: the share of its first {tenth} that are among the truly best {tenth}. Regret: what "
        f"its first is below the best{', in points' if are_points else ''}.",
    )


def _bias_table(result: RankResult) -> Table:
    rows: list[list[Cell]] = [
        [entry.operation, entry.count, entry.scored, entry.true, entry.bias.estimate] for entry in result.bias
    ]
    return Table(
        ["operation", "uses", "place by shared weights", "true place", "over-rated by"],
        rows,
        title="What shared weights think of each operation",
        caption="Places of the children that have it, from 0, the last, to 1, the first. Above 0 the averaged scores "
        "over-rate it, with a 95 % interval over children.",
    )
