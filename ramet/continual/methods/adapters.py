"""Adapters alone: every task adapts all layers of one frozen network, and shares nothing with other tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import nn

from ramet.continual.methods.bind_and_grow.binding import BindingDecision
from ramet.continual.methods.bind_and_grow.graph_method import GraphMethod
from ramet.continual.methods.layer_graph_method import LayerGrowth
from ramet.continual.networks.block_graph import BlockGraph
from ramet.continual.networks.template import Template
from ramet.continual.streams.stream import TaskData
from ramet.errors import ConfigError


@dataclass(kw_only=True, eq=False)
class Adapters(GraphMethod):
    """A trained network, or that of the first task, stays as it is; each task has small maps beside its layers.

    Beside a linear layer the map is of low rank; beside a convolution it is a convolution of one pixel, or of low rank
    over the whole kernel. Biases, scales and batch norms are the task's own. All begin as a change of nothing.

    Attributes:
        rank: of the maps of low rank.
        convolutions: what stands beside a convolution: ``pointwise`` or ``low-rank``.

    Reference: Rebuffi, Bilen and Vedaldi, Efficient parametrization of multi-domain deep neural networks, 2018; Hu et
    al., LoRA: low-rank adaptation of large language models, 2022.
    """

    name: ClassVar[str] = "adapters"
    needs_probe: ClassVar[bool] = False

    old_weights: Literal["slow", "frozen", "guarded"] = "frozen"
    rank: int = 8
    convolutions: Literal["pointwise", "low-rank"] = "pointwise"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rank < 1:
            raise ConfigError(f"the rank of an adapter must be at least 1, but got {self.rank}.")
        if self.start_weights == "probe":
            raise ConfigError("adapters train no probe, so that start_weights must be copy or fresh, but got probe.")

    def _decide(
        self, task: TaskData, skeleton: Template, probe: nn.Module | None
    ) -> tuple[BindingDecision, list[LayerGrowth]]:
        first = next(iter(self.graph_.paths))
        growths = []
        for step in self.graph_.path(first).steps:
            if isinstance(self.graph_, BlockGraph):
                values = {"rank": self.rank, "pointwise": self.convolutions == "pointwise"}
            else:
                is_conv = isinstance(self.graph_.nodes[step.node].get_submodule("weights"), nn.Conv2d)
                values = {"rank": 0 if is_conv and self.convolutions == "pointwise" else self.rank}
            growths.append(LayerGrowth(step, patch=values))
        adapted = tuple(range(len(growths)))
        return BindingDecision(task.info.name, first, None, (), reason="the first", adapted=adapted), growths
