"""Train, grow, train again: Algorithm 1 of the Firefly paper, for any method, with a budget and an end."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ramet.errors import ConfigError, DataError
from ramet.growth.base import Growth
from ramet.growth.budget import Budget, Ends
from ramet.growth.growing import Growing
from ramet.growth.history import GrowthStep, History
from ramet.growth.methods.making import make_method
from ramet.growth.saving import load_network
from ramet.tracing.attention import open_attention
from ramet.training import SavesCheckpoints, Settings
from ramet.training.functions import Loss


def grow(
    network: nn.Module | str | Path,
    data: Any,
    budget: Budget | str,
    method: Growth | str = "firefly",
    *,
    method_options: dict[str, Any] | None = None,
    settings: Settings | None = None,
    loss: Loss | None = None,
    target: float | None = None,
    patience: int | None = None,
    min_gain: float = 0.0,
    max_steps: int | None = None,
    ties: str = "auto",
    seed: int = 0,
    in_place: bool = False,
    optimizer: Callable[[nn.Module], torch.optim.Optimizer] | None = None,
    averages: Iterable[nn.Module] = (),
    checkpoints: SavesCheckpoints | None = None,
    seconds_between_checkpoints: float = 30.0,
    after_step: Callable[[GrowthStep], None] = lambda step: None,
) -> tuple[nn.Module, History]:
    """Grow a network where it helps most, until it is large or good enough.

    The network is trained, then grown by a step, then trained again, and so on. Everything random follows from the
    seed, and each training and each growth from the state before it alone: a growth that was interrupted and is called
    again with the same arguments and ``checkpoints`` ends bit for bit as if it had never stopped. Gives
    the grown network, a plain module of the same classes, and the history.

    Args:
        network: any module that maps a batch of inputs to outputs, or the folder of a grown network of
            ``save_network``, which ``load_network`` gives as a module, too, where it was made by code of one's own.
        data: ``(x, y, validation_x, validation_y)``, or an object with ``train`` and ``validation`` that have ``x`` and
            ``y`` (a ``ramet.data.DataSet``).
        budget: how large it may get, and how fast: a ``Budget`` or text such as ``"params=200k, step=30%"``.
        method: how it grows: an object or a name of ``ramet.growth.METHODS``.
        method_options: arguments of a method that is given by its name.
        settings: of each training between two growths; the learning rate starts anew in each, unless a
            ``GrowRecipe`` has its schedule over all of the growth.
        loss: of outputs and targets; the cross-entropy for whole-number targets, the squared error otherwise.
        target: what the metric of the settings is to reach on the validation data: by default the accuracy for
            whole-number targets and r2 for others, or the loss where ``loss`` is given. Growth ends there.
        patience: growth ends when the best score has not risen by ``min_gain`` for so many steps. What is handed back
            then, or at any other end, is the network of the best step, which ``History.kept`` names.
        min_gain: what counts as a rise.
        max_steps: the largest number of growth steps.
        ties: ``none`` lets layers of a model of Hugging Face grow apart; by default they grow as its configuration can
            say, so that ``from_pretrained`` loads what ``save_network`` writes.
        seed: of everything random.
        in_place: grow ``network`` itself rather than a copy. Not to be combined with ``checkpoints``, because a
            network that has grown already cannot be resumed from, nor with ``patience``, because what has grown does
            not shrink again.
        optimizer: makes the optimizer that trains; SGD by the settings if not given. Its state grows along, and each
            of its groups keeps its learning rate, which the schedule of the settings multiplies: the settings' own
            learning rate then stands for a factor of 1.
        averages: copies of the network that follow it; they grow along (with ``in_place`` only).
        checkpoints: where the growth saves itself after each training and each growth, and resumes from.
        seconds_between_checkpoints: a training saves itself as often as that, too.
        after_step: called with each finished step.

    Raises:
        ConfigError: for a budget below the present size, nothing that can grow, or arguments that do not go together.
        DataError: for data of another shape.
        RunError: the loss is not finite, or a growth would have changed the outputs.

    >>> x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    >>> y = (x[:, 0] * x[:, 1] > 0).long()
    >>> net = nn.Sequential(nn.Linear(4, 2), nn.ReLU(), nn.Linear(2, 2))
    >>> settings = Settings(epochs=1, batch_size=16)
    >>> options = {"num_new": 4, "num_steps": 2}
    >>> grown, history = grow(net, (x, y, x, y), "neurons=4, step=1", settings=settings, method_options=options)
    >>> grown[0].out_features, history.stopped
    (4, 'the budget is reached')
    """
    if in_place and checkpoints is not None:
        raise ConfigError("a growth with checkpoints works on a copy, but got in_place=True.")
    if in_place and patience is not None:
        raise ConfigError("a growth with patience hands back a copy, the best network, but got in_place=True.")
    if isinstance(network, str | Path):
        network = load_network(network)
    ends = Ends(target=target, patience=patience, min_gain=min_gain, max_steps=max_steps)
    growing = Growing(
        network=open_attention(network if in_place else copy.deepcopy(network)),
        data=_split(data),
        budget=_budget(budget),
        method=make_method(method, **(method_options or {})),
        settings=settings or Settings(epochs=10, batch_size=64, learning_rate=0.05, weight_decay=1e-4),
        loss=loss,
        seed=seed,
        optimizer=optimizer,
        averages=list(averages) if in_place else [],
        keep_best=ends.keeps_best,
        max_steps=max_steps,
        seeks_size=ends.seeks_size,
        ties=ties,
        checkpoints=checkpoints,
        seconds_between_checkpoints=seconds_between_checkpoints,
    )
    growing.start()
    while (step := growing.advance(ends)) is not None:
        after_step(step)
    return growing.kept_network, growing.history


def _split(data: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    if hasattr(data, "train") and hasattr(data, "validation"):
        data = (data.train.x, data.train.y, data.validation.x, data.validation.y)
    if not (isinstance(data, tuple | list) and len(data) == 4 and all(isinstance(part, Tensor) for part in data)):
        raise DataError(
            "data must be (x, y, validation_x, validation_y) or what ramet.data.load gives, but got a "
            f"{type(data).__name__}."
        )
    x, y, validation_x, validation_y = data
    if len(x) != len(y) or len(validation_x) != len(validation_y) or len(x) < 2 or len(validation_x) < 1:
        sizes = [len(part) for part in (x, y, validation_x, validation_y)]
        raise DataError(f"inputs and targets must be as many, at least 2 for training, but got {sizes}.")
    return x, y, validation_x, validation_y


def _budget(given: Budget | str) -> Budget:
    if isinstance(given, str):
        return Budget.parse(given)
    if not isinstance(given, Budget):
        raise ConfigError(f"a budget is a Budget or a text such as 'params=200k', but got {given!r:.80}.")
    return given
