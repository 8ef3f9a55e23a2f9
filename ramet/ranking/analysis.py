"""From scores to figures: everything a diagnosis says, computed from arrays alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ramet.ranking.bias import operation_bias
from ramet.ranking.intervals import correlation_gain_interval, correlation_interval, resampled_interval
from ramet.ranking.longer import gap_to_alone, longer_training
from ramet.ranking.metrics import (
    Floats,
    kept_best,
    rank_correlations,
    ranks,
    regret,
    stability,
    top_correlation,
    top_n_rank,
    top_precision,
)
from ramet.ranking.predictor import smoothed
from ramet.ranking.reliability import truth_figures
from ramet.ranking.verdict import TRIVIAL
from ramet.runs.encoding import Json
from ramet.seeding import numpy_generator
from ramet.sharing import mean_change

MOST_DISTURBED = 512
"""Children of whom each one's effect on each is told."""


@dataclass(frozen=True, kw_only=True)
class Scores:
    """All that was measured of the children of a space.

    Args:
        epochs: after each of the last epochs, shape [instances, epochs, children].
        steps: after each of the last mini-batches, shape [instances, steps, children].
        trained: the child trained in each of these mini-batches, as a place in ``names``, or -1; [instances, steps].
        reestimated: with batch-norm statistics re-estimated for each child, shape [instances, children].
        params: the number of parameters of each child, shape [children]; ``flops`` its multiply-adds.
        truth: shape [seeds, children], or none.
        fine_tuned: after each of ``fine_tune_after`` mini-batches, shape [instances, points, children], or none.
        by_loss: validation losses, negative, shape [instances, children], or none.
        by_average: with an average of the supernet's weights, shape [instances, children], or none.
        early: after the ``early_after`` epochs, before the last ones, shape [instances, points, children], or none.
        num_epochs: how many epochs a supernet had; none where it was not trained here.
        truth_deviation: of one seed of the truth, [children], where its seeds are not known; ``truth_seeds`` of how
            many the truth is the mean.
        truth_is_alike: whether the truth is in the unit of the scores, so that they can be subtracted.
        options: how often each child has each operation, [children, operations], named by ``option_names``; or none.
        features: of each child's choices, [children, columns], by which scores are smoothed; or none.
    """

    names: list[str]
    epochs: Floats
    steps: Floats
    trained: np.ndarray[Any, np.dtype[np.intp]]
    reestimated: Floats
    params: Floats
    flops: Floats
    truth: Floats | None = None
    fine_tuned: Floats | None = None
    fine_tune_after: list[int] = field(default_factory=list)
    by_loss: Floats | None = None
    by_average: Floats | None = None
    early: Floats | None = None
    early_after: list[int] = field(default_factory=list)
    num_epochs: int | None = None
    truth_deviation: Floats | None = None
    truth_seeds: int = 1
    truth_is_alike: bool = True
    options: Floats | None = None
    option_names: list[str] = field(default_factory=list)
    features: Floats | None = None


def analyse(scores: Scores, *, seed: int = 0) -> Json:
    """Every figure of the diagnosis, with intervals, as JSON values.

    A ranking's *last* scores are those after the last mini-batch, its *averaged* ones the mean over the last
    mini-batches.
    """
    result: Json = {
        "children": scores.names,
        "instances": int(scores.steps.shape[0]),
        "stability": _stabilities(scores),
        "accuracy": _accuracies(scores),
        "trained_is_best": _trained_ranks(scores),
        "ranks": _rank_distributions(scores),
        "disturbance": _disturbance(scores),
    }
    if scores.truth is not None:
        result["truth"] = truth_figures(
            scores.truth,
            scores.truth_deviation,
            scores.truth_seeds,
            features=scores.features,
            generator=numpy_generator(seed, "bootstrap truth"),
        )
        result["smallest_first"] = {
            "parameters": smallest_first(scores.params, scores.truth),
            "flops": smallest_first(scores.flops, scores.truth),
        }
        named = rankings(scores)
        result["correlation"] = correlations_of(named, scores.truth.mean(axis=0), seed)
        result["over_time"] = _over_time(scores, seed)
        result |= choices_of(named, scores.truth)
        result["pruning_interval"] = asdict(
            resampled_interval(
                kept_best,
                named["averaged"],
                scores.truth.mean(axis=0),
                generator=numpy_generator(seed, "bootstrap pruning"),
            )
        )
        result["bias"] = _bias(scores, seed)
        result["longer"] = _longer(scores, seed)
        result["gap"] = _gap(scores, seed)
    return result


