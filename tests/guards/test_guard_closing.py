"""The projection's arithmetic against its slow twins, Eqs. 7 and 8, and the bounds on what an update can disturb."""

from __future__ import annotations

import pytest
import torch
from exact_projection import distance, exact, rounding
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ramet.guards.closing import (
    close_directions,
    close_gram,
    close_one_by_one,
    closed_form,
    columns_of,
    gram_of,
    reopen_gradually,
    theorem_bound,
    tight_bound,
)

BOUNDED = settings(max_examples=60, deadline=None, derandomize=True)
DTYPES = [torch.float32, torch.float64]
shapes = st.tuples(st.integers(1, 24), st.integers(1, 60))
lambdas = st.floats(1e-2, 100.0)


def draw(seed, *shape, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def relative_error(a, b):
    return float((a.double() - b.double()).norm() / b.double().norm())


@BOUNDED
@given(shape=shapes, lam=lambdas, seed=st.integers(0, 2**31), dtype=st.sampled_from(DTYPES))
def test_block_equals_closed_form_and_one_by_one(shape, lam, seed, dtype):
    width, n = shape
    x = draw(seed, width, n, dtype=dtype)
    block = close_directions(torch.eye(width, dtype=dtype), x, lam)
    assert block.dtype == dtype
    assert distance(block, exact(x, lam)) <= rounding(x, lam, dtype)
    assert distance(closed_form(x.double(), lam), exact(x, lam)) <= rounding(x, lam, power=2)
    single = close_one_by_one(torch.eye(width, dtype=torch.float64), x.double(), lam)
    assert distance(single, exact(x, lam)) <= rounding(x, lam, parts=n)


@BOUNDED
@given(
    width=st.integers(1, 16),
    sizes=st.lists(st.integers(1, 20), min_size=2, max_size=6),
    lam=lambdas,
    seed=st.integers(0, 2**31),
    dtype=st.sampled_from(DTYPES),
)
def test_blocks_in_turn_equal_the_closed_form_of_all(width, sizes, lam, seed, dtype):
    x = draw(seed, width, sum(sizes), dtype=dtype)
    projection = torch.eye(width, dtype=dtype)
    for block in x.split(sizes, dim=-1):
        projection = close_directions(projection, block, lam)
    assert distance(projection, exact(x, lam)) <= rounding(x, lam, dtype, parts=len(sizes))


@BOUNDED
@given(width=st.integers(2, 12), rank=st.integers(1, 3), lam=lambdas, seed=st.integers(0, 2**31))
@pytest.mark.parametrize("dtype", DTYPES)
def test_inputs_of_low_rank_and_uneven_size(dtype, width, rank, lam, seed):
    """More columns than the width, but of few directions, and some of them a million times smaller than others."""
    x = (
        draw(seed, width, rank)
        @ draw(seed + 1, rank, 3 * width)
        * 10.0 ** torch.arange(-5, 1).repeat(width)[: 3 * width]
    )
    x = x.to(dtype)
    projection = torch.eye(width, dtype=dtype)
    for _ in range(3):
        projection = close_directions(projection, x, lam)
    seen = torch.cat([x, x, x], dim=1)
    assert distance(projection, exact(seen, lam)) <= rounding(seen, lam, dtype, parts=3)


def test_hand_worked_example():
    # P = I - x x' / (1 + x'x) with x = (1, 2): x'x = 5.
    x = torch.tensor([[1.0], [2.0]], dtype=torch.float64)
    expected = torch.tensor([[5 / 6, -2 / 6], [-2 / 6, 2 / 6]], dtype=torch.float64)
    torch.testing.assert_close(close_directions(torch.eye(2, dtype=torch.float64), x, 1.0), expected)
    torch.testing.assert_close(closed_form(x, 1.0), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 3])
def test_what_is_given_stays_as_it_is(dtype, n):
    """Single columns are closed in place, in a copy; of what is exact already that would be the caller's own."""
    given = torch.eye(4, dtype=dtype), torch.ones(4, n, dtype=dtype)
    kept = [tensor.clone() for tensor in given]
    close_directions(*given, 1.0)
    assert all(torch.equal(tensor, before) for tensor, before in zip(given, kept, strict=True))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_small_lambda_closes_nearly_all(dtype):
    """P = lambda / (lambda + 1), down to what rounding of the input amounts to, the square of eight times its eps."""
    closed = close_directions(torch.ones(1, 1, dtype=dtype), torch.ones(1, 1, dtype=dtype), 1e-10)
    assert float(closed) == pytest.approx(1e-10, rel=1e-5)  # 1 minus nearly 1: eps of float64 over 1e-10, and some


