"""When the claims I1 to I6 hold: each verdict is a function of what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ramet.ranking.disturbance import growth_within_rows
from ramet.ranking.intervals import seed_interval
from ramet.ranking.metrics import Floats, rank_correlation
from ramet.reports.formats import percent
from ramet_papers.claims import Claim, Figures
from ramet_papers.verdicts import at_least, at_most, surely_negative, surely_positive

# The thresholds of the rules; each judge says its rule.
NUM_ARCHITECTURES, LEAST_IMAGES, BATCH_STATISTICS = 64, 2000, "batch"  # I2
EQUAL_GAIN = 0.1  # I2 and I3: how far own gains of guard and control may differ to be equal, as a share of the guard's
NO_CONTROL = "an unguarded control of equal own gain was not measured"
PAIRED_SUPERNETS = 8  # I3
CONVERGED = 0.9  # I1: the share of its training images that an architecture knows when it is trained to the end
GOOD_ENOUGH = 0.01  # I4: of the best lambda's mean accuracy
TOLERANCE = {"float32": 1e-5, "float64": 1e-10}
"""I5: how far two forms may differ, relative to the identity that they begin with, for rounding alone."""


@dataclass(frozen=True, kw_only=True)
class I1Figures(Figures):
    """Figure 1b: what later architectures do to earlier ones, batch norm re-estimated."""

    disturbance: Floats  # Eq. 3 of architecture i after the training of j > i; [seeds, n, n]
    drops: Floats  # of accuracy after 1, 2, ... later ones, as shares of 1; [seeds, distances]
    standing: Floats  # the same with batch norm as it stands
    own: Floats  # the accuracy of each architecture just after its training; [seeds, n]
    known: Floats  # the share of training images that it knows then; [seeds, n]


def judge_i1(figures: I1Figures) -> Claim:
    """I1: rows of the 10 x 10 matrix fall: there is a drop beyond chance, and Eq. 3 grows within a row.

    Each architecture is trained to convergence before the next.
    """
    drop, standing = (seed_interval(100 * drops.mean(axis=1)) for drops in (figures.drops, figures.standing))
    growth = seed_interval(growth_within_rows(figures.disturbance))
    size = figures.disturbance.shape[-1]
    first, last = (float(figures.disturbance[:, 0, place].mean()) for place in (1, size - 1))
    return figures.answer(
        "I1: Later architectures disturb earlier ones, the more of them the more.",
        paper="rows of a 10 x 10 matrix fall (Figure 1b, no figures in the text)",
        ours=f"mean drop {drop.value:.1f} points of {figures.own.mean():.1%} ({figures.known.mean():.1%} of the "
        f"training images); the first one's disturbance (Eq. 3) {first:.2f} after the next, {last:.2f} after the "
        f"last; rank correlation within rows {growth.value:.2f}",
        spread=f"95 % intervals {drop.interval_text()} and {growth.interval_text()}; batch norm as it stands: "
        f"{standing.text()} points",
        seeds=len(figures.drops),
        parts={
            f"architectures that know {CONVERGED:.0%} of their training images": bool(
                figures.known.mean() >= CONVERGED
            ),
            "a drop that can be told from 0": surely_positive(drop),
            "a disturbance that surely grows within a row": surely_positive(growth),
        },
    )


@dataclass(frozen=True)
class Changes:
    """What supernets of one kind of training change by over an interval of epochs; [seeds] each."""

    size: Floats  # of the change of accuracy, as a share of 1
    consistency: Floats  # Kendall's tau between the two rankings


@dataclass(frozen=True)
class OwnGains:
    """What a child gains by its own training, under projection and in the control; [seeds] each."""

    guarded: Floats
    control: Floats


@dataclass(frozen=True, kw_only=True)
class I2Figures(Figures):
    """Figure 3."""

    plain: Changes  # unguarded, at the same settings
    guarded: Changes  # with projection
    control: Changes | None  # unguarded, with as much own gain as under projection; none where it was not measured
    own_gains: OwnGains | None  # by which the control was made; none where they were not measured
    architectures: int  # that are scored
    images: int  # that they are scored on
    batch_norm: str  # the statistics that they are scored with: ``batch``, ``running`` or ``reestimated``


def judge_i2(figures: I2Figures) -> Claim:
    """I2: both, 64 architectures, >= 2,000 images, batch statistics, against an unguarded control of equal own gain."""
    guarded, base = figures.guarded, figures.control or figures.plain
    change, tau = seed_interval(guarded.size - base.size), seed_interval(guarded.consistency - base.consistency)
    num, images, norm = figures.architectures, figures.images, figures.batch_norm
    rules = {
        **_equal_gain(figures.own_gains if figures.control else None),
        f"{NUM_ARCHITECTURES} architectures are asked, and there are {num}": num == NUM_ARCHITECTURES,
        f"at least {LEAST_IMAGES:,} images are asked, and there are {images:,}": images >= LEAST_IMAGES,
        f"statistics of the {BATCH_STATISTICS} are asked, and they are {norm}": norm == BATCH_STATISTICS,
    }
    return figures.answer(
        "I2: Projection lowers performance change and raises rank consistency.",
        paper="both, over 13 epochs (Figure 3, no figures in the text)",
        ours=f"absolute change {base.size.mean():.1%} to {guarded.size.mean():.1%}, "
        f"KTau {base.consistency.mean():.2f} to {guarded.consistency.mean():.2f}",
        spread=f"differences {change.text(percent)} and {tau.text()}",
        seeds=len(guarded.size),
        parts={"a change surely lower": surely_negative(change), "a consistency surely higher": surely_positive(tau)},
        rules=rules,
    )


def _equal_gain(gains: OwnGains | None) -> dict[str, bool]:
    """The rule that there is a control, and that it has the own gain of projection."""
    if gains is None:
        return {NO_CONTROL: False}
    own, its = float(gains.guarded.mean()), float(gains.control.mean())
    return {f"the control's own gain is {its:.3g}, and projection's {own:.3g}": abs(its - own) <= EQUAL_GAIN * abs(own)}


@dataclass(frozen=True, kw_only=True)
class I3Figures(Figures):
    """GT-Tau of paired supernets; [supernets] each."""

    plain: Floats  # unguarded, at the same settings
    guarded: Floats  # with projection
    control: Floats | None  # unguarded, with as much own gain as under projection; none where it was not measured
    own_gains: OwnGains | None  # by which the control was made; none where they were not measured


def judge_i3(figures: I3Figures) -> Claim:
    """I3: higher, intervals over >= 8 paired supernets apart, against the same control."""
    base = figures.plain if figures.control is None else figures.control
    gain, supernets = seed_interval(figures.guarded - base), len(figures.guarded)
    few = f"at least {PAIRED_SUPERNETS} paired supernets are asked, and there are {supernets}"
    control = _equal_gain(None if figures.control is None else figures.own_gains)
    return figures.answer(
        "I3: Projection raises the correlation with the truth.",
        paper="GT-Tau 0.16 to 0.48",
        ours=f"GT-Tau {base.mean():.2f} to {figures.guarded.mean():.2f}",
        spread=f"gain {gain.text()} over supernets",
        seeds=supernets,
        parts={"a correlation surely higher": surely_positive(gain)},
        rules={**control, few: supernets >= PAIRED_SUPERNETS},
    )


@dataclass(frozen=True)
class SharedLayers:
    """The disturbance of a first architecture by a second."""

    layers: Floats  # that they share; [settings]
    disturbance: Floats  # of the first (Eq. 3); [settings, pairs]


@dataclass(frozen=True)
class Lambdas:
    """The mean accuracy of all architectures at the end of a sequence; each [seeds]."""

    # By lambda, first for mean inputs, which are judged, then for others that are shown beside them.
    ways: Mapping[str, Mapping[float, Floats]]
    unguarded: Floats  # without a guard


@dataclass(frozen=True, kw_only=True)
class I4Figures(Figures):
    """Section 5.4, in two halves, of which one may not be measured yet."""

    shared: SharedLayers | None  # the disturbance by the number of shared layers
    lambdas: Lambdas | None  # the accuracy by lambda
    seeds: int  # of both


def judge_i4(figures: I4Figures) -> Claim:
    """I4: (a) trend: more shared layers, more disturbance; (b) lambda = 1 within 1 point of the best, mean inputs."""
    trend, words = _judge_trend(figures.shared)
    default, more = _judge_default(figures.lambdas)
    parts = {
        "more disturbance by more shared layers": trend,
        f"lambda = 1 within {GOOD_ENOUGH:g} of the best": default,
    }
    return figures.answer(
        "I4: More shared layers, more disturbance; lambda = 1 is a good default for mean inputs.",
        paper="section 5.4, in words only",
        ours=f"{words}; {more}",
        spread="; ".join(f"{part}: {_word(answer)}" for part, answer in parts.items()),
        seeds=figures.seeds,
        parts=parts,
    )


def _judge_trend(shared: SharedLayers | None) -> tuple[bool | None, str]:
    if shared is None:
        return None, "shared layers not measured"
    layers, disturbance = shared.layers, shared.disturbance
    per_pair = seed_interval([rank_correlation(layers, curve) for curve in disturbance.T])
    first, last = (f"{disturbance[end].mean():.2f} with {layers[end]:.0f}" for end in (0, -1))
    text = f"disturbance {first} shared layers, {last}; rank correlation with their number {per_pair.text()}"
    return surely_positive(per_pair), text


def _judge_default(lambdas: Lambdas | None) -> tuple[bool | None, str]:
    if lambdas is None:
        return None, "lambda not measured"
    texts, answers = [], []
    for way, curve in lambdas.ways.items():
        means = {value: float(accuracies.mean()) for value, accuracies in curve.items()}
        best = max(means, key=lambda value: means[value])
        at_one = means.get(1.0, float("nan"))
        answers.append(at_least(at_one, means[best] - GOOD_ENOUGH))
        texts.append(f"{way}: {at_one:.1%} at lambda 1, {means[best]:.1%} at the best, {best:g}")
    return answers[0], f"{'; '.join(texts)}; unguarded {lambdas.unguarded.mean():.1%}"


def _word(answer: bool | None) -> str:
    return "not measured" if answer is None else "yes" if answer else "no"


@dataclass(frozen=True, kw_only=True)
class I5Figures(Figures):
    """Section 4 on random instances."""

    differences: Mapping[str, Floats]  # by precision how far the iterative forms are from the closed one; any shape
    # The change of the outputs as a share of Theorem 4.1's bound, of the instances for which it is finite.
    shares: Floats
    instances: int  # how many there are


def judge_i5(figures: I5Figures) -> Claim:
    """I5: numerically exact; bound never broken."""
    largest = {dtype: float(found.max()) for dtype, found in figures.differences.items()}
    shares = figures.shares
    broken = int((~(shares <= 1)).sum())  # so that NaN is one that breaks it
    parts = {
        f"exact in {dtype}": at_most(largest.get(dtype, float("nan")), limit) for dtype, limit in TOLERANCE.items()
    }
    parts["a bound that is never broken"] = broken == 0 if len(shares) else None
    return figures.answer(
        "I5: The iterative update equals the closed form; Theorem 4.1 bounds the change of the outputs.",
        paper="exact",
        ours=f"largest difference {', '.join(f'{value:.1e} in {dtype}' for dtype, value in largest.items())}; "
        f"the bound broken in {broken} of {len(shares)} instances",
        spread=f"change at most {shares.max():.2g} of the bound, {np.median(shares):.2g} in the median"
        if len(shares)
        else "",
        seeds=figures.instances,
        parts=parts,
    )


@dataclass(frozen=True, kw_only=True)
class I6Figures(Figures):
    """Table 1: test accuracies in percent, trained alone."""

    found: Floats  # by the search without and with projection; [seeds, 2]
    random: Floats  # architectures drawn uniformly; [architectures]


def judge_i6(figures: I6Figures) -> Claim:
    """I6: better than random, interval apart from 0; the guard's own part reported with its interval."""
    found, random = figures.found, figures.random
    gain = seed_interval(found[:, 1] - random.mean())
    own = seed_interval(found[:, 1] - found[:, 0])
    return figures.answer(
        "I6: The architecture that the guarded search finds beats random architectures.",
        paper="97.38 against 96.71",
        ours=f"{found[:, 1].mean():.2f} against {random.mean():.2f} (without the guard {found[:, 0].mean():.2f})",
        spread=f"gain {gain.text(_signed)} points, the guard's own part {own.text(_signed)}; random architectures "
        f"deviate by {random.std():.2f}",
        seeds=len(found),
        parts={"surely better than random architectures": surely_positive(gain)},
    )


def _signed(value: float) -> str:
    return f"{value:+.2f}"
