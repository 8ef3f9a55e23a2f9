"""All sizes of a network in one training: the sandwich rule over an elastic space, by the user's recipe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.guards import Guard
from ramet.guards.turns import check_turn
from ramet.ranking.scoring import score_reestimated
from ramet.runs import Checkpoints
from ramet.seeding import derive_seed, torch_generator
from ramet.spaces import Arch, ElasticSpace, ElasticSupernet
from ramet.training import Batches, Metric, Recipe, fit, reestimated_batch_norm

NUM_CALIBRATION_BATCHES = 16
"""Mini-batches from which a size's batch-norm statistics are made."""


def train_elastic(
    space: ElasticSpace,
    x: Tensor,
    y: Tensor,
    recipe: Recipe,
    *,
    seed: int,
    num_between: int = 1,
    batches_per_turn: int = 1,
    guard: Guard | None = None,
    checkpoints: Checkpoints | None = None,
    after_step: Callable[[int, float], None] = lambda step, loss: None,
    log: dict[str, Any] | None = None,
    seconds_between_checkpoints: float = 30.0,
) -> ElasticSupernet:
    """Train all sizes of a space at once, and give the network that holds them.

    Each step takes the whole, the smallest size and ``num_between`` drawn ones on one mini-batch; its sizes follow from
    the seed and its number, so that a training that was killed and is called again with the same ``checkpoints`` ends
    bit for bit as if it had never stopped.

    Args:
        space: what ``ramet.spaces.elastic`` gave; the training begins with its weights.
        x: the training inputs, [samples, ...].
        y: the training targets, [samples, ...].
        recipe: how it is trained; its loss is what the whole learns by.
        seed: what batches and sizes follow from.
        num_between: drawn sizes in a step. *Universally slimmable networks* has 2.
        batches_per_turn: steps that the drawn sizes stay for; a guard remembers them afterwards.
        guard: what keeps the updates of a turn from disturbing the sizes of earlier ones.
        checkpoints: where the training saves itself.
        after_step: called with a step's number and its loss, the sum over its sizes.
        log: JSON values that ``after_step`` collects.
        seconds_between_checkpoints: how much work may be lost.

    Raises:
        ConfigError: ``num_between`` is negative, the guard cannot act in such turns, or the recipe gives what no step
            can use.
        RunError: the loss is not finite.
    """
    if num_between < 0:
        raise ConfigError(f"num_between must not be negative, but got {num_between}.")
    if batches_per_turn < 1:
        raise ConfigError(f"batches_per_turn must be at least 1, but got {batches_per_turn}.")
    if guard is not None:
        check_turn(guard, batches_per_turn)
    network = space.supernet(x.shape[1], 0).to(x.device)
    of_outputs, are_numbers = recipe.loss_for(y), y.is_floating_point()

    def loss_of(step: int, x: Tensor, y: Tensor) -> Tensor:
        archs = (space.whole, space.smallest, *sizes_at(space, seed, step // batches_per_turn, num_between))
        return space.sandwich.loss(network, x, y, archs, of_outputs, are_numbers=are_numbers)

    fit(
        network,
        x,
        y,
        recipe,
        seed=seed,
        loss_of=loss_of,
        after_step=after_step,
        guard=guard,
        turn=None if guard is None else batches_per_turn,
        checkpoints=checkpoints,
        log=log,
        seconds_between_checkpoints=seconds_between_checkpoints,
    )
    return network


def sizes_at(space: ElasticSpace, seed: int, turn: int, count: int) -> list[Arch]:
    """The sizes that are drawn for a turn, by default a step."""
    generator = torch_generator(seed, "sizes", turn)
    return [space.sample(generator) for _ in range(count)]


def calibration_inputs(x: Tensor, recipe: Recipe, seed: int) -> list[Tensor]:
    """Training mini-batches, always the same for a seed, from which batch-norm statistics are made anew."""
    batches = Batches(len(x), min(recipe.batch_size, len(x)), derive_seed(seed, "calibration"))
    count = min(NUM_CALIBRATION_BATCHES, batches.steps_per_epoch)
    return [x[batches[number].to(x.device)] for number in range(count)]


def child_of(network: ElasticSupernet, arch: Arch, calibration: Sequence[Tensor]) -> nn.Module:
    """A size as a module of its own, in evaluation mode, with batch-norm statistics of its own."""
    with reestimated_batch_norm(network, calibration, arch):
        return network.child(arch).eval()


def score_sizes(
    network: ElasticSupernet,
    archs: Sequence[Arch],
    x: Tensor,
    y: Tensor,
    calibration: Sequence[Tensor],
    metric: Metric | None = None,
) -> list[float]:
    """The score of sizes, each with batch-norm statistics of its own: the accuracy, or by another metric."""
    with torch.no_grad():
        return score_reestimated(network, archs, x, y, calibration, metric)
