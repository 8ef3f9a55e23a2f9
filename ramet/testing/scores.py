"""A conformance suite for training-free scores: what a search and a report rely on.

For authors of a score of their own, with pytest:

    @pytest.mark.parametrize("check", SCORE_CHECKS, ids=lambda check: check.__name__)
    def test_my_score(check):
        check(MyScore)

Each check raises an ``AssertionError`` that says what is broken.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from ramet.ranking.scores.base import TrainingFreeScore
from ramet.seeding import seeded_globally, torch_generator
from ramet.spaces import Cells64

MakeScore = Callable[[nn.Module, Tensor], TrainingFreeScore]
"""Makes a score for a network and a mini-batch of images."""

SPACE = Cells64(channels=2, num_cells=1)


def _scene() -> tuple[nn.Module, Tensor]:
    with seeded_globally(0, "scores"):
        network = SPACE.supernet(1, 3)
    return network, torch.randn(4, 1, 8, 8, generator=torch_generator(0, "scores"))


def check_scores_are_numbers(make: MakeScore) -> None:
    """A score is a number for every architecture, and no NaN."""
    score = make(*_scene())
    for arch in SPACE[:3]:
        value = score(arch)
        assert isinstance(value, float) and not math.isnan(value), f"the score of {arch} is {value!r}"


def check_scores_are_repeatable(make: MakeScore) -> None:
    """Asked again, in another order and of another object, a score is the same, bit for bit."""
    archs = SPACE[:4]
    first, second = make(*_scene()), make(*_scene())
    values = [first(arch) for arch in archs]
    assert [first(arch) for arch in archs] == values, "a second question gave another score"
    assert [second(arch) for arch in reversed(archs)] == values[::-1], "another order gave another score"


def check_the_network_is_left_alone(make: MakeScore) -> None:
    """Neither weights, statistics, gradients, modes nor the global generator change."""
    network, x = _scene()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    modes, inputs, state = [module.training for module in network.modules()], x.clone(), torch.get_rng_state()
    make(network, x)(SPACE[0])
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items()), "weights changed"
    assert all(param.grad is None and param.requires_grad for param in network.parameters()), "gradients were left"
    assert modes == [module.training for module in network.modules()], "modes changed"
    assert torch.equal(x, inputs) and x.grad is None, "the inputs changed"
    assert torch.equal(state, torch.get_rng_state()), "the global generator was drawn from"


SCORE_CHECKS: tuple[Callable[[MakeScore], None], ...] = tuple(
    check for name, check in globals().items() if name.startswith("check_")
)
"""Every check, each called as ``check(make)``."""
