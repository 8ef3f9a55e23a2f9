"""Costs against hand-worked examples."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ramet.costs import ProductCounter, count_flops, count_parameters, measure_latency
from ramet.errors import ConfigError
from ramet.spaces import Cells64


def test_multiply_adds_of_child_434_by_hand() -> None:
    """At 32x32 each pixel meets every weight of every convolution once; the linear layer comes once an image."""
    child = Cells64().supernet(3, 10).child((3, 2, 3))
    weights = sum(p.numel() for p in child.parameters() if p.dim() == 4)
    assert count_flops(child, (3, 32, 32)) == weights * 32 * 32 + 32 * 10


def test_a_supernets_path_costs_what_its_child_costs() -> None:
    net = Cells64(channels=4, num_cells=2).supernet(1, 3)
    for arch in [(0, 0, 0), (3, 2, 3)]:
        assert count_flops(net, (1, 8, 8), arch) == count_flops(net.child(arch), (1, 8, 8))


def test_parameters_that_are_frozen_or_tied() -> None:
    shared = nn.Linear(3, 3, bias=False)
    assert count_parameters(nn.Sequential(shared, shared)) == 9
    shared.weight.requires_grad_(False)
    assert count_parameters(nn.Sequential(shared, nn.Linear(3, 1))) == 4


def test_measuring_leaves_a_module_as_it_was() -> None:
    module = nn.Sequential(nn.BatchNorm2d(3), nn.BatchNorm2d(3).eval())
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    assert measure_latency(module, (3, 4, 4), num_runs=2, num_warmups=0) > 0
    count_flops(module, (3, 4, 4))
    assert [part.training for part in module] == [True, False]
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())


@pytest.mark.parametrize("shape", [(), (0, 4, 4), (3, -1, 4)])
def test_bad_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="positive"):
        count_flops(nn.Identity(), shape)


RECURRENT = {
    "rnn": (nn.RNN, 1, {}),
    "lstm": (nn.LSTM, 4, {"num_layers": 2, "bidirectional": True}),
    "lstm-projected": (nn.LSTM, 4, {"proj_size": 2}),
    "gru": (nn.GRU, 3, {"bidirectional": True}),
}
without_one_dnn = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")


@without_one_dnn
@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers_cost_their_matrices_at_each_place(name: str) -> None:
    """Whatever kernel runs them: some are one operation, of which torch's own counter knows no products."""
    kind, gates, options = RECURRENT[name]
    layer = kind(5, 3, batch_first=True, **options)
    places, directions, hidden = 7, 1 + layer.bidirectional, layer.proj_size or 3
    sizes = [5, *[directions * hidden] * (layer.num_layers - 1)]
    weights = sum(directions * 3 * (gates * (size + hidden) + layer.proj_size) for size in sizes)
    assert weights == sum(p.numel() for p in layer.parameters() if p.dim() == 2)
    assert count_flops(layer, (places, 5)) == places * weights


@without_one_dnn
@pytest.mark.parametrize("name", RECURRENT)
def test_training_recurrent_layers_costs_three_times_as_much(name: str) -> None:
    """Each matrix meets its inputs, the gradients before it and the gradients behind it."""
    kind, _, options = RECURRENT[name]
    layer, x = kind(5, 3, batch_first=True, **options), torch.randn(2, 7, 5, requires_grad=True)
    with ProductCounter() as forward:
        output = layer(x)[0]
    with ProductCounter() as both:
        layer(x)[0].square().sum().backward()
    assert output.shape[:2] == (2, 7) and forward.multiply_adds == 2 * count_flops(layer, (7, 5))
    # The state before the first place is no parameter, so that nothing is asked for its gradient.
    assert both.multiply_adds <= 3 * forward.multiply_adds
    assert both.multiply_adds >= 3 * forward.multiply_adds * 6 / 7
