"""One instance: a supernet trained on shared weights, its children scored again and again near the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ramet.execution import pulse
from ramet.ranking.bench import Bench
from ramet.ranking.evaluation import score_children, score_reestimated
from ramet.runs import unpack_state
from ramet.seeding import derive_seed, torch_generator
from ramet.sharing import Order, OrderKind, PrefixShared
from ramet.training import Batches, fit

NUM_CALIBRATION_BATCHES = 4
"""Training mini-batches from which a child's batch-norm statistics are re-estimated."""


def train_instance(
    bench: Bench,
    *,
    name: str,
    trained: Sequence[int] | None,
    scored: Sequence[int],
    order: OrderKind,
    num_shared_cells: int | None,
    weights_seed: int,
    order_seed: int,
    batches_seed: int,
    last_epochs: int,
    last_steps: int,
    overrides: dict[str, Any] | None = None,
    bn_momentum: float | None = None,
) -> dict[str, Any]:
    """Train one supernet, one child a mini-batch, and score its children.

    Args:
        bench: the space, the data and the settings.
        name: the name of the checkpoints.
        trained: indices of the children that take turns in training; all of the space if none.
        scored: indices of the children that are scored.
        order: which child a mini-batch trains.
        num_shared_cells: prefix sharing, see ``PrefixShared``; full sharing if none.
        weights_seed: the seed of the initial weights.
        order_seed: the seed of the order.
        batches_seed: the seed of the mini-batches.
        last_epochs: scores are taken at the end of that many last epochs.
        last_steps: scores are taken after that many last mini-batches.
        overrides: settings that differ from the bench's.
        bn_momentum: the momentum of every batch norm, when it is not the space's own.

    Returns:
        JSON values: ``epochs`` [last_epochs, scored], ``steps`` [last_steps, scored], ``trained`` [last_steps] (indices into
        the space), ``reestimated`` [scored], ``loss`` [epochs] (mean training loss of each epoch).
    """
    space, data = bench.space, bench.data
    settings = replace(bench.settings, **(overrides or {}))
    archs = [space[index] for index in scored]
    network = build_network(bench, weights_seed, trained, num_shared_cells)
    if bn_momentum is not None:
        set_bn_momentum(network, bn_momentum)
    turns = Order(order, len(space) if trained is None else len(trained), order_seed)

    def child_at(step: int) -> int:
        return turns[step] if trained is None else trained[turns[step]]

    steps_per_epoch = Batches(len(data.train.y), settings.batch_size, batches_seed).steps_per_epoch
    num_steps = settings.epochs * steps_per_epoch
    log: dict[str, Any] = {"epochs": [], "steps": [], "trained": [], "loss": [], "sum": 0.0}

    def after_step(step: int, loss: float) -> None:
        log["sum"] += loss
        done = step + 1
        scores = None
        if done > num_steps - last_steps:
            scores = score_children(network, archs, data.validation.x, data.validation.y)
            log["steps"].append(scores)
            log["trained"].append(child_at(step))
        if done % steps_per_epoch == 0:
            log["loss"].append(log["sum"] / steps_per_epoch)
            log["sum"] = 0.0
            if done > num_steps - last_epochs * steps_per_epoch:
                scores = scores or score_children(network, archs, data.validation.x, data.validation.y)
                log["epochs"].append(scores)
        pulse(done / num_steps)

    fit(
        network,
        data.train.x,
        data.train.y,
        settings,
        seed=batches_seed,
        arguments=lambda step: (space[child_at(step)],),
        after_step=after_step,
        checkpoints=bench.checkpoints(name),
        log=log,
    )
    reestimated = score_reestimated(
        network, archs, data.validation.x, data.validation.y, calibration_batches(bench, batches_seed)
    )
    return {**{key: log[key] for key in ("epochs", "steps", "trained", "loss")}, "reestimated": reestimated}


def build_network(
    bench: Bench, weights_seed: int, trained: Sequence[int] | None, num_shared_cells: int | None
) -> nn.Module:
    """The module that an instance trains: the supernet itself, or its prefix-shared form."""
    network = bench.new_supernet(weights_seed)
    if num_shared_cells is None:
        return network
    children = range(len(bench.space)) if trained is None else trained
    return PrefixShared(network, [bench.space[index] for index in children], num_shared_cells)


def load_network(
    bench: Bench, name: str, weights_seed: int, trained: Sequence[int] | None, num_shared_cells: int | None
) -> nn.Module:
    """The trained module of an instance, from its last checkpoint."""
    checkpoints = bench.checkpoints(name)
    checkpoint = None if checkpoints is None else checkpoints.load()
    assert checkpoint is not None, f"instance {name} has no checkpoint"
    network = build_network(bench, weights_seed, trained, num_shared_cells)
    network.load_state_dict(unpack_state(checkpoint.tensors, checkpoint.state)["network"])
    return network


def set_bn_momentum(network: nn.Module, momentum: float) -> None:
    """Give every batch norm the same momentum (the weight of the newest mini-batch, as torch has it)."""
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = momentum


def calibration_batches(bench: Bench, seed: int) -> list[Tensor]:
    """A few training mini-batches, always the same ones for a seed."""
    generator = torch_generator(derive_seed(seed, "calibration"))
    size = min(bench.settings.batch_size, len(bench.data.train.y))
    return [
        bench.data.train.x[torch.randint(len(bench.data.train.y), (size,), generator=generator)]
        for _ in range(NUM_CALIBRATION_BATCHES)
    ]
