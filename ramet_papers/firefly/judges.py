"""When the claims F1 to F7 hold: each verdict is a function of what was measured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ramet.ranking.drops import reduction_over_seeds
from ramet.ranking.intervals import seed_interval
from ramet.ranking.metrics import Floats
from ramet.reports import Estimate
from ramet.reports.formats import count, significant
from ramet_papers.claims import Claim, Figures
from ramet_papers.verdicts import above, at_most, below, not_negative, surely_positive

# The thresholds of the rules; each judge says its rule.
COMPARED_AT = 10  # F1 and F2: the neurons at which, or up to which, losses are compared
NEEDED_RATIO = 0.1  # F1
SATURATED_AT, STILL_WON = 5, 0.1  # F2: more candidates win less than this share of what the first five won
MUST_BEAT = ("Net2Net", "random splits")  # F3 and F4
LARGEST_SHARE = 1 / 3  # F3 and F4: of steepest splitting's time
WIDER = "Wider by Firefly: better at equal size, and a cheaper step than steepest splitting."


@dataclass(frozen=True, kw_only=True)
class F1Figures(Figures):
    """Figure 3a: training losses by the number of neurons, 1, 2 and so on; [true networks, sizes] each."""

    firefly: Floats  # grown by Firefly
    splitting: Floats  # grown by splitting alone
    random: Floats  # grown by random search among the same candidates


def judge_f1(figures: F1Figures) -> Claim:
    """F1: loss at 10 neurons <= 0.1 x splitting's, below random's."""
    sizes = figures.firefly.shape[1]
    place = min(COMPARED_AT, sizes) - 1
    ours, splitting, random = (curve[:, place] for curve in (figures.firefly, figures.splitting, figures.random))
    ratio = float(ours.mean() / splitting.mean())
    # 1 - ratio, and its interval; a loss that is NaN has none.
    reduced = Estimate(ratio) if math.isnan(ratio) else reduction_over_seeds(splitting, ours)
    low, high = (f"{1 - end:.2g}" if end is not None else "?" for end in (reduced.high, reduced.low))
    gain = seed_interval(random - ours)
    whole = {
        name: f"{_mean_over_sizes(curve).mean():.2g}"
        for name, curve in (("ours", figures.firefly), ("random", figures.random), ("splitting", figures.splitting))
    }
    return figures.answer(
        "F1: New neurons escape where splitting alone is stuck, and gradients choose better than chance.",
        paper="loss to zero with new neurons, stuck without (Figure 3a, no figures in the text)",
        ours=f"loss at {place + 1} neurons {ours.mean():.2g} against {splitting.mean():.2g} by splitting (ratio "
        f"{ratio:.2g}) and {random.mean():.2g} by random search with the same candidates",
        spread=f"ratio {low} to {high}; random search minus Firefly {gain.interval_text(significant)}, "
        f"Firefly lower in {(ours < random).mean():.0%} of the networks (95 % intervals over true networks)",
        seeds=len(ours),
        parts={
            f"at most {NEEDED_RATIO:g} of splitting's loss": at_most(ratio, NEEDED_RATIO),
            "below random search's": below(float(ours.mean()), float(random.mean())),
        },
        rules={f"losses at {COMPARED_AT} neurons are asked, and networks have {sizes}": sizes >= COMPARED_AT},
        note=f"Mean loss from 2 to {place + 1} neurons: Firefly {whole['ours']}, random search {whole['random']}, "
        f"splitting {whole['splitting']}. {figures.setting}",
    )


def _mean_over_sizes(curve: Floats) -> Floats:
    """The mean loss of each true network over the grown networks, from two neurons on; [true networks]."""
    mean: Floats = curve[:, 1:COMPARED_AT].mean(axis=1)
    return mean


@dataclass(frozen=True, kw_only=True)
class F2Figures(Figures):
    """Figure 3b: training losses by the number of new candidates: 0, 1, 5 and more; [true networks, sizes] each."""

    curves: Mapping[int, Floats]


def judge_f2(figures: F2Figures) -> Claim:
    """F2: trend: one new candidate lowers the mean loss over the sizes, and from five on more hardly change it."""
    at = {new: _mean_over_sizes(curve) for new, curve in figures.curves.items()}
    means = {new: float(losses.mean()) for new, losses in at.items()}
    further = means[SATURATED_AT] - min(means[new] for new in means if new > SATURATED_AT)
    place = min(COMPARED_AT, next(iter(figures.curves.values())).shape[1])
    last = ", ".join(f"{curve[:, place - 1].mean():.2g} with {new}" for new, curve in figures.curves.items())
    return figures.answer(
        "F2: A single new candidate helps already, and the gain is saturated near five.",
        paper="improves with one, saturated at m' = 5 (Figure 3b)",
        ours=f"mean loss from 2 to {place} neurons: "
        + ", ".join(f"{mean:.2g} with {new}" for new, mean in means.items()),
        spread=f"gain of the first {seed_interval(at[0] - at[1]).text(significant)} (95 % interval over true networks)",
        seeds=len(at[0]),
        parts={
            "one candidate helps": below(means[1], means[0]),
            "five are no worse than one": at_most(means[SATURATED_AT], means[1]),
            "saturated at five": below(further, STILL_WON * (means[0] - means[SATURATED_AT])),
        },
        note=f"Judged by the curves' means, because at {place} neurons all but the first are at the floor that their "
        f"training reaches, and one candidate is enough: {last}. That was decided after those figures were seen. "
        f"{figures.setting}",
    )


@dataclass(frozen=True, kw_only=True)
class WidthFigures(Figures):
    """Figures 4 and 6."""

    # How far Firefly's accuracy is above another method's at each size that it grew to, at equal parameters.
    gaps: Mapping[str, Floats]  # [seeds, growths]
    flops_gaps: Mapping[str, Floats] | None  # the same at equal multiply-adds; none where they were not recorded
    seconds: Floats  # of Firefly's growth steps; [seeds, growths]
    splitting_seconds: Floats  # of steepest splitting's


def judge_f3(figures: WidthFigures) -> Claim:
    """F3: above Net2Net and random at every size, in parameters and in multiply-adds; step <= 1/3."""
    return _judge_width("F3", WIDER, "above all baselines; full accuracy at 4 % of the size", figures)


def judge_f4(figures: WidthFigures) -> Claim:
    """F4: the same on a MobileNet."""
    return _judge_width("F4", f"{WIDER} On a MobileNet.", "above all baselines", figures)


def _judge_width(id: str, claim: str, paper: str, figures: WidthFigures) -> Claim:
    share = float(figures.seconds.mean() / figures.splitting_seconds.mean())
    parts: dict[str, bool | None] = {}
    for unit, gaps in (("parameters", figures.gaps), ("multiply-adds", figures.flops_gaps)):
        for name in MUST_BEAT:
            least = float("nan") if gaps is None else _least(gaps[name])
            parts[f"above {name} at every size in {unit}"] = above(least, 0.0)
    parts["a step within a third of splitting's time"] = at_most(share, LARGEST_SHARE)
    listed = "; ".join(
        f"{name} {100 * gap.mean():+.1f} (least {100 * _least(gap):+.1f})" for name, gap in figures.gaps.items()
    )
    spreads = "; ".join(
        f"{name} {seed_interval(100 * gap.mean(axis=1)).interval_text()}" for name, gap in figures.gaps.items()
    )
    return figures.answer(
        f"{id}: {claim}",
        paper=paper,
        ours=f"mean gap in points at equal parameters: {listed}; a step takes {share:.2f} of splitting's time",
        spread=f"95 % intervals over seeds of the mean gap: {spreads}",
        seeds=len(figures.seconds),
        parts=parts,
    )


def _least(gaps: Floats) -> float:
    """The least gap at any size, each a mean over seeds."""
    return float(gaps.mean(axis=0).min())


@dataclass(frozen=True)
class Trained:
    """What a method ends with; [seeds] each."""

    test: Floats  # the accuracy on test images
    params: Floats  # the parameters

    def text(self) -> str:
        """Both, means over seeds."""
        return f"{self.test.mean():.2%} at {count(float(self.params.mean()))}"


@dataclass(frozen=True, kw_only=True)
class F5Figures(Figures):
    """Table 3: by the data set Firefly's networks, and those of AutoGrow and NASH by their names."""

    firefly: Mapping[str, Trained]
    others: Mapping[str, Mapping[str, Trained]]


