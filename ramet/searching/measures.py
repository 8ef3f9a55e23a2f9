"""How good a child is: errors, or another metric, and rewards, with the batch norms handled in a stated way."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.modules.batchnorm import _BatchNorm

from ramet.searching.plan import BatchNormMode
from ramet.spaces import Arch
from ramet.training import Metric, Recipe, evaluating, in_batches, reestimated_batch_norm
from ramet.training.outputs import classes_last
from ramet.training.registry import METRICS

PERPLEXITY_REWARD = 80.0
"""ENAS' reward for language models is this divided by the perplexity."""


@dataclass(frozen=True)
class Score:
    """What a child reaches on some samples: error and accuracy; for text the perplexity and 80 / perplexity.

    By another metric, ``error`` is its value, and ``reward`` the score: the value, or minus it where lower is better.
    """

    error: float
    reward: float

    @property
    def is_finite(self) -> bool:
        """Whether all outputs were."""
        return not math.isnan(self.error)


def other_metric(recipe: Recipe, targets: Tensor) -> Metric | None:
    """What a search measures by, where it is neither the error of classes nor the perplexity of words.

    Args:
        recipe: its metric, if it has one; numbers have the recipe's usual one.
        targets: [samples, ...].

    Raises:
        ConfigError: the recipe's metric is not for such targets.
    """
    metric = recipe.metric_for(targets)
    if targets.is_floating_point():
        return metric
    named = METRICS.parse(recipe.metric).name if isinstance(recipe.metric, str) else None
    is_usual = recipe.metric is None or (targets.ndim > 1 and named == "perplexity")
    return None if is_usual else metric


class Gathered:
    """What batches add to another metric: their sums, or all outputs where it has none."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self.sums: Tensor | None = None
        self.num_broken = torch.zeros(1, dtype=torch.float64)
        self._parts: list[Tensor] = []

    def add(self, outputs: Tensor, targets: Tensor, *, counts: bool = True) -> None:
        """Take in a batch; one that does not count, because another process has it, only tells the shape of sums."""
        self.num_broken += float((~torch.isfinite(outputs)).sum()) * counts
        if self.metric.sums is None:
            self._parts.append(outputs.cpu())
            return
        part = self.metric.sums(outputs, targets).cpu().double()
        part = part if counts else torch.zeros_like(part)
        self.sums = part if self.sums is None else self.sums + part

    def score(self, targets: Tensor) -> Score:
        """The score of all that was taken in; NaN if an output, or the metric itself, is not finite."""
        if bool(self.num_broken):
            return Score(math.nan, math.nan)
        value = self.metric.result(torch.cat(self._parts) if self.sums is None else self.sums, targets.cpu())
        return Score(value, self.metric.score(value)) if math.isfinite(value) else Score(math.nan, math.nan)


@contextmanager
def batch_statistics(network: nn.Module) -> Iterator[None]:
    """Evaluation without gradients in which batch norms normalise by the batch they see, and remember nothing of it."""
    with evaluating(network) as modules:
        norms = [module for module in modules if isinstance(module, _BatchNorm)]
        tracking = [norm.track_running_stats for norm in norms]
        for norm in norms:
            # Past what a module does with parameters that are assigned: a supernet has hundreds of norms. One that
            # tracks nothing neither reads nor writes its statistics, and has nothing to be put back.
            norm.__dict__.update(training=True, track_running_stats=False)
        try:
            yield
        finally:
            for norm, tracks in zip(norms, tracking, strict=True):
                norm.__dict__.update(training=False, track_running_stats=tracks)


def measuring(network: nn.Module, batch_norm: BatchNormMode) -> AbstractContextManager[object]:
    """The modes in which children are measured: by the ``batch`` norms' own statistics, or by those that they have."""
    return batch_statistics(network) if batch_norm == "batch" else evaluating(network)


def measure(
    network: nn.Module,
    arch: Arch,
    x: Tensor,
    y: Tensor,
    *,
    batch_norm: BatchNormMode = "running",
    calibration: Sequence[Tensor] = (),
    outputs: list[Tensor] | None = None,
    metric: Metric | None = None,
) -> Score:
    """The error and the reward of one child of a network, called as ``network(x, arch)``, on labels or words.

    With a ``metric``, its value and its score on targets of any kind.
    ``batch_norm`` says whose statistics are taken: ``batch`` each batch's own, ``running`` those that the last children
    left, ``reestimated`` those of the ``calibration`` batches of training inputs. The outputs that the score is taken
    from are appended to a list, if one is given.
    """
    if batch_norm == "reestimated":
        with reestimated_batch_norm(network, calibration, arch):
            return measure(network, arch, x, y, batch_norm="running", outputs=outputs, metric=metric)
    with measuring(network, batch_norm):
        return measure_as_it_is(network, arch, x, y, outputs=outputs, metric=metric)


