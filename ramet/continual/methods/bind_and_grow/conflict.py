"""The conflict model: how differently two tasks' networks see the same images, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ramet.continual.methods.bind_and_grow.similarity import (
    DissimilarityRanks,
    Measure,
    centred_gram,
    dissimilarity_matrix,
    gram_alignment,
)
from ramet.continual.networks.graph import LayerGraph, TaskPath, layer_features
from ramet.continual.networks.skeletons import Skeleton
from ramet.continual.networks.template import Template
from ramet.errors import ConfigError

UNRELATED = 1.0
"""The conflict of a layer with nothing: no correlation at all."""


@dataclass(frozen=True)
class Conflict:
    """The conflict of a new task with one that was learned.

    Attributes:
        task: the one that was learned.
        layers: C_tb(l) for each layer of the new task's network: 0 for the same representation, 1 for no
            relation, up to 2 for the opposite.
        partners: the layer of the learned task's network that each was compared with; None where there is none that
            could be shared.
    """

    task: str
    layers: tuple[float, ...]
    partners: tuple[int | None, ...]

    @property
    def total(self) -> float:
        """The task conflict, the Euclidean norm over layers."""
        return math.hypot(*self.layers)


def measure_conflicts(
    body: Sequence[nn.Module] | nn.Module,
    skeleton: Template,
    graph: LayerGraph,
    candidates: Sequence[str],
    x: Tensor,
    *,
    measure: Measure = "cka",
) -> list[Conflict]:
    """The conflict of a new task with each of the candidates, on images of the new task alone that validate.

    Both networks see the same images ``x``, [samples, channels, height, width]. C_tb(l) = 1 - rho, where rho is
    Spearman's correlation between the dissimilarity matrices of the two layers (``rsa``), or their linear CKA
    (``cka``). Nothing of a candidate's data is needed. ``body`` is what the graph compares of the network that was
    trained on the new task alone, in evaluation mode: the layers of a chain, or a module. Departs from the released
    code, which takes the similarity itself as the conflict, and so binds to the least similar task; this is the paper's
    text.
    """
    ours = graph.features_of(body, x, lambda features: Represented(features, measure))
    paths = [graph.path(task) for task in candidates]
    # Ways on which a candidate of other layers lies: any of our layers may be its partner there.
    unlike = {
        path.steps[: depth + 1] for path in paths if path.skeleton != skeleton for depth in range(len(path.steps))
    }
    # Layers that several candidates share are compared once, and what comparing takes is held for one of them at a
    # time: a matrix of samples x samples for each layer of each candidate would fill the memory long before weights do.
    scores: dict[tuple[int, Any], float] = {}
    for way, theirs in graph.features(x, candidates, lambda features: Represented(features, measure)):
        # Of networks of the same layers, each is compared with its counterpart alone.
        for place in range(len(ours)) if way in unlike else (len(way) - 1,):
            scores[place, way] = 1 - ours[place].similarity(theirs)
    found = []
    for task, path in zip(candidates, paths, strict=True):
        ways = [path.steps[: depth + 1] for depth in range(len(path.steps))]
        if path.skeleton == skeleton:
            partners: list[int | None] = list(range(len(ours)))
        else:
            similarity = np.array([[1 - scores[place, way] for way in ways] for place in range(len(ours))])
            assert isinstance(skeleton, Skeleton) and isinstance(path.skeleton, Skeleton)
            partners = align(similarity, compatible(skeleton, path.skeleton))
        values = [
            UNRELATED if partner is None else scores[place, ways[partner]] for place, partner in enumerate(partners)
        ]
        found.append(Conflict(task, tuple(values), tuple(partners)))
    return found


class Represented:
    """What comparing a layer needs to know of it: a matrix of samples x samples, whatever its width."""

    def __init__(self, features: Tensor, measure: Measure) -> None:
        if measure == "rsa":
            self._ranks: DissimilarityRanks | None = DissimilarityRanks(dissimilarity_matrix(features))
            self._gram = torch.empty(0)
        else:
            self._ranks, self._gram = None, centred_gram(features)

    def similarity(self, other: Represented) -> float:
        """1 for the same representation, 0 for no relation."""
        if self._ranks is not None and other._ranks is not None:
            return self._ranks.correlation(other._ranks)
        return gram_alignment(self._gram, other._gram)


def align(similarity: npt.ArrayLike, allowed: npt.ArrayLike | None = None) -> list[int | None]:
    """Match layers one to one and in order, so that the sum of their similarities is the largest.

    The paper needs a bijection between the layers of two networks. Here some may stay without a partner (None): the
    best matching that does not cross is found by dynamic programming over the layers of both. The matrix has a row for
    each layer of the first network and a column for each of the second. Pairs below 0, or not allowed, are never
    matched.

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
    """Which layers of two skeletons could be one module, of the same weights on inputs of the same shape: a matrix."""
    ours, theirs = _signatures(first), _signatures(second)
    return np.array([[mine == other for other in theirs] for mine in ours], dtype=bool)


def _signatures(skeleton: Skeleton) -> Sequence[tuple[object, ...]]:
    signatures = []
    for place, layer in enumerate(skeleton.layers):
        is_first = place == 0 or skeleton.layers[place - 1].kind == "conv"
        shape = (layer.kind, layer.width, layer.kernel, layer.pool, is_first)
        signatures.append((*shape, skeleton.shape_before(place), skeleton.batch_norm))
    return signatures


def groups_of(width: int, num_groups: int) -> list[list[int]]:
    """The channels of a layer in groups of nearly equal size; no more groups than channels.

    >>> groups_of(5, 2)
    [[0, 1, 2], [3, 4]]
    """
    return [part.tolist() for part in torch.arange(width).tensor_split(min(num_groups, width))]


def group_conflicts(
    layers: Sequence[nn.Module],
    x: Tensor,
    graph: LayerGraph,
    path: TaskPath,
    partners: Sequence[int | None],
    num_groups: int,
    measure: Measure,
) -> list[list[float]]:
    """How much each group of channels of a bound task's layers conflicts with the new task, for each layer.

    The channels of two networks that were trained apart do not correspond, so that a group of one cannot be compared
    with the same group of the other. A group is compared with the new task's whole layer instead: it conflicts little
    if it orders the images as that layer does. ``layers`` are those of the new task alone, ``partners`` the places of
    the bound task's for each, or None: a layer without a partner has no groups.
    """
    ours = [Represented(features, measure) for features in layer_features(layers, x)]
    theirs = [features for _, features in graph.features(x, [path.task])]
    found: list[list[float]] = []
    for mine, partner in zip(ours, partners, strict=True):
        if partner is None:
            found.append([])
            continue
        features = theirs[partner]
        parts = groups_of(features.shape[1], num_groups)
        found.append([1 - mine.similarity(Represented(features[:, part], measure)) for part in parts])
    return found
