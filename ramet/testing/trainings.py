"""A conformance suite for ways to train a supernet: what a training that is killed and goes on relies on.

For authors of one of their own, with pytest:

    @pytest.mark.parametrize("check", TRAINING_CHECKS, ids=lambda check: check.__name__)
    def test_my_training(check):
        check(lambda space, seed: MyTraining(space, seed=seed))

Each check raises an ``AssertionError`` that says what is broken.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ramet.ranking.trainings.base import SupernetTraining, TrainingSize
from ramet.ranking.trainings.driven import DrivenTraining
from ramet.runs import state_from_bytes, state_to_bytes
from ramet.seeding import seeded_globally
from ramet.spaces import Cells64, Space
from ramet.training import Recipe, SavedPart, Step, make_optimizer

MakeTraining = Callable[[Space, int], SupernetTraining]
"""Makes a training for a space and a seed."""

SPACE = Cells64(channels=2, num_cells=1)
NUM_STEPS = 12
SIZE = TrainingSize(num_steps=NUM_STEPS, steps_per_epoch=3, num_samples=8, learning_rate=0.1)
RECIPE = Recipe(epochs=4, batch_size=4, learning_rate=0.1, momentum=0.9)


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


class _Training:
    """A few real steps of a supernet, which can be saved and gone on with."""

    def __init__(self, way: SupernetTraining) -> None:
        with seeded_globally(0, "trainings"):
            self.network, self._x, self._y = SPACE.supernet(1, 3), torch.randn(8, 1, 8, 8), torch.randint(3, (8,))
        self._optimizer = make_optimizer(self.network, RECIPE)
        self._step = Step(self.network, self._optimizer, RECIPE)
        self.driven = DrivenTraining(way, lambda step: SPACE[(7 * step) % len(SPACE)], SIZE)
        self.seen: list[Any] = []  # of each step its children, samples, learning rate and loss

    def take(self, first: int, last: int) -> None:
        """Take the steps from one to another."""
        self.network.train()
        for number in range(first, last):
            driven, place = self.driven, number % 2
            rows = driven.rows(number, torch.arange(4 * place, 4 * place + 4))
            rate = driven.rate(number, 0.1 * (1 - number / NUM_STEPS))
            driven.before_step(number, self._optimizer)
            batch = self._x[rows], self._y[rows]
            loss = self._step(number, rate, partial(self._loss, number), *batch)
            self.seen.append((tuple(driven.archs(number)), rows.tolist(), rate, loss))
            values = [param.detach().clone() for param in self._step.params.values()]
            gradients = [param.grad for param in self._step.params.values()]
            copies = [None if gradient is None else gradient.clone() for gradient in gradients]
            state = torch.get_rng_state()
            driven.after_step(number, loss, self._step.params)
            assert torch.equal(state, torch.get_rng_state()), "after a step the global generator was drawn from"
            assert all(map(torch.equal, self._step.params.values(), values)), "a weight was changed after its step"
            for gradient, copy in zip(gradients, copies, strict=True):
                same = gradient is None or copy is None or torch.equal(gradient, copy)
                assert same, "a gradient was changed after its step"

    def _loss(self, number: int, x: Tensor, y: Tensor) -> Tensor:
        return self.driven.loss(self.network, number, x, y, cross_entropy)

    def state(self) -> dict[str, Any]:
        """What a checkpoint of it would hold."""
        parts: dict[str, SavedPart] = {"network": self.network, "optimizer": self._optimizer}
        parts |= {"way": self.driven} if self.driven.way.has_state else {}
        return {name: part.state_dict() for name, part in parts.items()}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.network.load_state_dict(state["network"])
        self._optimizer.load_state_dict(state["optimizer"])
        if self.driven.way.has_state:
            self.driven.load_state_dict(state["way"])


def check_a_killed_training_goes_on(make: MakeTraining) -> None:
    """Saved after any step and gone on with by another object, steps and weights are the same, bit for bit."""
    whole = _Training(make(SPACE, 3))
    states = []
    for step in range(NUM_STEPS):
        states.append(state_to_bytes(whole.state()))  # through the form in which a checkpoint has it
        whole.take(step, step + 1)
    for step in (2, 7):
        again = _Training(make(SPACE, 3))
        again.load(state_from_bytes(states[step]))
        again.take(step, NUM_STEPS)
        assert again.seen == whole.seen[step:], f"killed after {step} steps, it goes on with others"
        same = zip(again.network.state_dict().values(), whole.network.state_dict().values(), strict=True)
        assert all(torch.equal(one, other) for one, other in same), f"killed after {step} steps, weights are others"
        assert state_to_bytes(again.state()) == state_to_bytes(whole.state()), "what it saves differs at the end"


def check_one_object_begins_anew(make: MakeTraining) -> None:
    """A second training with the same object is the first one again: nothing is left over."""
    way = make(SPACE, 3)
    first = _Training(way)
    first.take(0, NUM_STEPS)
    second = _Training(way)
    second.take(0, NUM_STEPS)
    assert first.seen == second.seen, "the second training with one object differs from the first"


def check_steps_stay_within_the_training(make: MakeTraining) -> None:
    """Samples are of the data, as many as before, and learning rates are numbers that can be used."""
    training = _Training(make(SPACE, 1))
    training.take(0, NUM_STEPS)
    for step, (archs, rows, rate, _) in enumerate(training.seen):
        assert all(arch in SPACE for arch in archs), f"step {step} has a child that is not of the space"
        assert all(0 <= row < SIZE.num_samples for row in rows) and len(rows) == 4, f"step {step} has samples {rows}"
        assert 0 <= rate < math.inf, f"step {step} has a learning rate of {rate}"


def check_dropped_children_are_not_trained(make: MakeTraining) -> None:
    """A child that was dropped is in no later step, and some child is always left."""
    training = _Training(make(SPACE, 2))
    for step in range(NUM_STEPS):
        dropped = {arch for arch in SPACE if training.driven.way.dropped_after(arch) is not None}
        assert len(dropped) < len(SPACE), "every child was dropped"
        training.take(step, step + 1)
        assert not dropped & set(training.seen[-1][0]), f"step {step} trains a child that was dropped"


TRAINING_CHECKS: tuple[Callable[[MakeTraining], None], ...] = tuple(
    check for name, check in globals().items() if name.startswith("check_")
)
"""Every check, each called as ``check(make)``."""
