"""What methods on a layer graph have in common: a probe, a decision, new nodes, and training with old weights held."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.modules.batchnorm import _BatchNorm

from ramet.continual.methods.bind_and_grow.binding import BindingDecision
from ramet.continual.methods.head_fitting import FITTED, fit_head
from ramet.continual.methods.layer_graph_method import LayerGraphMethod, LayerGrowth, add_steps
from ramet.continual.networks.block_graph import BlockGraph, read_graph
from ramet.continual.networks.block_weights import BlockWeights
from ramet.continual.networks.graph import LayerNode, PathStep, TaskPath
from ramet.continual.networks.keeping import copied
from ramet.continual.networks.skeletons import Skeleton, make_skeleton
from ramet.continual.networks.template import Template, seeded
from ramet.continual.streams.stream import TaskData, TaskInfo
from ramet.continual.training import Saves, classification, train
from ramet.data import Split
from ramet.errors import ConfigError
from ramet.fields import require_choices
from ramet.guards import GUARDS, Guard, diagonal_fisher
from ramet.params import named_params
from ramet.seeding import derive_seed, torch_generator
from ramet.training import Metric, in_batches

REMEMBERED, MEAN_BATCH = 200, 10
"""Images from which a guard learns what matters to a finished task, and how many it sees at a time."""


@dataclass(kw_only=True, eq=False)
class GraphMethod(LayerGraphMethod):
    """A method that binds each task to an earlier one and grows the joint graph; sub-classes decide where.

    Attributes:
        old_weights: what happens to layers that other tasks use while a new one is trained: ``frozen`` trains them not
            at all, so that nothing is forgotten; ``slow`` at a fraction of the learning rate (the paper), which costs
            what earlier tasks know: unrelated ones lost up to 33 points (docs/binding.md); ``guarded`` at the full one
            under a guard. Those of a trained network stay frozen.
        old_rate: that fraction (0.1 in the paper).
        guard: the name of the guard, such as plasticity, elastic or projection.
        guard_strength: its strength; worth tuning on validation data.
        heads: ``own`` gives each task a head; ``shared`` lets it share the head of the task it is bound to, where the
            number of classes is the same (permuted MNIST in the paper).
        head_weights: of a trained network, what a new head begins with: ``fitted`` to what the blocks that the task is
            bound to give for its images, or ``fresh``, which lets the first steps pull the blocks after a random head.
        start_weights: the first weights of a layer that the task gets for itself: a ``copy`` of the shared one (the
            paper), those of the ``probe``, or ``fresh`` ones.
        probe_epochs: epochs of the network that is trained on the task alone to compare it with others; 0 for as many
            as the settings have.
        skeletons: networks of another depth or width for single tasks, by the names of ``make_skeleton``.
    """

    old_weights: Literal["slow", "frozen", "guarded"] = "frozen"
    old_rate: float = 0.1
    guard: str = "plasticity"
    guard_strength: float = 1e4
    heads: Literal["own", "shared"] = "own"
    head_weights: Literal["fitted", "fresh"] = "fitted"
    start_weights: Literal["copy", "probe", "fresh"] = "copy"
    probe_epochs: int = 0
    skeletons: dict[str, str] = field(default_factory=dict)

    needs_probe: ClassVar[bool] = True
    needs_chain: ClassVar[str] = ""
    needs_classes: ClassVar[str] = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choices(self)
        GUARDS.class_of(self.guard, trusted=False)  # a name only: options of a method may come from data
        if not 0 <= self.old_rate <= 1:
            raise ConfigError(f"old_rate must lie between 0 and 1, but got {self.old_rate}.")
        if self.probe_epochs < 0:
            raise ConfigError(f"probe_epochs must not be negative, but got {self.probe_epochs}.")
        self.known_probes: dict[str, nn.Module] = {}
        """Networks that were trained alone elsewhere, by task: they are not trained again, and never changed."""

    @property
    def forgets_nothing(self) -> bool:  # type: ignore[override]
        """Whether finished tasks stay the same, bit for bit: when old weights are frozen."""
        is_trained = getattr(self, "template", None) is not None and self.template.is_trained
        return self.old_weights == "frozen" or is_trained

    def check_network(self, template: Template) -> None:
        """Refuse options that a module has no counterpart for."""
        super().check_network(template)
        if not isinstance(template, Skeleton):
            if self.old_weights == "guarded":
                raise ConfigError(
                    f"{self.name} holds a module's old weights slow or frozen, not guarded: a guard knows weights by "
                    "names, which copies of a block have in common."
                )
            if self.skeletons:
                raise ConfigError(f"{self.name} takes skeletons for single tasks beside mlp or conv, but got a module.")

    def check_targets(self, targets: Tensor, metric: Metric) -> None:
        """Refuse what a guard is not told of: it learns what matters from the cross-entropy of classes."""
        if self.old_weights == "guarded" and (targets.is_floating_point() or targets.ndim > 1):
            raise ConfigError(
                f"{self.name} guards weights for classes, but these tasks have others; say frozen or slow."
            )
        super().check_targets(targets, metric)

    @abstractmethod
    def _decide(
        self, task: TaskData, skeleton: Template, probe: nn.Module | None
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
            self.graph_.found(info.name, info.num_classes, skeleton, probe)
            decision = None
        else:
            with saves.work.counted("conflicts"):
                decision, growths = self._decide(task, skeleton, probe)
            self._grow(task, skeleton, probe, decision, growths, saves)
        self.decisions.append(decision)
        if self.old_weights == "guarded":
            self._remember(self.graph_.view(self.graph_.path(info.name)), task.train)
        added = self.graph_.num_parameters(info.name)
        return {"added_parameters": added, "decision": None if decision is None else decision.to_json()}

    def explain(self) -> list[str]:
        """Why each task was bound where it was, and why each layer is shared or its own."""
        lines = list(self.template.notes)
        for info, decision in zip(self.tasks, self.decisions, strict=True):
            names = self.graph_.path(info.name).skeleton.names
            first = f"{info.name!r} came first, and founded the network with {', '.join(names)}."
            lines += [first] if decision is None else decision.explain(names)
        if not self.forgets_nothing:
            what = f"Old layers are {self.old_weights}, so that what earlier tasks know may be lost"
            lines.append(f"{what}; old_weights=frozen keeps it.")
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
        self.graph_ = read_graph(state["graph"], self.template)
        self.decisions = [
            None if values is None else BindingDecision.from_json(values) for values in state["decisions"]
        ]
        if state["guard"] is not None:
            self.keeper.load_state_dict(state["guard"])

    def skeleton_of(self, info: TaskInfo) -> Template:
        """What a task's network is made from."""
        if info.name not in self.skeletons:
            return self.template
        return make_skeleton(
            self.skeletons[info.name],
            in_channels=info.form.pixels[0],
            image_size=info.form.pixels[1:],
            batch_norm=self.skeleton.batch_norm,
            trusted=False,  # a name only: options of a method may come from data
        )

    # The steps of learning a task.

    def _probe(self, task: TaskData, skeleton: Template, saves: Saves, *, whole: bool) -> nn.Module:
        """The network that is trained on the task alone; the first task keeps it, the others are compared by it.

        It begins with weights of its own, so that it is like another by what it has learned alone (docs/decisions/028),
        or as a copy of a trained network.
        """
        name, data = task.info.name, task.train
        if name in self.known_probes:
            return copy.deepcopy(self.known_probes[name]).to(data.x.device).eval()
        network = skeleton.make_network(task.info.num_classes, self.seed, "probe", name).to(data.x.device)
        epochs = self.settings.epochs if whole or not self.probe_epochs else self.probe_epochs
        settings, seed = replace(self.settings, epochs=epochs), derive_seed(self.seed, "probe", name)
        train(network, *classification(network, data, settings), settings, seed=seed, saves=saves, phase="probe")
        return network

    def _grow(
        self,
        task: TaskData,
        skeleton: Template,
        probe: nn.Module | None,
        decision: BindingDecision,
        growths: Sequence[LayerGrowth],
        saves: Saves,
    ) -> None:
        """Add the task's own nodes and train its path; a failure leaves the graph as it was."""
        known = list(self.graph_.about)
        path = self._new_path(task.info, skeleton, probe, decision, growths)
        view = self.graph_.view(path)
        old = [key for key in dict.fromkeys(path.keys) if key in known]
        before = {key: copied(self.graph_.nodes[key]) for key in old}
        try:
            if self.template.is_trained and self.head_weights == "fitted" and path.head not in known:
                self._fit_head(path, task, saves)
            self._train_path(view, old, len(set(path.keys)), task, saves)
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
        skeleton: Template,
        probe: nn.Module | None,
        decision: BindingDecision,
        growths: Sequence[LayerGrowth],
    ) -> TaskPath:
        graph, device = self.graph_, next(self.graph_.parameters()).device
        generator = partial(torch_generator, self.seed, "patch", info.name)
        if isinstance(graph, BlockGraph):
            sources = [growth.source for growth in growths if growth.source is not None]
            own = {
                place: self._own_block(graph, info, probe, place, sources[place])
                for place, growth in enumerate(growths)
                if growth.own
            }
            adapted = {place: growth.patch for place, growth in enumerate(growths) if growth.patch is not None}
            steps = graph.add_blocks(info.name, sources, own, adapted, generator)
        else:

            def own_layer(place: int) -> nn.Module:
                return self._own_layer(info, skeleton, probe, place, growths[place].source)

            steps = add_steps(graph, device, info.name, growths, own_layer, generator)
        bound = graph.path(decision.bound_to)
        if self.heads == "shared" and bound.num_classes == info.num_classes and bound.skeleton == skeleton:
            head_key = bound.head
        else:
            head = seeded(lambda: skeleton.make_head(info.num_classes), self.seed, "head", info.name)
            head_key = graph.add_node(head.to(device), LayerNode(len(skeleton.names), info.name))
        return TaskPath(info.name, info.num_classes, skeleton, steps, head_key)

    def _own_layer(
        self, info: TaskInfo, skeleton: Template, probe: nn.Module | None, place: int, source: PathStep | None
    ) -> nn.Module:
        assert isinstance(skeleton, Skeleton)
        if self.start_weights == "copy" and source is not None:
            layer = copy.deepcopy(self.graph_.nodes[source.node])
            if source.patch is not None:
                layer = self.graph_.nodes[source.patch].merged(layer)  # type: ignore[operator]
            return layer
        if self.start_weights == "probe" and probe is not None:
            return copy.deepcopy(list(probe.children())[place])
        return seeded(lambda: skeleton.make_layer(place), self.seed, "own", info.name, place)

    def _own_block(
        self, graph: BlockGraph, info: TaskInfo, probe: nn.Module | None, place: int, source: PathStep
    ) -> BlockWeights:
        if self.start_weights == "probe" and probe is not None:
            return graph.block_of(probe, place)
        if self.start_weights == "fresh":
            drawn = self.template.make_network(info.num_classes, self.seed, "own", info.name)
            return graph.block_of(drawn.to(self.device), place)
        return graph.block(source)

    def _fit_head(self, path: TaskPath, task: TaskData, saves: Saves) -> None:
        """Fit the head to the path as it is before it is trained; it is a beginning, for which some images will do."""
        fit_head(
            self.graph_.nodes[path.head],
            self.graph_.view(replace(path, head="")),
            task.train,
            self.settings,
            seed=derive_seed(self.seed, "head", task.info.name),
            most=FITTED,
            saves=saves,
            phase="head",
        )

    def _train_path(self, view: nn.Module, old: Sequence[str], num_parts: int, task: TaskData, saves: Saves) -> None:
        """Train a path of some parts, of which the old ones are other tasks' too."""
        old_rate = {"slow": self.old_rate, "frozen": 0.0, "guarded": 1.0}[self.old_weights]
        if self.template.is_trained:
            old_rate = 0.0
        if old_rate == 0 and len(old) == num_parts:
            view.eval()  # all is shared and frozen: there is nothing to train
            return
        shared = [self.graph_.nodes[key] for key in old]
        known = {id(param) for module in shared for param in module.parameters()}
        old_names = {name for name, param in view.named_parameters() if id(param) in known}
        own_rate = self._own_rate(view)
        with _held(shared, old_rate):
            train(
                view,
                *classification(view, task.train, self.settings),
                self.settings,
                seed=derive_seed(self.seed, "task", task.info.name),
                rate=lambda name: old_rate if name in old_names else own_rate(name),
                frozen=shared if old_rate == 0 else (),
                guard=self.keeper if self.old_weights == "guarded" else None,
                saves=saves,
                phase="path",
            )

    def _own_rate(self, view: nn.Module) -> Callable[[str], float]:
        """The factor of the learning rate for what is a task's own, by the parameter's name in the view."""
        return lambda name: 1.0

    def _remember(self, view: nn.Module, data: Split) -> None:
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
    flags = [(param, param.requires_grad) for module in shared for param in module.parameters()]
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
        for param, flag in flags:
            param.requires_grad_(flag)
