"""Which parameters a step is about, by names that no wrapper changes.

``torch.compile`` puts ``_orig_mod.`` into parameter names and ``DistributedDataParallel`` puts ``module.`` before them.
A guard that remembered a plain network must know it again when it is wrapped, and the other way round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

import torch
from torch import nn

from ramet.params import Params

StepSizes = float | Mapping[str, float]
"""How far the optimizer goes for a gradient of one: a number, or one for each parameter name."""

_INNER_WRAPPERS = ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")


@lru_cache(maxsize=65536)
def _without_inner_wrappers(name: str) -> str:
    for wrapper in _INNER_WRAPPERS:
        name = name.replace(wrapper, "")
    return name


def plain_names(names: Iterable[str]) -> list[str]:
    """The names as they are without ``torch.compile`` and ``DistributedDataParallel``.

    ``module.`` is dropped only where every name begins with it, since a network may have a part of that name.

    >>> plain_names(["module._orig_mod.head.weight", "module.body._orig_mod.0.bias"])
    ['head.weight', 'body.0.bias']
    >>> plain_names(["module.weight", "head.weight"])
    ['module.weight', 'head.weight']
    """
    plain = [_without_inner_wrappers(name) for name in names]
    while plain and all(name.startswith("module.") for name in plain):
        plain = [name.removeprefix("module.") for name in plain]
    return plain


def on_path(params: Params) -> Params:
    """The parameters that have a gradient, by plain name: those are the ones that the current model uses."""
    return {
        name: param for name, param in zip(plain_names(params), params.values(), strict=True) if param.grad is not None
    }


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether a name fits one of some shell patterns, such as ``cells.*``."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def sizes_of(step_sizes: StepSizes, names: Sequence[str]) -> list[float]:
    """The step size of each name."""
    if isinstance(step_sizes, Mapping):
        sizes = dict(zip(plain_names(step_sizes), step_sizes.values(), strict=True))
        return [float(sizes[name]) for name in names]
    return [float(step_sizes)] * len(names)


def step_sizes(optimizer: torch.optim.Optimizer, params: Params) -> dict[str, float]:
    """The step size of each parameter under an optimizer: what ``Guard.step`` wants to know.

    A constant gradient of one moves a parameter by the learning rate in each step, and by ``lr / (1 - momentum)`` once
    momentum has built up. With that length the proximal step of a penalty comes to rest where the explicit penalty
    does. Adaptive optimizers have no such single length; for them it is the learning rate, as in decoupled
    weight decay.

    >>> layer = nn.Linear(1, 1, bias=False)
    >>> step_sizes(torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.5), dict(layer.named_parameters()))
    {'weight': 0.2}
    """
    sizes: dict[int, float] = {}
    for group in optimizer.param_groups:
        momentum = group.get("momentum", 0.0) if isinstance(optimizer, torch.optim.SGD) else 0.0
        size = float(group["lr"]) / (1.0 - momentum) * (1.0 - group.get("dampening", 0.0) if momentum else 1.0)
        sizes.update((id(param), size) for param in group["params"])
    return {
        name: sizes[id(param)]
        for name, param in zip(plain_names(params), params.values(), strict=True)
        if id(param) in sizes
    }


def unwrapped(module: nn.Module) -> nn.Module:
    """The user's own module inside ``torch.compile`` and ``DistributedDataParallel``."""
    while True:
        if isinstance(module, nn.parallel.DistributedDataParallel | nn.DataParallel):
            module = module.module
        elif isinstance(getattr(module, "_orig_mod", None), nn.Module):
            module = module._orig_mod  # type: ignore[assignment]
        else:
            return module
