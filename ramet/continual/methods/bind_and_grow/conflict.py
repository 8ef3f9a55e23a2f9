"""The conflict model: how differently two tasks' networks see the same images, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ramet.continual.methods.bind_and_grow.alignment import align, compatible
from ramet.continual.methods.bind_and_grow.similarity import (
    DissimilarityRanks,
    Measure,
    centred_gram,
    dissimilarity_matrix,
    gram_alignment,
)
from ramet.continual.networks.graph import LayerGraph, layer_features
from ramet.continual.networks.skeletons import Skeleton

UNRELATED = 1.0
"""The conflict of a layer with nothing: no correlation at all."""


@dataclass(frozen=True)
class Conflict:
    r"""The conflict of a new task with one that was learned.

    Attributes:
        task: the one that was learned.
        layers: :math:`C_{t,b}(l)` for each layer of the new task's network: 0 for the same representation, 1 for no
            relation, up to 2 for the opposite.
        partners: the layer of the learned task's network that each was compared with; None where there is none that
            could be shared.
    """

    task: str
    layers: tuple[float, ...]
    partners: tuple[int | None, ...]

    @property
    def total(self) -> float:
        r"""The task conflict :math:`\|C_{t,b}\|`, the Euclidean norm over layers."""
        return math.hypot(*self.layers)

    def to_json(self) -> dict[str, Any]:
        """JSON values, for records."""
        return {"task": self.task, "total": self.total, "layers": list(self.layers), "partners": list(self.partners)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Conflict:
        """The inverse of ``to_json``."""
        return cls(values["task"], tuple(values["layers"]), tuple(values["partners"]))


def measure_conflicts(
    layers: Sequence[nn.Module],
    skeleton: Skeleton,
    graph: LayerGraph,
    candidates: Sequence[str],
    x: Tensor,
    *,
    measure: Measure = "cka",
) -> list[Conflict]:
    r"""The conflict of a new task with each of the candidates, on images of the new task alone.

    Both networks see the same images. :math:`C_{t,b}(l) = 1 - \rho`, where :math:`\rho` is Spearman's correlation
    between the dissimilarity matrices of the two layers, or their linear CKA. Nothing of a candidate's data is needed.

    Departs from the released code, which takes the similarity itself as the conflict, and so binds to the least similar
    task; this is the paper's text.

    Args:
        layers: the network that was trained on the new task alone, without its head, in evaluation mode.
        skeleton: what these layers are.
        graph: the paths of the candidates.
        candidates: tasks of the graph.
        x: images of the new task that validate, shape [samples, channels, height, width].
        measure: ``rsa`` or ``cka``.

    Returns:
        One entry a candidate, in their order.
    """
    ours = [Represented(features, measure) for features in layer_features(layers, x)]
    paths = [graph.path(task) for task in candidates]
    # Ways on which a candidate of other layers lies: any of our layers may be its partner there.
    unlike = {
        path.steps[: depth + 1] for path in paths if path.skeleton != skeleton for depth in range(len(path.steps))
    }
    # Layers that several candidates share are compared once, and what comparing takes is held for one of them at a
    # time: a matrix of samples x samples for each layer of each candidate would fill the memory long before weights do.
    scores: dict[tuple[int, Any], float] = {}
    for way, features in graph.features(x, candidates):
        theirs = Represented(features, measure)
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
            partners = align(similarity, compatible(skeleton, path.skeleton))
        values = [
            UNRELATED if partner is None else scores[place, ways[partner]] for place, partner in enumerate(partners)
        ]
        found.append(Conflict(task, tuple(values), tuple(partners)))
    return found


class Represented:
    """What comparing a layer needs to know of it: a matrix of samples x samples, whatever its width.

    Args:
        features: shape [samples, ...].
        measure: ``rsa`` or ``cka``.
    """

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
