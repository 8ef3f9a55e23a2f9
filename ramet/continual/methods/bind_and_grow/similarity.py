"""How alike two layers see the same samples: dissimilarity matrices, their rank correlation, linear CKA.

Everything is a product of matrices with as many rows as there are samples. Features are taken in blocks, so that a wide
layer costs no memory beyond its activations and a few matrices of samples x samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor

from ramet.errors import ConfigError, DataError

FEATURE_BLOCK = 4096
"""Features of a block: enough for a matrix product to run at full speed, few enough to stay out of main memory."""

Measure = Literal["rsa", "cka"]


def dissimilarity_matrix(activations: Tensor, *, block: int = FEATURE_BLOCK) -> Tensor:
    """The representational dissimilarity matrix: one minus Pearson's correlation between the samples of a layer.

    D_ij = 1 - (x_i - m_i) . (x_j - m_j) / (|x_i - m_i| |x_j - m_j|), where x_i is the flattened activation of sample i
    and m_i its mean. The correlation with a constant row is undefined. Such a *dead* row counts as uncorrelated with
    every live one (1) and as the same as every other dead one (0), because what Pearson's correlation looks at, the
    deviation from the mean, is the same nothing in both. Rows that hold a value which is not finite are NaN throughout,
    and comparisons leave them out.

    The products are taken in the precision of the activations, about a mean that is already subtracted, and blocks are
    summed in float64: float32 activations give a matrix that is right to about 1e-7.

    Args:
        activations: shape [samples, ...]; all but the first dimension are flattened.
        block: features that are taken at a time.

    Returns:
        shape [samples, samples], symmetric, zeros on the diagonal, in the precision of the activations.

    Raises:
        DataError: fewer than two samples or no feature at all.

    >>> x = torch.tensor([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [3.0, 2.0, 1.0], [5.0, 5.0, 5.0]])
    >>> dissimilarity_matrix(x).round(decimals=6).tolist()[0]
    [0.0, 0.0, 2.0, 1.0]

    Reference: Kriegeskorte, Mur and Bandettini, Representational similarity analysis, 2008.
    """
    rows = _as_rows(activations)
    num_samples, num_features = rows.shape
    means = rows.mean(dim=1, dtype=torch.float64)  # [samples]
    shifts = means.to(rows.dtype)[:, None]
    sums = rows.new_zeros(num_samples, dtype=torch.float64)
    summed = rows.dtype if num_features <= block else torch.float64
    gram = rows.new_zeros(num_samples, num_samples, dtype=summed)
    for part in _blocks(rows, block):
        centred = part - shifts  # [samples, block]
        sums += centred.sum(dim=1, dtype=torch.float64)
        _add_gram(gram, centred)
    # The shift is the mean as the activations' precision has it: what it lacks is taken off here.
    gram.addr_(sums.to(summed), sums.to(summed), alpha=-1 / num_features)
    squares = gram.diagonal().double()
    # A row is dead when what is left of it is the rounding of its own mean.
    dead = squares <= num_features * (2 * torch.finfo(rows.dtype).eps * means) ** 2
    scale = torch.where(dead, 0.0, squares.clamp_min(torch.finfo(torch.float64).tiny).rsqrt()).to(summed)
    matrix = gram.mul_(scale[:, None]).mul_(scale).clamp_(-1, 1).neg_().add_(1)
    if dead.any():
        places = dead.nonzero().squeeze(1)
        matrix[places[:, None], places] = 0.0
    broken = ~torch.isfinite(means) | ~torch.isfinite(squares)
    if broken.any():
        matrix[broken] = matrix[:, broken] = torch.nan
    else:
        matrix.fill_diagonal_(0.0)
    return _mirror(matrix).to(rows.dtype)


def _tile(num_samples: int) -> int:
    return max(128, -(-num_samples // 8))


def _add_gram(gram: Tensor, centred: Tensor) -> None:
    """Add ``centred @ centred.T`` to the tiles on and above the diagonal: the others would be computed twice."""
    step = _tile(len(gram))
    for start in range(0, len(gram), step):
        product = centred[start : start + step] @ centred[start:].T
        gram[start : start + step, start:] += product


def _mirror(matrix: Tensor) -> Tensor:
    """Copy the upper triangle onto the lower one, in place."""
    step = _tile(len(matrix))
    for start in range(0, len(matrix), step):
        stop = start + step
        tile = matrix[start:stop, start:stop]
        tile.copy_(torch.triu(tile) + torch.triu(tile, diagonal=1).T)
        matrix[stop:, start:stop] = matrix[start:stop, stop:].T
    return matrix


def rank_similarity(first: Tensor, second: Tensor) -> float:
    """Spearman's correlation between the upper triangles of two dissimilarity matrices, from -1 to 1.

    Pairs that are NaN in either are left out. Where nothing is left to compare, because one matrix is constant (a layer
    that is dead throughout) or fewer than two pairs remain, there is no sign of a relation, and the answer is 0.

    Raises:
        ConfigError: the matrices have different shapes.
    """
    if first.shape != second.shape or first.ndim != 2:
        raise ConfigError(
            f"two dissimilarity matrices must be of one shape, but got {tuple(first.shape)} and {tuple(second.shape)}."
        )
    return DissimilarityRanks(first).correlation(DissimilarityRanks(second))


class DissimilarityRanks:
    """The ranks of a dissimilarity matrix' upper triangle, made once and compared with many others."""

    def __init__(self, matrix: Tensor) -> None:
        rows, columns = torch.triu_indices(len(matrix), len(matrix), offset=1)
        self._values = matrix[rows, columns]  # [pairs]
        self._known = torch.isfinite(self._values)
        self._whole = bool(self._known.all())
        self._unit = _unit_ranks(self._values) if self._whole else torch.empty(0)

    def correlation(self, other: DissimilarityRanks) -> float:
        """Spearman's correlation with the ranks of another matrix of the same samples."""
        if self._whole and other._whole:
            return float(self._unit @ other._unit)
        known = self._known & other._known
        return float(_unit_ranks(self._values[known]) @ _unit_ranks(other._values[known]))


