"""Growth on another device: torch's ``meta`` device mixes with no other, so a tensor made in the wrong place is heard.

It has no values, so only the parts are run that need none: every candidate at once, its gradients, and the edit.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from ramet.growth import Widening, find_coupling, find_sites, widen
from ramet.growth.base import GrowthContext
from ramet.growth.meter import Meter
from ramet.growth.methods.candidate_network import CandidateNetwork
from ramet.growth.methods.splitting import hessian_product, random_blocks


def network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 3, 3, groups=3), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2),
    )  # fmt: skip


def scene_elsewhere() -> GrowthContext:
    here = network()
    coupling = find_coupling(here, torch.randn(4, 1, 5, 5))
    sites, _ = find_sites(here, coupling)
    elsewhere = network().to("meta")
    x, y = torch.zeros(8, 1, 5, 5, device="meta"), torch.zeros(8, dtype=torch.long, device="meta")
    return GrowthContext(
        network=elsewhere, coupling=coupling, sites=sites, loss=nn.functional.cross_entropy, x=x, y=y, validation_x=x,
        validation_y=y, batch_size=4, seed=0, allowance=1.0, max_layers=0,
        meter=lambda: Meter(here, coupling, sites, "params"),
        make_optimizer=lambda net: torch.optim.SGD(net.parameters(), lr=0.1),
    )  # fmt: skip


def are_elsewhere(tensors: list[Tensor]) -> bool:
    return bool(tensors) and all(tensor.device.type == "meta" for tensor in tensors)


def test_candidates_and_their_gradients_stay_on_the_networks_device() -> None:
    context = scene_elsewhere()
    over = CandidateNetwork(context, num_new=2)
    epsilon = over.step_sizes(0.1).requires_grad_()
    (x, y), *_ = context.batches(1, "test")
    context.loss(over(x, epsilon), y).backward()
    over.bound()
    assert are_elsewhere([epsilon, x, y, *over.directions(), *(d.grad for d in over.directions())])
    edit = over.edit([0, 1, 4], over.step_sizes(0.1))
    made = [t for w in edit.widenings.values() for part in (w.steps, w.incoming, w.outgoing) for t in part.values()]
    assert are_elsewhere(made)
    blocks = hessian_product(
        context, CandidateNetwork(context), [(x, y)], random_blocks(CandidateNetwork(context), torch.Generator())
    )
    assert are_elsewhere(blocks)


@pytest.mark.parametrize("place", ["cpu", "meta"])
def test_a_network_is_widened_on_its_device(place: str) -> None:
    context = scene_elsewhere()
    net = context.network.to("meta")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for parameter in net.parameters():
        optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    steps = {"0.weight": torch.zeros(1, 1, 3, 3, device=place)}
    widen(
        net, context.coupling, {"0": Widening(sources=torch.tensor([2]), num_new=1, steps=steps)}, optimizer=optimizer
    )
    assert net[0].out_channels == net[3].out_channels == 5
    assert are_elsewhere([*net.parameters(), *net.buffers()])
    assert are_elsewhere([state["momentum_buffer"] for state in optimizer.state.values()])
