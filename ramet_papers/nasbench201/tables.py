"""What the table says of rankings and of architectures that were found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import spearmanr

from ramet.ranking.intervals import correlation_gain_interval, correlation_interval
from ramet.ranking.metrics import Floats
from ramet.ranking.training_free import combine_ranks
from ramet.reports import Column, Estimate, Table
from ramet.reports.formats import percent
from ramet.searching.strategies import STRATEGIES

if TYPE_CHECKING:
    from ramet_papers.nasbench201.judged import Measured


@dataclass(frozen=True)
class Judge:
    """The truth."""

    truth: Floats  # the accuracy in percent of every architecture of the space, shape [architectures]
    generator: np.random.Generator  # where resamples come from

    def top_share(self, index: int) -> float:
        """The share of architectures that are at least as good: 0.01 is the worst of the top 1 %."""
        return float((self.truth >= self.truth[index]).mean())

    def correlation(self, scores: Floats, indices: Sequence[int]) -> tuple[Estimate, float]:
        """Kendall's tau with its interval and Spearman's rho, means over rankings of shape [rankings, indices]."""
        truth, rows = self.truth[list(indices)], np.atleast_2d(scores)
        rho = float(np.mean([spearmanr(row, truth).statistic for row in rows]))
        return correlation_interval(rows, truth, generator=self.generator), rho


def rankings(measured: Measured) -> dict[str, tuple[Floats, float]]:
    """The scores of the ranked architectures, shape [rankings, ranked], and CPU seconds, by name."""
    places = {index: place for place, index in enumerate(measured.pool)}
    rows = [places[index] for index in measured.ranked]
    share = len(rows) / len(measured.pool)
    free = {name: scores[rows] for name, scores in measured.free.items()}
    cost = {name: share * seconds for name, seconds in measured.free_seconds.items()}
    result: dict[str, tuple[Floats, float]] = {
        name: (values[measured.ranked], 0.0) for name, values in measured.costs.items()
    }
    result |= {name: (free[name], cost[name]) for name in free}
    result["synflow + jacobian"] = (combine_ranks(free.values()), sum(cost.values()))
    for guard, runs in measured.supernets.items():
        scores = np.array([run["scores"][: len(rows)] for run in runs])  # [seeds, ranked]
        listed = len(rows) / len(runs[0]["scores"])
        seconds = float(np.mean([run["seconds"]["training"] + listed * run["seconds"]["scoring"] for run in runs]))
        result[f"supernet, {guard}"] = (scores, seconds)
        combined = np.array([combine_ranks([row, *free.values()]) for row in scores])
        result[f"supernet, {guard} + synflow + jacobian"] = (combined, seconds + sum(cost.values()))
    return result


def rankings_table(measured: Measured, judge: Judge) -> Table:
    """Each ranking's correlation with the truth, and by how much it beats the parameter count."""
    found = rankings(measured)
    truth, baseline = judge.truth[measured.ranked], found["parameters"][0]
    rows: list[list[Any]] = []
    for name, (scores, seconds) in found.items():
        tau, rho = judge.correlation(scores, measured.ranked)
        gain = correlation_gain_interval(scores, baseline, truth, generator=judge.generator)
        rows.append([name, tau, rho, None if name == "parameters" else gain, seconds])
    columns: list[Column | str] = ["ranking", "Kendall tau", "Spearman", "tau above parameters", "CPU seconds"]
    title = f"Rankings of {len(measured.ranked)} architectures against the accuracy after 200 epochs"
    return Table(columns, rows, title=title)


def finds(measured: Measured) -> dict[str, tuple[list[int], float]]:
    """The architectures found, one for each seed, and the CPU seconds of one search, by what found them."""
    pool = measured.pool
    seconds = measured.free_seconds
    result: dict[str, tuple[list[int], float]] = {
        f"most {name}": ([int(np.argmax(values))], 0.0) for name, values in measured.costs.items()
    }
    result |= {
        f"highest {name}": ([pool[int(np.argmax(scores))]], seconds[name]) for name, scores in measured.free.items()
    }
    both = sum(seconds.values())
    result["highest synflow + jacobian"] = ([measured.listed[0]], both)
    num_ranked = len(measured.ranked)
    for guard, runs in measured.supernets.items():
        for strategy in STRATEGIES:
            cost = np.mean([run["seconds"]["training"] + run["seconds"][strategy] for run in runs])
            result[f"{strategy} on a supernet, {guard}"] = ([run["found"][strategy] for run in runs], float(cost))
        places = {index: place for place, index in enumerate(pool)}
        rows = [places[index] for index in measured.listed]
        combined = [
            combine_ranks([run["scores"][num_ranked:], *(scores[rows] for scores in measured.free.values())])
            for run in runs
        ]
        share = len(rows) / len(runs[0]["scores"])
        cost = both + np.mean([run["seconds"]["training"] + share * run["seconds"]["scoring"] for run in runs])
        chosen = [measured.listed[int(np.argmax(scores))] for scores in combined]
        result[f"synflow + jacobian + supernet, {guard}"] = (chosen, float(cost))
    return result


def finds_table(measured: Measured, judge: Judge) -> Table:
    """How good the architectures really are that were found."""
    everything = judge.truth
    rows: list[list[Any]] = [["any architecture (mean)", float(everything.mean()), 0.5, None, len(everything), 0.0]]
    for name, (indices, seconds) in finds(measured).items():
        shares = [judge.top_share(index) for index in indices]
        accuracy = float(np.mean([everything[index] for index in indices]))
        in_top = sum(share <= 0.01 for share in shares)
        rows.append([name, accuracy, float(np.mean(shares)), in_top, len(indices), seconds])
    finals = measured.finals
    answer = max(finals, key=lambda index: finals[index])
    last = [f"best of {len(finals)} combined, trained alone", float(everything[answer]), judge.top_share(answer)]
    plain = next(iter(measured.supernets))
    cost = finds(measured)[f"synflow + jacobian + supernet, {plain}"][1] + measured.final_seconds
    rows.append([*last, int(judge.top_share(answer) <= 0.01), 1, cost])
    columns: list[Column | str] = [
        "found by",
        Column("true accuracy, %", best="highest"),
        Column("true top", percent, best="lowest"),
        "in the top 1 %",
        "searches",
        "CPU seconds",
    ]
    return Table(columns, rows, title=f"Architectures found; the best of the space has {everything.max():.2f} %")
