"""Which sample goes where: stratified splits and subsets, drawn from the seed.

Each class is permuted and cut on its own, so that every class is in every split in its proportion. A permutation is
the stable sort of the raw words of a PCG64 generator, whose stream NumPy promises never to change; NumPy's own
``permutation`` carries no such promise, and a split that changes silently would leak test data into training.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ramet.errors import DataError
from ramet.seeding import derive_seed

Indices: TypeAlias = npt.NDArray[np.int64]

HOME = {"train": 0, "validation": 0, "test": -1}
"""The array of a source that holds each split: without a test set of its own, its last one is also its first."""


def permutation(length: int, seed: int, *role: str | int) -> Indices:
    """A permutation of ``range(length)`` that depends on the seed and the role only."""
    words = np.random.PCG64(derive_seed(seed, "data", *role)).random_raw(length)
    return np.argsort(words, kind="stable").astype(np.int64)


def hold_out(
    labels: Indices, fraction: float, *, seed: int, role: str, class_names: Sequence[str], min_kept: int = 1
) -> tuple[Indices, Indices]:
    """Cut a fraction of each class off, for testing or for validation: the indices that stay, and those cut off.

    The fraction is rounded for each class, at least one sample; ``min_kept`` must stay. The role keeps two cuts of one
    run apart. Both sides come in a random order.

    Raises:
        DataError: If a class has fewer than ``min_kept + 1`` samples.

    >>> kept, cut = hold_out(np.array([0, 0, 0, 1, 1, 1]), 0.3, seed=0, role="test", class_names=["a", "b"])
    >>> len(kept), len(cut)
    (4, 2)
    """
    mixed = permutation(len(labels), seed, role)
    kept, cut = [], []
    for index, name in enumerate(class_names):
        members = mixed[labels[mixed] == index]
        if len(members) <= min_kept:
            raise DataError(
                f"each class must have at least {min_kept + 1} images to be split, "
                f"but class {name!r} has {len(members)}."
            )
        num_cut = min(max(int(fraction * len(members) + 0.5), 1), len(members) - min_kept)
        cut.append(members[:num_cut])
        kept.append(members[num_cut:])
    # Class by class would be a poor order for whoever takes the first rows, so both sides are mixed again.
    return _mixed(kept, seed, role, "kept"), _mixed(cut, seed, role, "cut")


def subset(labels: Indices, size: int, *, seed: int, role: str, num_classes: int, every_class: bool) -> Indices:
    """A stratified subset of exactly ``size`` samples, by the largest remainders of the classes' shares.

    Gives positions in ``labels``, in a random order. With ``every_class`` each class keeps at least one sample;
    ``size`` is then at least ``num_classes``.
    """
    counts = np.bincount(labels, minlength=num_classes)
    quotas = share_out(counts, size, least=1 if every_class else 0)
    mixed = permutation(len(labels), seed, role, "subset")
    taken = [mixed[labels[mixed] == index][:quota] for index, quota in enumerate(quotas)]
    return _mixed(taken, seed, role, "taken")


def share_out(counts: Indices, size: int, *, least: int) -> Indices:
    """Divide ``size`` places among classes in proportion to ``counts``: at least ``least``, at most the count.

    >>> share_out(np.array([50, 30, 20]), 10, least=0).tolist()
    [5, 3, 2]
    >>> share_out(np.array([98, 1, 1]), 10, least=1).tolist()
    [8, 1, 1]
    """
    ideal = counts * (size / counts.sum())
    quotas: Indices = np.clip(np.floor(ideal).astype(np.int64), np.minimum(least, counts), counts)
    while (missing := size - int(quotas.sum())) != 0:
        step = 1 if missing > 0 else -1
        movable = quotas < counts if step > 0 else quotas > np.minimum(least, counts)
        gap = np.where(movable, (ideal - quotas) * step, -np.inf)
        chosen = np.argsort(-gap, kind="stable")[: min(abs(missing), int(movable.sum()))]
        quotas[chosen] += step
    return quotas


def _mixed(parts: list[Indices], seed: int, *role: str) -> Indices:
    joined = np.concatenate(parts)
    return joined[permutation(len(joined), seed, *role)]
