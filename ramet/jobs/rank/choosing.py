"""What a diagnosis shows of the choice itself: what rankings are called, what each is worth at the top, its bias."""

from __future__ import annotations

from typing import Protocol

from ramet.jobs.rank.result import RankingQuality, RankResult, TopFigures
from ramet.ranking.verdict import TRIVIAL, judge
from ramet.reports.charts import Chart, dot_chart
from ramet.reports.formats import as_number, decimals, percent
from ramet.reports.page import Page
from ramet.reports.tables import Cell, Column, Table
from ramet.runs.encoding import Json

NAMES = {
    "last": "shared weights, last evaluation",
    "averaged": "shared weights, mean of the last evaluations",
    "averaged over epochs": "shared weights, mean over the last epochs",
    "averaged over instances": "shared weights, mean over all instances",
    "smoothed": "shared weights, mean over all instances, smoothed",
    "reestimated": "shared weights, batch norm re-estimated",
    "reestimated, smoothed": "shared weights, batch norm re-estimated, mean, smoothed",
    "loss": "shared weights, validation loss",
    "averaged weights": "shared weights averaged over steps",
    "fine-tuned": "shared weights, each child fine-tuned",
    "parameters": "number of parameters",
    "flops": "number of multiply-adds",
}


class Ranked(Protocol):
    """What a diagnosis and a comparison of given scores have in common."""

    @property
    def children(self) -> list[str]:
        """Their names."""

    @property
    def correlation(self) -> dict[str, RankingQuality]:
        """Of each ranking by its name."""

    @property
    def top(self) -> dict[str, dict[str, float]]:
        """The true rank of the best of the first n picks."""

    @property
    def pruning(self) -> dict[str, float]:
        """The share of the truly best quarter that survives."""

    @property
    def top_weighted(self) -> dict[str, TopFigures]:
        """What a ranking is worth where one chooses."""

    @property
    def smallest_first(self) -> dict[str, bool]:
        """Whether a ranking by size puts the smallest first."""

    @property
    def truth_is_share(self) -> bool:
        """Whether the truth is a share, whose differences are points."""

    def to_json(self) -> Json:
        """The figures as JSON values."""


def ranking_table(result: Ranked, note: str = "") -> Table:
    """Every ranking in a row: its correlation with the truth, its best picks, and what pruning by it keeps.

    The note, if there is one, ends the caption.
    """
    known = next(iter(result.top.values()))
    tops = [name for name in ("top_1", "top_3", "top_5") if name in known]
    rows: list[list[Cell]] = []
    for name, entry in result.correlation.items():
        if orders(entry):
            picks: list[Cell] = [*(result.top[name][top] for top in tops), result.pruning[name]]
        else:  # its picks are those of the ties' order, which nobody chose
            picks = [None] * (len(tops) + 1)
        rows.append([ranking_name(name, result), entry.tau.estimate, *picks])
    columns: list[Column | str] = ["ranking by", Column("correlation", best="highest")]
    columns += [Column(f"top {top[4:]}", decimals(1), best="lowest") for top in tops]
    columns.append(Column("kept", lambda value: percent(value, 0), best="highest"))
    caption = (
        f"Correlation with the truth: Kendall's tau-b over {len(result.children)} children, 95 % bootstrap "
        "interval over children, mean of the instances. Top n: the true rank of the best of its first n. Kept: the "
        "share of the truly best quarter that survives pruning the worst half."
    )
    title = "How far each ranking agrees with the truth"
    return Table(columns, rows, title=title, caption=f"{caption} {note}".strip())


def correlation_chart(result: Ranked) -> tuple[Chart, str]:
    """The correlations with their intervals and the best trivial ranking as a line, and what is to be seen."""
    names = list(result.correlation)
    trivial = judge(result.to_json()).trivial
    line = "" if trivial is None else f", the {ranking_name(trivial, result)}, which is the best of the trivial ones"
    chart = dot_chart(
        [ranking_name(name, result) for name in names],
        [result.correlation[name].tau.estimate for name in names],
        x_label="correlation with the truth (Kendall's tau-b)",
        reference=None if trivial is None else result.correlation[trivial].tau.value,
        muted=[place for place, name in enumerate(names) if name in TRIVIAL],
        include=[0.0, 1.0],
    )
    words = (
        f"A ranking is worth its cost only to the right of the line{line}. Grey: the rankings that need no training."
    )
    return chart, words if trivial is not None else "Correlations with their 95 % intervals over children."


def ranking_name(ranking: str, result: Ranked) -> str:
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
        page.table(top_table(result))
    if result.bias:
        page.table(_bias_table(result))


def top_table(result: Ranked) -> Table:
    """What each ranking is worth where one chooses."""
    are_points = result.truth_is_share
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
