"""One instance: a supernet trained on shared weights, its children scored near the end, and fine-tuned from it."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.execution import pulse
from ramet.guards import make_guard
from ramet.ranking.longer import early_epochs
from ramet.ranking.scoring import score_children, score_losses, score_reestimated
from ramet.ranking.setup import SupernetSetup
from ramet.ranking.trainings import DrivenTraining, TrainingSize, make_training, rank_last
from ramet.ranking.weights import put_weights
from ramet.runs import Checkpoint
from ramet.seeding import derive_seed, torch_generator
from ramet.sharing import Order, OrderKind, PrefixShared
from ramet.spaces import Arch, Choice
from ramet.training import Batches, SavedPart, Step, fit, make_optimizer, measure, saved_part
from ramet.training.averaging import WeightAverage
from ramet.training.optimizers import group_rates

NUM_CALIBRATION_BATCHES = 4
"""Training mini-batches from which a child's batch-norm statistics are re-estimated."""


def train_instance(
    setup: SupernetSetup,
    *,
    name: str,
    trained: Sequence[int] | None,
    scored: Sequence[int],
    order: OrderKind,
    guard: Any = "none",
    batches_per_model: int = 1,
    num_shared_cells: int | None,
    weights_seed: int,
    order_seed: int,
    batches_seed: int,
    last_epochs: int,
    last_steps: int,
    step_samples: int | None = None,
    stop_epoch: int | None = None,
    overrides: dict[str, Any] | None = None,
    bn_momentum: float | None = None,
    training: Any = "uniform",
    average: str | None = None,
    weights: str | None = None,
) -> dict[str, Any]:
    """Train one supernet, one child a mini-batch, and score its children; gives JSON values.

    The children ``trained``, by their places in the space (all if none), take turns of ``batches_per_model`` by
    ``order``; those ``scored`` are
    scored at the end of the ``last_epochs``, and after the ``last_steps`` mini-batches on ``step_samples`` validation
    images (all if none). ``guard`` is a text, or the description of the setup's own; ``num_shared_cells`` is for
    ``PrefixShared``. With ``stop_epoch`` it ends after that many epochs of the schedule, as if interrupted, and the
    last epochs and mini-batches are those before it. ``overrides`` are settings that differ from the setup's,
    ``bn_momentum`` that of every batch norm when it is not the space's own. ``training`` says which children a step
    takes, as a text or the description of the setup's own; ``average`` is one of the weights that children are scored
    by besides. With ``weights``, a file, nothing is trained, and they are scored once. ``name`` is that of the
    checkpoints. Scores are the setup's metric, or minus the metric where lower is better.

    Returns:
        ``epochs`` [last_epochs, scored], ``steps`` [last_steps, scored], ``trained`` [last_steps] (places),
        ``reestimated`` [scored], ``loss`` [epochs] (mean training loss of each epoch), ``early`` [points, scored] where
        ``early_epochs`` has any, ``by_loss`` [scored] (the validation loss, turned so that more is better), with an
        average ``by_average`` [scored], and with a guard ``guard``, what it says of itself at the end. ``trained`` is
        -1 where a step has several children. Of a way to train that has something to say of itself, ``training``.
    """
    space, data = setup.space, setup.data
    settings = replace(setup.settings, **(overrides or {}))
    archs = [space[index] for index in scored]
    network = build_network(setup, weights_seed, trained, num_shared_cells)
    if bn_momentum is not None:
        set_bn_momentum(network, bn_momentum)
    turns = Order(order, space.num_archs if trained is None else len(trained), order_seed)

    def child_at(step: int) -> int:
        turn = turns[step // batches_per_model]
        return turn if trained is None else trained[turn]

    steps_per_epoch, num_steps = _num_steps(setup, overrides, stop_epoch)
    if weights is not None:
        return _score_only(setup, network, weights, archs, step_samples, batches_seed)
    early = early_epochs(num_steps // steps_per_epoch, last_epochs)
    log: dict[str, Any] = {"early": [], "epochs": [], "steps": [], "trained": [], "loss": [], "sum": 0.0}

    def scores(num_samples: int | None = None) -> list[float]:
        inputs, labels = data.validation.x[:num_samples], data.validation.y[:num_samples]
        return last_if_dropped(score_children(network, archs, inputs, labels, setup.metric))

    def last_if_dropped(values: list[float]) -> list[float]:
        return rank_last(values, [way.dropped_after(arch) for arch in archs])

    def after_step(step: int, loss: float) -> None:
        log["sum"] += loss
        done = step + 1
        if mean is not None:
            mean.update(step, num_steps)
        if done > num_steps - last_steps:
            log["steps"].append(scores(step_samples))
            children = driven.archs(step)
            log["trained"].append(space.index(children[0]) if len(children) == 1 else -1)
        if done % steps_per_epoch == 0:
            log["loss"].append(log["sum"] / steps_per_epoch)
            log["sum"] = 0.0
            if done // steps_per_epoch in early:
                log.setdefault("early", []).append(scores())  # a checkpoint of an earlier version has none
            if done > num_steps - last_epochs * steps_per_epoch:
                log["epochs"].append(scores())
        pulse(done / num_steps)

    of_outputs = settings.loss_for(data.train.y)
    way = make_training(training if isinstance(training, str) else setup.training, space, seed=order_seed)
    size = TrainingSize(num_steps, steps_per_epoch, len(data.train.y), settings.learning_rate)
    driven = DrivenTraining(way, lambda step: space[child_at(step)], size)
    mean = None if average is None else WeightAverage(network, average)
    # A way without state is no part of a checkpoint, as those of earlier versions have none.
    also_saved: dict[str, SavedPart] = {"training": driven} if way.has_state else {}
    also_saved |= {} if mean is None else {"scored average": mean}

    def loss_of(step: int, x: Tensor, y: Tensor) -> Tensor:
        return driven.loss(network, step, x, y, of_outputs)

    keeper = None if guard == "none" else make_guard(guard if setup.guard is None else setup.guard)
    fit(
        network,
        data.train.x,
        data.train.y,
        settings,
        seed=batches_seed,
        loss_of=loss_of,
        after_step=after_step,
        checkpoints=setup.checkpoints(name),
        log=log,
        guard=keeper,
        turn=batches_per_model,
        seconds_between_checkpoints=setup.seconds_between_checkpoints,
        stop_after=num_steps,
        also_saved=also_saved,
        hooks=driven,
    )
    x, y = data.validation.x, data.validation.y
    calibration = calibration_batches(setup, batches_seed)
    reestimated = last_if_dropped(score_reestimated(network, archs, x, y, calibration, setup.metric))
    taken = {key: log[key] for key in ("epochs", "steps", "trained", "loss")}
    taken |= {"early": log["early"]} if log.get("early") else {}
    taken["by_loss"] = last_if_dropped(score_losses(network, archs, x, y, of_outputs))
    if mean is not None:
        mean.put()  # last of all: the network that others load is in its checkpoint
        taken["by_average"] = scores()
    about: dict[str, Any] = {} if keeper is None else {"guard": keeper.report()}
    about |= {"training": report} if (report := way.report()) else {}
    return {**taken, "reestimated": reestimated, **about}


def _score_only(
    setup: SupernetSetup, network: nn.Module, weights: str, archs: Sequence[Arch], step_samples: int | None, seed: int
) -> dict[str, Any]:
    """What an instance gives that was trained elsewhere: one evaluation in place of the last ones."""
    x, y = setup.data.validation.x, setup.data.validation.y
    put_weights(network, weights)
    return {
        "epochs": [score_children(network, archs, x, y, setup.metric)],
        "steps": [score_children(network, archs, x[:step_samples], y[:step_samples], setup.metric)],
        "trained": [-1],
        "loss": [],
        "by_loss": score_losses(network, archs, x, y, setup.settings.loss_for(y)),
        "reestimated": score_reestimated(network, archs, x, y, calibration_batches(setup, seed), setup.metric),
    }


def build_network(
    setup: SupernetSetup, weights_seed: int, trained: Sequence[int] | None, num_shared_cells: int | None
) -> nn.Module:
    """The module that an instance trains: the supernet itself, or its prefix-shared form."""
    network = setup.new_supernet(weights_seed)
    if num_shared_cells is None:
        return network
    if any(isinstance(module, Choice) for module in network.stages[0].modules()):  # type: ignore[index, union-attr]
        raise ConfigError("prefix sharing needs a first stage that all children share, but this one has a Choice.")
    children = range(setup.space.num_archs) if trained is None else trained
    return PrefixShared(network, [setup.space[index] for index in children], num_shared_cells)


def load_network(setup: SupernetSetup, arguments: Mapping[str, Any]) -> nn.Module:
    """The trained module of an instance, from its last checkpoint, by the arguments of ``train_instance``.

    Where that one is damaged or gone, the instance is trained on from the one before it, with the same outcome.
    """
    if arguments.get("weights") is not None:
        network = build_network(setup, arguments["weights_seed"], None, None)
        put_weights(network, arguments["weights"])
        return network
    checkpoint = _last_checkpoint(setup, **arguments)
    if checkpoint is None:
        train_instance(setup, **arguments)
        checkpoint = _last_checkpoint(setup, **arguments)
    assert checkpoint is not None, f"instance {arguments['name']} has no checkpoint"
    network = build_network(setup, arguments["weights_seed"], arguments["trained"], arguments["num_shared_cells"])
    network.load_state_dict(saved_part(checkpoint, "network"))
    return network


def _last_checkpoint(
    setup: SupernetSetup,
    *,
    name: str,
    stop_epoch: int | None = None,
    overrides: dict[str, Any] | None = None,
    **others: Any,
) -> Checkpoint | None:
    """The checkpoint after an instance's last step."""
    checkpoints = setup.checkpoints(name)
    checkpoint = None if checkpoints is None else checkpoints.load()
    if checkpoint is None or checkpoint.step != _num_steps(setup, overrides, stop_epoch)[1]:
        return None
    return checkpoint


def _num_steps(setup: SupernetSetup, overrides: dict[str, Any] | None, stop_epoch: int | None) -> tuple[int, int]:
    """The steps of an epoch, and those of all epochs."""
    settings = replace(setup.settings, **(overrides or {}))
    steps_per_epoch = Batches(len(setup.data.train.y), settings.batch_size, seed=0).steps_per_epoch
    return steps_per_epoch, (stop_epoch or settings.epochs) * steps_per_epoch


def set_bn_momentum(network: nn.Module, momentum: float) -> None:
    """Give every batch norm the same momentum (the weight of the newest mini-batch, as torch has it)."""
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = momentum


def calibration_batches(setup: SupernetSetup, seed: int) -> list[Tensor]:
    """A few training mini-batches, always the same ones for a seed."""
    generator = torch_generator(derive_seed(seed, "calibration"))
    size = min(setup.settings.batch_size, len(setup.data.train.y))
    return [
        setup.data.train.x[torch.randint(len(setup.data.train.y), (size,), generator=generator)]
        for _ in range(NUM_CALIBRATION_BATCHES)
    ]


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
    momentum starts from zero: the supernet's belongs to other children. The snapshot is the last checkpoint of
    ``train_instance`` with the arguments ``instance``; a child is scored after each of ``score_after`` mini-batches,
    rising, 0 being the snapshot itself. With a learning rate of 0 weights stay as they are while batch-norm statistics
    follow the child. Gives [children, len(score_after)].
    """
    data = setup.data
    network = load_network(setup, instance)
    snapshot = copy.deepcopy(network.state_dict())
    # A rate of 0 is no recipe's, but each step is given its own: weights stay, and batch norm's statistics move.
    recipe = replace(
        setup.settings,
        learning_rate=learning_rate or setup.settings.learning_rate,
        final_learning_rate=0.0,
        clip_norm=None,
    )
    seed = derive_seed(seed, "fine-tuning")
    batches, of_outputs = Batches(len(data.train.y), recipe.batch_size, seed), recipe.loss_for(data.train.y)
    curves: list[list[float]] = []
    metric = setup.metric
    for index in indices:
        arch = setup.space[index]
        network.load_state_dict(snapshot)
        where = f" of fine-tuning {setup.space.name(arch)}"
        optimizer = make_optimizer(network, recipe)
        step = Step(network, optimizer, recipe, group_rates=group_rates(optimizer, recipe), where=where)
        curve: list[float] = []
        for number in range(max(score_after) + 1):
            if number in score_after:
                curve.append(metric.score(measure(network, data.validation.x, data.validation.y, metric, arch)))
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
