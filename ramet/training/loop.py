"""One training, readable from top to bottom. It knows neither supernets nor tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.runs import Checkpoints
from ramet.seeding import seeded_globally
from ramet.training.acceleration import compiled
from ramet.training.averaging import WeightAverage
from ramet.training.batches import Batches, read_ahead
from ramet.training.extras import Extras
from ramet.training.hooks import StepHooks
from ramet.training.optimizers import group_rates, make_optimizer
from ramet.training.recipe import Recipe
from ramet.training.saver import SavedPart, Saver, contents, global_generators
from ramet.training.step import Step, StepGuard


def fit(
    network: nn.Module,
    x: Tensor,
    y: Tensor,
    settings: Recipe,
    *,
    seed: int,
    arguments: Callable[[int], tuple[Any, ...]] = lambda step: (),
    loss_of: Callable[[int, Tensor, Tensor], Tensor] | None = None,
    after_step: Callable[[int, float], None] = lambda step, loss: None,
    guard: StepGuard | None = None,
    turn: int | None = None,
    checkpoints: Checkpoints | None = None,
    log: dict[str, Any] | None = None,
    seconds_between_checkpoints: float = 30.0,
    save_last: bool = True,
    stop_after: int | None = None,
    num_steps: int | None = None,
    also_saved: Mapping[str, SavedPart] | None = None,
    hooks: StepHooks | None = None,
    extras: Extras | None = None,
) -> None:
    """Train a network in place by a recipe.

    Each step is a function of the seed, its number and the state before it, so that a training that was killed and is
    called again with the same ``checkpoints`` ends bit for bit as if it had never stopped.

    Args:
        network: called as ``network(x, *arguments(step))``; gives outputs, by default logits of shape [batch, classes].
        x: the training inputs, shape [samples, ...].
        y: the training targets, by default labels of shape [samples].
        settings: the recipe of the training.
        seed: the seed of the batches, and of what layers draw.
        arguments: further arguments of the network in a step, for example the architecture that it trains.
        loss_of: what is minimised, called as ``loss_of(step, x, y)`` with a step's inputs and labels, where it is not
            the recipe's of ``network(x, *arguments(step))``; what it draws must follow from the step.
        after_step: called with the step's number and its loss, when the weights have been updated; the network may be
            evaluated there, as long as it is left in training mode.
        guard: what keeps the updates from disturbing earlier models.
        turn: after how many steps the guard remembers the model whose turn they were, where models take turns on the
            network; without it all steps are one model's, and whoever wants it remembered says so afterwards.
        checkpoints: where the training saves itself from time to time, and resumes from.
        log: JSON values that ``after_step`` collects; saved with each checkpoint and filled again on resuming.
        seconds_between_checkpoints: how much work may be lost.
        save_last: whether the trained network itself is saved at the end; without it, a training that is over in less
            than ``seconds_between_checkpoints`` writes nothing.
        stop_after: end after that many steps; the schedule still spans all epochs.
        num_steps: the steps that the schedule spans, in place of the recipe's epochs.
        also_saved: what ``after_step`` and ``hooks`` change besides ``log``; saved with each checkpoint, too.
        hooks: what decides anew in each step which samples and which learning rate it takes.
        extras: drop-path and auxiliary loss of the recipe, where ``loss_of`` takes them itself.

    Raises:
        ConfigError: there are more inputs than targets, or fewer; or the recipe gives what no step can use.
        RunError: the loss is not finite.
    """
    if len(x) != len(y):
        raise ConfigError(f"there must be a target for each input, but there are {len(x)} inputs and {len(y)} targets.")
    optimizer = make_optimizer(network, settings)
    step = Step(network, optimizer, settings, group_rates=group_rates(optimizer, settings))
    log = {} if log is None else log
    parts: dict[str, SavedPart] = {
        "network": network,
        "optimizer": optimizer,
        "generators": global_generators(network),
        "log": contents(log),
        **(also_saved or {}),
    }
    if guard is not None:
        parts["guard"] = guard
    average = None if settings.average is None else WeightAverage(network, settings.average)
    if average is not None:
        parts["average"] = average
    saver = Saver(checkpoints, parts, seconds=seconds_between_checkpoints)
    batches = Batches(len(x), settings.batch_size, seed)
    if num_steps is None:
        num_steps = settings.epochs * batches.steps_per_epoch
    last = num_steps if stop_after is None else min(stop_after, num_steps)
    of_outputs = settings.loss_for(y)
    extras = Extras(settings, network) if extras is None else extras

    def loss(number: int, x: Tensor, y: Tensor) -> Tensor:
        if loss_of is not None:
            return loss_of(number, x, y)
        return extras.loss(x, y, of_outputs, *arguments(number))

    # Layers that draw (dropout) have only the global generator: it follows from the seed, and is put back afterwards.
    with seeded_globally(seed, "draws"), compiled(network, settings):
        first = saver.resume() or 0
        network.train()
        if hooks is None or not hooks.chooses_rows:
            read_ahead(x, batches, first, last)
        for number in range(first, last):
            epoch, place = divmod(number, batches.steps_per_epoch)
            extras.start(epoch * batches.steps_per_epoch / num_steps)
            rows, rate = batches[number], settings.learning_rate_at(number, num_steps)
            if hooks is not None:
                rows, rate = hooks.rows(number, rows), hooks.rate(number, rate)
                hooks.before_step(number, optimizer)
            batch = settings.batch(x, y, rows.to(x.device), seed=seed, step=number)
            value = step(number, rate, partial(loss, number), *batch, guard=guard, new_epoch=None if place else epoch)
            if guard is not None and turn is not None and (number + 1) % turn == 0:
                guard.remember(step.params)
            if average is not None:
                average.update(number, num_steps)
            if hooks is not None:
                hooks.after_step(number, value, step.params)
            after_step(number, value)
            if saver.is_due and number + 1 < last:  # what the last step leaves is saved below, averaged
                saver.save(number + 1)
        if average is not None and first < last == num_steps:
            average.put()
        if save_last and first < last:
            saver.save(last)