def test_batches_of_groups_are_independent():
    x = draw(0, 3, 5, 4)
    together = close_directions(torch.eye(5, dtype=torch.float64).expand(3, 5, 5), x, 0.5)
    singly = close_one_by_one(torch.eye(5, dtype=torch.float64).expand(3, 5, 5), x, 0.5)
    torch.testing.assert_close(together, closed_form(x, 0.5))
    for group in range(3):
        torch.testing.assert_close(together[group], closed_form(x[group], 0.5))
        torch.testing.assert_close(singly[group], closed_form(x[group], 0.5))


@pytest.mark.parametrize("energy", [1e7, 1e13])
@pytest.mark.parametrize("groups", [1, 2])
def test_inputs_of_great_energy_lose_no_digits_whatever_lies_beside_them(energy, groups):
    # Solved as one equation the result would be off by energy times eps.
    directions, _ = torch.linalg.qr(draw(0, 16, 3))
    columns, _ = torch.linalg.qr(draw(1, 48, 3))
    x = torch.stack([energy**0.5 * directions @ columns.mT, draw(2, 16, 48)])[:groups]
    closed = close_gram(torch.eye(16, dtype=torch.float64).expand(groups, 16, 16), gram_of(x), 1.0)
    share = energy / (energy + 1)
    wanted = torch.eye(16, dtype=torch.float64) - share * directions @ directions.mT
    # Sums, an eigendecomposition and a solution of size 48, well conditioned: each off by the size times eps.
    assert distance(closed[0], wanted) <= 64 * 48 * torch.finfo(torch.float64).eps


def test_layers_and_groups_of_inputs_that_come_twice():
    """With lambda 0 their blocks are singular; the directions of each layer and group are closed, and no others."""
    directions, _ = torch.linalg.qr(draw(0, 2, 3, 8, 2))
    closed = close_directions(torch.eye(8, dtype=torch.float64).expand(2, 3, 8, 8), directions.repeat(1, 1, 1, 2), 0.0)
    wanted = torch.eye(8, dtype=torch.float64) - directions @ directions.mT
    # Products, an eigendecomposition and its square, of size 8 and well conditioned.
    assert distance(closed, wanted) <= 64 * 8 * torch.finfo(torch.float64).eps


@BOUNDED
@given(shape=shapes, lam=st.floats(0.0, 10.0), seed=st.integers(0, 2**31), outputs=st.integers(1, 8))
def test_theorem_4_1_and_the_tight_bound_hold(shape, lam, seed, outputs):
    width, n = shape
    x, update = draw(seed, width, n), draw(seed + 1, outputs, width)
    projection = close_directions(torch.eye(width, dtype=torch.float64), x, lam)
    change = float((update @ projection @ x).norm())
    # With lambda near 0, directions whose energy is rounding of the largest, size times eps times 8, stay open.
    slack = (8 * max(shape) * torch.finfo(torch.float64).eps) ** 0.5 * float(update.norm() * x.norm())
    assert change <= float(theorem_bound(x, update, lam)) + slack or n < width
    assert change <= float(tight_bound(update, lam)) + slack


@pytest.mark.parametrize("smallest", [0.5, 2.0])
def test_theorem_4_1_by_hand(smallest):
    """X = diag(s, 4), so that R = 1 / s^2 and |X|^2 = s^2 + 16; |dW| = 5, lambda = 2."""
    x, update = torch.diag(torch.tensor([smallest, 4.0])), torch.tensor([[3.0, 4.0]])
    size, inverse = 5 * (smallest**2 + 16) ** 0.5, 1 / smallest**2
    assert float(theorem_bound(x, update, 2.0)) == pytest.approx(2 * 2**0.5 * size * inverse * (1 + 2 * inverse))


def test_the_bounds_are_not_slack_without_end():
    # With one input of length sqrt(lambda) the tight bound is reached, so that it cannot be lowered.
    x = torch.tensor([[2.0], [0.0]], dtype=torch.float64)
    update = torch.tensor([[3.0, 0.0]], dtype=torch.float64)
    change = (update @ close_directions(torch.eye(2, dtype=torch.float64), x, 4.0) @ x).norm()
    torch.testing.assert_close(change, tight_bound(update, 4.0))


