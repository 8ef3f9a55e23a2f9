"""Which parameters a step is about, by names that no wrapper changes.

``torch.compile`` puts ``_orig_mod.`` into parameter names and ``DistributedDataParallel`` puts ``module.`` before them.
A guard that remembered a plain network must know it again when it is wrapped, and the other way round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from numbers import Real

import torch
from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.params import Params
from ramet.training.step_sizes import OptimizerStepSizes, StepSize, inverse

StepSizes = float | Mapping[str, StepSize]
"""How far the optimizer goes for a gradient of one: a number, or one for each parameter name, or each of its values."""

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


def require_named(params: object) -> None:
    """Refuse a network, or parameters without names, in the place of parameters by name."""
    if not isinstance(params, Mapping):
        what = f"a {type(params).__name__}"
        raise ConfigError(f"a guard takes parameters by name, ramet.params.named_params(network), but got {what}.")


def require_shapes(params: Params, fisher: Params) -> None:
    """Refuse Fisher information of other shapes than the parameters that it is about."""
    for name, param in params.items():
        if (shape := tuple(fisher[name].shape)) != tuple(param.shape):
            raise ConfigError(
                "Fisher information must have the shape of its parameter, but "
                f"{name!r} has {tuple(param.shape)} and its Fisher information {shape}."
            )


def require_sizes(step_sizes: object) -> None:
    """Refuse what is no learning rate, such as the optimizer itself: it would be noticed after its step."""
    is_plain = step_sizes is None or isinstance(step_sizes, bool | str | list | tuple)
    if not is_plain and isinstance(step_sizes, Real | Mapping | Tensor):
        return
    shown = f"{step_sizes!r:.80}" if is_plain else f"a {type(step_sizes).__name__}"
    rule = "a step size is the learning rate or ramet.guards.step_sizes(optimizer, params)"
    raise ConfigError(f"{rule}, but got {shown}.")


def require_module(module: object) -> None:
    """Refuse what has no layers to listen to."""
    if not isinstance(module, nn.Module):
        raise ConfigError(f"a guard watches an nn.Module, but got a {type(module).__name__}.")


def require_state(state: object) -> None:
    """Refuse what no ``state_dict`` gave."""
    if not isinstance(state, Mapping):
        raise ConfigError(f"a guard's state is tensors by name, but got a {type(state).__name__}.")


def on_path(params: Params) -> Params:
    """The parameters that have a gradient, by plain name: those are the ones that the current model uses."""
    require_named(params)
    try:
        named = zip(plain_names(params), params.values(), strict=True)
        return {name: param for name, param in named if param.grad is not None}
    except AttributeError:  # asked for only then: this is done in every step
        odd = next((name for name, param in params.items() if not isinstance(param, Tensor)), None)
        if odd is None:
            raise
        rule = "a guard takes parameters by name, ramet.params.named_params(network)"
        raise ConfigError(f"{rule}, but {odd!r} is a {type(params[odd]).__name__}.") from None


def gradient_of(param: Tensor) -> Tensor:
    """The gradient of a parameter on the path."""
    assert param.grad is not None, "the path holds only parameters with a gradient"
    return param.grad


def patterns(protect: str | Sequence[str]) -> tuple[str, ...]:
    """Shell patterns from one or from several: a text of options has one without brackets.

    >>> patterns("cells.*"), patterns(["cells.*", "head.*"])
    (('cells.*',), ('cells.*', 'head.*'))
    """
    return (protect,) if isinstance(protect, str) else tuple(protect)


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether a name fits one of some shell patterns, such as ``cells.*``."""
    return any(pattern == "*" or fnmatchcase(name, pattern) for pattern in patterns)


def sizes_of(step_sizes: StepSizes, names: Sequence[str]) -> list[StepSize]:
    """The step size of each name."""
    if not isinstance(step_sizes, Mapping):
        return [float(step_sizes)] * len(names)
    wanted = _keys_of(step_sizes, names)
    if isinstance(step_sizes, OptimizerStepSizes):
        return step_sizes.of(wanted)
    return [size if isinstance(size, Tensor) else float(size) for size in (step_sizes[key] for key in wanted)]


def inverse_sizes_of(
    step_sizes: StepSizes, names: Sequence[str], times: float
) -> tuple[list[StepSize], Sequence[float]]:
    """One over the step size of each name times a number above 0, in two factors; infinity where that is 0."""
    if isinstance(step_sizes, OptimizerStepSizes):
        return step_sizes.inverse_factors(_keys_of(step_sizes, names), times)
    return [inverse(size * times) for size in sizes_of(step_sizes, names)], [1.0] * len(names)


def _keys_of(step_sizes: Mapping[str, StepSize], names: Sequence[str]) -> list[str]:
    """The names as the step sizes have them."""
    keys = dict(zip(plain_names(step_sizes), step_sizes, strict=True))
    try:
        return [keys[name] for name in names]
    except KeyError as missing:
        raise ConfigError(f"there must be a step size for each parameter, but {missing} has none.") from None


def step_sizes(optimizer: torch.optim.Optimizer, params: Params) -> OptimizerStepSizes:
    """The step size of each parameter under an optimizer: what ``Guard.step`` wants to know.

    A constant gradient of one moves a parameter by the learning rate in each step, by ``lr / (1 - momentum)`` once
    momentum has built up, and by ``lr / (sqrt(v) + eps)`` under Adam. With that length the proximal step of a penalty
    comes to rest where the explicit penalty does. They are read after the optimizer's step, so that this may be made
    once for a whole training; see ``ramet.training.step_sizes`` for the rules.

    >>> layer = nn.Linear(1, 1, bias=False)
    >>> dict(step_sizes(torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.5), dict(layer.named_parameters())))
    {'weight': 0.2}
    """
    return OptimizerStepSizes(optimizer, dict(zip(plain_names(params), params.values(), strict=True)))


def unwrapped(module: nn.Module) -> nn.Module:
    """The user's own module inside ``torch.compile`` and ``DistributedDataParallel``."""
    while True:
        if isinstance(module, nn.parallel.DistributedDataParallel | nn.DataParallel):
            module = module.module
        elif isinstance(getattr(module, "_orig_mod", None), nn.Module):
            module = module._orig_mod  # type: ignore[assignment]
        else:
            return module