def rankings(scores: Scores) -> dict[str, Floats]:
    """The rankings that a user could go by, each of shape [rankings, children], by a name that says what was done.

    The trivial ones, by size, are turned so that they agree with the truth: where small children are better, a user who
    knows that much ranks the smallest first, and a supernet has to beat that.
    """
    mean = scores.steps.mean(axis=1)  # [instances, children]
    named = {
        "last": scores.steps[:, -1],
        "averaged": mean,
        "reestimated": scores.reestimated,
        "averaged over instances": mean.mean(axis=0, keepdims=True),
    }
    if scores.features is not None:  # the noise of one instance is not that of another
        named["smoothed"] = smoothed(scores.features, mean.mean(axis=0, keepdims=True))
        named["reestimated, smoothed"] = smoothed(scores.features, scores.reestimated.mean(axis=0, keepdims=True))
    if scores.by_loss is not None:
        named["loss"] = scores.by_loss
    if scores.by_average is not None:
        named["averaged weights"] = scores.by_average
    if scores.epochs.shape[1] > 1:
        named["averaged over epochs"] = scores.epochs.mean(axis=1)
    if scores.fine_tuned is not None:
        named["fine-tuned"] = scores.fine_tuned[:, -1]
    for name, sizes in (("parameters", scores.params), ("flops", scores.flops)):
        named[name] = sizes[None] * (-1 if smallest_first(sizes, scores.truth) else 1)
    return named


def smallest_first(sizes: Floats, truth: Floats | None) -> bool:
    """Whether the small children are the better ones."""
    if truth is None:
        return False
    return bool(rank_correlations(sizes[None], truth.mean(axis=0)[None])[0, 0] < 0)


def _stabilities(scores: Scores) -> Json:
    def row(values: Floats) -> Json | None:
        return stability(values)._asdict() if len(values) > 1 else None

    epochs = [stability(instance).mean for instance in scores.epochs] if scores.epochs.shape[1] > 1 else []
    steps = [stability(instance).mean for instance in scores.steps] if scores.steps.shape[1] > 1 else []
    return {
        "instances": row(scores.steps[:, -1]),
        "instances_averaged": row(scores.steps.mean(axis=1)),
        "instances_reestimated": row(scores.reestimated),
        "epochs": float(np.median(epochs)) if epochs else None,
        "steps": float(np.median(steps)) if steps else None,
        "truth": row(scores.truth) if scores.truth is not None else None,
    }


def _accuracies(scores: Scores) -> Json:
    mean = scores.steps.mean(axis=(0, 1))
    return {
        "mean": float(mean.mean()),
        "spread_of_children": float(mean.std()),
        "spread_over_steps": float(scores.steps.std(axis=1).mean()),
        "spread_over_instances": float(scores.steps[:, -1].std(axis=0).mean()),
        "last": scores.steps[:, -1].tolist(),
        "averaged": scores.steps.mean(axis=1).tolist(),
        "reestimated": scores.reestimated.tolist(),
    }


def _trained_ranks(scores: Scores) -> Json:
    """The rank of the child that has just been trained: *Deeper insights*, Figure 5."""
    instance, step = np.nonzero(scores.trained >= 0)
    if len(instance) == 0:
        return {"steps": 0}
    own = ranks(scores.steps)[instance, step, scores.trained[instance, step]]
    num_children = scores.steps.shape[-1]
    return {
        "steps": len(own),
        "median_rank": float(np.median(own)),
        "share_in_best_quarter": float((own <= max(1, num_children / 4)).mean()),
        "share_best": float((own <= 1.5).mean()),
    }


