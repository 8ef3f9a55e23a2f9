"""The layer graph: nodes are copies of layers, and each task has a path from the image to its head."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ramet.continual.networks.keeping import copied
from ramet.continual.networks.patches import Patch, make_patch
from ramet.continual.networks.skeletons import Skeleton
from ramet.continual.networks.template import Template
from ramet.costs import count_parameters
from ramet.errors import ConfigError
from ramet.fields import from_json


@dataclass(frozen=True)
class LayerNode:
    """A copy of a layer.

    Attributes:
        place: the layer's place in the skeleton of the task that it was made for; the head's is the number of layers.
        task: the task that it was made for.
        source: the node whose weights it began with, or that it patches; none for fresh weights.
        patch: the description of a patch (see ``make_patch``); none for a whole layer.
    """

    place: int
    task: str
    source: str | None = None
    patch: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class PathStep:
    """One place of a path: a node, perhaps a patch that changes it, and of a module the task's own batch norms."""

    node: str
    patch: str | None = None
    norms: str | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of its modules."""
        return tuple(key for key in (self.node, self.patch, self.norms) if key is not None)


Features = tuple[tuple[PathStep, ...], Any]
"""The way from the image to a layer, and what became of what the layer gives."""
Reduce = Callable[[Tensor], Any]
"""From what a layer gives to what is kept of it."""


@dataclass(frozen=True)
class TaskPath:
    """A task's way through the graph: the steps from the image on, and the node of the head; empty if it has none."""

    task: str
    num_classes: int
    skeleton: Template
    steps: tuple[PathStep, ...]
    head: str

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of all its modules, the head last."""
        return tuple(filter(None, (*(key for step in self.steps for key in step.keys), self.head)))


class LayerGraph(nn.Module):
    """One graph for many tasks; ``PathView`` follows the path of one.

    A node that several paths share is one module, so that its parameters count once. Weights are known as
    ``nodes.KEY...``, and a key never changes its meaning: guards and optimizers may go by names.
    """

    def __init__(self) -> None:
        super().__init__()
        self.nodes = nn.ModuleDict()
        self.about: dict[str, LayerNode] = {}
        self.paths: dict[str, TaskPath] = {}

    def path(self, task: str) -> TaskPath:
        """The path of a task; a ``ConfigError`` if there is none."""
        if task not in self.paths:
            raise ConfigError(f"a task must be one of {', '.join(self.paths) or 'none yet'}, but got {task!r}.")
        return self.paths[task]

    def num_parameters(self, task: str | None = None) -> int:
        """The weights of the whole graph, each counted once, or of the nodes that were made for one task."""
        keys = [key for key, node in self.about.items() if task is None or node.task == task]
        return sum(count_parameters(self.nodes[key]) for key in keys)

    def found(self, task: str, num_classes: int, template: Template, network: nn.Module) -> None:
        """Add the path of a task whose layers are all its own: those of a network, and its head."""
        *layers, head = network.children()
        keys = [self.add_node(layer, LayerNode(place, task)) for place, layer in enumerate(layers)]
        head_key = self.add_node(head, LayerNode(len(layers), task))
        self.add_path(TaskPath(task, num_classes, template, tuple(PathStep(key) for key in keys), head_key))

    def view(self, path: TaskPath) -> nn.Module:
        """A path as a module of the graph's own weights; it need not have been added."""
        return PathView(self, path)

    def body_of(self, network: nn.Module) -> Any:
        """What of a plain network is compared: its layers without the head."""
        return list(network.children())[:-1]

    def features_of(self, body: Any, x: Tensor, reduce: Reduce) -> list[Any]:
        """What a function makes of what each layer of a plain network gives."""
        return [reduce(value) for value in layer_features(body, x)]

    def features(self, x: Tensor, tasks: Iterable[str], reduce: Reduce = lambda value: value) -> Iterator[Features]:
        """What the layers of several tasks give for the same inputs, by the way from the image to the layer.

        Paths that begin alike are followed once, so that the cost is that of the different ways, not of the tasks; no
        more activations are held than those of one path.
        """
        yield from self._branches(x, (), [self.path(task).steps for task in tasks], reduce)

    def _branches(
        self, x: Tensor, way: tuple[PathStep, ...], rests: Sequence[tuple[PathStep, ...]], reduce: Reduce
    ) -> Iterator[Features]:
        for step in dict.fromkeys(rest[0] for rest in rests if rest):
            with torch.no_grad():
                value = take(self.nodes, step, x)
            yield (*way, step), reduce(value)
            behind = [rest[1:] for rest in rests if rest and rest[0] == step]
            yield from self._branches(value, (*way, step), behind, reduce)

    def add_node(self, module: nn.Module, node: LayerNode) -> str:
        """Add a layer, a head or a patch, and give its key."""
        key = f"n{len(self.about)}"
        self.nodes[key] = module
        self.about[key] = node
        return key

    def add_path(self, path: TaskPath) -> None:
        """Add a task of a new name whose nodes are in the graph."""
        if path.task in self.paths:
            raise ConfigError(f"the tasks of a graph must have different names, but {path.task!r} is there already.")
        missing = [key for key in path.keys if key not in self.about]
        if missing:
            raise ConfigError(f"a path must go through nodes of the graph, but {missing[0]!r} is none.")
        self.paths[path.task] = path

    def network(self, task: str) -> nn.Module:
        """A task alone: a plain copy with weights of its own, patches merged into the layers that they change."""
        path = self.path(task)
        assert isinstance(path.skeleton, Skeleton)
        layers: list[nn.Module] = []
        for step in path.steps:
            block = self.nodes[step.node]
            if step.patch is None:
                layers.append(copy.deepcopy(block))
            else:
                layers.append(_patch(self.nodes, step.patch).merged(block))
        network = path.skeleton.assemble(layers, copy.deepcopy(self.nodes[path.head]))
        return network.requires_grad_(True).eval()

    def describe(self) -> dict[str, Any]:
        """The graph for a report: its nodes, and the keys on each task's path."""
        nodes = []
        for key, node in self.about.items():
            names = [*self.paths[node.task].skeleton.names, "head"]
            size = count_parameters(self.nodes[key])
            entry = {"id": key, "layer": names[node.place], "task": node.task, "parameters": size}
            nodes.append(entry | ({"patches": node.source} if node.patch is not None else {}))
        return {"nodes": nodes, "paths": {task: list(path.keys) for task, path in self.paths.items()}}

    # How it is stored.

    def to_state(self) -> dict[str, Any]:
        """Everything, as a structure for ``ramet.runs.pack_state``."""
        skeletons: list[Template] = []
        for path in self.paths.values():
            if path.skeleton not in skeletons:
                skeletons.append(path.skeleton)
        return {
            "skeletons": [skeleton.to_json() for skeleton in skeletons],
            "nodes": [
                [key, node.place, node.task, node.source, None if node.patch is None else dict(node.patch)]
                for key, node in self.about.items()
            ],
            "paths": [
                {
                    "task": path.task,
                    "num_classes": path.num_classes,
                    "skeleton": skeletons.index(path.skeleton),
                    "steps": [[step.node, step.patch, *([step.norms] if step.norms else [])] for step in path.steps],
                    "head": path.head,
                    "notes": {},  # which earlier versions read
                }
                for path in self.paths.values()
            ],
            "weights": copied(self),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> LayerGraph:
        """The inverse of ``to_state``."""
        graph = cls()
        graph.fill(state, [from_json(Skeleton, values) for values in state["skeletons"]])
        return graph

    def fill(self, state: Mapping[str, Any], templates: Sequence[Template]) -> None:
        """Make an empty graph what it was when it was stored, of templates in the order of the state."""
        paths = {
            values["task"]: TaskPath(
                values["task"],
                values["num_classes"],
                templates[values["skeleton"]],
                tuple(PathStep(*step) for step in values["steps"]),
                values["head"],
            )
            for values in state["paths"]
        }
        for key, *described in state["nodes"]:
            node = LayerNode(*described)
            added = self.add_node(self._new_module(paths[node.task], node), node)
            assert added == key
        self.paths = paths
        self.load_state_dict(state["weights"])
        self.eval()

    def _new_module(self, path: TaskPath, node: LayerNode) -> nn.Module:
        """A module for a node, of any weights."""
        skeleton = path.skeleton
        assert isinstance(skeleton, Skeleton)
        if node.patch is not None:
            assert node.source is not None
            return make_patch(self.nodes[node.source], node.patch)
        if node.place == len(skeleton.layers):
            return skeleton.make_head(path.num_classes)
        return skeleton.make_layer(node.place)


class PathView(nn.Module):
    """A path as a module of its own: it holds just the nodes on the way, under the names that they have in the graph.

    An optimizer, a checkpoint or a guard that takes it costs what the path costs, however large the graph is. The path
    need not have been added.
    """

    def __init__(self, graph: LayerGraph, path: TaskPath) -> None:
        super().__init__()
        self.nodes = nn.ModuleDict({key: graph.nodes[key] for key in dict.fromkeys(path.keys)})
        self._path = path

    def forward(self, x: Tensor) -> Tensor:
        """The logits of the task, [batch, classes]."""
        for step in self._path.steps:
            x = take(self.nodes, step, x)
        logits: Tensor = self.nodes[self._path.head](x)
        return logits


def take(nodes: nn.ModuleDict, step: PathStep, x: Tensor) -> Tensor:
    """What one step of a path makes of its input."""
    block = nodes[step.node]
    out: Tensor = block(x) if step.patch is None else _patch(nodes, step.patch)(x, block)
    return out


def layer_features(layers: Sequence[nn.Module], x: Tensor) -> Iterator[Tensor]:
    """What each of the layers of a plain network gives, in turn."""
    with torch.no_grad():
        for layer in layers:
            x = layer(x)
            yield x


def _patch(nodes: nn.ModuleDict, key: str) -> Patch:
    patch = nodes[key]
    assert isinstance(patch, Patch)
    return patch
