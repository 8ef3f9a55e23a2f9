"""Steps that fail, and models that come to nothing, leave no trace."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from ramet.guards import (
    ElasticConsolidation,
    KroneckerPlasticity,
    OrthogonalProjection,
    WeightPlasticity,
    chain,
)
from ramet.params import named_params
from ramet.testing.guards import make_batch, make_network, make_optimizer, train

GUARDS = {
    "plasticity": lambda: WeightPlasticity(300.0, form="explicit"),
    "elastic": lambda: ElasticConsolidation(300.0),
    "kronecker": lambda: KroneckerPlasticity(300.0, form="explicit"),
    "projection": lambda: OrthogonalProjection(0.1),
    "chain": lambda: chain(
        WeightPlasticity(300.0, form="explicit"), ElasticConsolidation(10.0), OrthogonalProjection(0.1)
    ),
}


class StepError(Exception):
    pass


@pytest.mark.parametrize("name", GUARDS)
def test_a_step_that_fails_gives_the_gradients_back(name):
    guard, network = GUARDS[name](), make_network(torch.float64)
    optimizer = make_optimizer(network)
    train(guard, network, optimizer, remember=True, dtype=torch.float64)
    x, y = make_batch(50, torch.float64)
    network.zero_grad()
    with torch.no_grad():
        for param in network.parameters():
            param += 0.1
    cross_entropy(network(x), y).backward()
    before = {name: param.grad.clone() for name, param in network.named_parameters() if param.grad is not None}
    values = {name: param.detach().clone() for name, param in network.named_parameters()}
    with pytest.raises(StepError), guard.step(named_params(network), 0.05):
        if name != "projection":
            assert not all(torch.equal(before[n], dict(network.named_parameters())[n].grad) for n in before)
        raise StepError
    for found, param in network.named_parameters():
        assert torch.equal(values[found], param)
        if found in before:
            torch.testing.assert_close(param.grad, before[found])
    with guard.step(named_params(network), 0.05):  # and the next step is as if nothing had happened
        optimizer.step()


@pytest.mark.parametrize("name", ["kronecker", "projection", "chain"])
@pytest.mark.parametrize("options", [{}, {"rank": 2}])
def test_what_was_gathered_can_be_dropped(name, options):
    """A model that came to nothing: its inputs would be remembered together with the next one's."""
    states = []
    for comes_to_nothing in (True, False):
        guard = OrthogonalProjection(0.1, **options) if name == "projection" else GUARDS[name]()
        network = make_network()
        train(guard, network, make_optimizer(network), remember=True)
        kept = {key: value.clone() for key, value in network.state_dict().items()}
        if comes_to_nothing:
            train(guard, network, make_optimizer(network), path=1, seed=10)
            guard.discard()
            network.load_state_dict(kept)
        train(guard, network, make_optimizer(network), path=1, seed=20, remember=True)
        states.append(guard.state_dict())
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])
