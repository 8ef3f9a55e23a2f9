"""The one judgement of a diagnosis: a pure function of its figures, which all sentences and the page follow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from ramet.runs.encoding import Json

RELIABLE_TRUTH = 0.5
"""Below this correlation between halves of its seeds, a truth is too noisy to judge a ranking by."""
FAR_BELOW = 0.1
"""Shared weights that are this much of an accuracy, or another share, below children alone are hardly trained."""
FAR_SPREADS = 3.0
"""The same for a metric that is no share: so many deviations of the truth over children, which have its unit."""
TRIVIAL = ("parameters", "flops")
"""The rankings that need no training, as their names are."""

Kind = Literal["no truth", "flat truth", "noisy truth", "ranks nothing", "no better", "unclear", "better"]

_HEADLINES: dict[Kind, tuple[str, Literal["good", "caution", "bad", "neutral"]]] = {
    "no truth": ("No truth is known: only stability can be judged.", "neutral"),
    "flat truth": ("The truth gives every child the same score: no ranking can be judged by it.", "caution"),
    "noisy truth": ("The truth itself is too noisy to judge the ranking by.", "caution"),
    "ranks nothing": ("It ranks nothing: every child has the same score.", "bad"),
    "no better": ("Do not choose by it: what needs no training ranks better.", "bad"),
    "unclear": ("Use it with care: it is not clearly better than what needs no training.", "caution"),
    "better": ("It tells more than what needs no training.", "good"),
}


@dataclass(frozen=True)
class Judgement:
    """What the figures allow to say.

    Attributes:
        kind: the case; exactly one holds.
        best: the name of the best ranking that was trained for, if any ranks at all.
        trivial: the name of the best ranking that needs no training, if any ranks at all.
    """

    kind: Kind
    best: str | None = None
    trivial: str | None = None

    @property
    def headline(self) -> str:
        """The verdict in a sentence."""
        return _HEADLINES[self.kind][0]

    @property
    def tone(self) -> Literal["good", "caution", "bad", "neutral"]:
        """How it is coloured."""
        return _HEADLINES[self.kind][1]

    @property
    def is_firm(self) -> bool:
        """Whether anything follows about the ranking: not if there is nothing good enough to hold it against."""
        return self.kind not in ("no truth", "flat truth", "noisy truth")


def judge(result: Json) -> Judgement:
    """Decide what the figures of ``analyse`` allow to say.

    In this order: without a truth, with one that orders nothing, or with one whose halves correlate below
    ``RELIABLE_TRUTH``, nothing follows about the ranking. A ranking in which all are equal ranks nothing. Otherwise the
    best ranking is held against the best trivial one, by the interval of its gain: nowhere above 0, around 0, or all of
    it above. Where all children have one size, it is held against no order at all.
    """
    if not result.get("correlation"):
        return Judgement("no truth")
    defined = {name: entry for name, entry in result["correlation"].items() if is_defined(entry["tau"])}

    def first(names: list[str]) -> str | None:
        return max(names, key=lambda name: defined[name]["tau"]["value"], default=None)

    trivial = first([name for name in defined if name in TRIVIAL])
    best = first([name for name in defined if name not in TRIVIAL])
    if result["truth"]["spread"] == 0:
        return Judgement("flat truth", best, trivial)
    halves = result["truth"]["reliability_of_halves"]
    if halves is not None and halves < RELIABLE_TRUTH:
        return Judgement("noisy truth", best, trivial)
    if best is None:
        return Judgement("ranks nothing", best, trivial)
    gain = defined[best]["tau"] if trivial is None else defined[best][f"gain_over_{trivial}"]
    kind: Kind = "better" if gain["low"] > 0 else "no better" if gain["high"] <= 0 else "unclear"
    return Judgement(kind, best, trivial)


def is_far_below(result: Json) -> bool:
    """Whether children are surely much better alone than with shared weights; the figures are those of ``analyse``."""
    gap = result.get("gap")
    if gap is None:
        return False
    is_share = result.get("metric", {}).get("is_share", True)
    return bool(gap["low"] > (FAR_BELOW if is_share else FAR_SPREADS * result["truth"]["spread"]))


@dataclass(frozen=True)
class WayToUse:
    """Of all ways to train and to score that were tried, the one with the highest correlation.

    Attributes:
        name: the ranking, or the variation.
        tau: its correlation, with its interval.
        gain: over the last evaluation, or of a variation over the same scores without it; none for the last one itself.
        count: how many ways there were.
    """

    name: str
    tau: Json
    gain: Json | None
    count: int

    @property
    def is_clear(self) -> bool:
        """Whether its interval lies above 0; of the best of many that is not quite sure."""
        return self.gain is not None and self.gain["low"] > 0


def way_to_use(result: Json) -> WayToUse | None:
    """The way to train and to score with the highest correlation; none where nothing is ranked or judged."""
    if not judge(result).is_firm:
        return None
    ways = [
        (name, entry["tau"], entry.get("gain_over_last"))
        for name, entry in result["correlation"].items()
        if name not in TRIVIAL
    ]
    ways += [(row["variation"], row["tau"], row["gain"]) for row in result["variations"] if row.get("tau")]
    defined = [way for way in ways if is_defined(way[1])]
    if not defined:
        return None
    return WayToUse(*max(defined, key=lambda way: way[1]["value"]), count=len(defined))


def is_defined(entry: Json) -> bool:
    """Whether a figure is a number: a ranking in which all children are equal correlates with nothing."""
    return entry["value"] is not None and not math.isnan(entry["value"])
