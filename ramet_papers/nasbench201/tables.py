"""What the table says of rankings and of architectures that were found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from ramet.ranking.intervals import correlation_gain_interval, correlation_interval
from ramet.ranking.metrics import Floats
from ramet.ranking.scores.aggregate import combine_ranks
from ramet.reports import Column, Estimate, Table
from ramet.reports.formats import percent
from ramet.runs.encoding import Json
from ramet.searching.strategies import STRATEGIES
from ramet_papers.experiment import Row, tabled


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


@dataclass(frozen=True)
class Measured:
    """All that was measured; nothing of it depends on the table."""

    ranked: list[int]  # indices of the architectures over which rankings are compared
    pool: list[int]  # indices of the architectures that have training-free scores; ``ranked`` are among them
    listed: list[int]  # the best of the pool by both training-free rankings, the best first
    costs: dict[str, Floats]  # ``parameters`` and ``flops`` of every architecture of the space
    free: dict[str, Floats]  # ``synflow`` and ``jacobian`` of the pool
    free_seconds: dict[str, float]  # CPU seconds of each training-free score of the whole pool
    # For each guard and seed what ``train_and_search`` gave; scores are of ``ranked``, then of ``listed``.
    supernets: dict[str, list[Json]]
    # Validation accuracy, trained alone, of the architectures of the highest combined ranking, by index.
    finals: dict[int, float]
    final_seconds: float  # CPU seconds of nothing but these trainings

    def free_of(self, indices: Sequence[int]) -> list[Floats]:
        """Each training-free score of some architectures of the pool."""
        places = {index: place for place, index in enumerate(self.pool)}
        rows = [places[index] for index in indices]
        return [scores[rows] for scores in self.free.values()]

    def combined(self, supernet: Floats) -> Floats:
        """The combined ranking of the listed architectures: supernet, synflow and Jacobian, each of the same weight."""
        return combine_ranks([supernet, *self.free_of(self.listed)])

    @property
    def answer(self) -> int:
        """The architecture that is best when trained alone, of those of the highest combined ranking."""
        return max(self.finals, key=lambda index: self.finals[index])


def seconds_of(runs: Sequence[Json], share: float) -> float:
    """CPU seconds of training a supernet and of a share of its scoring, a mean over seeds."""
    return float(np.mean([run["seconds"]["training"] + share * run["seconds"]["scoring"] for run in runs]))


def rankings(measured: Measured) -> dict[str, tuple[Floats, float]]:
    """The scores of the ranked architectures, shape [rankings, ranked], and CPU seconds, by name."""
    num = len(measured.ranked)
    free = measured.free_of(measured.ranked)
    cost = [num / len(measured.pool) * seconds for seconds in measured.free_seconds.values()]
    result: dict[str, tuple[Floats, float]] = {
        name: (values[measured.ranked], 0.0) for name, values in measured.costs.items()
    }
    result |= dict(zip(measured.free, zip(free, cost, strict=True), strict=True))
    result["synflow + jacobian"] = (combine_ranks(free), sum(cost))
    for guard, runs in measured.supernets.items():
        scores = np.array([run["scores"][:num] for run in runs])  # [seeds, ranked]
        seconds = seconds_of(runs, num / len(runs[0]["scores"]))
        result[f"supernet, {guard}"] = (scores, seconds)
        combined = np.array([combine_ranks([row, *free]) for row in scores])
        result[f"supernet, {guard} + synflow + jacobian"] = (combined, seconds + sum(cost))
    return result


def rankings_table(measured: Measured, judge: Judge) -> Table:
    """Each ranking's correlation with the truth, and by how much it beats the parameter count."""
    found = rankings(measured)
    truth, baseline = judge.truth[measured.ranked], found["parameters"][0]
    rows: list[Row] = []
    for name, (scores, seconds) in found.items():
        tau, rho = judge.correlation(scores, measured.ranked)
        gain = correlation_gain_interval(scores, baseline, truth, generator=judge.generator)
        rows.append(
            {
                "ranking": name,
                "Kendall tau": tau,
                "Spearman": rho,
                "tau above parameters": None if name == "parameters" else gain,
                "CPU seconds": seconds,
            }
        )
    return tabled(rows, f"Rankings of {len(measured.ranked)} architectures against the accuracy after 200 epochs")


def finds(measured: Measured) -> dict[str, tuple[list[int], float]]:
    """The architectures found, one for each seed, and the CPU seconds of one search, by what found them."""
    pool, listed, seconds = measured.pool, measured.listed, measured.free_seconds
    both = sum(seconds.values())
    result: dict[str, tuple[list[int], float]] = {
        f"most {name}": ([int(np.argmax(values))], 0.0) for name, values in measured.costs.items()
    }
    for name, scores in measured.free.items():
        result[f"highest {name}"] = ([pool[int(np.argmax(scores))]], seconds[name])
    result["highest synflow + jacobian"] = ([listed[0]], both)
    for guard, runs in measured.supernets.items():
        for strategy in STRATEGIES:
            cost = np.mean([run["seconds"]["training"] + run["seconds"][strategy] for run in runs])
            result[f"{strategy} on a supernet, {guard}"] = ([run["found"][strategy] for run in runs], float(cost))
        own = [np.asarray(run["scores"][len(measured.ranked) :]) for run in runs]
        chosen = [listed[int(np.argmax(measured.combined(scores)))] for scores in own]
        name = f"synflow + jacobian + supernet, {guard}"
        result[name] = (chosen, both + seconds_of(runs, len(listed) / len(runs[0]["scores"])))
    return result


def finds_table(measured: Measured, judge: Judge) -> Table:
    """How good the architectures really are that were found."""
    everything, found = judge.truth, finds(measured)
    rows: list[list[Any]] = [["any architecture (mean)", float(everything.mean()), 0.5, None, len(everything), 0.0]]
    plain = next(iter(measured.supernets))
    cost = found[f"synflow + jacobian + supernet, {plain}"][1] + measured.final_seconds
    found[f"best of {len(measured.finals)} combined, trained alone"] = ([measured.answer], cost)
    for name, (indices, seconds) in found.items():
        shares = [judge.top_share(index) for index in indices]
        accuracy = float(np.mean([everything[index] for index in indices]))
        in_top = sum(share <= 0.01 for share in shares)
        rows.append([name, accuracy, float(np.mean(shares)), in_top, len(indices), seconds])
    columns: list[Column | str] = ["found by", Column("true accuracy, %", best="highest")]
    columns += [Column("true top", percent, best="lowest"), "in the top 1 %", "searches", "CPU seconds"]
    return Table(columns, rows, title=f"Architectures found; the best of the space has {everything.max():.2f} %")
