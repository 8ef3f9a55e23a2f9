"""Partitions of the children into groups, each of which shares one copy of the weights among its members."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from ramet.errors import ConfigError

Groups = tuple[tuple[int, ...], ...]
"""A partition: for each group the indices of its children, in rising order."""


def similar_groups(num_children: int, num_groups: int) -> Groups:
    """Consecutive slices of the lexicographic order: *Deeper insights*, section 4.2.2.

    >>> similar_groups(8, 4)
    ((0, 1), (2, 3), (4, 5), (6, 7))
    """
    check_groups(num_children, num_groups)
    return tuple(tuple(part.tolist()) for part in np.array_split(np.arange(num_children), num_groups))


def random_groups(num_children: int, num_groups: int, generator: torch.Generator) -> Groups:
    """Groups of equal size drawn at random: *Deeper insights*, section 4.2.1."""
    check_groups(num_children, num_groups)
    order = torch.randperm(num_children, generator=generator).numpy()
    return tuple(tuple(sorted(part.tolist())) for part in np.array_split(order, num_groups))


def affinity_groups(affinity: NDArray[np.floating], num_groups: int, *, max_rounds: int = 50) -> Groups:
    """Groups of equal size whose members help each other most.

    The paper leaves grouping by measured interference for later. Here the children are ordered by spectral bisection of
    their affinity (so that children that help each other stand side by side), cut into slices of equal size, and then
    pairs of children change places as long as that raises the sum of affinities within groups, ``max_rounds`` times the
    number of children at most. ``affinity`` [i, j] is how much training child i helps child j; it need not be
    symmetric.

    >>> blocks = np.kron(np.eye(2), np.ones((3, 3)))       # children 0-2 and 3-5 help each other
    >>> shuffled = np.array([0, 3, 1, 4, 2, 5])
    >>> affinity_groups(blocks[np.ix_(shuffled, shuffled)], 2)
    ((0, 2, 4), (1, 3, 5))
    """
    affinity = np.asarray(affinity, dtype=float)
    num_children = len(affinity)
    if affinity.shape != (num_children, num_children):
        raise ConfigError(f"affinity must be a square matrix, but got shape {affinity.shape}.")
    if not np.isfinite(affinity).all():
        raise ConfigError("affinity must be finite, but has NaN or infinite values.")
    check_groups(num_children, num_groups)
    symmetric = (affinity + affinity.T) / 2
    np.fill_diagonal(symmetric, 0.0)
    order = _spectral_order(symmetric, num_groups)
    label = np.empty(num_children, dtype=int)
    for group, part in enumerate(np.array_split(order, num_groups)):
        label[part] = group
    for _ in range(max_rounds * num_children):
        member = np.eye(num_groups)[label]  # [children, groups]
        pull = symmetric @ member  # [children, groups]: affinity of a child to each group
        own = pull[np.arange(num_children), label]
        # Gain of exchanging children i and j between their groups; the pair's own affinity is counted in both pulls
        # and is lost in neither state, hence the correction.
        gain = pull[:, label] + pull[:, label].T - own[:, None] - own[None, :] - 2 * symmetric  # [children, children]
        gain[label[:, None] == label[None, :]] = -np.inf
        i, j = np.unravel_index(np.argmax(gain), gain.shape)
        if not gain[i, j] > 1e-12:
            break
        label[i], label[j] = label[j], label[i]
    groups = (tuple(np.flatnonzero(label == group).tolist()) for group in range(num_groups))
    return tuple(sorted(groups))


def _spectral_order(symmetric: NDArray[np.floating], num_groups: int) -> NDArray[np.intp]:
    """The children in an order in which those of high mutual affinity are near each other."""

    def bisect(children: NDArray[np.intp], parts: int) -> NDArray[np.intp]:
        if parts == 1 or len(children) < 3:
            return children
        weights = symmetric[np.ix_(children, children)]
        weights = weights - weights.min()  # a graph Laplacian needs weights that are not negative
        np.fill_diagonal(weights, 0.0)
        laplacian = np.diag(weights.sum(axis=1)) - weights
        fiedler = np.linalg.eigh(laplacian)[1][:, 1]
        ranked = children[np.argsort(fiedler, kind="stable")]
        left = len(children) * (parts // 2) // parts
        return np.concatenate([bisect(ranked[:left], parts // 2), bisect(ranked[left:], parts - parts // 2)])

    return bisect(np.arange(len(symmetric)), num_groups)


def check_groups(num_children: int, num_groups: int) -> None:
    """Raise a ``ConfigError`` if there are too few children for the groups."""
    if not 1 <= num_groups <= num_children:
        raise ConfigError(
            f"num_groups must be between 1 and the {num_children} children of the space, but got {num_groups}."
        )
