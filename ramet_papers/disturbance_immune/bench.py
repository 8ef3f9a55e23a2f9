"""The bench of Figure 3 and of the correlation: one supernet under one guard, its children scored, its steps probed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ramet.execution import pulse
from ramet.guards import make_guard
from ramet.guards.turns import check_turn
from ramet.ranking.setup import SupernetSetup
from ramet.runs.encoding import Json
from ramet.searching.measures import batch_statistics
from ramet.sharing import Order
from ramet.spaces import Arch
from ramet.training import Batches, fit, in_batches

PROBE_EVERY = 4
"""Steps between two probes of what a step does for its own child."""


def train_supernet(
    setup: SupernetSetup,
    *,
    name: str,
    guard: str,
    turn: int,
    factor: float,
    weights_seed: int,
    order_seed: int,
    batches_seed: int,
    scored_epochs: int,
    changing_images: int,
) -> Json:
    """Train one supernet, a child for each turn of so many mini-batches, and score all children after the last epochs.

    Children are scored by the statistics of the batches that they are scored on: running ones belong to the child that
    was trained last, and no guard can do anything about them. After an epoch it is on the first ``changing_images``
    validation images, in the end on all. ``factor`` is of the settings' learning rates.

    The own gain of a step is by how much the loss of the child on the step's own mini-batch falls, after the last
    epochs began; it is what a control's learning rate is matched by.

    Returns:
        JSON values: ``epochs`` [scored_epochs, children] accuracies, ``last`` [children], ``own_gain``, and ``guard``,
        what it says of itself in the end.
    """
    space, data, rates = setup.space, setup.data, setup.settings
    settings = replace(
        rates, learning_rate=factor * rates.learning_rate, final_learning_rate=factor * rates.final_learning_rate
    )
    network = setup.new_supernet(weights_seed)
    archs = [space[index] for index in range(len(space))]
    order = Order("shuffled", len(space), order_seed)
    batches = Batches(len(data.train.y), settings.batch_size, batches_seed)
    num_steps = settings.epochs * batches.steps_per_epoch
    first = num_steps - scored_epochs * batches.steps_per_epoch
    log: dict[str, Any] = {"epochs": [], "gains": []}

    def scores(num_images: int | None = None) -> list[float]:
        return batch_scores(network, archs, data.validation.x[:num_images], data.validation.y[:num_images])

    def after_step(step: int, loss: float) -> None:
        if step >= first and step % PROBE_EVERY == 0:
            rows = batches[step].to(data.train.x.device)
            child = archs[order[step // turn]]
            log["gains"].append(loss - _loss(network, child, data.train.x[rows], data.train.y[rows]))
        if step >= first and (step + 1) % batches.steps_per_epoch == 0:
            log["epochs"].append(scores(changing_images))
        pulse((step + 1) / num_steps)

    keeper = None if guard == "none" else make_guard(guard)
    if keeper is not None:
        check_turn(keeper, turn)
    fit(
        network,
        data.train.x,
        data.train.y,
        settings,
        seed=batches_seed,
        arguments=lambda step: (archs[order[step // turn]],),
        after_step=after_step,
        guard=keeper,
        turn=turn,
        checkpoints=setup.checkpoints(name),
        log=log,
        seconds_between_checkpoints=setup.seconds_between_checkpoints,
        save_last=False,
    )
    gain = sum(log["gains"]) / len(log["gains"])
    about_guard = {} if keeper is None else keeper.report()
    return {"epochs": log["epochs"], "last": scores(), "own_gain": gain, "guard": about_guard}


def batch_scores(network: nn.Module, archs: Sequence[Arch], x: Tensor, y: Tensor) -> list[float]:
    """The accuracy of every child by the statistics of the batches that it is scored on."""
    correct = torch.zeros(len(archs), dtype=torch.long)
    with batch_statistics(network):
        for inputs, labels in in_batches(x, y):
            for place, logits in enumerate(network.forward_all(inputs, archs)):  # type: ignore[operator]
                correct[place] += (logits.argmax(dim=1) == labels).sum().cpu()
    return [int(count) / len(y) for count in correct]


def _loss(network: nn.Module, arch: Arch, x: Tensor, y: Tensor) -> float:
    with batch_statistics(network):
        return float(cross_entropy(network(x, arch), y))
