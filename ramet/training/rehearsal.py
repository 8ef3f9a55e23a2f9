"""A recipe tried on a few samples: what cannot work is refused in one line, before anything is trained or written."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ramet.errors import ConfigError, RametError, told
from ramet.seeding import seeded_globally
from ramet.training.acceleration import precision_of
from ramet.training.batches import Batches
from ramet.training.evaluation import EVALUATION_BATCH, evaluating, measure
from ramet.training.metrics import Metric
from ramet.training.optimizers import group_rates, make_optimizer
from ramet.training.outputs import output_of, warn_of_probabilities
from ramet.training.recipe import Recipe
from ramet.training.step import Step

NUM_SAMPLES = 8
"""Enough for every augmentation and for batch norm, and next to nothing to compute."""

NUM_LOOKS = 64
"""Steps of a training at which its schedule is looked at."""


def rehearse(recipe: Recipe, network: nn.Module, x: Tensor, y: Tensor, *arguments: Any) -> None:
    """Take one step of a training with a copy of the network, and look at all of its schedule.

    Functions of the user's own may raise anything and give anything; here that is a refusal which says which of them
    did. What they draw and change of torch's global generators is put back.

    Args:
        recipe: what is tried.
        network: called as ``network(x, *arguments)``; it is left as it was.
        x: the training inputs, shape [samples, ...], of which the first few are used.
        y: their targets.
        *arguments: what else the network takes, such as an architecture.

    Raises:
        ConfigError: a part of the recipe does not run, or gives what no training can use.
    """
    rate = _first_rate(recipe, len(y))
    rows = torch.arange(min(len(y), NUM_SAMPLES, recipe.batch_size), device=x.device)
    with _saying("the processor must have the recipe's precision"):
        precision_of(recipe, x.device)
    with seeded_globally(0, "rehearsal"), torch.inference_mode(False), torch.enable_grad():
        trial = copy.deepcopy(network).train()
        with _saying("an augmentation must run on a training batch"):
            batch = recipe.batch(x, y, rows, seed=0, step=0)
        with _saying("an optimizer must take the parameters of the network"):
            optimizer = make_optimizer(trial, recipe)
        _check_optimizer(optimizer, trial)
        outputs: list[Tensor] = []
        of_outputs = recipe.loss_for(y)

        def loss(x: Tensor, y: Tensor) -> Tensor:
            with _saying(f"a network must run on a batch of shape {list(x.shape)}"):
                outputs.append(output_of(trial(x, *arguments)))
            with _saying(f"a loss must take outputs of shape {list(outputs[-1].shape)} and targets of {list(y.shape)}"):
                return of_outputs(outputs[-1], y)

        # A step that is not finite is said here, in other words.
        step = Step(trial, optimizer, recipe, group_rates=group_rates(optimizer, recipe), skips=True)
        with _saying("a step must be taken on a training batch"):
            found = step(0, rate, loss, *batch)
    if recipe.takes_logits and not y.is_floating_point():
        warn_of_probabilities(outputs[0], y[: len(outputs[0])])
    if not math.isfinite(found):
        what = "are not" if not all(bool(output.isfinite().all()) for output in outputs) else "are"
        raise ConfigError(
            f"a loss and its gradient must be finite, but on the first {len(rows)} samples they are not; the outputs "
            f"of the network {what} finite there."
        )


def rehearse_metric(metric: Metric, network: nn.Module, held_out: tuple[Tensor, Tensor], *arguments: Any) -> None:
    """Take a metric of a few held-out samples, so that one that cannot be taken is refused.

    Args:
        metric: what is tried.
        network: called as ``network(inputs, *arguments)``.
        held_out: inputs and targets, [samples, ...] each; the targets are all looked at, as r2 needs some that differ.
        *arguments: what else the network takes.

    Raises:
        ConfigError: the metric does not take the outputs, or gives no number.
    """
    x, y = held_out
    if metric.sums is None:
        few = slice(0, EVALUATION_BATCH)
        measure(network, x[few], y[few], metric, *arguments)
        return
    few = slice(0, NUM_SAMPLES)
    with evaluating(network):
        sums = metric.sums(output_of(network(x[few], *arguments)), y[few]).cpu().double()
    metric.result(sums, y.cpu())


def _first_rate(recipe: Recipe, num_samples: int) -> float:
    """The learning rate of the first step; those of others are looked at, from the first to the last."""
    num_steps = recipe.epochs * max(1, Batches(num_samples, recipe.batch_size, 0).steps_per_epoch)
    looks = min(NUM_LOOKS, num_steps)
    with _saying(f"a schedule must give a factor for each of {num_steps} steps"):
        rates = [
            recipe.learning_rate_at(look * (num_steps - 1) // max(1, looks - 1), num_steps) for look in range(looks)
        ]
    return rates[0]


def _check_optimizer(optimizer: Any, network: nn.Module) -> None:
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ConfigError(
            f"an optimizer must be one of torch's kind (torch.optim.Optimizer), but got {type(optimizer).__name__}."
        )
    held = {id(param) for group in optimizer.param_groups for param in group["params"]}
    known = {id(param) for param in network.parameters()}
    if not held or not held <= known:
        raise ConfigError("an optimizer must step the parameters that it is given, but this one has others or none.")
    take = optimizer.step

    def step() -> None:
        with _saying("an optimizer must step when it is called without a function that computes the loss again"):
            take()

    optimizer.step = step  # type: ignore[method-assign, assignment]  # it is a trial's, and is dropped with it


@contextmanager
def _saying(rule: str) -> Iterator[None]:
    """Turn whatever the block raises into a refusal of one line; what ramet itself says stays as it is."""
    try:
        yield
    except (RametError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise ConfigError(f"{rule}, but it raises {told(error)}") from error
