"""A penalty that holds weights where the last model left them needs turns of several mini-batches."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

from ramet.errors import ConfigError
from ramet.guards import ElasticConsolidation, KroneckerPlasticity, NoGuard, WeightPlasticity, chain, make_guard
from ramet.guards.turns import VoidGuardWarning, check_turn
from ramet.params import named_params
from ramet.testing.guards import make_network, make_optimizer, train


def trained(guard, turn, form="explicit"):
    """Two paths that take turns of so many mini-batches; gives the network."""
    network = make_network()
    optimizer = make_optimizer(network)
    for place in range(6):
        train(guard, network, optimizer, path=place % 2, steps=turn, seed=100 * place, remember=True)
    return network


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


@pytest.mark.filterwarnings("ignore::ramet.guards.turns.VoidGuardWarning")
@pytest.mark.parametrize("strength", [60.0, 1e6])
def test_with_one_mini_batch_a_turn_the_anchor_is_where_the_weights_are(strength):
    """Why it is refused: the explicit form is no guard at all, bit for bit, however strong it is."""
    assert same(trained(WeightPlasticity(strength, eta=0.9, form="explicit"), 1), trained(NoGuard(), 1))


@pytest.mark.parametrize(
    ("options", "turn"), [({"eta": 0.9}, 3), ({"eta": 0.9, "towards": "mean"}, 1), ({"eta": None}, 1)]
)
def test_with_longer_turns_or_the_mean_of_all_models_it_acts(options, turn):
    assert not same(trained(WeightPlasticity(60.0, form="explicit", **options), turn), trained(NoGuard(), turn))


def test_the_mean_anchor_is_that_of_the_discounted_sum_of_penalties():
    weight = nn.Parameter(torch.zeros(3, dtype=torch.float64))
    guard, models = WeightPlasticity(eta=0.9, towards="mean"), []
    generator = torch.Generator().manual_seed(0)
    for _ in range(4):
        weight.data.copy_(torch.randn(3, generator=generator))
        fisher = torch.rand(3, generator=generator, dtype=torch.float64)
        guard.remember({"w": weight}, {"w": fisher})
        models = [(0.1 * f, anchor) for f, anchor in models] + [(0.9 * fisher, weight.detach().clone())]
    total = sum(f for f, _ in models)
    torch.testing.assert_close(guard.fisher["w"], total)
    torch.testing.assert_close(guard.anchor["w"], sum(f * anchor for f, anchor in models) / total)


LAST = (WeightPlasticity(eta=0.9), KroneckerPlasticity(), chain(ElasticConsolidation(), WeightPlasticity.for_search()))
OTHERS = (WeightPlasticity(), WeightPlasticity(eta=0.9, towards="mean"), ElasticConsolidation(), NoGuard())


@pytest.mark.parametrize("guard", LAST)
def test_single_mini_batches_are_refused_where_the_last_model_is_held(guard):
    with pytest.raises(ConfigError, match="must last at least 2 mini-batches, but got 1; give --batches-per-model 7"):
        check_turn(guard, 1)
    check_turn(guard, 2)


@pytest.mark.parametrize("guard", [*OTHERS, make_guard("projection+plasticity:60:towards=mean")])
def test_other_guards_take_any_turn(guard):
    check_turn(guard, 1)


def test_an_unknown_place_to_hold_is_refused():
    with pytest.raises(ConfigError, match="towards must be 'last' or 'mean', but got 'first'"):
        WeightPlasticity(eta=0.9, towards="first")


@pytest.mark.parametrize("make", [lambda: WeightPlasticity(eta=0.9), KroneckerPlasticity])
def test_a_loop_of_ones_own_is_told_once(make):
    network, guard = nn.Linear(3, 2), make()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)

    def turn(steps):
        for _ in range(steps):
            optimizer.zero_grad()
            with guard.watch(network):
                network(torch.randn(4, 3)).square().mean().backward()
            with guard.step(named_params(network), 0.1):
                optimizer.step()
        guard.remember(named_params(network))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for steps in (1, 1, 2, 1, 1):
            turn(steps)
    with pytest.warns(VoidGuardWarning, match="remember was called after every single step"):
        turn(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            turn(1)


@pytest.mark.parametrize("name", ["plasticity", "elastic", "kronecker", "projection", "gpm"])
def test_a_text_may_say_what_is_protected(name):
    """One pattern without brackets, several in them; a pattern is not a list of letters."""
    for text in (f"{name}:protect=0.*", f'{name}:protect=["0.*","nothing"]'):
        guard = make_guard(text, warmup_epochs=0)
        network = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
        for _ in range(2):
            with guard.watch(network):
                network(torch.randn(4, 3)).square().sum().backward()
            guard.remember(dict(network.named_parameters()))
        kept = [key.partition("/")[2] for key in guard.state_dict() if "/" in key]
        assert kept and all(key.startswith("0.") for key in kept), text