@BOUNDED
@given(shape=shapes, seed=st.integers(0, 2**31), lam=st.floats(0.0, 10.0), dtype=st.sampled_from(DTYPES))
def test_projection_is_symmetric_and_between_zero_and_one(shape, seed, lam, dtype):
    width, n = shape
    projection = close_directions(torch.eye(width, dtype=dtype), draw(seed, width, n, dtype=dtype), lam)
    torch.testing.assert_close(projection, projection.mT)
    eigenvalues = torch.linalg.eigvalsh(projection.double())
    assert eigenvalues.min() > -1e-6 and eigenvalues.max() < 1 + 1e-6


@BOUNDED
@given(width=st.integers(2, 16), rank=st.integers(1, 8), n=st.integers(1, 40), seed=st.integers(0, 2**31))
@pytest.mark.parametrize("dtype", DTYPES)
def test_lambda_zero_closes_the_span_and_nothing_else(dtype, width, rank, n, seed):
    basis = draw(seed, width, rank, dtype=dtype)
    x = basis @ draw(seed + 1, rank, n, dtype=dtype)  # many columns, with duplicates of a few directions
    sizes = torch.linalg.svdvals(x.double())
    assume(not bool(((sizes > 1e-6 * sizes[0]) & (sizes < 1e-3 * sizes[0])).any()))  # neither a direction nor rounding
    projection = close_directions(torch.eye(width, dtype=dtype), torch.cat([x, x], dim=1), 0.0)
    spanned = int(torch.linalg.matrix_rank(x.double(), rtol=1e-5))
    assert abs(float(projection.diagonal().sum()) - (width - spanned)) < 0.05
    assert float((projection @ x).norm()) <= 1e-3 * float(x.norm())


def test_rounding_of_inputs_closes_nothing():
    """Four multiples of one direction, rounded to float32: three more directions of about 1e-7, which stay open."""
    x = (draw(0, 12, 1) @ draw(1, 1, 4)).float()
    projection = close_directions(torch.eye(12), x, 0.0)
    assert float(projection.diagonal().sum()) == pytest.approx(11, abs=0.05)


@pytest.mark.parametrize("lam", [0.0, 1e-20, 1.0, 1e20])
@pytest.mark.parametrize("scale", [0.0, 1e-38, 1e-20, 1.0, 1e18, 1e38])
@pytest.mark.parametrize("n", [1, 3, 12])
def test_never_nan(lam, scale, n):
    x = torch.cat([draw(0, 6, n, dtype=torch.float32)] * 2, dim=1) * scale
    x[:, 0] = 0
    projection = torch.eye(6)
    for _ in range(3):
        projection = close_directions(projection, x, lam)
    assert torch.isfinite(projection).all()
    assert float(projection.diagonal().sum()) <= 6 + 1e-4


def test_columns_that_overflowed_teach_nothing():
    x = draw(0, 4, 3, dtype=torch.float32)
    spoilt = torch.cat([x, torch.tensor([[float("inf")], [0], [float("nan")], [1]])], dim=1)
    torch.testing.assert_close(close_directions(torch.eye(4), spoilt, 1.0), close_directions(torch.eye(4), x, 1.0))
    groups = close_directions(torch.eye(4).expand(2, 4, 4), torch.stack([spoilt, 2 * spoilt]), 1.0)
    torch.testing.assert_close(groups[1], close_directions(torch.eye(4), 2 * x, 1.0))


@BOUNDED
@given(shape=shapes, seed=st.integers(0, 2**31), scale=st.sampled_from([1e-6, 1.0, 1e6]))
def test_columns_of_gram(shape, seed, scale):
    gram = gram_of(scale * draw(seed, *shape))
    columns = columns_of(gram)
    assert columns.shape == gram.shape
    # Eigenvalues and vectors are off by the width times eps; a product of two of each.
    assert relative_error(gram_of(columns), gram) < 64 * max(shape) * torch.finfo(torch.float64).eps


def test_rounding_noise_of_a_gram_is_no_column():
    # Of one input of 64 equal sizes: the largest eigenvalue is 64 times the largest entry, and the others, which are 0,
    # come out as rounding of that one.
    x = torch.randint(2, (64, 1), generator=torch.Generator().manual_seed(0)) * 2.0 - 1.0
    columns = columns_of(gram_of(x))
    assert int((columns != 0).any(0).sum()) == 1


@BOUNDED
@given(shape=shapes, seed=st.integers(0, 2**31), lam=lambdas, keep=st.floats(0.01, 1.0))
def test_forgetting_equals_weaker_inputs(shape, seed, lam, keep):
    x = draw(seed, *shape)
    forgotten = reopen_gradually(exact(x, lam), keep)
    # What is nearly closed opens by 1 / keep, and its rounding with it.
    assert distance(forgotten, exact(x * keep**0.5, lam)) <= rounding(x, lam, parts=2) / keep
