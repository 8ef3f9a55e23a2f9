"""Which operations a ranking over-rates: the places that it gives to children with an operation, against the true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ramet.errors import ConfigError
from ramet.ranking.intervals import percentiles, resamples
from ramet.ranking.metrics import Floats, check_scores, ranks
from ramet.reports import Estimate


@dataclass(frozen=True)
class OperationBias:
    """How children with an operation are placed, 0 for the last and 1 for the first.

    Attributes:
        operation: its name.
        count: how often the children have it, all decisions together.
        scored: the mean place by the scores.
        true: the mean true place.
        bias: the difference, with its interval over children; above 0 the scores over-rate the operation.
    """

    operation: str
    count: int
    scored: float
    true: float
    bias: Estimate


def operation_bias(
    counts: ArrayLike,
    names: Sequence[str],
    scores: ArrayLike,
    truth: ArrayLike,
    *,
    generator: np.random.Generator,
    num_resamples: int = 1000,
) -> list[OperationBias]:
    """What a ranking thinks of each operation, beside the truth; the most over-rated first.

    A child counts as often as it has the operation. The mean over all operations, weighted by how often they occur, is
    0: what one gains the others lose.

    Args:
        counts: how often each child has each operation, [children, operations].
        names: of the operations.
        scores: [children], or [rankings, children] for the mean of several.
        truth: [children].
        generator: of the resamples.
        num_resamples: how many.

    Raises:
        ConfigError: the shapes do not fit.

    >>> found = operation_bias(
    ...     [[1, 0], [1, 0], [0, 1], [0, 1]], ["conv", "skip"], [1, 2, 3, 4], [4, 3, 2, 1],
    ...     generator=np.random.default_rng(0),
    ... )
    >>> [(entry.operation, round(entry.bias.value, 2)) for entry in found]
    [('skip', 0.67), ('conv', -0.67)]
    """
    true, values = check_scores(truth, ndim=1), check_scores(np.atleast_2d(np.asarray(scores, float)), ndim=2)
    table = np.asarray(counts, dtype=float)
    if table.shape != (len(true), len(names)) or values.shape[1] != len(true):
        raise ConfigError(
            f"counts must be of shape {(len(true), len(names))} and scores of {len(true)} children, "
            f"but are of {table.shape} and {values.shape[1]}."
        )
    scored, real = _places(values).mean(axis=0), _places(true)
    columns = np.concatenate([table * (scored - real)[:, None], table], axis=1)  # [children, 2 * operations]
    sums = [
        np.stack([weights @ column for column in columns.T], axis=1)  # one by one: a product of all has other bits
        for weights in resamples(len(true), num_resamples, generator)
    ]
    differences, totals = np.split(np.concatenate(sums), 2, axis=1)  # [resamples, operations] each
    found = []
    for place, (name, column) in enumerate(zip(names, table.T, strict=True)):
        if column.sum() == 0:
            continue
        with np.errstate(invalid="ignore", divide="ignore"):  # a resample may have no child with the operation
            drawn: Floats = differences[:, place] / totals[:, place]
        mean_scored, mean_true = (float(column @ places / column.sum()) for places in (scored, real))
        bias = percentiles(mean_scored - mean_true, drawn, 0.95)
        found.append(OperationBias(name, int(column.sum()), mean_scored, mean_true, bias))
    return sorted(found, key=lambda entry: -(entry.bias.value or 0.0))


def _places(values: Floats) -> Floats:
    """Ranks as shares of the way up: 1 for the best, 0 for the last."""
    places: Floats = 1 - (ranks(values) - 1) / (values.shape[-1] - 1)
    return places


def count_options(
    archs: Sequence[Sequence[int]], option_names: Sequence[tuple[str, Sequence[str]]]
) -> tuple[Floats, list[str]]:
    """How often each architecture has each operation, [architectures, operations], and what the operations are called.

    Decisions with the same options are one kind: an edge's operation is the same operation on every edge. Where there
    are several kinds, an option is called after its decision, too.

    >>> count_options([(0, 0), (0, 1)], [("a", ("conv", "skip")), ("b", ("conv", "skip"))])[0].tolist()
    [[2.0, 0.0], [1.0, 1.0]]
    """
    kinds: dict[tuple[str, ...], str] = {}
    for name, options in option_names:
        kinds.setdefault(tuple(options), name)
    several = len(kinds) > 1
    columns = {(kind, option): f"{kinds[kind]}: {option}" if several else option for kind in kinds for option in kind}
    place = {key: number for number, key in enumerate(columns)}
    counts = np.zeros((len(archs), len(columns)))
    for row, arch in enumerate(archs):
        for choice, (_, options) in zip(arch, option_names, strict=True):
            counts[row, place[tuple(options), options[choice]]] += 1
    return counts, list(columns.values())
