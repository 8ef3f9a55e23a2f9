"""What a strategy learns from: rewards between bounds, of whatever children are measured by."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from ramet.runs.encoding import Json
from ramet.searching.measures import Score
from ramet.training import Metric


class Rewards:
    """Makes rewards of measured children; more is better.

    Of errors and perplexities they are the scores' own, of another share the share itself (or 1 minus it, where lower
    is better). Any other metric may have any scale and no end, and a single bad child would drown what is learned from
    all others. There a reward is

        (1 + z / (1 + |z|)) / 2,  z = (score - centre) / unit,

    between 0 and 1: 1/2 is the median of the first children that were looked at, and the unit is their spread. Both
    stay, so that rewards of a whole search can be compared; they are part of its state.

    Args:
        metric: what children are measured by; none for errors and perplexities.

    >>> loss = Metric("loss", lambda outputs, targets: 0.0, higher_is_better=False)
    >>> Rewards(loss)([Score(2.0, -2.0), Score(3.0, -3.0), Score(4.0, -4.0)])
    [0.701..., 0.5, 0.298...]
    """

    def __init__(self, metric: Metric | None) -> None:
        self._metric = metric
        self._scale: tuple[float, float] | None = None

    @property
    def has_state(self) -> bool:
        """Whether later rewards depend on what was seen first."""
        return self._metric is not None and not self._metric.is_share

    def __call__(self, scores: Sequence[Score]) -> list[float]:
        """The rewards of some children; NaN for one that diverged."""
        if self._metric is None:
            return [score.reward for score in scores]
        if self._metric.is_share:  # the score of a share of which lower is better is minus it
            return [score.reward if self._metric.higher_is_better else 1 + score.reward for score in scores]
        finite = [score.reward for score in scores if score.is_finite]
        if self._scale is None and finite:
            self._scale = _scale_of(finite)
        centre, unit = self._scale or (0.0, 1.0)
        places = [(score.reward - centre) / unit for score in scores]
        return [(1 + place / (1 + abs(place))) / 2 for place in places]

    def state(self) -> Json:
        """What rewards are measured by from now on."""
        return {"scale": None if self._scale is None else list(self._scale)}

    def load_state(self, state: Json) -> None:
        """Go on from a state."""
        self._scale = None if state["scale"] is None else (float(state["scale"][0]), float(state["scale"][1]))


def _scale_of(values: Sequence[float]) -> tuple[float, float]:
    """The median of some scores, and the median distance from it; where most are alike, what else tells their size."""
    centre = statistics.median(values)
    spread = 1.4826 * statistics.median(abs(value - centre) for value in values) or statistics.pstdev(values)
    unit = spread or abs(centre) or 1.0
    return centre, unit if math.isfinite(unit) else 1.0