def _unit_ranks(values: Tensor) -> Tensor:
    """The ranks of values, ties averaged, centred and scaled to norm 1; zeros where all are equal."""
    if len(values) < 2:
        return torch.zeros(len(values), dtype=torch.float64)
    ordered, order = torch.sort(values)
    _, inverse, counts = torch.unique_consecutive(ordered, return_inverse=True, return_counts=True)
    last = counts.cumsum(0).double()  # [distinct]
    ranks = torch.empty_like(ordered, dtype=torch.float64)
    ranks[order] = (last - (counts - 1) / 2)[inverse]
    ranks -= (len(values) + 1) / 2
    norm = torch.linalg.vector_norm(ranks)
    return ranks / norm if norm > 0 else ranks


def centred_gram(activations: Tensor, *, block: int = FEATURE_BLOCK) -> Tensor:
    """The Gram matrix of samples whose features have mean 0, which is all that linear CKA needs to know of a layer.

    Features are taken ``block`` at a time. Gives float64, [samples, samples]; samples with a value that is not finite
    are NaN, and left out of the means.
    """
    rows = _as_rows(activations)
    known = torch.isfinite(rows).all(dim=1)
    whole = bool(known.all())
    kept = rows if whole else rows[known]
    gram = kept.new_zeros(len(kept), len(kept), dtype=torch.float64)
    for part in _blocks(kept, block):
        centred = (part - part.mean(dim=0, dtype=torch.float64)).to(kept.dtype)  # [samples, block]
        _add_gram(gram, centred)
    gram = _mirror(gram)
    if whole:
        return gram
    matrix = torch.full((len(rows), len(rows)), torch.nan, dtype=torch.float64, device=rows.device)
    places = known.nonzero().squeeze(1)
    matrix[places[:, None], places] = gram
    return matrix


def gram_alignment(first: Tensor, second: Tensor) -> float:
    """Linear CKA from two centred Gram matrices, <K, L> / (|K| |L|), from 0 to 1.

    Samples that are NaN in either are left out, without centring the others anew. A layer that is dead throughout has
    a Gram matrix of zeros, and an alignment of 0 with everything.
    """
    known = torch.isfinite(first.diagonal()) & torch.isfinite(second.diagonal())
    if not known.all():
        first, second = first[known][:, known], second[known][:, known]
    norms = torch.linalg.matrix_norm(first) * torch.linalg.matrix_norm(second) if first.numel() else first.sum()
    return float((first * second).sum() / norms) if norms > 0 else 0.0


def linear_cka(first: Tensor, second: Tensor, *, block: int = FEATURE_BLOCK) -> float:
    """Linear centred kernel alignment of two layers' activations on the same samples; features may differ.

    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> round(linear_cka(x, 3 * x.flip(1) + 1), 6)
    1.0

    Reference: Kornblith and others, Similarity of neural network representations revisited, 2019.
    """
    if len(first) != len(second):
        raise ConfigError(f"two layers must see the same samples, but got {len(first)} and {len(second)}.")
    return gram_alignment(centred_gram(first, block=block), centred_gram(second, block=block))


def _as_rows(activations: Tensor) -> Tensor:
    if activations.ndim < 2 or len(activations) < 2 or activations.numel() == 0:
        raise DataError(
            f"activations must have at least two samples and one feature, but got shape {tuple(activations.shape)}."
        )
    rows = activations.detach().flatten(1)
    return rows if rows.dtype in (torch.float32, torch.float64) else rows.float()


def _blocks(rows: Tensor, block: int) -> Iterator[Tensor]:
    if block < 1:
        raise ConfigError(f"a block must have at least one feature, but got {block}.")
    yield from torch.split(rows, block, dim=1)
