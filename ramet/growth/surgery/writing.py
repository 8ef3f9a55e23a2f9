"""Writing a widening into a network: larger tensors in the same modules, and all that goes with them.

The optimizer's state, averaged copies of the network and the numbers that modules keep about themselves change
along, so that training goes on as if the network had always been this wide.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from ramet.errors import ConfigError
from ramet.growth.surgery.widening import WideningPlan, Widenings
from ramet.tracing.coupling import Coupling
from ramet.tracing.expansions import wider
from ramet.tracing.numbers import renumber_module

SQUARED = ("exp_avg_sq", "max_exp_avg_sq", "square_avg", "sum", "acc_delta")
"""Names of optimizer states that hold squared gradients."""


def widen(
    network: nn.Module,
    coupling: Coupling,
    widenings: Widenings,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    averages: Iterable[nn.Module] = (),
) -> WideningPlan:
    """Widen a network in place; gives the plan that was carried out, which can grow further tensors of the same shapes.

    The modules of the network that ``coupling`` was traced from stay, their tensors are replaced; read it again with
    ``find_coupling`` before the next widening. The parameters of an optimizer that trains it, and their state, are
    replaced too. Averages, copies of the network that follow it (an exponential moving average), plain or in an
    ``AveragedModel``, get the same units, split and added in the same way.

    Raises:
        ConfigError: for a group that there is not, a unit outside it, or an average of another shape.
    """
    plan = WideningPlan(coupling, widenings)
    averages = [average.module if isinstance(average, AveragedModel) else average for average in averages]
    for average in averages:
        _check_same(network, average)
    for module in [network, *averages]:
        _replace(module, plan, optimizer if module is network else None)
        _renumber(module, plan)
    return plan


def _check_same(network: nn.Module, average: nn.Module) -> None:
    shapes = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    others = {name: tuple(tensor.shape) for name, tensor in average.state_dict().items()}
    if shapes != others:
        different = sorted(name for name in shapes.keys() | others.keys() if shapes.get(name) != others.get(name))
        raise ConfigError(f"an average must have the network's tensors, but it differs in {different[:3]}.")


def _replace(network: nn.Module, plan: WideningPlan, optimizer: torch.optim.Optimizer | None) -> None:
    for name in plan.tensors:
        old = read_tensor(network, name)
        with torch.no_grad():
            data = plan.grow_weight(name, old.detach()).contiguous()
        plan.forget(name)
        if isinstance(old, nn.Parameter):
            new: Tensor = nn.Parameter(data, requires_grad=old.requires_grad)
            if optimizer is not None:
                grow_optimizer(optimizer, old, new, plan, name)
        else:
            new = data
        for alias in plan.coupling.aliases[name]:
            write_tensor(network, alias, new)


def read_tensor(network: nn.Module, name: str) -> Tensor:
    """A parameter or buffer by its full name."""
    path, _, leaf = name.rpartition(".")
    tensor = getattr(network.get_submodule(path), leaf)
    assert isinstance(tensor, Tensor)
    return tensor


def write_tensor(network: nn.Module, name: str, tensor: Tensor) -> None:
    """Put a parameter or buffer in place of the one of that name, of any shape."""
    path, _, leaf = name.rpartition(".")
    module = network.get_submodule(path)
    store = module._parameters if leaf in module._parameters else module._buffers
    store[leaf] = tensor  # type: ignore[assignment]


def grow_optimizer(
    optimizer: torch.optim.Optimizer, old: nn.Parameter, new: Tensor, plan: WideningPlan, name: str
) -> None:
    """Put the wider parameter in the old one's place, and its state with it.

    States of the parameter's shape grow as its gradient does (see ``WideningPlan.grow_state``); single numbers such as
    a step count stay; a state of any other shape is dropped, as the optimizer will make it again.
    """
    for group in optimizer.param_groups:
        group["params"] = [new if parameter is old else parameter for parameter in group["params"]]
    if old not in optimizer.state:
        return
    state: dict[str, Any] = optimizer.state.pop(old)
    grown: dict[str, Any] = {}
    for key, value in state.items():
        if isinstance(value, Tensor) and value.shape == old.shape and value.dim():
            grown[key] = plan.grow_state(name, value, 2.0 if key in SQUARED else 1.0).contiguous()
        elif not isinstance(value, Tensor) or value.numel() == 1:
            grown[key] = value
    optimizer.state[new] = grown


def _renumber(network: nn.Module, plan: WideningPlan) -> None:
    """Bring the numbers that modules keep about themselves in line with their tensors."""
    sizes = plan.sizes()
    for (path, attribute), layout in plan.coupling.attributes.items():
        if any(axis in sizes for term in layout for axis in term):
            setattr(network.get_submodule(path), attribute, wider(layout, sizes))
    paths = {alias.rpartition(".")[0] for name in plan.tensors for alias in plan.coupling.aliases[name]}
    for path in paths:
        renumber_module(network.get_submodule(path))
    for (path, attribute), ratio in plan.epsilons.items():
        norm = network.get_submodule(path)
        epsilon = getattr(norm, attribute)
        if epsilon is None:  # torch's root-mean-square norm then takes the smallest number of its precision
            epsilon = torch.finfo(norm.weight.dtype).eps  # type: ignore[arg-type]
        setattr(norm, attribute, epsilon * ratio)
