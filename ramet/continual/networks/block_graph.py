"""The graph of a module's blocks: each task has a path of shared, adapted and own blocks, and is a whole network."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ramet.continual.networks.backbone import Backbone
from ramet.continual.networks.block_weights import BlockAdapter, BlockWeights, WeightMap
from ramet.continual.networks.cutting import block_outputs
from ramet.continual.networks.graph import Features, LayerGraph, LayerNode, PathStep, Reduce, TaskPath
from ramet.continual.networks.matrices import matrices
from ramet.continual.networks.template import Template
from ramet.training import output_of

START = "the trained network"
"""The path of the weights that a trained network came with: there before all tasks, and without a head."""
NORMS = {"norms": True}
"""The description of a node that holds a task's own batch norms."""


class BlockGraph(LayerGraph):
    """A graph whose nodes are tensors of blocks (``BlockWeights``), adapters, batch norms and heads.

    A module cannot be run block by block: what lies between blocks is code of its ``forward``. So a task's network is
    a copy of the whole module in which the nodes of its path are put; shared ones are the same tensors in several.
    """

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        self.backbone = backbone
        self._matrices = set(matrices(backbone.module))

    def found(self, task: str, num_classes: int, template: Template, network: nn.Module) -> None:
        """Add the path of a task whose blocks are all its own: the tensors of a network; ``START`` has no head."""
        named = _tensors(network)
        steps = []
        for place, block in enumerate(self.backbone.cut.blocks):
            weights = BlockWeights({name: named[name] for name in block.weights})
            key = self.add_node(weights, LayerNode(place, task))
            norms = None
            if block.norms:
                own = BlockWeights({name: named[name] for name in block.norms})
                norms = self.add_node(own, LayerNode(place, task, key, NORMS))
            steps.append(PathStep(key, None, norms))
        head = ""
        if num_classes:
            module = network.get_submodule(self.backbone.cut.head)
            head = self.add_node(module, LayerNode(len(self.backbone.names), task))
        self.add_path(TaskPath(task, num_classes, template, tuple(steps), head))

    def add_blocks(
        self,
        task: str,
        sources: Sequence[PathStep],
        own: Mapping[int, BlockWeights],
        adapted: Mapping[int, Mapping[str, Any]],
        generator: Callable[[int], torch.Generator],
    ) -> tuple[PathStep, ...]:
        """The steps of a new path: blocks of its own, adapters beside shared ones, and batch norms for all of them.

        Batch norms begin as copies of the source's, and so does an adapter, where the source has one of its kind.
        """
        steps = []
        for place, source in enumerate(sources):
            key, patch = source.node, source.patch
            if place in own:
                key, patch = self.add_node(own[place], LayerNode(place, task, source.node)), None
            elif place in adapted:
                made = self._adapter(source, adapted[place], generator(place))
                patch = self.add_node(made, LayerNode(place, task, source.node, dict(adapted[place])))
            norms = None
            if source.norms is not None:
                norms = self.add_node(self._weights(source.norms).copied(), LayerNode(place, task, key, NORMS))
            steps.append(PathStep(key, patch, norms))
        return tuple(steps)

    def add_chosen(
        self,
        task: str,
        sources: Sequence[PathStep | None],
        patches: Sequence[Mapping[str, Any] | None],
        drawn: nn.Module,
        generator: Callable[[int], torch.Generator],
    ) -> tuple[PathStep, ...]:
        """The steps of a new path that shares or adapts its sources, and has the blocks of a drawn network for none."""
        steps = []
        for place, (source, values) in enumerate(zip(sources, patches, strict=True)):
            patch = None
            if source is None:
                key = self.add_node(self.block_of(drawn, place), LayerNode(place, task))
                norms = self.norms_of(drawn, place)
            else:
                key, patch = source.node, source.patch
                norms = None if source.norms is None else self.norms_at(source).copied()
                if values is not None:
                    made = self.adapter(self.nodes[key], values, generator(place))
                    patch = self.add_node(made, LayerNode(place, task, key, dict(values)))
            own = None if norms is None else self.add_node(norms, LayerNode(place, task, key, NORMS))
            steps.append(PathStep(key, patch, own))
        return tuple(steps)

    def adapter(self, block: nn.Module, values: Mapping[str, Any], generator: torch.Generator) -> BlockAdapter:
        """An adapter beside a block, which at first changes nothing."""
        assert isinstance(block, BlockWeights)
        return BlockAdapter(block, self._matrices, values, generator)

    def norms_at(self, step: PathStep) -> BlockWeights:
        """The batch norms of a step that has some."""
        assert step.norms is not None
        return self._weights(step.norms)

    def norms_of(self, network: nn.Module, place: int) -> BlockWeights | None:
        """The batch norms of a block of a plain network, copies; None if it has none."""
        names, named = self.backbone.cut.blocks[place].norms, _tensors(network)
        return BlockWeights({name: named[name] for name in names}).copied() if names else None

    def block(self, step: PathStep) -> BlockWeights:
        """The tensors of a step as plain ones of their own, an adapter merged into them."""
        weights = self._weights(step.node)
        return weights.copied() if step.patch is None else self._patch(step.patch).merged(weights)

    def block_of(self, network: nn.Module, place: int) -> BlockWeights:
        """The tensors of a block of a plain network, batch norms left out; copies."""
        named = _tensors(network)
        return BlockWeights({name: named[name] for name in self.backbone.cut.blocks[place].weights}).copied()

    def sizes(self, step: PathStep, values: Mapping[str, Any]) -> tuple[int, int, int]:
        """The parameters that a task adds if it shares a block, adapts it, or has it for itself."""
        parts: list[nn.Module] = [] if step.norms is None else [self.nodes[step.norms]]
        shared = _count(parts)
        adapted = _count([*parts, self._adapter(step, values, None)])
        return shared, adapted, _count([*parts, self.nodes[step.node]])

    def whole_convolutions(self, step: PathStep, values: Mapping[str, Any]) -> dict[str, int]:
        """The parameters that a task adds if a convolution of a block changes as a whole instead of by its map."""
        tensors = self._weights(step.node).tensors()
        maps = self._adapter(step, values, None).maps_by_name()
        return {name: tensors[name].numel() - _count([made]) for name, made in maps.items() if tensors[name].ndim > 2}

    def view(self, path: TaskPath) -> BlockView:
        """The network of a path, of the graph's own tensors."""
        network = self.backbone.hollow()
        maps: dict[str, WeightMap] = {}
        for step in path.steps:
            put = self._weights(step.node).tensors()
            if step.norms is not None:
                put |= self._weights(step.norms).tensors()
            if step.patch is not None:
                patch = self._patch(step.patch)
                put |= patch.vectors.tensors()
                maps |= patch.maps_by_name()
            for name, tensor in put.items():
                for each in (name, *self.backbone.cut.aliases.get(name, ())):
                    _put(network, each, tensor)
        network.set_submodule(self.backbone.cut.head, self.nodes[path.head] if path.head else nn.Identity())
        return BlockView(network, maps)

    def network(self, task: str) -> nn.Module:
        """A task alone: the module with weights of its own, adapters merged into the layers that they change."""
        view = self.view(self.path(task))
        network = copy.deepcopy(view.network)
        with torch.no_grad():
            for name, made in view.maps_by_name().items():
                weight = network.get_parameter(name)
                weight.copy_(made(weight))
        return network.eval()

    def body_of(self, network: nn.Module) -> nn.Module:
        """A module is compared as a whole."""
        return network

    def features_of(self, body: Any, x: Tensor, reduce: Reduce) -> list[Any]:
        """What a function makes of the outputs of each block of a plain network."""
        return block_outputs(body, self.backbone.cut, x, reduce)

    def features(self, x: Tensor, tasks: Iterable[str], reduce: Reduce = lambda value: value) -> Iterator[Features]:
        """What the blocks of several tasks give for the same inputs; each task's network runs once."""
        for task in tasks:
            path = self.path(task)
            view = self.view(path).eval()
            for depth, made in enumerate(block_outputs(view.network, self.backbone.cut, x, reduce, run=view)):
                yield path.steps[: depth + 1], made

    def _new_module(self, path: TaskPath, node: LayerNode) -> nn.Module:
        if node.place == len(self.backbone.names):
            return self.backbone.make_head(path.num_classes)
        block, named = self.backbone.cut.blocks[node.place], _tensors(self.backbone.module)
        if node.patch is None or "norms" in node.patch:
            names = block.weights if node.patch is None else block.norms
            return BlockWeights({name: named[name] for name in names}).copied()
        assert node.source is not None
        return BlockAdapter(self._weights(node.source), self._matrices, node.patch)

    def _adapter(self, source: PathStep, values: Mapping[str, Any], generator: torch.Generator | None) -> BlockAdapter:
        if source.patch is not None and self.about[source.patch].patch == dict(values):
            return copy.deepcopy(self._patch(source.patch))
        return BlockAdapter(self._weights(source.node), self._matrices, values, generator)

    def _weights(self, key: str) -> BlockWeights:
        found = self.nodes[key]
        assert isinstance(found, BlockWeights)
        return found

    def _patch(self, key: str) -> BlockAdapter:
        found = self.nodes[key]
        assert isinstance(found, BlockAdapter)
        return found


