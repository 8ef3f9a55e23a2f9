"""The one step against loops that are too plain to be wrong, in double precision."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from ramet.errors import RunError
from ramet.guards import ElasticConsolidation, WeightPlasticity
from ramet.params import named_params
from ramet.runs import Checkpoints
from ramet.training import Held, Recipe, Step, fit
from ramet.training.step_sizes import OptimizerStepSizes

NUM_STEPS = 5


def make_network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()


def make_batches(size: int = 8) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(1)
    draw = lambda width: torch.randn(size, width, generator=generator, dtype=torch.float64)  # noqa: E731
    return [(draw(3), draw(2)) for _ in range(NUM_STEPS)]


def sgd(network: nn.Module, **options) -> torch.optim.SGD:
    return torch.optim.SGD(network.parameters(), lr=1.0, **options)


def take(step: Step, network: nn.Module, rates: list[float], batches=None, **options) -> list[float]:
    batches = batches or make_batches()
    return [
        step(number, rate, lambda x, y: mse_loss(network(x), y), *batch, **options)
        for number, (rate, batch) in enumerate(zip(rates, batches, strict=True))
    ]


def by_hand(network, rates, *, momentum=0.0, decay=0.0, clip=None, factor_of=lambda name: 1.0) -> list[float]:
    """SGD a parameter at a time."""
    velocity: dict[str, Tensor] = {}
    losses = []
    for rate, (x, y) in zip(rates, make_batches(), strict=True):
        network.zero_grad()
        loss = ((network(x) - y) ** 2).mean()
        loss.backward()
        norm = math.sqrt(sum(float((param.grad**2).sum()) for param in network.parameters()))
        shrink = 1.0 if clip is None else min(1.0, clip / (norm + 1e-6))  # torch's own epsilon
        with torch.no_grad():
            for name, param in network.named_parameters():
                gradient = shrink * param.grad + decay * param
                velocity[name] = gradient + momentum * velocity.get(name, torch.zeros_like(param))
                param -= rate * factor_of(name) * velocity[name]
        losses.append(loss.item())
    return losses


def assert_close(ours: nn.Module, theirs: nn.Module) -> None:
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, msg=lambda text, name=name: f"{name}: {text}")


RATES = [0.3, 0.2, 0.1, 0.4, 0.05]


@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.9, 0.0), (0.5, 0.1)])
def test_momentum_decay_and_a_learning_rate_for_each_step(momentum, decay):
    ours, theirs = make_network(), make_network()
    step = Step(ours, sgd(ours, momentum=momentum, weight_decay=decay))
    assert take(step, ours, RATES) == pytest.approx(by_hand(theirs, RATES, momentum=momentum, decay=decay))
    assert_close(ours, theirs)


@pytest.mark.parametrize("clip", [0.1, 1e9])
def test_the_norm_of_all_gradients_is_clipped(clip):
    ours, theirs, free = make_network(), make_network(), make_network()
    take(Step(ours, sgd(ours), Recipe(clip_norm=clip)), ours, RATES)
    by_hand(theirs, RATES, clip=clip)
    assert_close(ours, theirs)
    by_hand(free, RATES)
    same = all(torch.allclose(a, b) for a, b in zip(ours.parameters(), free.parameters(), strict=True))
    assert same == (clip > 1), "the test would not see a step that does not clip"


def test_only_the_given_parameters_are_clipped():
    """The others of the network, which have gradients too, do not count."""
    network = make_network()
    params = dict(network[0].named_parameters())
    step = Step(network, sgd(network[0]), Recipe(clip_norm=0.01), params=params)
    before = copy.deepcopy(network)
    take(step, network, [1.0], make_batches()[:1])
    moved = torch.cat([(a - b).flatten() for a, b in zip(network[0].parameters(), before[0].parameters(), strict=True)])
    # The norm is 0.01 / (1 + 1e-6 / norm) by torch's epsilon; this network's gradient is longer than 0.01.
    assert float(moved.detach().norm()) == pytest.approx(0.01, rel=1e-3)
    assert torch.equal(network[2].weight, before[2].weight)


# Micro-batches


@pytest.mark.parametrize(
    ("size", "accumulate", "sizes"), [(8, 4, [2] * 4), (7, 3, [3, 2, 2]), (5, 4, [3, 2]), (3, 2, [3])]
)
@pytest.mark.parametrize("clip", [None, 0.1])
def test_micro_batches_give_the_step_of_the_whole_batch(size, accumulate, sizes, clip):
    ours, theirs = make_network(), make_network()
    batches = make_batches(size)
    step = Step(ours, sgd(ours, momentum=0.9), Recipe(accumulate=accumulate, clip_norm=clip))
    seen: list[int] = []
    ours.register_forward_pre_hook(lambda module, arguments: seen.append(len(arguments[0])))
    losses = take(step, ours, RATES, batches)
    assert losses == pytest.approx(
        take(Step(theirs, sgd(theirs, momentum=0.9), Recipe(clip_norm=clip)), theirs, RATES, batches)
    )
    assert seen == sizes * NUM_STEPS
    assert_close(ours, theirs)


# Held values


def test_held_values_stay_whatever_momentum_and_decay_do():
    ours, theirs = make_network(), make_network()
    weight, bias = ours[0].weight, ours[0].bias
    mask = torch.tensor([[True], [False], [True], [False]])  # broadcasts over the inputs
    before = weight.detach().clone()
    held = [Held(weight, mask), Held(bias, torch.zeros(4, dtype=torch.bool))]
    take(Step(ours, sgd(ours, momentum=0.9, weight_decay=0.1), held=held), ours, RATES)
    assert torch.equal(weight[::2], before[::2])
    # The twin: a plain step, and then the values written back one by one.
    optimizer = sgd(theirs, momentum=0.9, weight_decay=0.1)
    for rate, (x, y) in zip(RATES, make_batches(), strict=True):
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        mse_loss(theirs(x), y).backward()
        optimizer.step()
        with torch.no_grad():
            for row in (0, 2):
                for column in range(3):
                    theirs[0].weight[row, column] = before[row, column]
    assert_close(ours, theirs)
    assert not torch.equal(weight[1::2], before[1::2])


# Learning rates by group, and the guard


def test_parameter_groups_have_learning_rates_of_their_own():
    ours, theirs = make_network(), make_network()
    groups = [{"params": ours[0].parameters(), "lr": 0.2}, {"params": ours[2].parameters(), "lr": 0.02}]
    optimizer = torch.optim.SGD(groups, momentum=0.9)
    take(Step(ours, optimizer, group_rates=[0.2, 0.02]), ours, RATES)
    by_hand(theirs, RATES, momentum=0.9, factor_of=lambda name: 0.2 if name.startswith("0.") else 0.02)
    assert_close(ours, theirs)


class Witness:
    """A guard that writes down what happens around the step."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer
        self.seen: list[object] = []

    @contextmanager
    def watch(self, module: nn.Module) -> Iterator[None]:
        self.seen.append("watch")
        yield
        self.seen.append("watched")

    @contextmanager
    def step(self, params: dict[str, Tensor], step_sizes: float) -> Iterator[None]:
        rates = [group["lr"] for group in self.optimizer.param_groups]
        self.seen.append(("step", sorted(params), step_sizes, rates))
        yield

    def start_epoch(self, epoch: int) -> None:
        self.seen.append(f"epoch {epoch}")


