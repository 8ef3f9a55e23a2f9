"""Which layer of one network stands for which of another, when they need not have the same depth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ramet.continual.networks.skeletons import Skeleton
from ramet.errors import ConfigError


def align(similarity: npt.ArrayLike, allowed: npt.ArrayLike | None = None) -> list[int | None]:
    """Match layers one to one and in order, so that the sum of their similarities is the largest.

    The paper needs a bijection between the layers of two networks. Here some may stay without a partner: the best
    matching that does not cross is found by dynamic programming over the layers of both.

    Args:
        similarity: shape [layers of the first, layers of the second]; pairs below 0 are never matched.
        allowed: which pairs may be matched, of the same shape; all if none.

    Returns:
        The partner of each layer of the first network, or None.

    >>> align([[0.9, 0.1, 0.0], [0.2, 0.1, 0.8]])
    [0, 2]
    """
    values = np.asarray(similarity, dtype=float)
    if values.ndim != 2:
        raise ConfigError(f"an alignment needs a matrix of layers x layers, but got shape {values.shape}.")
    values = np.where(np.ones_like(values, bool) if allowed is None else np.asarray(allowed, bool), values, -np.inf)
    rows, columns = values.shape
    best = np.zeros((rows + 1, columns + 1))  # best[i, j]: of the layers from i and from j on
    for i in range(rows - 1, -1, -1):
        for j in range(columns - 1, -1, -1):
            matched = values[i, j] + best[i + 1, j + 1] if values[i, j] >= 0 else -np.inf
            best[i, j] = max(matched, best[i + 1, j], best[i, j + 1])
    partners: list[int | None] = [None] * rows
    i = j = 0
    while i < rows and j < columns:
        # A match comes first: of equal sums the one that shares more is taken.
        if values[i, j] >= 0 and best[i, j] == values[i, j] + best[i + 1, j + 1]:
            partners[i] = j
            i, j = i + 1, j + 1
        elif best[i, j] == best[i + 1, j]:
            i += 1
        else:
            j += 1
    return partners


def compatible(first: Skeleton, second: Skeleton) -> npt.NDArray[np.bool_]:
    """Which layers of two skeletons could be one module: the same weights, on inputs of the same shape.

    Returns:
        shape [layers of the first, layers of the second].
    """
    ours, theirs = _signatures(first), _signatures(second)
    return np.array([[mine == other for other in theirs] for mine in ours], dtype=bool)


def _signatures(skeleton: Skeleton) -> Sequence[tuple[object, ...]]:
    signatures = []
    for place, layer in enumerate(skeleton.layers):
        is_first = place == 0 or skeleton.layers[place - 1].kind == "conv"
        shape = (layer.kind, layer.width, layer.kernel, layer.pool, is_first)
        signatures.append((*shape, skeleton.shape_before(place), skeleton.batch_norm))
    return signatures