def measure_as_it_is(
    network: nn.Module,
    arch: Arch,
    x: Tensor,
    y: Tensor,
    *,
    outputs: list[Tensor] | None = None,
    metric: Metric | None = None,
) -> Score:
    """``measure`` in the modes that the network has: setting them for each of many children would cost as much again.

    See ``measuring``. The outputs are appended to the given list, a batch at a time.
    """
    counted = _Counted(metric)
    for inputs, labels in in_batches(x, y):
        logits = network(inputs, arch)
        counted.add(logits, labels)
        if outputs is not None:
            outputs.append(logits.clone())
    return counted.score(y)


def measure_each(
    network: nn.Module,
    archs: Sequence[Arch],
    x: Tensor,
    y: Tensor,
    *,
    batch_norm: BatchNormMode = "batch",
    metric: Metric | None = None,
    outputs: list[Tensor] | None = None,
) -> list[Score]:
    """The score of each of many children on the same weights, as ``measure`` gives it, bit for bit.

    What the children have in common, such as the stem, is computed once, if the network has a ``forward_all``.
    ``batch_norm`` is ``batch`` or ``running``: statistics that are made anew are each child's own. A list gets the
    outputs of each.
    """
    counted = [_Counted(metric) for _ in archs]
    kept: list[list[Tensor]] = [[] for _ in archs]
    with measuring(network, batch_norm):
        for inputs, labels in in_batches(x, y):
            for place, logits in enumerate(_each(network, inputs, archs)):
                counted[place].add(logits, labels)
                if outputs is not None:
                    kept[place].append(logits.clone())
    if outputs is not None:
        outputs.extend(torch.cat(parts) for parts in kept)
    return [mine.score(y) for mine in counted]


def _each(network: nn.Module, inputs: Tensor, archs: Sequence[Arch]) -> Iterator[Tensor]:
    """The outputs of children, in order."""
    together: Callable[[Tensor, Sequence[Arch]], Iterator[Tensor]] | None = getattr(network, "forward_all", None)
    return together(inputs, archs) if together is not None else (network(inputs, arch) for arch in archs)


class _Counted:
    """What a child's batches add up to."""

    def __init__(self, metric: Metric | None) -> None:
        self._total = torch.zeros(3, dtype=torch.float64)
        self._gathered = None if metric is None else Gathered(metric)

    def add(self, logits: Tensor, labels: Tensor) -> None:
        """Take in a batch."""
        if self._gathered is None:
            self._total += tally(logits, labels)
        else:
            self._gathered.add(logits, labels)

    def score(self, targets: Tensor) -> Score:
        """The score of all that was taken in."""
        return score_of_tally(self._total, targets) if self._gathered is None else self._gathered.score(targets)


def tally(logits: Tensor, labels: Tensor) -> Tensor:
    """What some samples add to a score, [3]: wrong labels, outputs that are not finite, the summed loss of words."""
    if labels.ndim == 1:
        wrong, broken = (logits.argmax(dim=1) != labels).sum(), (~torch.isfinite(logits)).sum()
        return torch.tensor([float(wrong), float(broken), 0.0], dtype=torch.float64)
    words = classes_last(logits, labels).flatten(0, -2)
    loss = cross_entropy(words, labels.flatten(), reduction="sum")
    return torch.tensor([0.0, 0.0, float(loss)], dtype=torch.float64)


def score_of_tally(total: Tensor, y: Tensor) -> Score:
    """The score of all samples from the sum of their tallies."""
    wrong, broken, loss = total.tolist()
    if y.ndim > 1:
        return score_of_loss(loss / y.numel())
    error = math.nan if broken else wrong / y.numel()
    return Score(error, 1 - error)


def score_of_loss(loss: float) -> Score:
    """The score of a language model from its mean cross-entropy in nats.

    >>> round(score_of_loss(math.log(100.0)).error, 6), round(score_of_loss(math.log(100.0)).reward, 6)
    (100.0, 0.8)
    """
    perplexity = math.exp(loss) if loss < 700 else math.inf
    if not math.isfinite(perplexity):
        return Score(math.nan, math.nan)
    return Score(perplexity, PERPLEXITY_REWARD / perplexity)
