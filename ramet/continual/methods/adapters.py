"""Adapters alone: every task adapts all layers of one frozen network, and begins at the mean of earlier tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from ramet.continual.methods.bind_and_grow.binding import BindingDecision
from ramet.continual.methods.bind_and_grow.graph_method import GraphMethod
from ramet.continual.methods.layer_graph_method import LayerGrowth
from ramet.continual.networks.block_graph import BlockGraph
from ramet.continual.networks.graph import LayerNode, PathStep, TaskPath
from ramet.continual.networks.template import Template
from ramet.continual.streams.stream import TaskData
from ramet.errors import ConfigError


@dataclass(kw_only=True, eq=False)
class Adapters(GraphMethod):
    """A trained network, or that of the first task, stays as it is; each task has small maps beside its layers.

    Beside a linear layer the map is of low rank; beside a convolution it is a convolution of one pixel, or of low rank
    over the whole kernel. Biases, scales and batch norms are the task's own.

    Attributes:
        rank: of the maps of low rank.
        convolutions: what stands beside a convolution: ``pointwise`` or ``low-rank``.
        begin: what a task's maps, biases, scales and batch norms begin as: the ``mean`` of those of the tasks before
            it, which has learned what the tasks have in common, or ``nothing``, no change of the network.

    Reference: Rebuffi, Bilen and Vedaldi, Efficient parametrization of multi-domain deep neural networks, 2018; Hu et
    al., LoRA: low-rank adaptation of large language models, 2022.
    """

    name: ClassVar[str] = "adapters"
    needs_probe: ClassVar[bool] = False

    old_weights: Literal["slow", "frozen", "guarded"] = "frozen"
    rank: int = 8
    convolutions: Literal["pointwise", "low-rank"] = "pointwise"
    begin: Literal["mean", "nothing"] = "mean"

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

    def _new_path(self, *args: Any) -> TaskPath:
        path = super()._new_path(*args)
        if self.begin == "mean":
            self._begin_at_the_mean(path)
        return path

    def _begin_at_the_mean(self, path: TaskPath) -> None:
        """Put the mean over earlier tasks into the adapters of a new path and into its batch norms."""
        graph = self.graph_
        for place, step in enumerate(path.steps):
            others = [other.steps[place] for other in graph.paths.values() if len(other.steps) == len(path.steps)]
            alike = [other for other in others if _is_alike(graph.about, other, step)]
            for key, earlier in (
                (step.patch, [other.patch for other in alike]),
                (step.norms, [other.norms for other in alike]),
            ):
                if key is not None and earlier:
                    states = [graph.nodes[other].state_dict() for other in earlier if other is not None]
                    graph.nodes[key].load_state_dict(mean_state(states))


def mean_state(states: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of tensors of the same names; whole numbers, which count or choose, are the last one's.

    >>> mean_state([{"w": torch.zeros(1), "n": torch.tensor(3)}, {"w": torch.ones(1), "n": torch.tensor(5)}])
    {'w': tensor([0.5000]), 'n': tensor(5)}
    """
    return {
        name: torch.stack([state[name] for state in states]).mean(0) if last.is_floating_point() else last
        for name, last in states[-1].items()
    }


def _is_alike(about: Mapping[str, LayerNode], earlier: PathStep, new: PathStep) -> bool:
    """Whether a step of an earlier task adapts the same node in the same way."""
    if earlier.patch is None or new.patch is None or earlier.node != new.node:
        return False
    return about[earlier.patch].patch == about[new.patch].patch
