"""What methods on a layer graph have in common: a task is a path through it, and the graph is what is saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ramet.continual.method import Method
from ramet.continual.networks.block_graph import new_graph
from ramet.continual.networks.graph import LayerGraph, LayerNode, PathStep
from ramet.continual.networks.patches import make_patch


@dataclass(frozen=True)
class LayerGrowth:
    """What becomes of one layer for a new task.

    Attributes:
        source: the step of an earlier task's path that it is, or goes back to; None for one that has no counterpart.
        own: whether the new task gets a layer of its own; always where there is no source.
        patch: otherwise, a patch beside the shared layer; see ``make_patch``.
    """

    source: PathStep | None
    own: bool = False
    patch: Mapping[str, Any] | None = None


@dataclass(kw_only=True, eq=False)
class LayerGraphMethod(Method):
    """A method whose tasks are paths through one graph of layers; sub-classes decide what they share."""

    def _begin(self) -> None:
        self.graph_: LayerGraph = new_graph(self.template)
        self.graph_.to(self.device)

    def network(self, name: str) -> nn.Module:
        """A plain copy of the task's path, patches merged into the layers that they stand beside."""
        self.place(name)
        return self.graph_.network(name)

    def num_parameters(self) -> int:
        """The nodes of the graph, each counted once."""
        return self.graph_.num_parameters()

    def graph(self) -> dict[str, Any]:
        """The joint network for the report."""
        return self.graph_.describe()


def add_steps(
    graph: LayerGraph,
    device: str | torch.device,
    task: str,
    growths: Sequence[LayerGrowth],
    own_layer: Callable[[int], nn.Module],
    patch_generator: Callable[[int], torch.Generator],
) -> tuple[PathStep, ...]:
    """The steps of a new task's path, with the layers and patches that it gets added to the graph, on a device.

    ``own_layer`` makes the layer of a place for the task alone, ``patch_generator`` what its patch is drawn from.
    """
    steps = []
    for place, growth in enumerate(growths):
        source = growth.source
        if source is None or growth.own:
            node = LayerNode(place, task, None if source is None else source.node)
            steps.append(PathStep(graph.add_node(own_layer(place).to(device), node)))
        elif growth.patch is None:
            steps.append(source)
        else:
            patch = make_patch(graph.nodes[source.node], growth.patch, patch_generator(place)).to(device)
            node = LayerNode(place, task, source.node, growth.patch)
            steps.append(PathStep(source.node, graph.add_node(patch, node)))
    return tuple(steps)
