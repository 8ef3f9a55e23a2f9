"""Guards of several ranks stay the same on each, and equal to one process that sees all the data."""

from __future__ import annotations

import tempfile

import pytest
import torch
from exact_projection import distance, exact, rounding
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.functional import cross_entropy

from ramet.guards import KroneckerPlasticity, OrthogonalProjection, chain, diagonal_fisher
from ramet.guards.projectors import RankProjector
from ramet.params import named_params
from ramet.testing.guards import make_network

GUARDS = {
    "all": lambda: OrthogonalProjection(0.5),
    "mean": lambda: OrthogonalProjection(0.5, inputs="mean"),
    "rank": lambda: OrthogonalProjection(0.5, rank=3),
    "kronecker": lambda: KroneckerPlasticity(),
}


def _batch():
    generator = torch.Generator().manual_seed(3)
    x, y = torch.randn(8, 1, 5, 5, generator=generator), torch.randint(3, (8,), generator=generator)
    return x.double(), y


def _learn(network, x, y):
    guard = chain(*(make() for make in GUARDS.values()))
    with guard.watch(network):
        cross_entropy(network(x), y).backward()
    guard.remember(named_params(network))
    return guard


def _rank(rank, store, folder):
    torch.distributed.init_process_group("gloo", store=torch.distributed.FileStore(store, 2), rank=rank, world_size=2)
    network = nn.parallel.DistributedDataParallel(make_network(torch.float64), find_unused_parameters=True)
    x, y = (part[rank * 4 : rank * 4 + 4] for part in _batch())
    state = _learn(network, x, y).state_dict()
    state |= {f"fisher.{k}": v for k, v in diagonal_fisher(network.eval(), cross_entropy, x, y).items()}
    torch.distributed.destroy_process_group()
    save_file(state, f"{folder}/{rank}.safetensors")


def _columns():
    return torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(4), dtype=torch.float64)


def _rank_with_columns(rank, store, folder):
    torch.distributed.init_process_group("gloo", store=torch.distributed.FileStore(store, 2), rank=rank, world_size=2)
    projector = RankProjector(0.5, 4, mean=False)
    projector.gather(_columns()[..., rank : 2 * rank + 1])  # one on the first rank, two on the second
    projector.close(1.0, torch.distributed.group.WORLD)
    torch.distributed.destroy_process_group()
    save_file(projector.tensors(), f"{folder}/{rank}.safetensors")


@pytest.mark.slow
def test_a_limited_rank_that_suffices_closes_the_inputs_of_all_ranks():
    x, update = _columns(), torch.eye(6, dtype=torch.float64).expand(2, 6, 6)
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(_rank_with_columns, args=(f"{folder}/store", folder), nprocs=2)
        for rank in range(2):
            projector = RankProjector(0.5, 4, mean=False, **load_file(f"{folder}/{rank}.safetensors"))
            for group, found in enumerate(projector.project(update)):
                # A reduction to the strongest directions, an eigendecomposition, beside the projection.
                assert distance(found, exact(x[group], 0.5)) <= rounding(x[group], 0.5, parts=2)


@pytest.mark.slow
def test_two_ranks_equal_one_process():
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(_rank, args=(f"{folder}/store", folder), nprocs=2)
        states = [load_file(f"{folder}/{rank}.safetensors") for rank in range(2)]
    network = make_network(torch.float64)
    expected = _learn(network, *_batch()).state_dict()
    expected |= {f"fisher.{k}": v for k, v in diagonal_fisher(network.eval(), cross_entropy, *_batch()).items()}
    assert states[0].keys() == states[1].keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(states[0][name], states[1][name]), name
        if not name.startswith("2."):  # at a limited rank each rank keeps its own strongest directions first
            torch.testing.assert_close(states[0][name], tensor, rtol=1e-9, atol=1e-12, msg=name)
