"""A conformance suite for ways to train a supernet: what a training that is killed and goes on relies on.

For authors of one of their own, with pytest:

    @pytest.mark.parametrize("check", TRAINING_CHECKS, ids=lambda check: check.__name__)
    def test_my_training(check):
        check(lambda space, seed: MyTraining(space, seed=seed))

Each check raises an ``AssertionError`` that says what is broken.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ramet.ranking.trainings.base import SupernetTraining
from ramet.seeding import seeded_globally
from ramet.spaces import Cells64, Space

MakeTraining = Callable[[Space, int], SupernetTraining]
"""Makes a training for a space and a seed."""

SPACE = Cells64(channels=2, num_cells=1)
NUM_STEPS = 12


def _scene() -> tuple[nn.Module, Tensor, Tensor]:
    with seeded_globally(0, "trainings"):
        return SPACE.supernet(1, 3), torch.randn(4, 1, 8, 8), torch.randint(3, (4,))


def check_children_are_of_the_space(make: MakeTraining) -> None:
    """A step has at least one child, at most as many as it says, and all are architectures of the space."""
    way = make(SPACE, 0)
    for step in range(NUM_STEPS):
        archs = way.archs(step, SPACE[step])
        assert 1 <= len(archs) <= way.children_per_step, f"step {step} has {len(archs)} of {way.children_per_step}"
        assert all(arch in SPACE for arch in archs), f"step {step} has a child that is not of the space"


def check_children_follow_from_the_seed_and_the_step(make: MakeTraining) -> None:
    """Asked again, in another order and of another object, a step has the same children; nothing else is drawn from."""
    first, second = make(SPACE, 5), make(SPACE, 5)
    state = torch.get_rng_state()
    steps = [first.archs(step, SPACE[step]) for step in range(NUM_STEPS)]
    assert torch.equal(state, torch.get_rng_state()), "the global generator was drawn from"
    again = [second.archs(step, SPACE[step]) for step in reversed(range(NUM_STEPS))]
    assert [list(archs) for archs in steps] == [list(archs) for archs in reversed(again)], "a step changed its children"


def check_turns_are_kept(make: MakeTraining) -> None:
    """One that takes turns trains the child alone whose turn it is."""
    way = make(SPACE, 0)
    if way.takes_turns:
        assert all(list(way.archs(step, SPACE[step])) == [SPACE[step]] for step in range(NUM_STEPS))


def check_the_loss_is_a_number_with_gradients(make: MakeTraining) -> None:
    """The loss is one finite number, it reaches weights, and taking it leaves weights as they are."""
    way, (network, x, y) = make(SPACE, 0), _scene()
    before = {name: param.detach().clone() for name, param in network.named_parameters()}
    loss = way.loss(network, x, y, way.archs(0, SPACE[0]), cross_entropy)
    assert loss.shape == () and bool(loss.isfinite()), f"the loss is {loss}"
    torch.autograd.backward(loss)
    assert any(param.grad is not None for param in network.parameters()), "no weight has a gradient"
    assert all(torch.equal(param, before[name]) for name, param in network.named_parameters()), "a weight has changed"


def check_every_option_is_trained(make: MakeTraining) -> None:
    """Over a round of all children, every option of every decision has its turn."""
    way = make(SPACE, 0)
    seen = {
        (place, option)
        for step, turn in enumerate(SPACE)
        for arch in way.archs(step, turn)
        for place, option in enumerate(arch)
    }
    assert len(seen) == sum(SPACE.num_options), "an option is never trained"


TRAINING_CHECKS: tuple[Callable[[MakeTraining], None], ...] = tuple(
    check for name, check in globals().items() if name.startswith("check_")
)
"""Every check, each called as ``check(make)``."""
