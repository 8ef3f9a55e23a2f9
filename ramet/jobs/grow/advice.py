"""What a comparison says in words: which network to take, and what each part of the way to it gave."""

from __future__ import annotations

from dataclasses import dataclass

from ramet.jobs.grow.result import GrowResult
from ramet.reports.formats import count

NAMES = {
    "plain": "a plain network of the same size",
    "scratch": "the grown shape trained from scratch",
    "pruned": "a larger network that was pruned",
    "start": "the network as large as it was at first",
}
"""What the arms are called in words."""


@dataclass(frozen=True, kw_only=True)
class Gains:
    """What each part of the way gave, in the metric's score; nothing where what it is told by was not trained.

    Attributes:
        longer: training the start with all of the work, against its first training; unknown where that was of a wider
            network.
        size: the plain network of the final size against that.
        shape: the grown shape from scratch against the plain one: the choice of place.
        weights: growing, with the weights that went along, against the grown shape from scratch.
        both: the last two together.
    """

    longer: float | None = None
    size: float | None = None
    shape: float | None = None
    weights: float | None = None
    both: float | None = None


def gains(result: GrowResult) -> Gains:
    """What each part of the way to the best growth gave."""
    scores = {arm: result.metric.value(figures.validation) for arm, figures in result.against.items()}
    method = result.methods[result.best]
    scores |= {"grown": result.metric.value(method.validation)}
    if not method.steps[0].widened:
        scores["first"] = method.steps[0].score

    def between(after: str, before: str) -> float | None:
        return scores[after] - scores[before] if after in scores and before in scores else None

    return Gains(
        longer=between("start", "first"),
        size=between("plain", "start"),
        shape=between("scratch", "plain"),
        weights=between("grown", "scratch"),
        both=between("grown", "plain"),
    )


def noise(share: float, num_validation: int) -> float:
    """How far two shares of so many samples may lie apart by chance: twice the standard error of their difference.

    The samples are the same for both, which makes it less; what seeds do is not in it, which makes it more.

    >>> round(noise(0.9, 200), 3)
    0.06
    """
    return 2 * (2 * share * (1 - share) / num_validation) ** 0.5 if num_validation else 0.0


def advice(result: GrowResult) -> str:
    """Which network to take, and how sure that is, in words."""
    best, taken, metric = result.best, result.taken, result.metric
    if not result.against:
        return f"Nothing was trained to compare {best} with; --against plain,scratch,pruned does."
    others = {arm: figures for arm, figures in result.against.items() if arm != "start"} or result.against
    rival = max(others, key=lambda arm: metric.value(others[arm].validation))
    lead = metric.value(result.methods[best].validation) - metric.value(result.against[rival].validation)
    amount = f"{100 * abs(lead):.1f} points" if metric.is_share else f"{abs(lead):.3g}"
    enough = ""
    if metric.is_share and abs(lead) < noise(result.methods[best].validation, result.num_validation):
        enough = f" {result.num_validation:,} validation {result.rows} cannot tell so small a difference from chance."
    where = f"networks/{taken}"
    if taken == best:
        return f"Take {where}: growing is {amount} ahead of {NAMES[rival]} that had as much work.{enough}"
    size = f"{count(result.against[taken].params)} parameters"
    return (
        f"Take {where}, not the grown network: {NAMES[taken]} ({size}), trained for as much work, is {amount} ahead. "
        f"Growing did not pay here.{enough}"
    )


def attribution(result: GrowResult) -> str:
    """What training longer, size and the choice of place gave, as far as it was measured, in words."""
    found, metric = gains(result), result.metric

    def said(value: float) -> str:
        return f"{100 * value:+z.1f} points" if metric.is_share else f"{value:+.3g}"

    parts = []
    if found.longer is not None:
        parts.append(f"training the start for as much work gave {said(found.longer)}")
    if found.size is not None:
        parts.append(f"size, in its own shape, {said(found.size)}")
    if found.shape is not None:
        parts.append(f"the choice of place {said(found.shape)}")
    if found.weights is not None:
        parts.append(f"growing into it instead of starting there {said(found.weights)}")
    if found.both is not None and found.weights is None:
        parts.append(f"growing instead of training that size at once {said(found.both)}")
    if not parts:
        return ""
    words = "; ".join(parts)
    return f"Of it, for the same work and on validation {result.rows}: {words}."
