"""What methods on a layer graph have in common: a probe, a decision, new nodes, and training with old weights held."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.modules.batchnorm import _BatchNorm

from ramet.continual.methods.bind_and_grow.binding import BindingDecision
from ramet.continual.methods.layer_graph_method import LayerGraphMethod, LayerGrowth, add_steps
from ramet.continual.networks.graph import LayerGraph, LayerNode, PathStep, PathView, TaskPath
from ramet.continual.networks.keeping import copied
from ramet.continual.networks.skeletons import Skeleton, make_skeleton, seeded
from ramet.continual.streams.stream import TaskData, TaskInfo
from ramet.continual.training import Saves, classification, train
from ramet.data import Split
from ramet.errors import ConfigError
from ramet.fields import require_choices
from ramet.guards import GUARDS, Guard, diagonal_fisher
from ramet.params import named_params
from ramet.seeding import derive_seed, torch_generator
from ramet.training import in_batches

REMEMBERED, MEAN_BATCH = 200, 10
"""Images from which a guard learns what matters to a finished task, and how many it sees at a time."""


@dataclass(kw_only=True, eq=False)
class GraphMethod(LayerGraphMethod):
    """A method that binds each task to an earlier one and grows the joint graph; sub-classes decide where.

    Attributes:
        old_weights: what happens to layers that other tasks use while a new one is trained: ``slow`` trains them at a
            fraction of the learning rate (the paper), ``frozen`` not at all, ``guarded`` at the full one under a guard.
        old_rate: that fraction (0.1 in the paper).
        guard: the name of the guard, such as plasticity, elastic or projection.
        guard_strength: its strength; worth tuning on validation data.
        heads: ``own`` gives each task a head; ``shared`` lets it share the head of the task it is bound to, where the
            number of classes is the same (permuted MNIST in the paper).
        start_weights: the first weights of a layer that the task gets for itself: a ``copy`` of the shared one (the
            paper), those of the ``probe``, or ``fresh`` ones.
        probe_epochs: epochs of the network that is trained on the task alone to compare it with others; 0 for as many
            as the settings have.
        skeletons: networks of another depth or width for single tasks, by the names of ``make_skeleton``.
    """

    old_weights: Literal["slow", "frozen", "guarded"] = "slow"
    old_rate: float = 0.1
    guard: str = "plasticity"
    guard_strength: float = 1e4
    heads: Literal["own", "shared"] = "own"
    start_weights: Literal["copy", "probe", "fresh"] = "copy"
    probe_epochs: int = 0
    skeletons: dict[str, str] = field(default_factory=dict)

    needs_probe: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choices(self)
        GUARDS.class_of(self.guard, trusted=False)  # a name only: options of a method may come from data
        if not 0 <= self.old_rate <= 1:
            raise ConfigError(f"old_rate must lie between 0 and 1, but got {self.old_rate}.")
        if self.probe_epochs < 0:
            raise ConfigError(f"probe_epochs must not be negative, but got {self.probe_epochs}.")
        self.known_probes: dict[str, nn.Sequential] = {}
        """Networks that were trained alone elsewhere, by task: they are not trained again, and never changed."""

    @property
    def forgets_nothing(self) -> bool:  # type: ignore[override]
        """Whether finished tasks stay the same, bit for bit: when old weights are frozen."""
        return self.old_weights == "frozen"

    @abstractmethod
    def _decide(
        self, task: TaskData, skeleton: Skeleton, probe: nn.Sequential | None
    ) -> tuple[BindingDecision, list[LayerGrowth]]:
        """Where to bind a task that is not the first, and what becomes of each layer."""

    # The seam.

    def _begin(self) -> None:
        super()._begin()
        self.decisions: list[BindingDecision | None] = []
        self.keeper: Guard = GUARDS.class_of(self.guard, trusted=False).for_tasks(self.guard_strength)

    def _learn(self, task: TaskData, earlier: Sequence[TaskData], saves: Saves) -> dict[str, Any]:
        info, skeleton = task.info, self.skeleton_of(task.info)
        is_first = not self.graph_.paths
        if not is_first and next(self.graph_.parameters()).device != task.train.x.device:
            self.graph_.to(task.train.x.device)  # of a graph that was loaded; asking each weight would take its time
        probe = self._probe(task, skeleton, saves, whole=is_first) if is_first or self.needs_probe else None
        if is_first:
            assert probe is not None
            self._found(info, skeleton, probe)
            decision = None
        else:
            decision, growths = self._decide(task, skeleton, probe)
            self._grow(task, skeleton, probe, decision, growths, saves)
        self.decisions.append(decision)
        if self.old_weights == "guarded":
            self._remember(PathView(self.graph_, self.graph_.path(info.name)), task.train)
        added = self.graph_.num_parameters(info.name)
        return {"added_parameters": added, "decision": None if decision is None else decision.to_json()}

    def explain(self) -> list[str]:
        """Why each task was bound where it was, and why each layer is shared or its own."""
        lines = []
        for info, decision in zip(self.tasks, self.decisions, strict=True):
            names = [layer.name for layer in self.graph_.path(info.name).skeleton.layers]
            first = f"{info.name!r} came first, and founded the network with {', '.join(names)}."
            lines += [first] if decision is None else decision.explain(names)
        return lines

    def state(self) -> dict[str, Any]:
        """The graph, the decisions, and what the guard remembers."""
        return {
            "graph": self.graph_.to_state(),
            "decisions": [None if decision is None else decision.to_json() for decision in self.decisions],
            "guard": self.keeper.state_dict() if self.old_weights == "guarded" and self.decisions else None,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """The inverse of ``state``."""
        self.graph_ = LayerGraph.from_state(state["graph"])
        self.decisions = [
            None if values is None else BindingDecision.from_json(values) for values in state["decisions"]
        ]
        if state["guard"] is not None:
            self.keeper.load_state_dict(state["guard"])

    def skeleton_of(self, info: TaskInfo) -> Skeleton:
        """The layers of a task's network."""
        if info.name not in self.skeletons:
            return self.skeleton
        return make_skeleton(
            self.skeletons[info.name],
            in_channels=info.in_channels,
            image_size=info.image_size,
            batch_norm=self.skeleton.batch_norm,
            trusted=False,  # a name only: options of a method may come from data
        )

    # The steps of learning a task.

    def _probe(self, task: TaskData, skeleton: Skeleton, saves: Saves, *, whole: bool) -> nn.Sequential:
        """The network that is trained on the task alone; the first task keeps it, the others are compared by it.

        It begins with weights of its own, so that it is like another by what it has learned alone (docs/decisions/028).
        """
        name, data = task.info.name, task.train
        if name in self.known_probes:
            return copy.deepcopy(self.known_probes[name]).to(data.x.device).eval()
        network = skeleton.make_network(task.info.num_classes, self.seed, "probe", name).to(data.x.device)
        epochs = self.settings.epochs if whole or not self.probe_epochs else self.probe_epochs
        settings, seed = replace(self.settings, epochs=epochs), derive_seed(self.seed, "probe", name)
        train(network, *classification(network, data), settings, seed=seed, saves=saves, phase="probe")
        return network

    def _found(self, info: TaskInfo, skeleton: Skeleton, network: nn.Sequential) -> None:
        *layers, head = network
        keys = [self.graph_.add_node(layer, LayerNode(place, info.name)) for place, layer in enumerate(layers)]
        head_key = self.graph_.add_node(head, LayerNode(len(layers), info.name))
        steps = tuple(PathStep(key) for key in keys)
        self.graph_.add_path(TaskPath(info.name, info.num_classes, skeleton, steps, head_key))

    def _grow(
        self,
        task: TaskData,
        skeleton: Skeleton,
        probe: nn.Sequential | None,
        decision: BindingDecision,
        growths: Sequence[LayerGrowth],
        saves: Saves,
    ) -> None:
        """Add the task's own nodes and train its path; a failure leaves the graph as it was."""
        known = list(self.graph_.about)
        path = self._new_path(task.info, skeleton, probe, decision, growths)
        view = PathView(self.graph_, path)
        old = [key for key in view.nodes if key in known]
        before = {key: copied(self.graph_.nodes[key]) for key in old}
        try:
            self._train_path(view, old, task, saves)
        except BaseException:
            for key in [key for key in self.graph_.about if key not in known]:
                del self.graph_.nodes[key], self.graph_.about[key]
            for key, values in before.items():
                self.graph_.nodes[key].load_state_dict(values)
            raise
        self.graph_.add_path(path)

    def _new_path(
        self,
        info: TaskInfo,
        skeleton: Skeleton,
        probe: nn.Sequential | None,
        decision: BindingDecision,
        growths: Sequence[LayerGrowth],
    ) -> TaskPath:
        graph, device = self.graph_, next(self.graph_.parameters()).device

        def own_layer(place: int) -> nn.Module:
            return self._own_layer(info, skeleton, probe, place, growths[place].source)

        patch_generator = partial(torch_generator, self.seed, "patch", info.name)
        steps = add_steps(graph, device, info.name, growths, own_layer, patch_generator)
        bound = graph.path(decision.bound_to)
        if self.heads == "shared" and bound.num_classes == info.num_classes and bound.skeleton == skeleton:
            head_key = bound.head
        else:
            head = seeded(lambda: skeleton.make_head(info.num_classes), self.seed, "head", info.name)
            head_key = graph.add_node(head.to(device), LayerNode(len(skeleton.layers), info.name))
        return TaskPath(info.name, info.num_classes, skeleton, steps, head_key)

    def _own_layer(
        self, info: TaskInfo, skeleton: Skeleton, probe: nn.Sequential | None, place: int, source: PathStep | None
    ) -> nn.Module:
        if self.start_weights == "copy" and source is not None:
            layer = copy.deepcopy(self.graph_.nodes[source.node])
            if source.patch is not None:
                layer = self.graph_.nodes[source.patch].merged(layer)  # type: ignore[operator]
            return layer
        if self.start_weights == "probe" and probe is not None:
            return copy.deepcopy(probe[place])
        return seeded(lambda: skeleton.make_layer(place), self.seed, "own", info.name, place)

    def _train_path(self, view: PathView, old: Sequence[str], task: TaskData, saves: Saves) -> None:
        prefixes = tuple(f"nodes.{key}." for key in old)
        old_rate = {"slow": self.old_rate, "frozen": 0.0, "guarded": 1.0}[self.old_weights]
        if old_rate == 0 and len(old) == len(view.nodes):
            view.eval()  # all is shared and frozen: there is nothing to train
            return
        shared = [view.nodes[key] for key in old]
        with _held(shared, old_rate):
            train(
                view,
                *classification(view, task.train),
                self.settings,
                seed=derive_seed(self.seed, "task", task.info.name),
                rate=lambda name: old_rate if name.startswith(prefixes) else 1.0,
                frozen=shared if old_rate == 0 else (),
                guard=self.keeper if self.old_weights == "guarded" else None,
                saves=saves,
                phase="path",
            )

    def _remember(self, view: PathView, data: Split) -> None:
        """Tell the guard what matters to the task that was just learned."""
        rows = torch.randperm(len(data), generator=torch_generator(self.seed, "remembered", len(self.tasks)))
        rows = rows[:REMEMBERED].to(data.x.device)
        x, y = data.x[rows], data.y[rows]
        view.eval()
        view.zero_grad()
        with self.keeper.watch(view):
            for inputs, labels in in_batches(x, y, MEAN_BATCH):
                cross_entropy(view(inputs), labels).backward()  # type: ignore[no-untyped-call]
        self.keeper.remember(named_params(view), diagonal_fisher(view, cross_entropy, x, y))
        view.zero_grad(set_to_none=True)


@contextmanager
def _held(shared: Sequence[nn.Module], rate: float) -> Iterator[None]:
    """Shared layers need no gradients where they do not move, and their batch-norm statistics move at the same rate."""
    norms = [part for module in shared for part in module.modules() if isinstance(part, _BatchNorm)]
    momenta = [norm.momentum for norm in norms]
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = None if momentum is None else momentum * rate
    if rate == 0:
        for module in shared:
            module.requires_grad_(False)
    try:
        yield
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        for module in shared:
            module.requires_grad_(True)
