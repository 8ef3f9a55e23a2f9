"""The toy of figure 3: trained together as each would be alone, and grown by one neuron at a time."""

import copy

import pytest
import torch

from ramet.errors import ConfigError
from ramet_papers.firefly.rbf import RbfSettings, grow_rbf, make_growth, make_network, make_truth, train_stack


def test_a_stack_trains_as_each_network_would_alone():
    # In double precision: Adam moves a weight by its learning rate however small its gradient, and rounding with it.
    data = [tuple(part.double() for part in make_truth(0, repetition)) for repetition in range(2)]
    networks = [make_network(3, torch.Generator().manual_seed(i), 1.0).double() for i in range(2)]
    alone = copy.deepcopy(networks)
    x, y = torch.stack([a[:, 0] for a, _ in data]), torch.stack([b[:, 0] for _, b in data])
    losses = train_stack(networks, x, y, 20, 0.01)
    for network, (inputs, targets), loss, trained in zip(alone, data, losses, networks, strict=True):
        optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
        for _ in range(20):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(network(inputs), targets).backward()
            optimizer.step()
            schedule.step()
        assert torch.allclose(network[0].weight, trained[0].weight, rtol=0, atol=1e-9)
        with torch.no_grad():
            expected = torch.nn.functional.mse_loss(network(inputs), targets)
        assert float(expected) == pytest.approx(float(loss), rel=1e-9)


@pytest.mark.parametrize("method", ["firefly", "splitting", "random", "scratch"])
def test_the_toy_grows(method):
    settings = RbfSettings(repetitions=2, max_neurons=2, num_updates=3, num_candidate_updates=2)
    curves = grow_rbf(method, settings)
    assert curves.shape == (2, 2) and bool(torch.isfinite(curves).all())
    assert torch.equal(curves, grow_rbf(method, settings)), "the same seed, the same curve"


def test_unknown_methods_are_refused():
    with pytest.raises(ConfigError, match="of figure 3a"):
        make_growth("magic", RbfSettings())
