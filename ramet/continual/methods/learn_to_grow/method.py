"""Learn to Grow: search, layer by layer, what a new task reuses, adapts or needs anew; then train that network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from ramet.continual.methods.layer_graph_method import LayerGraphMethod, LayerGrowth, add_steps
from ramet.continual.methods.learn_to_grow.block_choices import BlockChoices, list_block_choices
from ramet.continual.methods.learn_to_grow.layer_choices import (
    ChoiceMixture,
    ChoiceNetwork,
    LayerChoice,
    list_choices,
    search_choices,
)
from ramet.continual.networks.block_graph import BlockGraph, read_graph
from ramet.continual.networks.graph import LayerGraph, LayerNode, TaskPath
from ramet.continual.networks.template import seeded
from ramet.continual.streams.stream import TaskData
from ramet.continual.training import Saves, classification, train
from ramet.errors import ConfigError
from ramet.seeding import derive_seed, torch_generator


@dataclass(kw_only=True, eq=False)
class LearnToGrow(LayerGraphMethod):
    """For each layer a new task reuses an earlier one, adapts it, or gets a new one, by a differentiable search.

    The search trains all choices at once as a mixture (section 3.2) and keeps the likeliest of each layer. The chosen
    network is then trained from fresh weights, with reused layers fixed or tuned near their old values (section 3.3).
    The choices minimise L(D_2) + beta times the expected size, beta being ``size_penalty`` and the size of a choice its
    new parameters as a share of a new network's; the weights minimise L(D_1) on the other half of the data.

    What was taken from where: the choices and the mixture are the paper's, as are the learning rates of the choices
    (0.01) and of the weights (0.025; here the settings' own). The paper puts a 1 x 1 convolution beside convolutions.
    For linear layers we read it to search among reuse and new alone, which ``rank=0`` gives; by default there is a map
    of low rank beside them. A layer with its map can be reused but not adapted again. Where the skeleton has batch
    norm, maps have one of their own; that of a reused layer stays as it is.

    Of a module, layers are the blocks that it is cut into, batch norms are the task's own even in a block that it
    reuses, and ``rank=0`` means no adapted blocks. What a trained network came with is there like an earlier task, and
    a new block begins as a copy of it.

    Args:
        reuse: ``fixed`` never changes an earlier layer; ``tuned`` trains reused ones too, and forgets a little.
        rank: The rank of the map beside a linear layer, 0 for none.
        size_penalty: Beta; 0 for none.
        search_epochs: Epochs of the search; 0 for as many as the settings have.
        choice_rate: The learning rate of the choices (Adam), the paper's 0.01.
        tune_rate: The share of the learning rate at which reused layers are tuned.
        tune_strength: The weight of their squared distance from the old values.

    Reference: Li et al., Learn to grow: a continual structure learning framework for overcoming catastrophic
    forgetting, 2019.
    """

    name: ClassVar[str] = "learn-to-grow"
    needs_chain: ClassVar[str] = ""
    reuse: Literal["fixed", "tuned"] = "fixed"
    rank: int = 4
    size_penalty: float = 0.1
    search_epochs: int = 0
    choice_rate: float = 0.01
    tune_rate: float = 0.1
    tune_strength: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reuse not in ("fixed", "tuned"):
            raise ConfigError(f"reuse must be fixed or tuned, but got {self.reuse!r}.")
        if self.rank < 0 or self.search_epochs < 0:
            raise ConfigError(
                f"rank and search_epochs must not be negative, but got {self.rank} and {self.search_epochs}."
            )
        if min(self.size_penalty, self.tune_strength) < 0 or self.choice_rate <= 0 or not 0 < self.tune_rate <= 1:
            raise ConfigError(
                "size_penalty and tune_strength must not be negative, choice_rate positive and tune_rate in (0, 1], "
                f"but got {self.size_penalty}, {self.tune_strength}, {self.choice_rate} and {self.tune_rate}."
            )

    @property
    def forgets_nothing(self) -> bool:  # type: ignore[override]
        """Whether finished tasks stay the same, bit for bit: when reused layers are fixed."""
        return self.reuse == "fixed"

    def _begin(self) -> None:
        super()._begin()
        self.decisions: list[list[dict[str, Any]]] = []

    def _learn(self, task: TaskData, earlier: Sequence[TaskData], saves: Saves) -> dict[str, Any]:
        # Layers are added to a copy, so that a failure leaves the network as it was.
        graph = read_graph(self.graph_.to_state(), self.template).to(self.device)
        if isinstance(graph, BlockGraph):
            options = list_block_choices(graph, self.rank)
        else:
            options = list_choices(graph, self.skeleton, self.rank)
        if graph.paths:
            probabilities = self._search(graph, options, task, saves)
        else:
            probabilities = [torch.ones(1) for _ in options]
        chosen = [choices[int(shares.argmax())] for choices, shares in zip(options, probabilities, strict=True)]
        path = self._add_path(graph, task, chosen)
        self._train_path(graph, path, chosen, task, saves)
        graph.add_path(path)
        self.graph_ = graph
        decision = [
            {
                "layer": layer,
                "choice": choice.kind,
                "source": None
                if choice.source is None
                else graph.about[choice.source.patch or choice.source.node].task,
                "probability": float(shares.max()),
            }
            for layer, choice, shares in zip(self.template.names, chosen, probabilities, strict=True)
        ]
        self.decisions.append(decision)
        return {"added_parameters": graph.num_parameters(task.info.name), "choices": decision}

    def _search(
        self, graph: LayerGraph, options: Sequence[Sequence[LayerChoice]], task: TaskData, saves: Saves
    ) -> list[Tensor]:
        seed = derive_seed(self.seed, "search", len(self.tasks))
        num_classes = task.info.num_classes
        network: ChoiceMixture
        if isinstance(graph, BlockGraph):
            network = BlockChoices(graph, options, num_classes, seed)
        else:
            network = ChoiceNetwork(graph, self.skeleton, options, num_classes, seed)
        network.to(self.device)
        return search_choices(
            network,
            task.train,
            replace(self.settings, epochs=self.search_epochs or self.settings.epochs),
            seed=seed,
            choice_rate=self.choice_rate,
            size_penalty=self.size_penalty,
            saves=saves,
        )

    def _add_path(self, graph: LayerGraph, task: TaskData, chosen: Sequence[LayerChoice]) -> TaskPath:
        """The task's way through the graph, with its own layers added; the path itself is not."""
        info, template, number = task.info, self.template, len(self.tasks)
        patch_generator = partial(torch_generator, self.seed, "patch", number)
        if isinstance(graph, BlockGraph):
            drawn = template.make_network(info.num_classes, self.seed, "own", number).to(self.device)
            steps = graph.add_chosen(
                info.name,
                [choice.source for choice in chosen],
                [choice.patch for choice in chosen],
                drawn,
                patch_generator,
            )
        else:

            def own_layer(place: int) -> nn.Module:
                return seeded(lambda: self.skeleton.make_layer(place), self.seed, "own", number, place)

            growths = [LayerGrowth(choice.source, patch=choice.patch) for choice in chosen]
            steps = add_steps(graph, self.device, info.name, growths, own_layer, patch_generator)
        head = seeded(lambda: template.make_head(info.num_classes), self.seed, "head", number).to(self.device)
        head_key = graph.add_node(head, LayerNode(len(template.names), info.name))
        return TaskPath(info.name, info.num_classes, template, steps, head_key)

    def _train_path(
        self, graph: LayerGraph, path: TaskPath, chosen: Sequence[LayerChoice], task: TaskData, saves: Saves
    ) -> None:
        view = graph.view(path)
        # Of a block, batch norms are the new task's own, whatever it reuses.
        chosen = [
            choice if choice.source is None else replace(choice, source=replace(choice.source, norms=None))
            for choice in chosen
        ]
        old = {key for choice in chosen if choice.source is not None for key in choice.source.keys}
        # Only a layer that is reused as it is may be tuned: an adapted one has its map for that.
        tuned = {key for choice in chosen if choice.kind == "reuse" and choice.source for key in choice.source.keys}
        tuned = tuned - {c.source.node for c in chosen if c.kind == "adapt" and c.source}
        old_rates = dict.fromkeys(old, 0.0) | dict.fromkeys(tuned if self.reuse == "tuned" else (), self.tune_rate)

        key_of = {id(param): key for key in sorted(old) for param in graph.nodes[key].parameters()}
        keys = {name: key_of.get(id(param), "") for name, param in view.named_parameters()}

        def rate(name: str) -> float:
            return old_rates.get(keys[name], 1.0)

        anchors = {
            name: param.detach().clone() for name, param in view.named_parameters() if keys[name] and rate(name) > 0
        }
        flags = [(param, param.requires_grad) for param in view.parameters()]

        loss, data = classification(view, task.train, self.settings)

        def anchored_loss(x: Tensor, y: Tensor, indices: Tensor) -> Tensor:
            value = loss(x, y, indices)
            for name, anchor in anchors.items():
                value = value + self.tune_strength * (view.get_parameter(name) - anchor).square().sum()
            return value

        for name, param in view.named_parameters():
            param.requires_grad_(param.requires_grad and rate(name) > 0)
        train(
            view,
            anchored_loss,
            data,
            self.settings,
            seed=derive_seed(self.seed, "task", len(self.tasks)),
            rate=rate,
            frozen=[graph.nodes[key] for key in sorted(old)],
            saves=saves,
            phase="path",
        )
        for param, flag in flags:
            param.requires_grad_(flag)

    def explain(self) -> list[str]:
        """What each layer of each task became, and how sure the search was."""
        lines = []
        words = {"reuse": "reuses that of {source!r}", "adapt": "adapts that of {source!r}", "new": "is new"}
        for task, decision in zip(self.tasks, self.decisions, strict=True):
            parts = [
                f"{entry['layer']} {words[entry['choice']].format(source=entry['source'])} ({entry['probability']:.0%})"
                for entry in decision
            ]
            lines.append(f"{task.name!r}: {', '.join(parts)}.")
        return lines

    def state(self) -> dict[str, Any]:
        """The graph and the decisions."""
        return {"graph": self.graph_.to_state(), "decisions": [list(decision) for decision in self.decisions]}

    def load_state(self, state: dict[str, Any]) -> None:
        """The inverse of ``state``."""
        self.graph_ = read_graph(state["graph"], self.template).to(self.device)
        self.decisions = [list(decision) for decision in state["decisions"]]