def judge_f5(figures: F5Figures) -> Claim:
    """F5: not worse, fewer parameters, on each data set than AutoGrow and than NASH."""
    words, spreads, parts = [], [], {}
    for data, ours in figures.firefly.items():
        words.append(f"{data}: Firefly {ours.text()}")
        for name, theirs in figures.others[data].items():
            gap = seed_interval(100 * (ours.test - theirs.test))
            words.append(f"{name} {theirs.text()}")
            spreads.append(f"{data}, minus {name} {gap.text()} points")
            parts[f"not worse than {name} on {data}"] = not_negative(gap)
            parts[f"smaller than {name} on {data}"] = below(float(ours.params.mean()), float(theirs.params.mean()))
    return figures.answer(
        "F5: Deeper by Firefly: smaller than AutoGrow and NASH at equal accuracy.",
        paper="99.59 % at 1.9 M against 99.57 % at 2.3 M and 99.50 % at 2.0 M on MNIST (Table 3)",
        ours="; ".join(words),
        spread="; ".join(spreads),
        seeds=min(len(ours.test) for ours in figures.firefly.values()),
        parts=parts,
    )


@dataclass(frozen=True, kw_only=True)
class F6Figures(Figures):
    """Table 1: test errors of the cells found, trained anew at equal size; [seeds] each."""

    firefly: Floats
    darts: Floats
    random: Floats