class BlockView(nn.Module):
    """The network of a path while it is trained or compared: its tensors are the graph's."""

    def __init__(self, network: nn.Module, maps: Mapping[str, WeightMap]) -> None:
        super().__init__()
        self.network = network
        self.maps = nn.ModuleList(maps.values())
        self._names = list(maps)

    def maps_by_name(self) -> dict[str, nn.Module]:
        """The maps by the names of their matrices."""
        return dict(zip(self._names, self.maps, strict=True))

    def forward(self, x: Tensor) -> Tensor:
        """The logits of the task, [batch, classes]."""
        changed = {name: made(self.network.get_parameter(name)) for name, made in self.maps_by_name().items()}
        return output_of(functional_call(self.network, changed, (x,)) if changed else self.network(x))


def new_graph(template: Template) -> LayerGraph:
    """A graph without a task; that of a trained network holds what it came with."""
    if not isinstance(template, Backbone):
        return LayerGraph()
    graph = BlockGraph(template)
    if template.is_trained:
        graph.found(START, 0, template, copy.deepcopy(template.module))
    return graph


def read_graph(state: Mapping[str, Any], template: Template) -> LayerGraph:
    """The inverse of ``to_state``; a trained template gets its first weights back."""
    if not isinstance(template, Backbone):
        return LayerGraph.from_state(state)
    graph = BlockGraph(template)
    graph.fill(state, [template])
    if START in graph.paths:
        template.module.load_state_dict(graph.network(START).state_dict(), strict=False)
    return graph


def _tensors(network: nn.Module) -> dict[str, Tensor]:
    return {**dict(network.named_parameters()), **dict(network.named_buffers())}


def _put(network: nn.Module, name: str, tensor: Tensor) -> None:
    owner, _, own_name = name.rpartition(".")
    setattr(network.get_submodule(owner), own_name, tensor)


def _count(modules: Iterable[nn.Module]) -> int:
    return sum(param.numel() for module in modules for param in module.parameters() if param.requires_grad)
