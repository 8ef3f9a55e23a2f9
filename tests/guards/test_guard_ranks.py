"""Guards of several ranks stay the same on each, and equal to one process that sees all the data."""

from __future__ import annotations

import tempfile

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from ramet.guards import KroneckerPlasticity, OrthogonalProjection, chain, diagonal_fisher
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
    from safetensors.torch import save_file

    save_file(state, f"{folder}/{rank}.safetensors")


@pytest.mark.slow
def test_two_ranks_equal_one_process():
    from safetensors.torch import load_file

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
