"""What networks were measured by, as results say it, and how reports write it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, overload

from ramet.reports.formats import Format, decimals, number, percent, significant


@dataclass(frozen=True, kw_only=True)
class MetricFigures:
    """The metric of a run; by default the accuracy, which runs of earlier versions have.

    Attributes:
        name: what it is called.
        higher_is_better: whether a higher value is better. A score is the value, or minus the value if not.
        is_share: whether it is a share of something, written as a percentage.

    >>> MetricFigures(name="perplexity", higher_is_better=False, is_share=False).text(-35.25)
    '35.2'
    """

    name: str = "accuracy"
    higher_is_better: bool = True
    is_share: bool = True

    @property
    def form(self) -> Format:
        """How a value is written."""
        return percent if self.is_share else significant

    @property
    def best(self) -> Literal["highest", "lowest"]:
        """Which value of a column is the best."""
        return "highest" if self.higher_is_better else "lowest"

    @property
    def unit(self) -> str:
        """The name with the unit of a chart's axis, in which shares are percentages."""
        return f"{self.name}, %" if self.is_share else self.name

    def value(self, score: float) -> float:
        """The value of a score, or the score of a value."""
        return score if self.higher_is_better else -score

    def text(self, score: float) -> str:
        """The value of a score, written."""
        return self.form(self.value(score))

    @property
    def title(self) -> str:
        """The name at the beginning of a heading."""
        return self.name[:1].upper() + self.name[1:]

    @property
    def number(self) -> Format:
        """How a value in units of ``unit`` is written: the percentage of a share without its sign."""
        return decimals(1) if self.is_share else significant

    def difference(self, value: float) -> str:
        """A difference of values, written: that of shares in points.

        >>> MetricFigures().difference(0.031), MetricFigures(name="R²", is_share=False).difference(0.031)
        ('3.1 points', '0.031')
        """
        return f"{number(100 * value, 1)} points" if self.is_share else significant(value)

    @overload
    def in_units(self, value: float) -> float: ...

    @overload
    def in_units(self, value: float | None) -> float | None: ...

    def in_units(self, value: float | None) -> float | None:
        """A value, or a difference of values, in units of ``unit``: shares are percentages."""
        return value if value is None else 100 * value if self.is_share else value