def _rank_distributions(scores: Scores) -> Json:
    """The distribution of each child's rank over instances and over the last epochs: *Deeper insights*, Figure 3."""
    over_instances = ranks(scores.steps[:, -1])  # [instances, children]
    over_epochs = ranks(scores.epochs[0])  # [epochs, children]
    return {"over_instances": over_instances.T.tolist(), "over_epochs": over_epochs.T.tolist()}


def _disturbance(scores: Scores) -> Json | None:
    """Who disturbs whom: the mean change of a child's score in a step that trains another; rows are the trained.

    Of more than ``MOST_DISTURBED`` children, only the means: a matrix of them is larger than all that was measured.
    """
    _, num_steps, num_children = scores.steps.shape
    if num_steps < 2 or (scores.trained < 0).any():
        return None
    change = np.concatenate(np.diff(scores.steps, axis=1))  # [instances * (steps - 1), children]
    trained = np.concatenate(scores.trained[:, 1:])
    matrix = None
    if num_children <= MOST_DISTURBED:
        found = mean_change(change, trained, num_children)
        matrix = [[None if np.isnan(value) else float(value) for value in row] for row in found]
    own = change[np.arange(len(change)), trained]
    others = (change.sum() - own.sum()) / (change.size - own.size)
    return {
        "matrix": matrix,
        "own": float(own.mean()),
        "others": float(others),
    }


def correlations_of(named: Mapping[str, Floats], truth: Floats, seed: int) -> Json:
    """GT-Tau of every ranking, with its interval, and its gain over the last scores and over the trivial ones.

    Args:
        named: rankings by name, [rankings, children] each.
        truth: [children].
        seed: of the resamples.
    """
    table = {}
    for name, values in named.items():
        generator = numpy_generator(seed, "bootstrap", name)
        entry = {"tau": asdict(correlation_interval(values, truth, generator=generator))}
        entry["per_ranking"] = rank_correlations(values, truth[None])[:, 0].tolist()
        others = ["last"] * (name != "last") + ([] if name in TRIVIAL else list(TRIVIAL))
        for other in others:
            if other in named:
                gain = correlation_gain_interval(values, named[other], truth, generator=generator)
                entry[f"gain_over_{other}"] = asdict(gain)
        table[name] = entry
    return table


def choices_of(named: Mapping[str, Floats], truth: Floats) -> Json:
    """What choosing by each ranking gives: its first picks, what pruning keeps, and the measures of the top.

    Args:
        named: rankings by name, [rankings, children] each.
        truth: [seeds, children].
    """
    mean = truth.mean(axis=0)
    return {
        "top": {name: _top(values, mean) for name, values in named.items()},
        "pruning": {
            name: float(np.mean([kept_best(ranking, mean) for ranking in values])) for name, values in named.items()
        },
        "top_weighted": {name: top_weighted(values, truth) for name, values in named.items()},
    }


def _top(values: Floats, truth: Floats) -> Json:
    """The true rank of the best of the first 1, 3 and 5, the mean over rankings; of the first, the extremes, too."""
    first = [top_n_rank(ranking, truth, 1) for ranking in values]
    return {
        f"top_{n}": float(np.mean([top_n_rank(ranking, truth, n) for ranking in values]))
        for n in (1, 3, 5)
        if n <= len(truth)
    } | {"top_1_best": float(min(first)), "top_1_worst": float(max(first))}


def top_weighted(values: Floats, truth: Floats) -> Json:
    """What a ranking is worth where one chooses, the mean over several, [rankings, children]; truth [seeds, children].

    The tau among the truly best half, the precision at a tenth of the children, and the regret of the first.
    """
    true = truth.mean(axis=0)
    tenth = max(1, round(len(true) / 10))
    return {
        "top_half": float(np.mean([top_correlation(row, true) for row in values])),
        "precision_at": tenth,
        "precision": float(np.mean([top_precision(row, true, tenth) for row in values])),
        "regret": float(np.mean([regret(row, true) for row in values])),
    }


