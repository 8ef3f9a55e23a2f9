"""Fine-tuning children from a snapshot of the supernet: a few mini-batches each, scored after each."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ramet.execution import pulse
from ramet.ranking.instance import load_network
from ramet.ranking.setup import SupernetSetup
from ramet.seeding import derive_seed
from ramet.training import Batches, Step, accuracy, make_optimizer


def fine_tune(
    setup: SupernetSetup,
    *,
    instance: Mapping[str, Any],
    indices: Sequence[int],
    seed: int,
    score_after: Sequence[int],
    learning_rate: float,
) -> list[list[float]]:
    """Fine-tune children alone, each from the same snapshot, and score them on the validation split.

    *Deeper insights*, section 3.3. Every child sees the same mini-batches, so that children differ in nothing else. The
    momentum starts from zero: the supernet's belongs to other children.

    Args:
        setup: the space, the data and the settings.
        instance: the arguments of ``train_instance`` whose last checkpoint is the snapshot.
        indices: the children to fine-tune.
        seed: the seed of the mini-batches.
        score_after: after how many mini-batches a child is scored, rising; 0 is the snapshot itself.
        learning_rate: the constant learning rate.

    Returns:
        Shape [children, len(score_after)].

    Raises:
        RunError: a loss is not finite.
    """
    data = setup.data
    network = load_network(setup, instance)
    snapshot = copy.deepcopy(network.state_dict())
    recipe = replace(setup.settings, learning_rate=learning_rate, final_learning_rate=0.0, clip_norm=None)
    seed = derive_seed(seed, "fine-tuning")
    batches, of_outputs = Batches(len(data.train.y), recipe.batch_size, seed), recipe.loss_for(data.train.y)
    curves: list[list[float]] = []
    for index in indices:
        arch = setup.space[index]
        network.load_state_dict(snapshot)
        where = f" of fine-tuning {setup.space.name(arch)}"
        step = Step(network, make_optimizer(network, recipe), recipe, where=where)
        curve: list[float] = []
        for number in range(max(score_after) + 1):
            if number in score_after:
                curve.append(accuracy(network, data.validation.x, data.validation.y, arch))
            if number == max(score_after):
                break
            network.train()
            rows = batches[number].to(data.train.x.device)
            batch = recipe.batch(data.train.x, data.train.y, rows, seed=seed, step=number)
            step(number, learning_rate, lambda x, y, arch=arch: of_outputs(network(x, arch), y), *batch)
        curves.append(curve)
        pulse(len(curves) / len(indices))
    return curves


def fine_tune_result(setup: SupernetSetup, **arguments: Any) -> dict[str, Any]:
    """``fine_tune`` as a task: its result as a JSON object."""
    return {"curves": fine_tune(setup, **arguments)}
