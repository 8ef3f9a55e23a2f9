"""When the claims I1 to I6 hold: each verdict is a function of what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ramet.ranking.intervals import seed_interval
from ramet.ranking.metrics import Floats, rank_correlation
from ramet.reports.formats import percent
from ramet_papers.claims import Claim, Figures
from ramet_papers.verdicts import above, at_least, at_most, conclude, surely_negative, surely_positive

NUM_ARCHITECTURES, LEAST_IMAGES, BATCH_STATISTICS = 64, 2000, "batch"
"""I2: both, 64 architectures, >= 2,000 images, batch statistics, against an unguarded control of equal own gain."""

EQUAL_GAIN = 0.1
"""I2 and I3: how far the own gains of guard and control may differ, as a share of the guard's, to count as equal."""

NO_CONTROL = "an unguarded control of equal own gain was not measured"

PAIRED_SUPERNETS = 8
"""I3: higher, intervals over >= 8 paired supernets apart, against the same control."""

GOOD_ENOUGH = 0.01
"""I4: within 1 point of the best lambda, in mean accuracy."""

TOLERANCE = {"float32": 1e-5, "float64": 1e-10}
"""I5: how far two forms may differ, relative to the identity that they begin with, for rounding alone."""


@dataclass(frozen=True, kw_only=True)
class I1Figures(Figures):
    """Figure 1b: what architectures lose after 1, 2, ... later ones, as shares of 1.

    Args:
        standing: with batch norm as it stands; [seeds, distances].
        reestimated: with batch norm re-estimated; [seeds, distances].
        guarded: the mean of ``standing`` under each kind of projection.
    """

    standing: Floats
    reestimated: Floats
    guarded: Mapping[str, float]


def judge_i1(figures: I1Figures) -> Claim:
    """I1: rows of the 10 x 10 matrix fall: there is a drop beyond chance, and it grows with the distance."""
    drop, reestimated = (seed_interval(100 * drops.mean(axis=1)) for drops in (figures.standing, figures.reestimated))
    trend, its_trend = (
        rank_correlation(np.arange(drops.shape[1]), drops.mean(axis=0))
        for drops in (figures.standing, figures.reestimated)
    )
    first, last = (100 * float(figures.standing[:, place].mean()) for place in (0, -1))
    holds, reason = conclude(
        {"a drop that can be told from 0": surely_positive(drop), "a drop that grows": above(trend, 0.0)}
    )
    others = ", ".join(f"{name}: {100 * mean:.1f}" for name, mean in figures.guarded.items())
    return Claim(
        id="I1",
        claim="Later architectures disturb earlier ones, the more of them the more.",
        paper="rows of a 10 x 10 matrix fall (Figure 1b, no figures in the text)",
        ours=f"mean drop {drop.value:.1f} points; {first:.1f} after the next one, {last:.1f} after the last; rank "
        f"correlation with the distance {trend:.2f}",
        spread=f"95 % interval {drop.interval_text()}; batch norm re-estimated: {reestimated.text()} points, trend "
        f"{its_trend:.2f}",
        seeds=len(figures.standing),
        holds=holds,
        command=figures.command,
        note=f"{figures.setting} Drops under projection: {others}.{reason}",
    )


@dataclass(frozen=True)
class Changes:
    """What supernets of one kind of training change by over an interval of epochs; [seeds] each.

    Args:
        size: of the change of accuracy, as a share of 1.
        consistency: Kendall's tau between the two rankings.
    """

    size: Floats
    consistency: Floats


@dataclass(frozen=True)
class OwnGains:
    """What a child gains by its own training, under projection and in the control; [seeds] each."""

    guarded: Floats
    control: Floats


@dataclass(frozen=True, kw_only=True)
class I2Figures(Figures):
    """Figure 3.

    Args:
        plain: unguarded, at the same settings.
        guarded: with projection.
        control: unguarded, with as much own gain as under projection; none where it was not measured.
        own_gains: by which the control was made; none where they were not measured.
        architectures: that are scored.
        images: that they are scored on.
        batch_norm: the statistics that they are scored with: ``batch``, ``running`` or ``reestimated``.
    """

    plain: Changes
    guarded: Changes
    control: Changes | None
    own_gains: OwnGains | None
    architectures: int
    images: int
    batch_norm: str


