"""A second look at a network that grows finds what a fresh look finds, and tries nothing again."""

import architectures
import pytest
import torch
from torch import nn

from ramet.growth.surgery.widening import Widening
from ramet.growth.surgery.writing import widen
from ramet.growth.tracing import checking
from ramet.growth.tracing.checking import find_coupling
from ramet.growth.tracing.memory import Memory


class Stubborn(nn.Module):
    """Layers whose width is a number in the forward, found by trial, and one that nothing lets grow."""

    def __init__(self, factors=6):
        super().__init__()
        self.hidden, self.factors = 5, factors
        self.first, self.a, self.b = nn.Linear(8, 5), nn.Linear(5, 6), nn.Linear(6, 3)

    def forward(self, x):
        x = self.a(torch.tanh(self.first(x)).reshape(len(x), self.hidden))
        return self.b(torch.tanh(x) * torch.arange(1.0, 7.0).to(x) if self.factors else torch.tanh(x))


@pytest.fixture
def trials(monkeypatch):
    """Every trial on a copy, by how many groups grow in it."""
    seen, known = [], checking.growth_problem

    def counted(probe, coupling, groups, **options):
        groups = list(groups)
        seen.append(len(groups))
        return known(probe, coupling, groups, **options)

    monkeypatch.setattr(checking, "growth_problem", counted)
    return seen


def found_in(coupling):
    sizes = {name: group.size for name, group in coupling.groups.items()}
    return sizes, {refusal.name for refusal in coupling.refusals}, coupling.attributes.keys()


def test_what_is_known_is_not_tried_again(trials):
    torch.manual_seed(0)
    network, inputs, memory = Stubborn(), torch.randn(4, 8), Memory()
    first = find_coupling(network, inputs, memory=memory)
    assert found_in(first) == ({"first": 5}, {"a", "b"}, {("", "hidden")})
    assert len(trials) > 3  # all together, each alone, the number
    for width in (5, 6):
        trials.clear()
        again = find_coupling(network, inputs, memory=memory)
        assert trials == [1] and found_in(again) == found_in(find_coupling(network, inputs))
        assert again.groups["first"].size == network.hidden == width
        widen(network, again, {"first": Widening(num_new=1)})


def test_heads_and_the_channels_of_a_head_are_told_apart():
    """Both have the same places in the same weights; the number of heads can grow, and what each head gives cannot."""
    pytest.importorskip("transformers", reason="the extra 'networks' is not installed")
    network, inputs = architectures.make("gpt2")
    memory = Memory()
    first = find_coupling(network, inputs, memory=memory)
    assert any(group.is_block for group in first.groups.values())
    again = find_coupling(network, inputs, memory=memory)
    assert found_in(again) == found_in(first) and again.groups.keys() == first.groups.keys()


def test_new_names_are_looked_at_anew(trials):
    """What could not grow may be another layer's name now."""
    torch.manual_seed(0)
    inputs, memory = torch.randn(4, 8), Memory()
    assert "a" not in find_coupling(Stubborn(), inputs, memory=memory).groups
    able = Stubborn(factors=0)
    assert "a" not in find_coupling(able, inputs, memory=memory).groups
    able.more = nn.Linear(8, 8)
    assert find_coupling(able, inputs, memory=memory).groups["a"].size == 6


def test_what_does_not_fit_any_more_is_tried():
    """Numbers are run with before they are believed."""
    torch.manual_seed(0)
    network, inputs, memory = Stubborn(), torch.randn(4, 8), Memory()
    expected = found_in(find_coupling(network, inputs, memory=memory))
    for group in find_coupling(network, inputs).groups.values():
        memory.keep(group, (("", "factors"),))
    assert found_in(find_coupling(network, inputs, memory=memory)) == expected
