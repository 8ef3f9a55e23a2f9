"""Adapters alone: every task adapts all layers of one frozen network, and begins at the mean of earlier tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from ramet.continual.methods.bind_and_grow.binding import BindingDecision
from ramet.continual.methods.bind_and_grow.graph_method import GraphMethod
from ramet.continual.methods.head_fitting import copy_with_fitted_head
from ramet.continual.methods.layer_graph_method import LayerGrowth
from ramet.continual.networks.backbone import Backbone
from ramet.continual.networks.block_graph import BlockGraph
from ramet.continual.networks.block_weights import WholeMap
from ramet.continual.networks.graph import LayerNode, PathStep, TaskPath
from ramet.continual.networks.template import Template
from ramet.continual.streams.stream import TaskData
from ramet.continual.training import Saves, classification, train
from ramet.errors import ConfigError
from ramet.seeding import derive_seed


@dataclass(kw_only=True, eq=False)
class Adapters(GraphMethod):
    """A trained network, or that of the first task, stays as it is; each task has small maps beside its layers.

    Beside a linear layer the map is of low rank; beside a convolution it is a convolution of one pixel, or of low rank
    over the whole kernel. Biases, scales and batch norms are the task's own, and so are the smallest convolutions of a
    module, as far as ``budget`` lasts.

    Attributes:
        rank: of the maps of low rank.
        convolutions: what stands beside a convolution: ``pointwise`` or ``low-rank``.
        base: what tasks adapt of a trained network: the ``trained`` weights, which are kept beside the tasks, or the
            network as the ``first`` task leaves it, which begins with them, trains all of them and adds nothing.
        budget: the parameters that a task may add to a module below its heads, as a share of that module's. What
            pointwise maps leave of it lets those convolutions change as a whole that add least; 0 for none.
        whole_rate: the factor of the learning rate for such convolutions, and for a trained network that the first
            task trains: the best rate of fine-tuning was a quarter of that of maps (docs/decisions/046).
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
    base: Literal["first", "trained"] = "trained"
    budget: float = 0.0
    whole_rate: float = 0.25
    begin: Literal["mean", "nothing"] = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rank < 1:
            raise ConfigError(f"the rank of an adapter must be at least 1, but got {self.rank}.")
        if not 0 <= self.budget <= 1:
            raise ConfigError(f"budget must lie between 0 and 1, but got {self.budget}.")
        if not 0 < self.whole_rate <= 1:
            raise ConfigError(f"whole_rate must be above 0 and at most 1, but got {self.whole_rate}.")
        if self.start_weights == "probe":
            raise ConfigError("adapters train no probe, so that start_weights must be copy or fresh, but got probe.")

    def _begin(self) -> None:
        super()._begin()
        if self.base == "first" and isinstance(self.template, Backbone):
            self.graph_ = BlockGraph(self.template)  # without a path of the trained weights: the first task founds it
            self.graph_.to(self.device)

    def _probe(self, task: TaskData, skeleton: Template, saves: Saves, *, whole: bool) -> nn.Module:
        """The network of the first task; a trained one begins with a fitted head, and takes smaller steps."""
        name, role = task.info.name, ("probe", task.info.name)
        if not skeleton.is_trained or name in self.known_probes:
            return super()._probe(task, skeleton, saves, whole=whole)
        if self.head_weights == "fitted":
            network = copy_with_fitted_head(skeleton, task, self.settings, role, seed=self.seed, saves=saves)
        else:
            network = skeleton.make_network(task.info.num_classes, self.seed, *role).to(self.device)
        train(
            network,
            *classification(network, task.train, self.settings),
            self.settings,
            seed=derive_seed(self.seed, *role),
            rate=lambda _: self.whole_rate,
            saves=saves,
            phase="probe",
        )
        return network

    def _decide(
        self, task: TaskData, skeleton: Template, probe: nn.Module | None
    ) -> tuple[BindingDecision, list[LayerGrowth]]:
        first = next(iter(self.graph_.paths))
        steps = self.graph_.path(first).steps
        if isinstance(self.graph_, BlockGraph):
            patches = self._block_patches(self.graph_, steps)
        else:
            convs = [isinstance(self.graph_.nodes[step.node].get_submodule("weights"), nn.Conv2d) for step in steps]
            is_pointwise = self.convolutions == "pointwise"
            patches = [{"rank": 0 if is_conv and is_pointwise else self.rank} for is_conv in convs]
        growths = [LayerGrowth(step, patch=values) for step, values in zip(steps, patches, strict=True)]
        adapted = tuple(range(len(growths)))
        return BindingDecision(task.info.name, first, None, (), reason="the first", adapted=adapted), growths

    def _block_patches(self, graph: BlockGraph, steps: Sequence[PathStep]) -> list[dict[str, Any]]:
        """The adapters of a module's blocks: maps for all, and whole convolutions within the budget."""
        values = {"rank": self.rank, "pointwise": self.convolutions == "pointwise"}
        if not values["pointwise"]:
            return [values for _ in steps]
        left = self.budget * sum(self.template.layer_sizes()) - sum(graph.sizes(step, values)[1] for step in steps)
        added = [graph.whole_convolutions(step, values) for step in steps]
        chosen = smallest_within({name: size for block in added for name, size in block.items()}, left)
        whole = [[name for name in block if name in chosen] for block in added]
        return [values | ({"whole": names} if names else {}) for names in whole]

    def _own_rate(self, view: nn.Module) -> Callable[[str], float]:
        whole = {name for name, part in view.named_modules() if isinstance(part, WholeMap)}
        return lambda name: self.whole_rate if name.rpartition(".")[0] in whole else 1.0

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


def smallest_within(sizes: Mapping[str, int], limit: float) -> set[str]:
    """The smallest items that together are no more than a limit, in their order where they are alike.

    >>> sorted(smallest_within({"a": 5, "b": 2, "c": 2, "d": 2}, limit=5))
    ['b', 'c']
    """
    chosen: set[str] = set()
    for name in sorted(sizes, key=lambda name: sizes[name]):
        if sizes[name] > limit:
            break
        chosen.add(name)
        limit -= sizes[name]
    return chosen


def _is_alike(about: Mapping[str, LayerNode], earlier: PathStep, new: PathStep) -> bool:
    """Whether a step of an earlier task adapts the same node in the same way."""
    if earlier.patch is None or new.patch is None or earlier.node != new.node:
        return False
    return about[earlier.patch].patch == about[new.patch].patch