def judge_i2(figures: I2Figures) -> Claim:
    """I2: both, 64 architectures, >= 2,000 images, batch statistics, against an unguarded control of equal own gain."""
    guarded, base = figures.guarded, figures.control or figures.plain
    change, tau = seed_interval(guarded.size - base.size), seed_interval(guarded.consistency - base.consistency)
    unmet = _unequal(figures.own_gains) if figures.control else [NO_CONTROL]
    if figures.architectures != NUM_ARCHITECTURES:
        unmet.append(f"{NUM_ARCHITECTURES} architectures are asked, and there are {figures.architectures}")
    if figures.images < LEAST_IMAGES:
        unmet.append(f"at least {LEAST_IMAGES:,} images are asked, and there are {figures.images:,}")
    if figures.batch_norm != BATCH_STATISTICS:
        unmet.append(f"statistics of the {BATCH_STATISTICS} are asked, and they are {figures.batch_norm}")
    parts = {"a change surely lower": surely_negative(change), "a consistency surely higher": surely_positive(tau)}
    holds, reason = conclude(parts, unmet)
    return Claim(
        id="I2",
        claim="Projection lowers performance change and raises rank consistency.",
        paper="both, over 13 epochs (Figure 3, no figures in the text)",
        ours=f"absolute change {base.size.mean():.1%} to {guarded.size.mean():.1%}, "
        f"KTau {base.consistency.mean():.2f} to {guarded.consistency.mean():.2f}",
        spread=f"differences {change.text(percent)} and {tau.text()}",
        seeds=len(guarded.size),
        holds=holds,
        command=figures.command,
        note=figures.setting + reason,
    )


def _unequal(gains: OwnGains | None) -> list[str]:
    """Why a control is none, if it is none."""
    if gains is None:
        return [NO_CONTROL]
    own, its = float(gains.guarded.mean()), float(gains.control.mean())
    equal = abs(its - own) <= EQUAL_GAIN * abs(own)
    return [] if equal else [f"the control's own gain is {its:.3g}, and projection's {own:.3g}"]


@dataclass(frozen=True, kw_only=True)
class I3Figures(Figures):
    """GT-Tau of paired supernets; [supernets] each.

    Args:
        plain: unguarded, at the same settings.
        guarded: with projection.
        control: unguarded, with as much own gain as under projection; none where it was not measured.
        own_gains: by which the control was made; none where they were not measured.
    """

    plain: Floats
    guarded: Floats
    control: Floats | None
    own_gains: OwnGains | None


def judge_i3(figures: I3Figures) -> Claim:
    """I3: higher, intervals over >= 8 paired supernets apart, against the same control."""
    base = figures.plain if figures.control is None else figures.control
    gain, supernets = seed_interval(figures.guarded - base), len(figures.guarded)
    unmet = [NO_CONTROL] if figures.control is None else _unequal(figures.own_gains)
    if supernets < PAIRED_SUPERNETS:
        unmet.append(f"at least {PAIRED_SUPERNETS} paired supernets are asked, and there are {supernets}")
    holds, reason = conclude({"a correlation surely higher": surely_positive(gain)}, unmet)
    return Claim(
        id="I3",
        claim="Projection raises the correlation with the truth.",
        paper="GT-Tau 0.16 to 0.48",
        ours=f"GT-Tau {base.mean():.2f} to {figures.guarded.mean():.2f}",
        spread=f"gain {gain.text()} over supernets",
        seeds=supernets,
        holds=holds,
        command=figures.command,
        note=figures.setting + reason,
    )


@dataclass(frozen=True)
class SharedLayers:
    """The disturbance of a first architecture by a second.

    Args:
        layers: that they share; [settings].
        disturbance: of the first (Eq. 3); [settings, pairs].
    """

    layers: Floats
    disturbance: Floats


@dataclass(frozen=True)
class Lambdas:
    """The mean accuracy of all architectures at the end of a sequence; each [seeds].

    Args:
        ways: by lambda, first for mean inputs, which are judged, then for others that are shown beside them.
        unguarded: without a guard.
    """

    ways: Mapping[str, Mapping[float, Floats]]
    unguarded: Floats


