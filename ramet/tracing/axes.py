"""Axes of tensors that must have the same size, found by unification.

Every dimension of every tensor in a traced network is described by a *layout*: a concatenation of products of axes. A
fresh dimension is one axis. Two dimensions that an operation ties become one axis (union-find); a dimension that is cut
up by a reshape becomes a product, one that is sliced or concatenated a sum. What is left at the end are the smallest
pieces that can change size on their own, and for each tensor the arithmetic that says where they sit in it: after
``flatten``, channel c of C holds the rows c h w to (c + 1) h w - 1, which is the layout ``((C, h, w),)``.

>>> channels, pixels = Axis(8), Axis(16)
>>> rows = Axis(128)
>>> unify(single(rows), ((channels, pixels),))
>>> [[axis.size for axis in term] for term in normal(single(rows))]
[[8, 16]]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

MAX_UNROLLED = 64
"""A product around a concatenation is written out as copies of it up to this many times; beyond, it is fixed."""


_INSIDE = "its parts are treated apart inside every block, as the halves of a head by rotary positions"


class Axis:
    """A piece of a dimension that could change size on its own, unless there is a ``reason`` why it may not."""

    __slots__ = ("_around", "_parent", "_parts", "_reason", "size")

    def __init__(self, size: int, reason: str | None = None) -> None:
        self.size = size
        self._around: Axis | None = None  # of a dimension that was cut into a product, the part outside this one
        self._parent: Axis | None = None
        self._parts: Layout | None = None
        self._reason = reason

    def root(self) -> Axis:
        """The axis that stands for all that are tied to this one."""
        axis = self
        while axis._parent is not None:
            if axis._parent._parent is not None:
                axis._parent = axis._parent._parent
            axis = axis._parent
        return axis

    @property
    def reason(self) -> str | None:
        """Why this axis may not change size, if it may not."""
        return self.root()._reason

    def fix(self, reason: str) -> None:
        """Forbid a change of size; the first reason that was given stays."""
        root = self.root()
        if root._parts is not None:
            for term in root._parts:
                for axis in term:
                    axis.fix(reason)
        elif root._reason is None:
            root._reason = reason

    @property
    def is_repeated(self) -> bool:
        """Whether a dimension holds this axis many times over, once in each of so many blocks as may change."""
        around = self.root()._around
        return around is not None and around.size > 1 and around.reason is None

    def bind(self, parts: Layout) -> None:
        """Say that this axis is made of smaller ones, which inherit what forbids it to change."""
        root = self.root()
        assert root._parts is None and layout_size(parts) == root.size
        if any(axis.root() is root for term in parts for axis in term):
            # An axis that contains itself (size-one factors around it): nothing is gained, and the rest cannot change.
            for term in parts:
                for axis in term:
                    if axis.root() is not root:
                        axis.fix("a dimension of size one is folded into itself")
            return
        if len(parts) > 1 and root.is_repeated:
            root.fix(_INSIDE)
            fix(parts, _INSIDE)
            return
        if not any(parts):
            root._reason = root._reason or "it is tied to a dimension of size one"
            return
        root._parts = parts
        if root._reason is not None:
            fix(parts, root._reason)

    def __repr__(self) -> str:
        return f"Axis({self.size}{', fixed' if self.reason else ''})"


Term = tuple[Axis, ...]
"""A product of axes, outermost first."""

Layout = tuple[Term, ...]
"""A concatenation of products: what one dimension of a tensor is made of."""


def single(axis: Axis) -> Layout:
    """The layout of a dimension that is one axis."""
    return ((axis,),)


def fixed(size: int, reason: str) -> Layout:
    """The layout of a dimension that may not change."""
    return single(Axis(size, reason))


def term_size(term: Term) -> int:
    """The number of entries of a product."""
    return math.prod(axis.root().size for axis in term)


def layout_size(layout: Layout) -> int:
    """The number of entries of a dimension."""
    return sum(term_size(term) for term in layout)


def fix(layout: Layout, reason: str) -> None:
    """Forbid every axis of a dimension to change."""
    for term in layout:
        for axis in term:
            axis.fix(reason)


def fixed_reasons(layout: Iterable[Term]) -> list[str]:
    """Why each axis of a dimension may not change, if none may; else nothing."""
    reasons = [axis.reason for term in layout for axis in term]
    return [] if None in reasons else [reason for reason in reasons if reason is not None]


def normal(layout: Layout) -> Layout:
    """The layout in the smallest axes that are known by now, without fixed axes of size one."""
    terms: list[Term] = []
    for term in layout:
        terms += product([_resolve(axis) for axis in term])
    return tuple(terms)


def _resolve(axis: Axis) -> Layout:
    root = axis.root()
    return single(root) if root._parts is None else normal(root._parts)


def product(factors: Sequence[Layout]) -> Layout:
    """The product of layouts as a sum of products."""
    result: Layout = ((),)
    for factor in factors:
        if len(factor) == 1:
            kept = tuple(axis for axis in factor[0] if axis.size != 1 or axis.reason is None)
            result = tuple(term + kept for term in result)
        elif layout_size(result) == 1:
            result = tuple(result[0] + term for term in factor)
        elif len(result) == 1 and term_size(result[0]) <= MAX_UNROLLED:
            # Outer x (a + b) is (a + b) written out once for each outer entry, which then may not change.
            fix(result, "it repeats a concatenation")
            result = factor * term_size(result[0])
        else:
            reason = "a concatenation is folded into a larger dimension"
            fix(result, reason)
            fix(factor, reason)
            return fixed(layout_size(result) * layout_size(factor), reason)
    return result


def unify(first: Layout, second: Layout) -> None:
    """Tie two dimensions of the same size, entry by entry; the coarser is cut like the finer, or both are fixed."""
    left, right = normal(first), normal(second)
    assert layout_size(left) == layout_size(right), (left, right)
    if len(left) == len(right) and all(term_size(a) == term_size(b) for a, b in zip(left, right, strict=True)):
        for a, b in zip(left, right, strict=True):
            _unify_terms(a, b)
    elif _is_axis(left):
        left[0][0].bind(right)
    elif _is_axis(right):
        right[0][0].bind(left)
    else:
        # Cut both at the union of their borders, then tie piece by piece.
        borders = sorted({*_borders(left), *_borders(right)})
        sizes = [b - a for a, b in zip([0, *borders], borders, strict=False)]
        for piece, other in zip(cut(left, sizes), cut(right, sizes), strict=True):
            unify(piece, other)


def _is_axis(layout: Layout) -> bool:
    return len(layout) == 1 and len(layout[0]) == 1


def _borders(layout: Layout) -> list[int]:
    borders, place = [], 0
    for term in layout:
        place += term_size(term)
        borders.append(place)
    return borders


def _unify_terms(first: Term, second: Term) -> None:
    """Tie two products of the same size, outermost factor first."""
    left, right = list(first), list(second)
    if len(left) == 1 and len(right) != 1:
        return left[0].bind((tuple(right),))
    if len(right) == 1 and len(left) != 1:
        return right[0].bind((tuple(left),))
    while left and right:
        a, b = left[0].root(), right[0].root()
        if a is b:
            del left[0], right[0]
        elif a.size == b.size:
            del left[0], right[0]
            _join(a, b)
        elif a.size % b.size == 0 and b.size > 1:
            left[:1] = _split_product(a, b.size)
        elif b.size % a.size == 0 and a.size > 1:
            right[:1] = _split_product(b, a.size)
        else:
            break
    for axis in left + right:
        axis.fix("two reshapes cut it in different ways")
    return None


def _join(a: Axis, b: Axis) -> None:
    reason, around = a._reason or b._reason, a._around or b._around
    b._parent = a
    a._reason, a._around = reason, around


def _split_product(axis: Axis, outer: int) -> Term:
    parts = (Axis(outer), Axis(axis.size // outer))
    parts[1]._around = parts[0]
    axis.bind((parts,))
    return parts


def cut(layout: Layout, sizes: Sequence[int]) -> list[Layout]:
    """The pieces of a dimension, as ``torch.split`` with these sizes makes them.

    What may not change anyway, such as the places of a text, stays whole: as a sum no reshape could follow it.
    """
    terms = list(normal(layout))
    if reasons := fixed_reasons(terms):
        return [fixed(size, reasons[0]) for size in sizes]
    assert layout_size(tuple(terms)) == sum(sizes)
    pieces: list[Layout] = []
    for size in sizes:
        piece: list[Term] = []
        missing = size
        while missing:
            term = terms.pop(0)
            if term_size(term) > missing:
                split = _split_sum(term, missing)
                if split is None:
                    fix(layout, _INSIDE)
                    return [fixed(n, _INSIDE) for n in sizes]
                term, rest = split
                terms.insert(0, rest)
            missing -= term_size(term)
            piece.append(term)
        pieces.append(tuple(piece))
    return pieces


def _split_sum(term: Term, size: int) -> tuple[Term, Term] | None:
    """Cut a product after its first ``size`` entries, along its outermost axis.

    The part of a head, say, is not cut where heads may be added: rotary positions treat its halves apart, and packed
    queries, keys and values lie one after another in it. It stays as it is, so that the heads need not.
    """
    outer, inner = term[0].root(), term[1:]
    head, remainder = divmod(size, term_size(inner))
    if remainder or outer.is_repeated:
        return None
    parts = (Axis(head), Axis(outer.size - head))
    outer.bind(((parts[0],), (parts[1],)))
    return (parts[0], *inner), (parts[1], *inner)


def regroup(layouts: Iterable[Layout], sizes: Sequence[int], reason: str) -> list[Layout]:
    """The layouts after a reshape to these sizes; ``reason`` is said of axes that the reshape drops or tears apart."""
    factors: list[Layout] = []
    for layout in layouts:
        whole = normal(layout)
        if len(whole) > 1 and (reasons := fixed_reasons(whole)):
            factors.append(fixed(layout_size(whole), reasons[0]))
        else:
            factors += [single(axis) for axis in whole[0]] if len(whole) == 1 else [whole]
    before = list(factors)
    result: list[Layout] = []
    for size in sizes:
        collected: list[Layout] = []
        missing = size
        while missing > 1 or (size == 1 and not collected and factors and layout_size(factors[0]) == 1):
            factor = factors.pop(0)
            length = layout_size(factor)
            if missing % length:
                if not _is_axis(factor) or length % missing:
                    for other in before:
                        fix(other, reason)
                    return [fixed(n, reason) for n in sizes]
                outer, inner = _split_product(factor[0][0], missing)
                factor, length = single(outer), missing
                factors.insert(0, single(inner))
            missing //= length
            collected.append(factor)
        result.append(product(collected) if collected else fixed(size, "a dimension of size one"))
    for leftover in factors:
        fix(leftover, reason)
    return result
