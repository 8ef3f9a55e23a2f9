"""What a trained network is to keep is taken from its data, as one would by hand, and the network stays as it is."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from ramet.errors import ConfigError
from ramet.guards import ElasticConsolidation, KroneckerPlasticity, OrthogonalProjection, remember_batches
from ramet.params import named_params


def network_and_batches(sizes=(6, 6, 6)):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Tanh(), nn.Dropout(0.5), nn.Linear(7, 3))
        batches = [(torch.randn(size, 5).double(), torch.randint(3, (size,))) for size in sizes]
    return network.double(), batches


def test_the_importance_is_the_mean_of_squared_gradients():
    network, batches = network_and_batches((4, 6))
    guard = ElasticConsolidation(strength=1.0)
    remember_batches(guard, network, batches)
    by_hand = copy.deepcopy(network).eval()
    expected = {name: torch.zeros_like(param) for name, param in by_hand.named_parameters()}
    for x, y in batches:
        by_hand.zero_grad()
        cross_entropy(by_hand(x), y).backward()
        for name, param in by_hand.named_parameters():
            expected[name] += param.grad**2 / 2
    for name, value in expected.items():
        torch.testing.assert_close(guard.fisher[name], value, rtol=1e-12, atol=0.0)


def test_nothing_about_the_network_changes():
    network, batches = network_and_batches()
    network.train()
    network[3].eval()
    network[0].weight.grad = torch.ones_like(network[0].weight)
    before = copy.deepcopy(network.state_dict())
    remember_batches(OrthogonalProjection(), network, batches)
    assert all(torch.equal(value, network.state_dict()[name]) for name, value in before.items())
    assert [module.training for module in network] == [True, True, True, False, True]
    assert torch.equal(network[0].weight.grad, torch.ones(7, 5).double())
    assert network[4].weight.grad is None


@pytest.mark.parametrize("make", [lambda: OrthogonalProjection(0.0), lambda: KroneckerPlasticity(strength=1e9)])
def test_guards_that_need_inputs_keep_what_the_network_says_of_them(make):
    network, batches = network_and_batches((2, 2))
    network = nn.Sequential(network[0], network[4].requires_grad_(False))
    guard, x = make(), torch.cat([x for x, _ in batches])
    remember_batches(guard, network, batches, lambda batch: network(batch[0]).square().sum())
    before, params = network(x).detach(), named_params(network)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    other = torch.randn(9, 5, generator=torch.Generator().manual_seed(1)).double()
    changed = network(other).detach()
    for _ in range(3):
        optimizer.zero_grad()
        with guard.watch(network):
            network(other).square().sum().backward()
        with guard.step(params, 0.1):
            optimizer.step()
    assert float((network(x).detach() - before).abs().max()) < 1e-4
    assert float((network(other).detach() - changed).abs().max()) > 1e-2


def test_without_a_batch_it_says_so():
    network, _ = network_and_batches()
    with pytest.raises(ConfigError, match="none of 0 mini-batches"):
        remember_batches(ElasticConsolidation(strength=1.0), network, [])