@dataclass(frozen=True, kw_only=True)
class I4Figures(Figures):
    """Section 5.4, in two halves, of which one may not be measured yet.

    Args:
        shared: the disturbance by the number of shared layers.
        lambdas: the accuracy by lambda.
        seeds: of both.
    """

    shared: SharedLayers | None
    lambdas: Lambdas | None
    seeds: int


def judge_i4(figures: I4Figures) -> Claim:
    """I4: (a) trend: more shared layers, more disturbance; (b) lambda = 1 within 1 point of the best, mean inputs."""
    trend, words = _judge_trend(figures.shared)
    default, more = _judge_default(figures.lambdas)
    parts = {
        "more disturbance by more shared layers": trend,
        f"lambda = 1 within {GOOD_ENOUGH:g} of the best": default,
    }
    holds, reason = conclude(parts)
    return Claim(
        id="I4",
        claim="More shared layers, more disturbance; lambda = 1 is a good default for mean inputs.",
        paper="section 5.4, in words only",
        ours=f"{words}; {more}",
        spread="; ".join(f"{part}: {_word(answer)}" for part, answer in parts.items()),
        seeds=figures.seeds,
        holds=holds,
        command=figures.command,
        note=figures.setting + reason,
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
    """Section 4 on random instances.

    Args:
        differences: by precision how far the iterative forms are from the closed one; any shape.
        shares: the change of the outputs as a share of Theorem 4.1's bound, of the instances for which it is finite.
        instances: how many there are.
    """

    differences: Mapping[str, Floats]
    shares: Floats
    instances: int


def judge_i5(figures: I5Figures) -> Claim:
    """I5: numerically exact; bound never broken."""
    largest = {dtype: float(found.max()) for dtype, found in figures.differences.items()}
    shares = figures.shares
    broken = int((~(shares <= 1)).sum())  # so that NaN is one that breaks it
    parts = {
        f"exact in {dtype}": at_most(largest.get(dtype, float("nan")), limit) for dtype, limit in TOLERANCE.items()
    }
    parts["a bound that is never broken"] = broken == 0 if len(shares) else None
    holds, reason = conclude(parts)
    return Claim(
        id="I5",
        claim="The iterative update equals the closed form; Theorem 4.1 bounds the change of the outputs.",
        paper="exact",
        ours=f"largest difference {', '.join(f'{value:.1e} in {dtype}' for dtype, value in largest.items())}; "
        f"the bound broken in {broken} of {len(shares)} instances",
        spread=f"change at most {shares.max():.2g} of the bound, {np.median(shares):.2g} in the median"
        if len(shares)
        else "",
        seeds=figures.instances,
        holds=holds,
        command=figures.command,
        note=figures.setting + reason,
    )


@dataclass(frozen=True, kw_only=True)
class I6Figures(Figures):
    """Table 1: test accuracies in percent, trained alone.

    Args:
        found: by the search without and with projection; [seeds, 2].
        random: architectures drawn uniformly; [architectures].
    """

    found: Floats
    random: Floats


def judge_i6(figures: I6Figures) -> Claim:
    """I6: better than random, interval apart from 0; the guard's own part reported with its interval."""
    found, random = figures.found, figures.random
    gain = seed_interval(found[:, 1] - random.mean())
    own = seed_interval(found[:, 1] - found[:, 0])
    holds, reason = conclude({"surely better than random architectures": surely_positive(gain)})
    return Claim(
        id="I6",
        claim="The architecture that the guarded search finds beats random architectures.",
        paper="97.38 against 96.71",
        ours=f"{found[:, 1].mean():.2f} against {random.mean():.2f} (without the guard {found[:, 0].mean():.2f})",
        spread=f"gain {gain.text(_signed)} points, the guard's own part {own.text(_signed)}; random architectures "
        f"deviate by {random.std():.2f}",
        seeds=len(found),
        holds=holds,
        command=figures.command,
        note=figures.setting + reason,
    )


def _signed(value: float) -> str:
    return f"{value:+.2f}"
