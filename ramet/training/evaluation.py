"""How a network is measured: its modes put back afterwards, a metric, batch-norm statistics made anew."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ramet.training.metrics import Metric
from ramet.training.metrics import accuracy as accuracy_metric
from ramet.training.outputs import output_of

EVALUATION_BATCH = 500
"""Samples in an evaluation batch: large enough for speed, small enough for a core's cache at small image sizes."""

MOST_VALUES = 2**23
"""Values of inputs in an evaluation batch: of images of 224 x 224, 500 would take 300 MB, and layers far more."""
EVALUATION_TOKENS = 4096
"""Targets in an evaluation batch, where a sample has many: each token has a logit for every word of a vocabulary."""


@contextmanager
def training_modes(network: nn.Module) -> Iterator[None]:
    """Run a block that may call ``network.train()`` or ``network.eval()``; each module gets its own mode back.

    Modules of one network can have different modes: a frozen part stays in evaluation mode while the rest is trained.

    >>> network = nn.Sequential(nn.Dropout(), nn.Dropout().eval())
    >>> with training_modes(network):
    ...     _ = network.eval()
    >>> [module.training for module in network]
    [True, False]
    """
    with _modes_put_back(modules_of(network)):
        yield


@contextmanager
def _modes_put_back(modules: list[nn.Module]) -> Iterator[None]:
    modes = [module.training for module in modules]
    try:
        yield
    finally:
        _assign_modes(modules, modes)


def modules_of(network: nn.Module) -> list[nn.Module]:
    """``network.modules()``, in its order and each once, quickly where no module of it has names of its own.

    Torch's walk is a generator in a generator for every level. A supernet of hundreds of modules is walked several
    times in each measurement of a child, and that took a quarter of the measurement.
    """
    found: dict[nn.Module, None] = {}
    left = [network]
    while left:
        module = left.pop()
        if module not in found:
            found[module] = None
            if module._modules:  # most have none
                left += [child for child in reversed(module._modules.values()) if child is not None]
    kinds = {type(module) for module in found}
    if any(k.modules is not nn.Module.modules or k.named_modules is not nn.Module.named_modules for k in kinds):
        return list(network.modules())
    return list(found)


def set_training(network: nn.Module, mode: bool) -> None:
    """``network.train(mode)``, quickly where no module of it has a ``train`` or ``eval`` of its own.

    Torch assigns each module's mode as if it might be a parameter. In a supernet of hundreds of modules that takes half
    as long as a child's forward pass.
    """
    _set_modes(network, modules_of(network), mode)


def _set_modes(network: nn.Module, modules: list[nn.Module], mode: bool) -> None:
    kinds = {type(module) for module in modules}
    if any(kind.train is not nn.Module.train or kind.eval is not nn.Module.eval for kind in kinds):
        network.train() if mode else network.eval()
        return
    _assign_modes(modules, [mode] * len(modules))


def _assign_modes(modules: list[nn.Module], modes: list[bool]) -> None:
    for module, mode in zip(modules, modes, strict=True):
        own = module.__dict__
        if "training" in own:
            own["training"] = mode
        else:  # a scripted module keeps it elsewhere
            module.training = mode


def in_batches(x: Tensor, y: Tensor, size: int = EVALUATION_BATCH) -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs and targets in their order, so many at a time, fewer if they are large; they may be read as asked for."""
    size = min(size, max(16, MOST_VALUES // max(1, math.prod(x.shape[1:]))))
    size = min(size, max(1, EVALUATION_TOKENS * len(y) // max(y.numel(), 1)))
    for start in range(0, len(y), size):
        yield x[start : start + size], y[start : start + size]


@contextmanager
def evaluating(network: nn.Module) -> Iterator[list[nn.Module]]:
    """Evaluation mode without gradients; each module's mode is put back afterwards. Gives all modules."""
    modules = modules_of(network)
    with _modes_put_back(modules), torch.inference_mode():
        _set_modes(network, modules, False)
        yield modules


def measure(network: nn.Module, x: Tensor, y: Tensor, metric: Metric, *arguments: Any) -> float:
    """The value of a metric over all samples, however they are cut into batches.

    Args:
        network: called as ``network(inputs, *arguments)``.
        x: inputs, [samples, ...].
        y: targets, [samples, ...].
        metric: what is measured.
        arguments: what else the network takes.

    Raises:
        ConfigError: outputs do not fit the targets, or the metric gives something else than a number.
        RunError: the value is NaN.
    """
    parts: list[Tensor] = []
    total = None
    with evaluating(network):
        for inputs, targets in in_batches(x, y):
            outputs = output_of(network(inputs, *arguments))
            if metric.sums is None:
                parts.append(outputs.cpu())
            else:
                part = metric.sums(outputs, targets).cpu().double()
                total = part if total is None else total + part
        # Targets that stay on disk are counted where sums are; all of them are read where all outputs are kept.
        told = y if total is not None or isinstance(y, Tensor) else y[:]
        return metric.result(torch.cat(parts) if total is None else total, told.cpu())


def accuracy(network: nn.Module, x: Tensor, y: Tensor, *arguments: Any) -> float:
    """The share of samples whose largest logit is the label's; of tokens, where each has a label, [batch, length].

    >>> identity = nn.Identity()
    >>> accuracy(identity, torch.eye(4), torch.tensor([0, 1, 2, 0]))
    0.75
    """
    return measure(network, x, y, accuracy_metric(), *arguments)


@contextmanager
def reestimated_batch_norm(network: nn.Module, batches: Iterable[Tensor], *arguments: Any) -> Iterator[None]:
    """Within the block, running statistics are the plain average over ``batches``; afterwards they are as before.

    Those of a supernet belong to whichever child was trained last.

    Args:
        network: called as ``network(batch, *arguments)`` in training mode, without gradients.
        batches: training inputs; a few mini-batches are enough.
        arguments: what else the network takes, for example the architecture.
    """
    norms = [module for module in network.modules() if isinstance(module, _BatchNorm) and module.track_running_stats]
    saved = [(norm, norm.momentum, {name: buffer.clone() for name, buffer in norm.named_buffers()}) for norm in norms]
    try:
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # torch then takes the cumulative average instead of the moving one
        with training_modes(network), torch.no_grad():
            network.train()
            for batch in batches:
                network(batch, *arguments)
        yield
    finally:
        for norm, momentum, buffers in saved:
            norm.momentum = momentum
            for name, buffer in norm.named_buffers():
                buffer.copy_(buffers[name])
