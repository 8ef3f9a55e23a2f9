"""Learn to bind and grow: each task is bound to its least conflicting relative, and gets anew what conflicts most."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from ramet.continual.methods.bind_and_grow.binding import (
    BindingDecision,
    Distribution,
    bind,
    conflict_distribution,
    nucleus,
)
from ramet.continual.methods.bind_and_grow.budget import choose_within
from ramet.continual.methods.bind_and_grow.conflict import Conflict, group_conflicts, groups_of, measure_conflicts
from ramet.continual.methods.bind_and_grow.graph_method import GraphMethod
from ramet.continual.methods.bind_and_grow.similarity import Measure
from ramet.continual.methods.layer_graph_method import LayerGrowth
from ramet.continual.networks.block_graph import BlockGraph
from ramet.continual.networks.graph import PathStep
from ramet.continual.networks.skeletons import Skeleton
from ramet.continual.networks.template import Template
from ramet.continual.streams.stream import TaskData
from ramet.continual.training import Saves
from ramet.errors import ConfigError
from ramet.seeding import torch_generator
from ramet.training import evaluating


@dataclass(kw_only=True, eq=False)
class BindAndGrow(GraphMethod):
    """Bind-Grow-Step for each task (Algorithm 1 of the paper).

    A network is trained on the new task alone. Its layers are compared with those of every finished task, on the new
    task's own validation images. The task is bound to the one whose layers conflict least, gets copies of the layers
    that conflict most, shares the others, and is trained. ``delta`` says how much of the conflict is removed.

    Attributes:
        delta: the grow coefficient, from 0 (all layers shared) to 1 (all layers anew); a number, or one for each task
            by name, with ``""`` for the others. 0.55 is the paper's balanced value.
        bindings: tasks to bind to that are given instead of computed, by the new task's name.
        measure: how layers are compared: ``cka``, or ``rsa``, the paper's, which finds relatives less often where old
            layers are slow (docs/decisions/026).
        blame: the conflict for which a layer is made anew: what it has ``added`` to the layer before it, or the
            ``whole`` of it, as in the paper, which is always largest at the top (docs/decisions/027).
        distribution: how conflicts become probabilities, ``normalised`` or ``softmax``; the paper does not say.
        num_samples: validation images that layers are compared on (500 in the paper).
        unit: what grows: whole layers (the paper), or ``channels``, groups of a layer's channels.
        num_groups: groups of channels in a layer.
        adapt: from ``delta`` up to this share of the conflict, layers stay shared and get an adapter beside them; 0 for
            none.
        adapter_rank: the rank of the adapters; 0 for full 1 x 1 convolutions beside convolutions.
        budget: the parameters that a task may add to a trained network below its heads, as a share of that network's;
            blocks are adapted, and then made anew, as long as they last, what conflicts most for its parameters first,
            in place of ``delta`` and ``adapt``. 0 for those.
        conv_adapter: what stands beside the convolutions of a module: ``pointwise``, 1 x 1 convolutions, or
            ``low-rank``, of ``adapter_rank``.

    Reference: Learn to Bind and Grow Neural Structures, section 3.
    """

    name: ClassVar[str] = "bind-and-grow"

    delta: float | dict[str, float] = 0.55
    bindings: dict[str, str] = field(default_factory=dict)
    measure: Measure = "cka"
    blame: Literal["added", "whole"] = "added"
    distribution: Distribution = "normalised"
    num_samples: int = 500
    unit: Literal["layer", "channels"] = "layer"
    num_groups: int = 4
    adapt: float = 0.0
    adapter_rank: int = 4
    budget: float = 0.145
    conv_adapter: Literal["pointwise", "low-rank"] = "pointwise"

    def __post_init__(self) -> None:
        super().__post_init__()
        deltas = self.delta.values() if isinstance(self.delta, dict) else [self.delta]
        for delta in deltas:
            if not isinstance(delta, int | float) or not 0 <= delta <= 1:
                raise ConfigError(f"the grow coefficient delta must lie between 0 and 1, but got {delta}.")
        if self.num_samples < 3 or self.num_groups < 1:
            raise ConfigError(
                f"num_samples must be at least 3 and num_groups 1, but got {self.num_samples} and {self.num_groups}."
            )
        if not 0 <= self.budget < math.inf:
            raise ConfigError(f"budget must not be negative, and finite, but got {self.budget}.")
        if not 0 <= self.adapt <= 1 or self.adapter_rank < 0:
            raise ConfigError(
                f"adapt must lie between 0 and 1, and adapter_rank not be negative, but got {self.adapt} and "
                f"{self.adapter_rank}."
            )

    def check_network(self, template: Template) -> None:
        """Refuse what a module has no counterpart for."""
        super().check_network(template)
        if self.unit == "channels" and not isinstance(template, Skeleton):
            raise ConfigError(
                "unit must be layer for a module, whose blocks are no rows of channels, but got channels."
            )

    def delta_of(self, task: str) -> float:
        """The grow coefficient of a task."""
        if not isinstance(self.delta, dict):
            return self.delta
        if task not in self.delta and "" not in self.delta:
            raise ConfigError(f"delta must have a value for each task, or one under '', but {task!r} has none.")
        return self.delta.get(task, self.delta.get("", 0.0))

    def decide(self, task: TaskData) -> BindingDecision:
        """Where a task would be bound and what it would get anew, without learning it; needs a task learned before.

        A network is trained on the task alone for it, as when it is learned.
        """
        if not self.graph_.paths:
            raise ConfigError("a task can be bound when another was learned before it, but there is none.")
        skeleton = self.skeleton_of(task.info)
        probe = self._probe(task, skeleton, Saves(), whole=False)
        return self._decide(task, skeleton, probe)[0]

    def _decide(
        self, task: TaskData, skeleton: Template, probe: nn.Module | None
    ) -> tuple[BindingDecision, list[LayerGrowth]]:
        assert probe is not None
        name, delta = task.info.name, self.delta_of(task.info.name)
        body, x = self.graph_.body_of(probe), self._samples(task)
        with evaluating(self.graph_), evaluating(probe):
            conflicts = measure_conflicts(body, skeleton, self.graph_, list(self.graph_.paths), x, measure=self.measure)
            chosen, reason = self._bound(name, conflicts)
            path = self.graph_.path(chosen.task)
            sources = [None if partner is None else path.steps[partner] for partner in chosen.partners]
            if self.unit == "channels":
                cells = group_conflicts(body, x, self.graph_, path, chosen.partners, self.num_groups, self.measure)
        before = (0.0, *chosen.layers[:-1]) if self.blame == "added" else (0.0,) * len(skeleton.names)
        blamed = [max(0.0, conflict - below) for conflict, below in zip(chosen.layers, before, strict=True)]
        probabilities = conflict_distribution(blamed, self.distribution)
        if self.unit == "channels":
            cells = [[max(0.0, cell - below) for cell in groups] for groups, below in zip(cells, before, strict=True)]
            growths = self._grow_channels(sources, cells, delta)
        elif isinstance(self.graph_, BlockGraph):
            growths = self._grow_blocks(self.graph_, sources, probabilities, delta)
        else:
            growths = self._grow_layers(sources, probabilities, delta)
        expanded = tuple(place for place, growth in enumerate(growths) if growth.own)
        adapted = tuple(place for place, growth in enumerate(growths) if growth.patch and "rank" in growth.patch)
        decision = BindingDecision(
            name,
            chosen.task,
            None if self._has_budget else delta,
            expanded,
            tuple(conflicts),
            tuple(probabilities.tolist()),
            reason,
            adapted,
        )
        return decision, growths

    def _bound(self, name: str, conflicts: Sequence[Conflict]) -> tuple[Conflict, str]:
        if name not in self.bindings:
            return bind(conflicts), "least conflict"
        for conflict in conflicts:
            if conflict.task == self.bindings[name]:
                return conflict, "given"
        known = ", ".join(conflict.task for conflict in conflicts)
        raise ConfigError(
            f"{name!r} must be bound to a task learned before it ({known}), but got {self.bindings[name]!r}."
        )

    def _samples(self, task: TaskData) -> Tensor:
        """The validation images that layers are compared on."""
        images = task.validation.x
        generator = torch_generator(self.seed, "samples", task.info.name)
        rows = torch.randperm(len(images), generator=generator)[: self.num_samples].sort().values
        return images[rows.to(images.device)]

    def _grow_layers(
        self, sources: Sequence[Any], probabilities: np.ndarray[Any, Any], delta: float
    ) -> list[LayerGrowth]:
        own = set(nucleus(probabilities, delta)) | {place for place, source in enumerate(sources) if source is None}
        adapted = set(nucleus(probabilities, max(self.adapt, delta))) - own if self.adapt else set()
        growths: list[LayerGrowth] = []
        for place, source in enumerate(sources):
            # A patch on a patch is not made: where the shared layer is patched already, the task shares it as it is.
            is_adapted = place in adapted and source.patch is None
            rank = self.adapter_rank or (0 if self._is_conv(source) else 1)
            growths.append(LayerGrowth(source, place in own, {"rank": rank} if is_adapted else None))
        return growths

    @property
    def _has_budget(self) -> bool:
        return self.template.is_trained and self.budget > 0

    def _grow_blocks(
        self,
        graph: BlockGraph,
        sources: Sequence[PathStep | None],
        probabilities: np.ndarray[Any, Any],
        delta: float,
    ) -> list[LayerGrowth]:
        """The choice for each block of a module: by what it costs in a trained one, as for layers in another."""
        steps = [source for source in sources if source is not None]
        values = {"rank": self.adapter_rank or 4, "pointwise": self.conv_adapter == "pointwise"}
        if self._has_budget:
            limit = self.budget * sum(self.template.layer_sizes())
            choices = choose_within(probabilities.tolist(), [graph.sizes(step, values) for step in steps], limit)
        else:
            own = set(nucleus(probabilities, delta))
            adapted = set(nucleus(probabilities, max(self.adapt, delta))) if self.adapt else set()
            choices = [
                "own" if place in own else "adapt" if place in adapted else "share" for place in range(len(steps))
            ]
        return [
            LayerGrowth(step, choice == "own", values if choice == "adapt" else None)
            for step, choice in zip(steps, choices, strict=True)
        ]

    def _is_conv(self, source: Any) -> bool:
        weights = self.graph_.nodes[source.node].get_submodule("weights")
        return isinstance(weights, nn.Conv2d)

    def _grow_channels(self, sources: Sequence[Any], cells: list[list[float]], delta: float) -> list[LayerGrowth]:
        """The nucleus over all groups of all layers; a layer of which every group grows is copied whole."""
        flat = [value for groups in cells for value in groups]
        chosen = set(nucleus(conflict_distribution(flat, self.distribution), delta)) if flat else set()
        growths, offset = [], 0
        for source, groups in zip(sources, cells, strict=True):
            picked = [group for group in range(len(groups)) if offset + group in chosen]
            offset += len(groups)
            if source is None or len(picked) == len(groups):
                growths.append(LayerGrowth(source, own=True))
            elif picked and source.patch is None:
                width = len(self.graph_.nodes[source.node].get_submodule("weights").weight)  # type: ignore[arg-type]
                parts = groups_of(width, self.num_groups)
                channels = [channel for group in picked for channel in parts[group]]
                growths.append(LayerGrowth(source, patch={"channels": channels}))
            else:
                growths.append(LayerGrowth(source))
        return growths