def judge_f6(figures: F6Figures) -> Claim:
    """F6: not worse than DARTS at equal budget."""
    ours, theirs = figures.firefly, figures.darts
    gain = seed_interval(100 * (theirs - ours))
    return figures.answer(
        "F6: Cells found by growth are competitive.",
        paper="error 2.78 % against DARTS's 3.00 % (first order)",
        ours=f"error {ours.mean():.1%} against {theirs.mean():.1%} by DARTS",
        spread=f"lower by {gain.text()} points (95 % interval over seeds); than that of random cells by "
        f"{100 * (figures.random - ours).mean():+.2f} points",
        seeds=len(ours),
        parts={"not worse than DARTS": not_negative(gain)},
    )


@dataclass(frozen=True, kw_only=True)
class F7Figures(Figures):
    """Table 2: after 20 tasks."""

    firefly: Mapping[str, Trained]  # by how much each task may grow
    cpg: Trained
    individual: Trained

    @property
    def judged(self) -> str:
        """The largest of Firefly's networks that are no larger than CPG's; the smallest, if all are larger.

        Sizes alone decide: a growth that may add more is more accurate, and would be compared with less.
        """
        sizes = {label: float(found.params.mean()) for label, found in self.firefly.items()}
        fitting = {label: size for label, size in sizes.items() if size <= self.cpg.params.mean()}
        return max(fitting, key=fitting.__getitem__) if fitting else min(sizes, key=sizes.__getitem__)


def judge_f7(figures: F7Figures) -> Claim:
    """F7: both: no larger than CPG, and more accurate beyond chance."""
    ours, theirs = figures.firefly[figures.judged], figures.cpg
    gap = seed_interval(100 * (ours.test - theirs.test))
    share = float(ours.params.mean() / theirs.params.mean())
    others = "; ".join(f"{label} {found.text()}" for label, found in figures.firefly.items())
    return figures.answer(
        "F7: Continual: Firefly's network is smaller and more accurate than CPG's.",
        paper="91.03 % at 26 M against 90.58 % at 28 M (Table 2)",
        ours=f"Firefly {ours.text()}, CPG {theirs.text()}, each task alone {figures.individual.text()}",
        spread=f"Firefly minus CPG {gap.text()} points; parameters {share:.2f} of CPG's",
        seeds=len(ours.test),
        parts={"surely more accurate": surely_positive(gap), "no larger": at_most(share, 1.0)},
        note=f"{figures.setting} Judged is the largest that is no larger than CPG's. All of them: {others}.",
    )
