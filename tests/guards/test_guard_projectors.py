"""What a layer's projector gathers and keeps, call by call, for several groups."""

from __future__ import annotations

import pytest
import torch
from exact_projection import distance, exact, rounding
from torch import nn

from ramet.guards import OrthogonalProjection
from ramet.guards.closing import gram_of
from ramet.guards.projectors import MatrixProjector, RankProjector

GROUPS, WIDTH, LAMBDA = 2, 6, 0.5


def inputs(num_columns, seed=0):
    return torch.randn(GROUPS, WIDTH, num_columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def gathered(projector, x, *sizes):
    for part in x.split(sizes, dim=-1):
        projector.gather(part)
    return projector


def test_columns_of_several_calls_are_kept_in_their_order_and_saved():
    x = inputs(4)
    projector = gathered(MatrixProjector(LAMBDA, mean=False), x, 1, 2, 1)
    saved = projector.tensors()
    assert set(saved) == {"columns"} and torch.equal(saved["columns"], x)
    again = MatrixProjector(LAMBDA, mean=False, **saved)
    assert again.dtype == torch.float64
    for one in (projector, again):
        one.close(1.0, None)
        for group, found in enumerate(one.parts["matrix"]):
            assert distance(found, exact(x[group], LAMBDA)) <= rounding(x[group], LAMBDA)
        assert set(one.tensors()) == {"matrix"}


@pytest.mark.parametrize("sizes", [(4, 3), (7,), (3, 3, 1)])
def test_more_columns_than_the_width_are_kept_as_their_products(sizes):
    x = inputs(7)
    projector = MatrixProjector(LAMBDA, mean=False)
    for number, part in enumerate(x.split(sizes, dim=-1)):
        projector.gather(part)
        held = set(projector.tensors())
        assert held == ({"columns"} if sum(sizes[: number + 1]) <= WIDTH else {"gram"})
    # A sum of seven products in another order.
    assert (
        distance(projector.tensors()["gram"], gram_of(x))
        <= 8 * 7 * torch.finfo(torch.float64).eps * float(x.norm()) ** 2
    )
    projector.gather(inputs(1, seed=1))
    assert set(projector.tensors()) == {"gram"}
    projector.close(1.0, None)
    seen = torch.cat([x, inputs(1, seed=1)], dim=-1)
    for group in range(GROUPS):
        found = projector.parts["matrix"][group]
        assert distance(found, exact(seen[group], LAMBDA)) <= rounding(seen[group], LAMBDA)


def test_a_limited_rank_of_several_calls_and_groups_is_exact_while_it_suffices():
    rank = 3
    projector = RankProjector(LAMBDA, rank, mean=False)
    first, second = inputs(2), inputs(2, seed=1)
    second = torch.cat([first @ torch.tensor([[2.0], [1.0]]).double(), second[..., :1]], dim=-1)
    gathered(projector, first, 1, 1)
    assert torch.equal(projector.parts["columns"], first)
    projector.close(1.0, None)
    projector.gather(second)
    projector.close(1.0, None)
    update = inputs(WIDTH, seed=2).mT
    found, seen = projector.project(update), torch.cat([first, second], dim=-1)
    for group in range(GROUPS):
        wanted = update[group] @ exact(seen[group], LAMBDA)
        # Two reductions to the strongest directions, each an eigendecomposition; as exact as a projection of as many.
        assert distance(found[group], wanted) <= rounding(seen[group], LAMBDA, parts=4) * float(update[group].norm())
    left, of = projector.open_directions()
    trace = sum(float(exact(seen[group], LAMBDA).diagonal().sum()) for group in range(GROUPS))
    allowed = sum(rounding(seen[group], LAMBDA, parts=4) * WIDTH for group in range(GROUPS))  # a trace has WIDTH terms
    assert of == GROUPS * WIDTH and abs(left - trace) <= allowed


def test_memory_is_said_in_kib():
    memory = OrthogonalProjection().memory_of(nn.Linear(1000, 2, bias=False))
    assert memory.num_bytes == 1000 * 1000 * 4
    assert str(memory).splitlines()[1].split()[-1] == f"{memory.num_bytes / 2**10:.1f}"
