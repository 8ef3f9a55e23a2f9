"""When the claims W1 to W8 hold: each verdict is a function of what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ramet.ranking.drops import reduction_over_seeds, relative_reduction
from ramet.ranking.intervals import seed_interval
from ramet.ranking.metrics import Floats, rank_correlation
from ramet.reports import Estimate
from ramet.reports.formats import percent
from ramet_papers.claims import Claim, Figures
from ramet_papers.searches import reduction
from ramet_papers.verdicts import above, at_least, below, surely_negative, surely_positive

# The thresholds of the rules; each judge says its rule.
NEEDED_CORRELATION = 0.8  # W1
NEEDED_DROP = 5.0  # W2 and W3: points that A must lose without a guard, or there is nothing to remove
STRICT_SHARE, STRICT_COST = 0.95, 0.5  # W2
LOOSE, LOWEST = 0.55, 0.38  # W3: of A's best accuracy, where it is answered, and down to where the trend is shown
LOOSE_SHARE, LOOSE_COST = 0.5, 5.0  # W3
LOWER_SHARE = 0.5  # W4 and W5
PAIRED_SEEDS = 12  # W6
RATES = (0.0, 0.25, 0.5, 0.75)  # W7


@dataclass(frozen=True)
class Drops:
    """What B did to A at one convergence of A, a seed; [seeds], in points."""

    unguarded: Floats  # A's worst drop without a guard
    guarded: Floats  # its worst drop with plasticity
    second_gain: Floats  # how much better B is with plasticity than without

    @property
    def removed(self) -> float:
        """The share of the worst drop that plasticity removes."""
        return relative_reduction(self.unguarded, self.guarded)

    @property
    def rules(self) -> dict[str, bool]:
        """What an answer needs."""
        return {f"unguarded, A must lose {NEEDED_DROP:g} points for it": bool(self.unguarded.mean() >= NEEDED_DROP)}


@dataclass(frozen=True, kw_only=True)
class W1Figures(Figures):
    """Figure 1."""

    shared: tuple[int, ...]  # hidden layers that A and B share
    worst: Floats  # A's worst drop in points, heads apart; [shared, seeds]
    with_head: Floats  # the same with all layers and the head shared; [seeds]


def judge_w1(figures: W1Figures) -> Claim:
    """W1: the worst drop rises with shared layers (rank correlation > 0.8)."""
    means = figures.worst.mean(axis=1)
    correlation = rank_correlation(figures.shared, means)
    # A seed in which nothing was forgotten at all has no trend.
    by_seed = np.nan_to_num([rank_correlation(figures.shared, drops) for drops in figures.worst.T])
    return figures.answer(
        "W1: Forgetting of A grows with the number of layers shared with B.",
        paper="Figure 1, no figure given",
        ours=f"rank correlation {correlation:.2f}; worst drops of {', '.join(f'{mean:.1f}' for mean in means)} points",
        spread=f"single seeds from {by_seed.min():.2f} to {by_seed.max():.2f}, mean {by_seed.mean():.2f}",
        seeds=figures.worst.shape[1],
        parts={"a drop that rises with the layers": above(correlation, NEEDED_CORRELATION)},
        note=f"{figures.setting} A keeps a head of its own; with a shared head too, the worst drop is "
        f"{figures.with_head.mean():.1f} points.",
    )


@dataclass(frozen=True, kw_only=True)
class W2Figures(Figures):
    """Figure 3 with A converged."""

    drops: Drops


def judge_w2(figures: W2Figures) -> Claim:
    """W2: >= 95 % of the worst drop, B within 0.5 points."""
    drops = figures.drops
    gain = seed_interval(drops.second_gain)
    interval = reduction_over_seeds(drops.unguarded, drops.guarded)
    return figures.answer(
        "W2: Plasticity removes forgetting when A has converged, at no cost to B.",
        paper="99 %",
        ours=f"{drops.removed:.1%} of a worst drop of {drops.unguarded.mean():.1f} points; B {gain.value:+.2f} points",
        spread=f"95 % interval {interval.interval_text(percent)}; B {gain.interval_text()}",
        seeds=len(drops.unguarded),
        parts={
            f"{STRICT_SHARE:.0%} of the drop removed": at_least(drops.removed, STRICT_SHARE),
            f"B within {STRICT_COST:g} points": at_least(float(drops.second_gain.mean()), -STRICT_COST),
        },
        rules=drops.rules,
    )


@dataclass(frozen=True, kw_only=True)
class W3Figures(Figures):
    """Figure 3 with A stopped on the way."""

    levels: Mapping[float, Drops]  # what was measured at each convergence below 1, a share of A's best accuracy


def judge_w3(figures: W3Figures) -> Claim:
    """W3: >= 50 % at 55 % while B loses at most 5 points; the trend to 38 % shown."""
    drops = figures.levels[LOOSE]
    cost = float(drops.second_gain.mean())
    low_enough = {f"the trend is to be shown down to {LOWEST:.0%}": min(figures.levels) <= LOWEST}
    trend = "; ".join(
        f"{found.removed:.0%} of {found.unguarded.mean():.1f} points at {share:.0%}, B {found.second_gain.mean():+.1f}"
        for share, found in figures.levels.items()
    )
    interval = reduction_over_seeds(drops.unguarded, drops.guarded)
    return figures.answer(
        "W3: Plasticity still removes half of the forgetting when A is far from converged.",
        paper="52 % at 55 % of A's best accuracy",
        ours=f"{drops.removed:.0%} at {LOOSE:.0%}; B {cost:+.1f} points",
        spread=f"95 % interval {interval.interval_text(percent)}; B {seed_interval(drops.second_gain).interval_text()}",
        seeds=len(drops.unguarded),
        parts={
            f"{LOOSE_SHARE:.0%} of the drop removed": at_least(drops.removed, LOOSE_SHARE),
            f"B loses at most {LOOSE_COST:g} points": at_least(cost, -LOOSE_COST),
        },
        rules=drops.rules | low_enough,
        note=f"Trend: {trend}. {figures.setting}",
    )


@dataclass(frozen=True, kw_only=True)
class DifferenceFigures(Figures):
    """Figures 4 and B: error differences of a search without and with the guard."""

    mean: Floats  # over the children of an epoch, then over epochs; [seeds, 2]
    best_five: Floats  # of the best five; [seeds, 2]
    largest: Floats  # [seeds, 2]
    remark: str = ""  # what else a reader should know


@dataclass(frozen=True)
class Lowered:
    """Error differences without and with a guard."""

    means: tuple[float, float]
    gain: Estimate  # by how much they are lower
    count: str  # in how many seeds

    @classmethod
    def of(cls, differences: Floats) -> Lowered:
        """From those of all seeds, shape [seeds, 2]."""
        (without, guarded), lower = differences.mean(axis=0), differences[:, 0] - differences[:, 1]
        return cls((without, guarded), seed_interval(lower), f"in {int((lower > 0).sum())} of {len(lower)} seeds")

    @property
    def course(self) -> str:
        """From one mean to the other."""
        return " to ".join(f"{mean:.3g}" for mean in self.means)


def judge_w4(figures: DifferenceFigures) -> Claim:
    """W4: mean lower by >= 50 %."""
    return _judge_differences("W4", "ENAS RNN search", "-95 / -59 / -51 %", figures)


def judge_w5(figures: DifferenceFigures) -> Claim:
    """W5: the same for a convolutional search: mean lower by >= 50 %."""
    return _judge_differences("W5", "ENAS CNN search", "Fig. B", figures)


def _judge_differences(id: str, what: str, paper: str, figures: DifferenceFigures) -> Claim:
    """Besides the share, the difference must be beyond chance, and there must be forgetting to lower."""
    found = {"mean": figures.mean, "best five": figures.best_five, "largest": figures.largest}
    lowered = {words: Lowered.of(differences) for words, differences in found.items()}
    shares = [reduction(*one.means) for one in lowered.values()]
    nothing = "without the guard nothing is forgotten on average, and there is nothing to lower"
    return figures.answer(
        f"{id}: {what}: plasticity lowers the mean error difference.",
        paper=paper,
        ours=" / ".join(f"{-100 * share:+.0f} %" for share in shares) + " (mean / best five / largest)",
        spread="; ".join(f"{w} {one.course}, lower by {one.gain.text()} and {one.count}" for w, one in lowered.items()),
        seeds=len(figures.mean),
        parts={
            f"a mean lower by {LOWER_SHARE:.0%}": at_least(shares[0], LOWER_SHARE),
            "a difference of the means that can be told from 0 over seeds": surely_positive(lowered["mean"].gain),
        },
        rules={nothing: bool(figures.mean[:, 0].mean() > 0)},
        remark=figures.remark,
    )


@dataclass(frozen=True, kw_only=True)
class W6Figures(Figures):
    """Figure 4d."""

    early: Floats  # reward with plasticity less reward without, first half of the rewarded epochs; [seeds]
    late: Floats  # the same for the second half; [seeds]
    alphas: tuple[float, ...]  # the guard's strength in each epoch that it acts in


def judge_w6(figures: W6Figures) -> Claim:
    """W6: both halves, intervals over >= 12 paired seeds apart from 0, alpha decaying within the run."""
    early, late, seeds = seed_interval(figures.early), seed_interval(figures.late), len(figures.early)
    alphas = figures.alphas
    course = f" Alpha from {max(alphas):g} to {alphas[-1]:g}." if alphas else ""
    return figures.answer(
        "W6: With plasticity the reward is lower at first and higher in the second half, as alpha falls.",
        paper="Fig. 4d",
        ours=f"{early.value:+.3g} in the first half, {late.value:+.3g} in the second",
        spread=f"intervals {early.interval_text(_signed)} and {late.interval_text(_signed)}",
        seeds=seeds,
        parts={
            "a lower reward in the first half": surely_negative(early),
            "a higher reward in the second half": surely_positive(late),
        },
        rules={
            f"at least {PAIRED_SEEDS} paired seeds are asked, and there are {seeds}": seeds >= PAIRED_SEEDS,
            "alpha does not fall within the run": bool(alphas) and alphas[-1] < max(alphas),
        },
        note=figures.setting + course,
    )


def _signed(value: float) -> str:
    return f"{value:+.3g}"


@dataclass(frozen=True, kw_only=True)
class W7Figures(Figures):
    """Figure 5."""

    # By the rate of output dropout the error differences of the best five, without and with the guard; [seeds, 2].
    differences: Mapping[float, Floats]


def judge_w7(figures: W7Figures) -> Claim:
    """W7: lower error difference at every rate, each interval apart from 0."""
    lowered = {rate: Lowered.of(differences) for rate, differences in figures.differences.items()}
    missing = [f"{rate:g}" for rate in RATES if rate not in figures.differences]
    return figures.answer(
        "W7: Plasticity lowers the error differences of NAO at every rate of output dropout.",
        paper="Figure 5",
        ours="; ".join(f"{rate:g}: {one.course}" for rate, one in lowered.items()),
        spread="lower by " + "; ".join(f"{rate:g}: {one.gain.text()}, {one.count}" for rate, one in lowered.items()),
        seeds=min(map(len, figures.differences.values())),
        parts={f"surely lower at {rate:g}": surely_positive(one.gain) for rate, one in lowered.items()},
        rules={f"not measured at a rate of {', '.join(missing)}": not missing},
    )


@dataclass(frozen=True)
class Retrained:
    """What one search found, trained alone; test errors, or perplexities."""

    errors: Floats  # of the architectures found without and with the guard; [seeds, 2]
    random: Floats  # of architectures drawn uniformly from the space; [architectures]


@dataclass(frozen=True, kw_only=True)
class W8Figures(Figures):
    """Table 1: what was found, by the name of the search."""

    searches: Mapping[str, Retrained]


def judge_w8(figures: W8Figures) -> Claim:
    """W8: better, interval apart from 0, where the unguarded search beats the mean of the space; otherwise null."""
    ours, spreads, parts = [], [], {}
    for name, found in figures.searches.items():
        without, guarded = found.errors.mean(axis=0)
        gain = seed_interval(found.errors[:, 0] - found.errors[:, 1])
        if below(without, found.random.mean()):
            parts[f"surely better ({name})"] = surely_positive(gain)
        else:
            # A search that finds nothing has nothing that a guard could better.
            parts[f"the unguarded search does not beat the mean of the space ({name})"] = None
        ours.append(f"{name}: {without:.4g} to {guarded:.4g}, at random {found.random.mean():.4g}")
        spreads.append(f"gain of {name} ({len(found.errors)} seeds) {gain.interval_text(lambda value: f'{value:.3g}')}")
    return figures.answer(
        "W8: The architecture found with plasticity is better when it is trained alone.",
        paper="65.01 to 61.9; 4.87 to 3.81",
        ours="; ".join(ours),
        spread="; ".join(spreads),
        seeds=max(len(found.errors) for found in figures.searches.values()),
        parts=parts,
    )
