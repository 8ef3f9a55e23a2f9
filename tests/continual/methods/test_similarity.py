"""Similarity of layers, against SciPy and against twins that take one pair of samples at a time."""

import itertools

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist, squareform
from scipy.stats import spearmanr

from ramet.continual.methods.bind_and_grow.similarity import (
    centred_gram,
    dissimilarity_matrix,
    gram_alignment,
    linear_cka,
    rank_similarity,
)
from ramet.errors import ConfigError, DataError


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def rounding(x, block=4096):
    """How far a correlation may be away that is summed over blocks of features: n u |a| |b| for n terms a_i b_i.

    The products of a block are taken in the precision of the activations, the blocks are summed in double precision;
    centring, scaling and the last rounding add less than eight terms more.
    """
    return (min(x[0].numel(), block) + 8) * torch.finfo(x.dtype).eps / 2


def slow_matrix(rows):
    """One pair after the other, by NumPy's own correlation."""
    rows = rows.flatten(1).double().numpy()
    matrix = np.zeros((len(rows), len(rows)))
    for i, j in itertools.permutations(range(len(rows)), 2):
        matrix[i, j] = 1 - np.corrcoef(rows[i], rows[j])[0, 1]
    return matrix


def slow_cka(first, second):
    """Kornblith's feature-space form, which never sees a Gram matrix of samples."""
    x, y = (a.flatten(1).double().numpy() for a in (first, second))
    x, y = x - x.mean(0), y - y.mean(0)
    return np.linalg.norm(x.T @ y) ** 2 / np.linalg.norm(x.T @ x) / np.linalg.norm(y.T @ y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("block", [1, 7, 4096])
def test_matrix_is_the_slow_twins(block, dtype):
    x = draw(20, 3, 5, 4, dtype=dtype)
    assert np.abs(dissimilarity_matrix(x, block=block).numpy() - slow_matrix(x)).max() < rounding(x, block)


@pytest.mark.parametrize("block", [16, 4096])
def test_matrix_is_scipys_far_from_zero_and_wide(block):
    # A mean a thousand times the deviation: products that are not centred first would lose all digits of float32.
    x = 1000 + draw(60, 9000, seed=1, dtype=torch.float32)
    expected = squareform(pdist(x.double().numpy(), "correlation"))
    assert np.abs(dissimilarity_matrix(x, block=block).numpy() - expected).max() < rounding(x, block)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rows_beyond_one_tile(dtype):
    x = draw(600, 30, seed=2, dtype=dtype)
    expected = squareform(pdist(x.double().numpy(), "correlation"))
    assert np.abs(dissimilarity_matrix(x).numpy() - expected).max() < rounding(x)


def test_dead_rows_are_uncorrelated_with_live_ones_and_alike_among_themselves():
    x = draw(5, 8, dtype=torch.float32)
    x[1], x[3] = 0.0, 0.7  # 0.7 is no binary fraction: its mean is rounded, and must count as constant all the same
    matrix = dissimilarity_matrix(x)
    assert matrix[1, 3] == 0
    assert (matrix[[1, 1, 3, 3], [0, 2, 2, 4]] == 1).all()
    live = [0, 2, 4]
    assert np.allclose(matrix[live][:, live].numpy(), slow_matrix(x[live]), rtol=0, atol=rounding(x))
    assert (matrix.diagonal() == 0).all()


@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
def test_rows_that_are_not_finite_are_left_out(broken):
    first, second = draw(12, 6), draw(12, 9, seed=1)
    damaged = first.clone()
    damaged[4, 2] = broken
    kept = [i for i in range(12) if i != 4]
    matrix = dissimilarity_matrix(damaged)
    assert torch.isnan(matrix[4]).all() and torch.isnan(matrix[:, 4]).all()
    expected = rank_similarity(dissimilarity_matrix(first[kept]), dissimilarity_matrix(second[kept]))
    assert rank_similarity(matrix, dissimilarity_matrix(second)) == pytest.approx(expected, abs=1e-12)
    assert gram_alignment(centred_gram(damaged), centred_gram(damaged)) == pytest.approx(1.0)


def test_rank_similarity_is_scipys_with_ties():
    first = dissimilarity_matrix(draw(30, 10).round())
    second = dissimilarity_matrix(draw(30, 10, seed=3).relu().round())
    upper = np.triu_indices(30, 1)
    expected = spearmanr(first.numpy()[upper], second.numpy()[upper]).statistic
    assert rank_similarity(first, second) == pytest.approx(expected, abs=1e-9)
    assert rank_similarity(first, first) == pytest.approx(1.0)


def test_a_layer_that_is_dead_throughout_has_no_relation():
    dead, alive = torch.zeros(10, 4), draw(10, 4, dtype=torch.float32)
    assert rank_similarity(dissimilarity_matrix(dead), dissimilarity_matrix(alive)) == 0.0
    assert linear_cka(dead, alive) == 0.0


@pytest.mark.parametrize("block", [3, 4096])
def test_cka_is_the_feature_space_form(block):
    first, second = 5 + draw(25, 4, 3), draw(25, 17, seed=1) + 5 + draw(25, 12).repeat(1, 2)[:, :17]
    assert linear_cka(first, second, block=block) == pytest.approx(slow_cka(first, second), abs=1e-12)


def test_cka_knows_a_rotation_from_a_stranger():
    x = draw(50, 6)
    rotation = torch.linalg.qr(draw(6, 6, seed=4))[0]
    assert linear_cka(x, x @ rotation) == pytest.approx(1.0, abs=1e-12)
    assert linear_cka(x, draw(50, 6, seed=5)) < 0.5


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(DataError, match="two samples"):
        dissimilarity_matrix(torch.zeros(1, 4))
    with pytest.raises(ConfigError, match="one shape"):
        rank_similarity(torch.zeros(3, 3), torch.zeros(4, 4))
    with pytest.raises(ConfigError, match="same samples"):
        linear_cka(torch.zeros(3, 2), torch.zeros(4, 2))
    with pytest.raises(ConfigError, match="at least one feature"):
        dissimilarity_matrix(torch.zeros(3, 2), block=0)
