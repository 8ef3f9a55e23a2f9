"""Fine-tuning children from a snapshot of the supernet: a few mini-batches each, scored after each."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from ramet.execution import pulse
from ramet.ranking.bench import Bench
from ramet.ranking.instance import load_network
from ramet.seeding import derive_seed
from ramet.training import Batches, accuracy, make_optimizer


def fine_tune(
    bench: Bench,
    *,
    name: str,
    indices: Sequence[int],
    trained: Sequence[int] | None,
    num_shared_cells: int | None,
    weights_seed: int,
    seed: int,
    score_after: Sequence[int],
    learning_rate: float,
) -> list[list[float]]:
    """Fine-tune children alone, each from the same snapshot, and score them on the validation split.

    *Deeper insights*, section 3.3. Every child sees the same mini-batches, so that children differ in nothing else. The
    momentum starts from zero: the supernet's belongs to other children.

    Args:
        bench: the space, the data and the settings.
        name: the instance whose last checkpoint is the snapshot.
        indices: the children to fine-tune.
        trained: the children that the instance trained, as in ``train_instance``.
        num_shared_cells: the instance's sharing, as in ``train_instance``.
        weights_seed: the instance's seed of weights.
        seed: the seed of the mini-batches.
        score_after: after how many mini-batches a child is scored, rising; 0 is the snapshot itself.
        learning_rate: the constant learning rate.

    Returns:
        Shape [children, len(score_after)].
    """
    data = bench.data
    network = load_network(bench, name, weights_seed, trained, num_shared_cells)
    snapshot = copy.deepcopy(network.state_dict())
    settings = replace(bench.settings, learning_rate=learning_rate, final_learning_rate=0.0)
    batches = Batches(len(data.train.y), settings.batch_size, derive_seed(seed, "fine-tuning"))
    curves: list[list[float]] = []
    for index in indices:
        arch = bench.space[index]
        network.load_state_dict(snapshot)
        optimizer = make_optimizer(network, settings)
        curve: list[float] = []
        for step in range(max(score_after) + 1):
            if step in score_after:
                curve.append(accuracy(network, data.validation.x, data.validation.y, arch))
            if step == max(score_after):
                break
            network.train()
            batch = batches[step].to(data.train.x.device)
            loss = cross_entropy(network(data.train.x[batch], arch), data.train.y[batch])
            optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(loss)
            optimizer.step()
        curves.append(curve)
        pulse(len(curves) / len(indices))
    return curves


def fine_tune_result(bench: Bench, **arguments: Any) -> dict[str, Any]:
    """``fine_tune`` as a task: its result as a JSON object."""
    return {"curves": fine_tune(bench, **arguments)}