def test_the_guard_is_told_how_far_a_step_goes():
    """A factor scales the step; momentum makes it 1 / (1 - momentum) times as long; groups have rates of their own."""
    network = make_network()
    groups = [{"params": network[0].parameters()}, {"params": network[2].parameters()}]
    optimizer = torch.optim.SGD(groups, lr=1.0, momentum=0.75)
    params = {"first": network[0].weight}
    guard = Witness(optimizer)
    step = Step(network, optimizer, params=params, group_rates=[0.5, 0.25], unit=0.5)
    take(step, network, [0.5], make_batches()[:1], guard=guard, new_epoch=3)
    assert guard.seen == ["watch", "watched", "epoch 3", ("step", ["first"], 0.5 * 0.5 / 0.25, [0.25, 0.125])]


@pytest.mark.parametrize("make", [lambda: ElasticConsolidation(5.0), lambda: WeightPlasticity(3.0)])
def test_a_guarded_step_is_the_loop_of_the_guards_documentation(make):
    """Bit for bit what ``ramet.guards.Guard`` tells a user to write, with groups of other rates."""
    networks = []
    for through_step in (True, False):
        network, guard = make_network(), make()
        groups = [{"params": network[0].parameters()}, {"params": network[2].parameters()}]
        optimizer = torch.optim.SGD(groups, lr=1.0, momentum=0.9)
        params = named_params(network)
        step = Step(network, optimizer, params=params, group_rates=[1.0, 0.5])
        for rate, (x, y) in zip(RATES, make_batches(), strict=True):
            if through_step:
                take(step, network, [rate], [(x, y)], guard=guard)
            else:
                optimizer.zero_grad()
                with guard.watch(network):
                    mse_loss(network(x), y).backward()
                for group, factor in zip(optimizer.param_groups, (1.0, 0.5), strict=True):
                    group["lr"] = factor * rate
                sizes = {name: (1.0 if name.startswith("0.") else 0.5) * rate / (1 - 0.9) for name in params}
                with guard.step(params, sizes):
                    optimizer.step()
            guard.remember(params)
        networks.append(network)
    free = make_network()
    by_hand(free, RATES, momentum=0.9, factor_of=lambda name: 1.0 if name.startswith("0.") else 0.5)
    for a, b, c in zip(*(network.parameters() for network in (*networks, free)), strict=True):
        assert torch.equal(a, b)
        assert not torch.allclose(a, c), "a guard that does nothing would pass this test"


