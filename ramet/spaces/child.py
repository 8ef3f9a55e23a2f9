"""Exporting one architecture of a supernet as a plain module that needs no ramet.

The child is a trace of the supernet's own forward for one architecture (``torch.fx``), so it computes the same
operations in the same order, and cannot come to differ from the supernet. docs/decisions/004-child-export.md says why.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, fx, nn

from ramet.spaces.base import Arch


def plain_module(module: nn.Module) -> nn.Module | None:
    """The ``torch.nn`` module that one of ramet's own layers stands for, with a copy of its weights, or None."""
    return cast(Callable[[], nn.Module], module.plain)() if stands_for_plain(module) else None


def stands_for_plain(module: nn.Module) -> bool:
    """Whether a layer is ramet's own, faster form of one of torch's; such a layer has a method ``plain()``."""
    # A user's own module may have an attribute of that name, which means something else.
    return type(module).__module__.startswith("ramet.") and hasattr(module, "plain")


def trace_child(stages: nn.ModuleList, arch: Arch) -> fx.GraphModule:
    """A chain of stages for one architecture as a ``torch.fx.GraphModule`` with a copy of the weights on the path.

    Names of parameters and buffers are those of the supernet (``stages.1.dag...``), so that weights go back and
    forth by ``load_state_dict(..., strict=False)``.

    Args:
        stages: each is called as ``stage(x, arch)``, from the stem to the head. They may come from several supernets.
        arch: the architecture; the stages' Python code may depend on it, but not on the values or shape of ``x``.
    """
    path = _Path(stages, arch)
    graph = _Tracer().trace(path)
    for node in graph.nodes:
        node.type = None  # A pickle would carry an annotation that is a string, where nothing resolves it.
    child = fx.GraphModule(path, graph, class_name="Child")
    copies: dict[int, object] = {}  # One for all layers, so that what is shared on the path stays shared.
    for name in dict.fromkeys(str(node.target) for node in graph.nodes if node.op == "call_module"):
        layer = child.get_submodule(name)
        plain = plain_module(layer)
        child.set_submodule(name, copy.deepcopy(layer, copies) if plain is None else plain)
    for name, module in child.named_modules():  # fx makes new containers, in training mode.
        module.training = path.get_submodule(name).training
    child.training = stages.training
    return child


class _Path(nn.Module):
    """The supernet's chain with the architecture fixed, under the supernet's names."""

    def __init__(self, stages: nn.ModuleList, arch: Arch) -> None:
        super().__init__()
        self.stages = stages
        self.arch = arch

    def forward(self, x: Tensor) -> Tensor:
        for stage in self.stages:
            x = stage(x, self.arch)
        return x


class _Tracer(fx.Tracer):
    """Stops at layers: those of torch, and ramet's own that stand for one of torch's."""

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        return stands_for_plain(m) or super().is_leaf_module(m, module_qualified_name)
