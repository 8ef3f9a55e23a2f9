"""When the claims D1 to D9 hold: each verdict is a function of what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ramet.ranking.intervals import seed_interval
from ramet.ranking.metrics import Floats, Stability
from ramet.reports import Estimate
from ramet.reports.formats import decimals, percent
from ramet_papers.claims import Claim, Figures
from ramet_papers.verdicts import above, at_least, below, surely_positive

# The thresholds of the rules; each judge says its rule.
FAR = 0.15  # D2
UNSTABLE = 0.05  # D3
KEPT = 0.9  # D4
REPAIRED, WITHIN = 0.1, 10  # D5: of GT-Tau, and mini-batches
MOST_STEPS = 0.5  # D6
LEAST_SUPERNETS = 10  # D9: each with an interval over so many


@dataclass(frozen=True, kw_only=True)
class D1Figures(Figures):
    """Table 1: how alike two rankings are."""

    truth: Stability  # of children trained alone, two seeds of them
    shared: Mapping[str, Stability]  # of two supernets, by the experiment
    seeds: int  # supernets of an experiment


def judge_d1(figures: D1Figures) -> Claim:
    """D1: truth's S-Tau above every sharing experiment's."""
    means = [found.mean for found in figures.shared.values()]
    lowest, highest = min(s.lowest for s in figures.shared.values()), max(s.highest for s in figures.shared.values())
    return figures.answer(
        "D1: The truth is more stable than shared weights.",
        paper="S-Tau 0.71 against 0.39 to 0.54",
        ours=f"S-Tau {figures.truth.mean:.2f} against {min(means):.2f} to {max(means):.2f}",
        spread=f"pairs of instances from {lowest:.2f} to {highest:.2f}",
        seeds=figures.seeds,
        parts={name: above(figures.truth.mean, s.mean) for name, s in figures.shared.items()},
    )


@dataclass(frozen=True, kw_only=True)
class D2Figures(Figures):
    """Table 2: GT-Tau."""

    shared: Floats  # of each supernet of all experiments, with the mean of the truth's seeds
    others: Floats  # of each seed of the truth, with the mean of the other seeds; empty if there is one seed
    seeds: int  # supernets of an experiment


def judge_d2(figures: D2Figures) -> Claim:
    """D2: at least 0.15 below what a seed of the truth has with the **other** seeds."""
    own = float(figures.others.mean()) if len(figures.others) else float("nan")
    gap = own - float(figures.shared.mean())
    return figures.answer(
        "D2: The shared ranking is far from the truth.",
        paper="GT-Tau 0.46 to 0.51 against 0.80",
        ours=f"{figures.shared.mean():.2f} against {own:.2f} of a seed of the truth with the others: {gap:.2f} below",
        spread=f"95 % interval {seed_interval(figures.shared).interval_text()}",
        seeds=figures.seeds,
        parts={f"at least {FAR:g} below a seed of the truth": at_least(gap, FAR)},
    )


@dataclass(frozen=True, kw_only=True)
class D3Figures(Figures):
    """GT-Tau after each of the last epochs; [supernets, epochs]."""

    taus: Floats


def judge_d3(figures: D3Figures) -> Claim:
    """D3: standard deviation > 0.05."""
    taus, deviation = figures.taus, figures.taus.std(axis=1)
    return figures.answer(
        "D3: The ranking is unstable over the last epochs of one run.",
        paper="GT-Tau between 0.1 and 0.7, deviation 0.14",
        ours=f"deviation {deviation.mean():.3f}, from {taus.min():.2f} to {taus.max():.2f}",
        spread=f"deviations from {deviation.min():.3f} to {deviation.max():.3f}",
        seeds=len(deviation),
        parts={f"a deviation above {UNSTABLE:g}": above(float(deviation.mean()), UNSTABLE)},
        note=f"{figures.setting}Over the last {taus.shape[1]} epochs of each of {len(deviation)} supernets.",
    )


@dataclass(frozen=True, kw_only=True)
class D4Figures(Figures):
    """Figure 3: shares of the true best quarter that are kept when half is pruned."""

    kept: Mapping[str, float]  # by the mean over the last epochs, a mean over supernets, by the experiment
    seeds: int  # supernets of all experiments


def judge_d4(figures: D4Figures) -> Claim:
    """D4: pruning half keeps >= 90 % of the true best quarter."""
    mean = sum(figures.kept.values()) / len(figures.kept)
    return figures.answer(
        "D4: Bad children can be filtered out.",
        paper="Figure 3, no figure given",
        ours=f"pruning half by the mean over the last epochs keeps {mean:.0%} of the true best quarter",
        spread=", ".join(f"{value:.0%} ({name})" for name, value in figures.kept.items()),
        seeds=figures.seeds,
        parts={f"{KEPT:.0%} kept": at_least(mean, KEPT)},
    )


@dataclass(frozen=True, kw_only=True)
class D5Figures(Figures):
    """Figure 4: GT-Tau after fine-tuning each child alone; [supernets, points]."""

    points: tuple[int, ...]  # mini-batches of fine-tuning, the first 0
    full: Floats  # from the whole training
    half: Floats  # from half of it
    frozen: Floats | None  # with fixed weights while batch norm updates; none where that was not measured


def judge_d5(figures: D5Figures) -> Claim:
    """D5: GT-Tau rises by >= 0.1 within 10 mini-batches, and by more than with frozen weights whose norm updates."""
    within = [place for place, point in enumerate(figures.points) if 0 < point <= WITHIN]
    best = max(within, key=lambda place: figures.full[:, place].mean())
    rise = seed_interval(figures.full[:, best] - figures.full[:, 0])
    assert rise.value is not None
    control = float("nan")
    if figures.frozen is not None:
        rises = figures.frozen - figures.frozen[:, :1]
        control = max(float(rises[:, place].mean()) for place in within)
    from_half = (figures.half[:, best] - figures.half[:, 0]).mean()
    by_norm = "" if figures.frozen is None else f"; with frozen weights {control:+.2f}"
    return figures.answer(
        "D5: A few mini-batches of fine-tuning repair the ranking.",
        paper="0.5 to 0.8 in 5 to 10 mini-batches",
        ours=f"{figures.full[:, 0].mean():.2f} to {figures.full[:, best].mean():.2f} in {figures.points[best]}",
        spread=f"rise {rise.text()}; from half of the training {from_half:+.2f}{by_norm}",
        seeds=len(figures.full),
        parts={
            f"a rise of {REPAIRED:g} within {WITHIN} mini-batches": at_least(rise.value, REPAIRED),
            "a higher rise than by batch norm alone, the weights frozen": above(rise.value, control),
        },
    )


@dataclass(frozen=True, kw_only=True)
class D6Figures(Figures):
    """Figure 5: the child just trained."""

    shares: Mapping[str, Floats]  # of steps in which its rank is in the best quarter, by the order; [supernets] each
    median_ranks: Mapping[str, float]  # by the order of training
    children: int  # that are ranked
    seeds: int  # supernets of each order


def judge_d6(figures: D6Figures) -> Claim:
    """D6: its rank falls into the best quarter in most steps."""
    means = {order: float(found.mean()) for order, found in figures.shares.items()}
    shares = ", ".join(f"{share:.0%} of steps ({order})" for order, share in means.items())
    intervals = ", ".join(f"{seed_interval(found).text(percent)} ({order})" for order, found in figures.shares.items())
    medians = ", ".join(f"{rank:.0f} ({order})" for order, rank in figures.median_ranks.items())
    return figures.answer(
        "D6: Training a child makes it (nearly) the best.",
        paper="in most mini-batches (Figure 5)",
        ours=f"in the best quarter in {shares}",
        spread=f"{intervals}; median rank {medians} of {figures.children}",
        seeds=figures.seeds,
        parts={f"most steps ({order})": above(share, MOST_STEPS) for order, share in means.items()},
    )


@dataclass(frozen=True, kw_only=True)
class D7Figures(Figures):
    """Table 3a: GT-Tau, the mean over the last mini-batches; [supernets] each."""

    full: Floats  # all children share their weights
    random: Floats  # those of a random group do
    similar: Floats  # those of a group of similar ones do
    groups: int  # how many


def judge_d7(figures: D7Figures) -> Claim:
    """D7: both directions, intervals apart."""
    full, random, similar = (seed_interval(taus) for taus in (figures.full, figures.random, figures.similar))
    return figures.answer(
        "D7: Random groups backfire, similar groups help.",
        paper="0.17 random, 0.72 similar at 16 groups, 0.50 shared by all",
        ours=f"{random.value:.2f} random, {similar.value:.2f} similar at {figures.groups} groups, {full.value:.2f} "
        "shared by all",
        spread=f"random {random.interval_text()}, similar {similar.interval_text()}, all {full.interval_text()}",
        seeds=len(figures.full),
        parts={
            "random groups clearly worse than full sharing": _apart(random, full),
            "similar groups clearly better than full sharing": _apart(full, similar),
        },
    )


def _apart(lower: Estimate, higher: Estimate) -> bool | None:
    """Whether one interval lies below another; none without them."""
    if not (lower.has_interval and higher.has_interval):
        return None
    assert lower.high is not None and higher.low is not None
    return bool(lower.high < higher.low)


@dataclass(frozen=True, kw_only=True)
class D8Figures(Figures):
    """Table 4: GT-Tau by the number of shared cells, 0 and others, the mean over the last mini-batches; [supernets]."""

    long: Mapping[int, Floats]  # after the long training
    short: Mapping[int, Floats]  # after the short one


def judge_d8(figures: D8Figures) -> Claim:
    """D8: both directions: k = 0 is best when trained long, worst when short."""
    long, short = ({k: float(t.mean()) for k, t in taus.items()} for taus in (figures.long, figures.short))
    texts = {
        k: f"{seed_interval(figures.long[k]).text()} long, {seed_interval(figures.short[k]).text()} short" for k in long
    }
    return figures.answer(
        "D8: Prefix sharing with k = 0 is best when trained long and worst when trained short.",
        paper="0.70 long, 0.04 short",
        ours=f"k = 0: {texts[0]}; best long: k = {max(long, key=lambda k: long[k])}, worst short: k = "
        f"{min(short, key=lambda k: short[k])}",
        spread="; ".join(f"k = {k}: {text}" for k, text in texts.items()),
        seeds=len(figures.long[0]),
        parts={
            "best when trained long": above(long[0], max(tau for k, tau in long.items() if k)),
            "worst when trained short": below(short[0], min(tau for k, tau in short.items() if k)),
        },
    )


@dataclass(frozen=True, kw_only=True)
class D9aFigures(Figures):
    """Figure 8: the deviation of GT-Tau over the last mini-batches; [supernets] each, paired."""

    plain: Floats  # with the paper's momentum of batch norm
    lower: Floats  # with a lower one


def judge_d9a(figures: D9aFigures) -> Claim:
    """D9a: lower BN momentum steadier."""
    less, form = seed_interval(figures.plain - figures.lower), decimals(3)
    return figures.answer(
        "D9a: A lower batch-norm momentum makes the ranking steadier.",
        paper="Figure 8, no figure given",
        ours=f"deviation of GT-Tau {figures.plain.mean():.3f}, {figures.lower.mean():.3f} with a lower momentum",
        spread=f"steadier by {less.text(form)}",
        seeds=len(figures.plain),
        parts={"steadier by a lower momentum of batch norm": surely_positive(less)},
        rules=_enough(figures.plain),
    )


@dataclass(frozen=True, kw_only=True)
class D9bFigures(Figures):
    """Figure 9: the deviation of GT-Tau over the last mini-batches; [supernets] each, paired."""

    plain: Floats  # with SGD's momentum
    without: Floats  # without
    faster: Floats | None  # without, at ten times the learning rate; none where that was not measured


def judge_d9b(figures: D9bFigures) -> Claim:
    """D9b: no SGD momentum less stable, also at ten times the learning rate."""
    more, form = seed_interval(figures.without - figures.plain), decimals(3)
    faster = Estimate(None) if figures.faster is None else seed_interval(figures.faster - figures.plain)
    at_ten = "not measured" if figures.faster is None else faster.text(form)
    return figures.answer(
        "D9b: Without SGD momentum the ranking is less stable.",
        paper="GT-Tau between -0.1 and 0.5 without momentum (Figure 9)",
        ours=f"deviation of GT-Tau {figures.plain.mean():.3f}, {figures.without.mean():.3f} without momentum",
        spread=f"less stable by {more.text(form)}, at ten times the learning rate {at_ten}",
        seeds=len(figures.plain),
        parts={
            "less stable without SGD's momentum": surely_positive(more),
            "less stable without SGD's momentum at ten times the learning rate": surely_positive(faster),
        },
        rules=_enough(figures.plain),
    )


def _enough(supernets: Floats) -> dict[str, bool]:
    """The rule on how many supernets there must be."""
    count = len(supernets)
    return {f"at least {LEAST_SUPERNETS} supernets are asked, and there are {count}": count >= LEAST_SUPERNETS}
