"""Exporting one architecture of a supernet as a plain module that needs no ramet.

The child is a trace of the supernet's own forward for one architecture (``torch.fx``), so it computes the same
operations in the same order, and cannot come to differ from the supernet. docs/decisions/004-child-export.md says why.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, fx, nn

from ramet.spaces.base import Arch
from ramet.spaces.kernels.depthwise import DepthwiseConv2d


def copy_layer(layer: nn.Module, copies: dict[int, Any], *, plain: bool = True) -> nn.Module:
    """A copy of a layer without layers inside, in which torch's own stands for one of ramet's faster ones if ``plain``.

    ``copies`` is deepcopy's memo; one for all layers of a network, so that what they share stays shared.
    """
    if plain and isinstance(layer, DepthwiseConv2d):
        layer = layer.plain()  # It holds the very same parameters, so that it has to be copied, too.
    return copy.deepcopy(layer, copies)


def trace_child(stages: nn.ModuleList, arch: Arch, *, plain: bool = True) -> fx.GraphModule:
    """A chain of stages for one architecture as a ``torch.fx.GraphModule`` with a copy of the weights on the path.

    Names of parameters and buffers are those of the supernet (``stages.1.dag...``), so that weights go back and forth
    by ``load_state_dict(..., strict=False)``. The stages may come from several supernets; their Python code may depend
    on the architecture, but not on the values or shape of ``x``. With ``plain``, ``DepthwiseConv2d`` becomes
    ``nn.Conv2d``, so that the child needs no ramet. Outputs are the same either way; False trains faster on a CPU, and
    is for children that are trained inside ramet.
    """
    path = _Path(stages, arch)
    with torch.enable_grad():  # a layer may take a shortcut without gradients, which has no trace
        graph = _Tracer().trace(path)
    for node in graph.nodes:
        node.type = None  # A pickle would carry an annotation that is a string, where nothing resolves it.
    graph._tracer_cls = fx.Tracer  # A pickle names the tracer's class, which must not be ramet's.
    child = fx.GraphModule(path, graph, class_name="Child")
    copies: dict[int, Any] = {}
    for name in dict.fromkeys(str(node.target) for node in graph.nodes if node.op == "call_module"):
        child.set_submodule(name, copy_layer(child.get_submodule(name), copies, plain=plain))
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
        return isinstance(m, DepthwiseConv2d) or super().is_leaf_module(m, module_qualified_name)
