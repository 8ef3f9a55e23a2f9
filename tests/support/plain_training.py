"""The slow twin of an instance: one plain loop, without ``ramet.training`` and ``ramet.ranking``.

It shares with them the space, the data and the way in which seeds follow from roles, and nothing else.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ramet.data import DataSet
from ramet.seeding import derive_seed
from ramet.spaces import Space

Run = Callable[[Tensor, int], Tensor]
"""The logits of a child, by its index."""


def generator(*role: Any) -> torch.Generator:
    return torch.Generator().manual_seed(derive_seed(*role))


def new_supernet(space: Space, data: DataSet, seed: int, *role: Any) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(derive_seed(seed, "weights", *role))
        return space.supernet(data.in_channels, data.num_classes)


def score(network: nn.Module, run: Run, child: int, x: Tensor, y: Tensor) -> float:
    network.eval()
    with torch.no_grad():
        right = (run(x, child).argmax(dim=1) == y).sum().item()
    network.train()
    return right / len(y)


def train_plainly(
    network: nn.Module,
    run: Run,
    data: DataSet,
    child_of: Callable[[int], int],
    *,
    batches_seed: int,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    final_learning_rate: float,
    momentum: float,
    weight_decay: float,
    after_step: Callable[[int, float], None] = lambda step, loss: None,
) -> None:
    """SGD on the cross-entropy, a parameter at a time; one without a gradient keeps its value and its momentum."""
    x, y = data.train.x, data.train.y
    steps_per_epoch = math.ceil(len(y) / batch_size)
    num_steps = epochs * steps_per_epoch
    velocity: dict[str, Tensor] = {}
    network.train()
    for step in range(num_steps):
        epoch, place = divmod(step, steps_per_epoch)
        order = torch.randperm(len(y), generator=generator(batches_seed, "epoch", epoch))
        chosen = order[place * batch_size : (place + 1) * batch_size]
        for param in network.parameters():
            param.grad = None
        loss = nn.functional.cross_entropy(run(x[chosen], child_of(step)), y[chosen])
        loss.backward()
        cosine = (1 + math.cos(math.pi * step / num_steps)) / 2
        rate = final_learning_rate + (learning_rate - final_learning_rate) * cosine
        with torch.no_grad():
            for name, param in network.named_parameters():
                if param.grad is None:
                    continue
                gradient = param.grad.add(param, alpha=weight_decay)
                if momentum:
                    velocity[name] = velocity[name].mul(momentum).add(gradient) if name in velocity else gradient
                    gradient = velocity[name]
                param.add_(gradient, alpha=-rate)
        after_step(step, loss.item())


def instance(
    space: Space,
    data: DataSet,
    children: Sequence[int],
    settings: dict[str, Any],
    *,
    seed: int = 0,
    number: int = 0,
    group: int = 0,
    scored: Sequence[int] | None = None,
    last_steps: int = 1,
    num_shared_cells: int | None = None,
    bn_momentum: float | None = None,
) -> dict[str, Any]:
    """What the record of an instance holds, under ``varied="both"`` and ``order="shuffled"``."""
    weights, order, batches = (derive_seed(seed, role, number, group) for role in ("weights", "order", "batches"))
    network, run = _network(space, data, weights, children, num_shared_cells)
    for module in network.modules():
        if bn_momentum is not None and isinstance(module, nn.BatchNorm2d):
            module.momentum = bn_momentum
    scored = children if scored is None else scored
    steps_per_epoch = math.ceil(len(data.train.y) / settings["batch_size"])
    num_steps = settings["epochs"] * steps_per_epoch
    found: dict[str, Any] = {"epochs": [], "steps": [], "trained": [], "loss": []}
    losses: list[float] = []

    def child_of(step: int) -> int:
        this_round, place = divmod(step, len(children))
        drawn = torch.randperm(len(children), generator=generator(order, "round", this_round))
        return children[int(drawn[place])]

    def all_scores() -> list[float]:
        return [score(network, run, child, data.validation.x, data.validation.y) for child in scored]

    def after_step(step: int, loss: float) -> None:
        losses.append(loss)
        if step >= num_steps - last_steps:
            found["steps"].append(all_scores())
            found["trained"].append(child_of(step))
        if (step + 1) % steps_per_epoch == 0:
            found["epochs"].append(all_scores())
            total = 0.0  # summed in order from a float: sum() of Python 3.12 and later rounds otherwise
            for loss in losses[-steps_per_epoch:]:
                total += loss
            found["loss"].append(total / steps_per_epoch)

    train_plainly(network, run, data, child_of, batches_seed=batches, after_step=after_step, **settings)
    found["reestimated"] = [_reestimated_score(network, run, data, child, batches, settings) for child in scored]
    return found


def _network(
    space: Space, data: DataSet, weights_seed: int, children: Sequence[int], num_shared_cells: int | None
) -> tuple[nn.Module, Run]:
    supernet = new_supernet(space, data, weights_seed)
    if num_shared_cells is None:
        return supernet, lambda x, child: supernet(x, space[child])
    stages = list(supernet.stages)
    trunk, rest = stages[: 1 + num_shared_cells], stages[1 + num_shared_cells :]
    own = {child: [copy.deepcopy(stage) for stage in rest] for child in children}
    everything = nn.ModuleList([*trunk, *(stage for copies in own.values() for stage in copies)])

    def run(x: Tensor, child: int) -> Tensor:
        for stage in [*trunk, *own[child]]:
            x = stage(x, space[child])
        return x

    return everything, run


def _reestimated_score(
    network: nn.Module, run: Run, data: DataSet, child: int, batches_seed: int, settings: dict[str, Any]
) -> float:
    """The score with running statistics that are the mean over four mini-batches; the network is left as it was."""
    before = copy.deepcopy(network.state_dict())
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    drawing = generator(derive_seed(batches_seed, "calibration"))
    size = min(settings["batch_size"], len(data.train.y))
    network.train()
    with torch.no_grad():
        for _ in range(4):
            run(data.train.x[torch.randint(len(data.train.y), (size,), generator=drawing)], child)
    result = score(network, run, child, data.validation.x, data.validation.y)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    network.load_state_dict(before)
    return result


def alone(space: Space, data: DataSet, child: int, seed: int, settings: dict[str, Any]) -> dict[str, float]:
    """What the record of a child trained alone holds."""
    network = new_supernet(space, data, seed, "alone", child)
    losses: list[float] = []

    def run(x: Tensor, index: int) -> Tensor:
        logits: Tensor = network(x, space[index])
        return logits

    train_plainly(
        network, run, data, lambda step: child, batches_seed=derive_seed(seed, "alone", child, "batches"),
        after_step=lambda step, loss: losses.append(loss), **settings,
    )  # fmt: skip
    steps_per_epoch = math.ceil(len(data.train.y) / settings["batch_size"])
    total = 0.0
    for loss in losses[-steps_per_epoch:]:
        total += loss
    return {
        "test": score(network, run, child, data.test.x, data.test.y),
        "validation": score(network, run, child, data.validation.x, data.validation.y),
        "loss": total / steps_per_epoch,
    }