# What is not finite


def test_a_loss_that_is_not_finite_is_refused_before_anything_moves():
    network = make_network()
    before = copy.deepcopy(network)
    step = Step(network, sgd(network, weight_decay=0.1), where=" of a test")
    x, y = make_batches()[0]
    with pytest.raises(RunError, match="must stay finite, but is nan in step 7 of a test; a lower learning rate"):
        step(7, 0.1, lambda x, y: mse_loss(network(x), y), x * math.nan, y)
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), before.parameters(), strict=True))


@pytest.mark.parametrize("clip", [None, 1.0])
@pytest.mark.parametrize("broken", ["loss", "gradient"])
def test_a_step_that_is_not_finite_can_be_left_out(broken, clip):
    network = make_network()
    step = Step(network, sgd(network, momentum=0.9), Recipe(clip_norm=clip), skips=True)
    (good,) = take(step, network, [0.1], make_batches()[:1])
    assert math.isfinite(good)
    before = copy.deepcopy(network)

    def loss(x: Tensor, y: Tensor) -> Tensor:
        # The square root has a value of 0 at 0, and no derivative.
        return mse_loss(network(x), y) * math.inf if broken == "loss" else (0 * network(x)).sum().sqrt()

    assert math.isnan(step(1, 0.1, loss, *make_batches()[1]))
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), before.parameters(), strict=True))
    assert math.isfinite(take(step, network, [0.1], make_batches()[:1])[0]), "the next step is taken"


# Several processes, and gradients of some tensors alone


def test_gradients_are_summed_before_they_are_clipped():
    """Two processes with half of a batch each are played by one, which doubles what it has."""
    ours, theirs = make_network(), make_network()

    def sum_gradients(params: dict[str, Tensor], loss: Tensor) -> Tensor:
        assert not loss.requires_grad
        torch._foreach_mul_([param.grad for param in params.values()], 2.0)
        return 2 * loss

    halves = [(torch.cat([x, x]), torch.cat([y, y])) for x, y in make_batches(4)]
    step = Step(ours, sgd(ours), Recipe(clip_norm=0.5), sum_gradients=sum_gradients)
    losses = [
        step(number, 0.3, lambda x, y: mse_loss(ours(x), y) / 2, x[:4], y[:4]) for number, (x, y) in enumerate(halves)
    ]
    whole = take(Step(theirs, sgd(theirs), Recipe(clip_norm=0.5)), theirs, [0.3] * NUM_STEPS, halves)
    assert losses == pytest.approx(whole)
    assert_close(ours, theirs)


def test_gradients_are_taken_for_the_given_tensors_only():
    network, other = make_network(), torch.ones(2, dtype=torch.float64, requires_grad=True)
    step = Step(network, sgd(network), only=list(network.parameters()))
    before = network[0].weight.detach().clone()
    step(0, 0.1, lambda x, y: mse_loss(network(x) * other, y), *make_batches()[0])
    assert other.grad is None and not torch.equal(network[0].weight, before)


def test_step_sizes_follow_an_optimizer_that_was_resumed():
    """Loading a state gives an optimizer new dicts for its groups."""
    layer = nn.Linear(2, 1)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1)
    sizes = OptimizerStepSizes(optimizer, named_params(layer))
    layer(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    before = sizes["weight"]
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.param_groups[0]["lr"] = 0.05
    torch.testing.assert_close(sizes["weight"], before / 2)


@pytest.mark.parametrize("kind", ["sgd", "adamw"])
def test_a_guarded_training_resumes_to_the_same_bits(tmp_path, kind):
    recipe = Recipe(epochs=3, batch_size=4, learning_rate=0.1, optimizer=kind)
    x, y = torch.randn(8, 3, generator=torch.Generator().manual_seed(0)).double(), torch.arange(8) % 2

    def trained(checkpoints: Checkpoints | None, last: int | None = None) -> dict[str, Tensor]:
        network, guard = make_network(), WeightPlasticity(strength=10.0)
        fit(
            network, x, y, recipe, seed=0, guard=guard, turn=2, checkpoints=checkpoints, stop_after=last
        )  # fmt: skip
        return network.state_dict()

    checkpoints = Checkpoints(tmp_path)
    trained(checkpoints, last=4)
    resumed, whole = trained(checkpoints), trained(None)
    assert all(torch.equal(resumed[name], value) for name, value in whole.items())
