"""Sums over all pairs of children, in memory that does not grow with the pairs.

Of two lists of scores and weights w of the children, the concordance is the sum over pairs of w_i w_j s_ij(a) s_ij(b),
with the signs s_ij(a) of a_i - a_j, and the untied weight of one list the sum of w_i w_j s_ij(a)^2. With weights that
are whole numbers so are all these sums, and any way to add them up gives the same bits. There are two:

- *blocks of pairs*: signs of some children against all, and a matrix product. One product serves all rankings at once;
  its time is quadratic in the children.
- *sorting*: pairs that two lists order differently are the inversions of a permutation, which are counted one bit of
  the place at a time, in n log n. Each pair of rankings is sorted anew.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

BLOCK = 1 << 20
"""Numbers that one array of an intermediate result may hold; an array of more rows than one always has one row."""
_SORTING = 90
"""What a child costs in one pass over its bits, in signs of one pair: measured, from 256 to 10,000 children."""
_WIDEST = 512
"""Of the dense blocks that end a weighted sorting; a matrix product of that width is faster than nine more bits."""


def concordances(a: Floats, b: Floats) -> Floats:
    """The concordance of every ranking of ``a``, [n, children], with every one of ``b``, [m, children]: [n, m]."""
    if _sorts(len(a), len(b), a.shape[1]):
        once = np.ones((1, a.shape[1]))
        return np.array([[weighted_concordance(one, other, once)[0] for other in b] for one in a])
    total = np.zeros((len(a), len(b)))
    for rows in _blocks(a.shape[1], (len(a) + len(b)) * a.shape[1]):
        # Sums of signs of one block are below 2^24, so that single precision holds them exactly.
        total += _signs(a, rows) @ _signs(b, rows).T
    return total


def untied_pairs(scores: Floats) -> Floats:
    """How many pairs each ranking orders, [rankings, children] to [rankings]."""
    once = np.ones((1, scores.shape[1]))
    return np.array([untied_weight(row, once)[0] for row in scores])


def weighted_concordance(a: Floats, b: Floats, weights: Floats) -> Floats:
    """The concordance of two lists of scores, [children] each, under each of some weights, [resamples, children].

    Pairs that both order, less twice those that they order differently. The former are all pairs without those that are
    tied in a or in b, where pairs tied in both are taken off once.
    """
    joint = np.lexsort((b, a))
    both = _starts(a[joint]) | _starts(b[joint])
    ordered = _tied(joint, both, weights) - _tied(*_groups(a), weights) - _tied(*_groups(b), weights)
    ordered += _pairs(weights.sum(axis=1), weights)
    # In the order of a, and of b where a is tied; places by b, where tied as they stand. So no tie is an inversion.
    places = np.empty(len(a), dtype=np.intp)
    places[np.argsort(b[joint], kind="stable")] = np.arange(len(a))
    result: Floats = ordered - 2 * _inversions(places, weights[:, joint])
    return result


def untied_weight(scores: Floats, weights: Floats) -> Floats:
    """The sum of w_i w_j over the pairs that scores, [children], order, under each of some weights.

    All pairs without those within a group of equal scores; [resamples, children] gives [resamples].
    """
    result: Floats = _pairs(weights.sum(axis=1), weights) - _tied(*_groups(scores), weights)
    return result


def rows_at_once(num_children: int) -> int:
    """How many resamples of so many children fit into one block."""
    return max(1, BLOCK // num_children)


def _sorts(num_first: int, num_second: int, num_children: int) -> bool:
    """Whether sorting is the faster way; both give the same. It always is, from some number of children on."""
    return _SORTING * num_first * num_second * math.log2(num_children) < num_children * (num_first + num_second)


def _blocks(num_children: int, row: int) -> list[slice]:
    """The children in blocks, so that arrays with ``row`` numbers for each child of a block stay small."""
    step = max(1, BLOCK // row)
    return [slice(start, min(start + step, num_children)) for start in range(0, num_children, step)]


def _signs(scores: Floats, rows: slice) -> NDArray[np.float32]:
    """The order of the pairs (i, j) with i in a block and j after i, [rankings, pairs]; other places are 0.

    By comparison, because two infinite scores of one sign have no difference, and are tied.
    """
    first, second = scores[:, rows, None], scores[:, None, rows.start :]
    signs = (first > second).astype(np.float32)
    signs -= first < second
    signs *= np.tri(*signs.shape[1:], dtype=np.float32) == 0
    return signs.reshape(len(scores), -1)


def _starts(ordered: Floats) -> NDArray[np.bool_]:
    """Where a new value begins in a sorted list."""
    starts = np.ones(len(ordered), dtype=np.bool_)
    starts[1:] = ordered[1:] != ordered[:-1]
    return starts


def _groups(scores: Floats) -> tuple[Places, NDArray[np.bool_]]:
    """An order of the children in which equal scores stand together, and where each group begins."""
    order = np.argsort(scores, kind="stable")
    return order, _starts(scores[order])


def _tied(order: Places, starts: NDArray[np.bool_], weights: Floats) -> Floats:
    """The sum of w_i w_j over pairs of one group, [resamples]; groups stand together in an order of the children."""
    if starts.all():
        return np.zeros(len(weights))
    return _pairs(np.add.reduceat(weights[:, order], np.flatnonzero(starts), axis=1), weights)


def _pairs(sums: Floats, weights: Floats) -> Floats:
    """The sum of w_i w_j over pairs i < j of the same sum, [resamples]: half of what squares of sums have above."""
    squares = np.square(sums) if sums.ndim == 1 else np.einsum("rg,rg->r", sums, sums)
    result: Floats = (squares - np.einsum("rc,rc->r", weights, weights)) / 2
    return result


def _inversions(places: Places, weights: Floats) -> Floats:
    """The sum of w_i w_j over i < j with places[i] > places[j], for a permutation, [children]; gives [resamples].

    Children whose places agree in all bits above one, and differ in that, are an inversion if the one with the bit
    stands first. So for each bit, from the highest down: within groups of equal higher bits, the weight with the bit
    before each child without it. What is left are groups of neighbouring places, small enough for a matrix each.
    """
    total = np.zeros(len(weights))
    # A matrix costs its width for each child, and serves all rows of weights: it is no wider than there are rows.
    narrow = max(1, min(len(weights), _WIDEST)).bit_length() - 1
    order = np.arange(len(places))
    for bit in reversed(range(narrow, (len(places) - 1).bit_length())):
        own = places[order]
        has_bit = (own >> bit & 1).astype(np.bool_)
        group = own >> (bit + 1)
        drawn = weights[:, order]
        before = np.cumsum(drawn * has_bit, axis=1)  # also of earlier groups, which is taken off
        starts = np.flatnonzero(np.diff(group, prepend=-1))
        earlier = np.concatenate([np.zeros((len(drawn), 1)), before[:, starts[1:] - 1]], axis=1)
        drawn *= ~has_bit
        total += np.einsum("rc,rc->r", drawn, before)
        total -= np.einsum("rg,rg->r", np.add.reduceat(drawn, starts, axis=1), earlier)
        order = order[np.argsort(own >> bit, kind="stable")]
    if narrow:
        for start in range(0, len(places), 1 << narrow):
            members = order[start : start + (1 << narrow)]
            own, drawn = places[members], weights[:, members]
            is_inverted = np.triu(own[:, None] > own[None, :]).astype(np.float64)
            total += np.einsum("rc,rc->r", drawn @ is_inverted, drawn)
    return total