def _bias(scores: Scores, seed: int) -> list[Json]:
    """What the supernets' averaged scores think of each operation, beside the truth."""
    if scores.options is None or scores.truth is None:
        return []
    found = operation_bias(
        scores.options,
        scores.option_names,
        scores.steps.mean(axis=1),
        scores.truth.mean(axis=0),
        generator=numpy_generator(seed, "bootstrap bias"),
    )
    return [asdict(entry) for entry in found]


def _longer(scores: Scores, seed: int) -> Json | None:
    """Where the correlation goes with more epochs."""
    if scores.truth is None or scores.num_epochs is None:
        return None
    last = range(scores.num_epochs - scores.epochs.shape[1] + 1, scores.num_epochs + 1)
    early = scores.epochs[:, :0] if scores.early is None else scores.early
    return longer_training(
        [*scores.early_after[: early.shape[1]], *last],
        np.concatenate([early, scores.epochs], axis=1),
        scores.truth.mean(axis=0),
        generator=numpy_generator(seed, "bootstrap longer"),
    )


def _gap(scores: Scores, seed: int) -> Json | None:
    """How far shared weights are below children alone."""
    if scores.truth is None or not scores.truth_is_alike:
        return None
    shared = scores.steps.mean(axis=(0, 1))
    return gap_to_alone(shared, scores.truth.mean(axis=0), generator=numpy_generator(seed, "bootstrap gap"))


def _over_time(scores: Scores, seed: int) -> Json:
    """GT-Tau after each of the last mini-batches and epochs; GT-Tau-Mean-k and -Std-k; the fine-tuning curve."""
    assert scores.truth is not None
    truth = scores.truth.mean(axis=0)[None]
    steps = np.stack([rank_correlations(instance, truth)[:, 0] for instance in scores.steps])
    epochs = np.stack([rank_correlations(instance, truth)[:, 0] for instance in scores.epochs])
    tuned = None
    if scores.fine_tuned is not None:
        tuned = np.stack([rank_correlations(curve, truth)[:, 0] for curve in scores.fine_tuned])  # [instances, points]
    return {
        "steps": steps.tolist(),
        "epochs": epochs.tolist(),
        "mean_over_steps": float(steps.mean()),
        "deviation_over_steps": float(steps.std(axis=1).mean()),
        "mean_over_epochs": float(epochs.mean()),
        "deviation_over_epochs": float(epochs.std(axis=1).mean()),
        "averaging_last": _averaging_curve(scores.steps, truth),
        "fine_tuned": None if tuned is None else tuned.mean(axis=0).tolist(),
        "fine_tuned_per_instance": None if tuned is None else tuned.tolist(),
        "fine_tuned_after": scores.fine_tune_after,
        "fine_tuned_gain": _fine_tuned_gain(scores, tuned, seed),
    }


def _fine_tuned_gain(scores: Scores, tuned: Floats | None, seed: int) -> Json | None:
    """What the best number of mini-batches gains over none, with its interval."""
    if scores.fine_tuned is None or tuned is None or np.isnan(tuned).any():
        return None
    assert scores.truth is not None
    best = int(tuned.mean(axis=0).argmax())
    generator = numpy_generator(seed, "bootstrap fine-tuning")
    values, before = scores.fine_tuned[:, best], scores.fine_tuned[:, 0]
    return asdict(correlation_gain_interval(values, before, scores.truth.mean(axis=0), generator=generator))


def _averaging_curve(steps: Floats, truth: Floats) -> Json:
    """GT-Tau of the mean of the last k evaluations, for k in powers of two."""
    counts = [2**power for power in range(12) if 2**power <= steps.shape[1]]
    if counts[-1] != steps.shape[1]:
        counts.append(steps.shape[1])
    taus = [float(rank_correlations(steps[:, -count:].mean(axis=1), truth).mean()) for count in counts]
    return {"evaluations": counts, "tau": taus}
