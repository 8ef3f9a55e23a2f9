"""Groups of channels as the unit of growth: the conflict of each group with the new task's whole layer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ramet.continual.methods.bind_and_grow.conflict import Represented
from ramet.continual.methods.bind_and_grow.similarity import Measure
from ramet.continual.networks.graph import LayerGraph, TaskPath, layer_features


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
    """How much each group of channels of a bound task's layers conflicts with the new task.

    The channels of two networks that were trained apart do not correspond, so that a group of one cannot be compared
    with the same group of the other. A group is compared with the new task's whole layer instead: it conflicts little
    if it orders the images as that layer does.

    Args:
        layers: the network of the new task alone, without its head.
        x: the images that both see.
        graph: the joint network.
        path: the bound task's path.
        partners: its layer for each layer of the new task, or None.
        num_groups: groups in a layer.
        measure: ``rsa`` or ``cka``.

    Returns:
        The conflicts of the groups of each layer; an empty list for a layer without a partner.
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
