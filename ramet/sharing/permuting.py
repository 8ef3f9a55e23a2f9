"""Random orders and draws of so many things that no list of them fits into memory: place by place."""

from __future__ import annotations

from hashlib import shake_256

NUM_ROUNDS = 4
MOST_TURNS = 10_000
"""Each ends below the count with a chance of at least a quarter: that none of so many does, never happens."""


def permuted(place: int, count: int, seed: int) -> int:
    """What stands at a place of a random order of the numbers below ``count``.

    A Feistel network over as many bits as the numbers have is a permutation of all numbers of so many bits, whatever
    its rounds mix in. What comes out too large goes in again, until it is one of them.

    >>> sorted(permuted(place, 5, seed=1) for place in range(5))
    [0, 1, 2, 3, 4]
    """
    half = ((count - 1).bit_length() + 1) // 2
    for _ in range(MOST_TURNS):
        left, right = place >> half, place & ((1 << half) - 1)
        for number in range(NUM_ROUNDS):
            left, right = right, left ^ _mixed(f"{seed}/{number}/{right}", half)
        place = left << half | right
        if place < count:
            return place
    raise AssertionError(f"a permutation leads back below {count}, but this one does not.")


def drawn(step: int, count: int, seed: int) -> int:
    """A number below ``count`` that is drawn for a step on its own.

    >>> drawn(3, 10**30, seed=1) == drawn(3, 10**30, seed=1) < 10**30
    True
    """
    return _mixed(f"{seed}/draw/{step}", count.bit_length() + 64) % count


def _mixed(text: str, num_bits: int) -> int:
    """So many bits that follow from a text and look like any others."""
    return int.from_bytes(shake_256(text.encode()).digest(num_bits // 8 + 1), "big") & ((1 << num_bits) - 1)
