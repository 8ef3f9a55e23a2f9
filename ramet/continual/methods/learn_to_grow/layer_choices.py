"""Reuse, adapt or anew: a search over what each layer of a new task should be, by gradient descent on the choice."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ramet.continual.methods.optimizers import SgdAndAdam
from ramet.continual.networks.graph import LayerGraph, PathStep, take
from ramet.continual.networks.patches import Patch, make_patch
from ramet.continual.networks.skeletons import Skeleton
from ramet.continual.networks.template import Template
from ramet.continual.training import Saves, train
from ramet.costs import count_parameters
from ramet.data import Split
from ramet.errors import ConfigError
from ramet.seeding import derive_seed, seeded_globally, torch_generator
from ramet.training import Settings


@dataclass(frozen=True)
class LayerChoice:
    """One thing that a layer may become.

    Attributes:
        kind: ``reuse`` takes an earlier layer as it is, ``adapt`` adds a small map beside it, ``new`` is a fresh one.
        patch: The description of the map (see ``make_patch``).
    """

    kind: Literal["reuse", "adapt", "new"]
    source: PathStep | None
    patch: Mapping[str, Any] | None
    size: int


def list_choices(graph: LayerGraph, skeleton: Skeleton, rank: int) -> list[list[LayerChoice]]:
    """What each layer may become: any earlier layer of its place reused or adapted, or a new one.

    ``rank`` is that of the map beside a linear layer, 0 for none. Beside a convolution it is a 1 x 1 convolution.
    """
    choices = []
    for place, layer in enumerate(skeleton.layers):
        steps = list(dict.fromkeys(path.steps[place] for path in graph.paths.values()))
        options = [LayerChoice("reuse", step, None, 0) for step in steps]
        patch = {"rank": 0 if layer.kind == "conv" else rank}
        if layer.kind == "conv" or rank:
            for node in dict.fromkeys(step.node for step in steps):
                size = count_parameters(make_patch(graph.nodes[node], patch))
                options.append(LayerChoice("adapt", PathStep(node), patch, size))
        choices.append([*options, LayerChoice("new", None, None, count_parameters(skeleton.make_layer(place)))])
    return choices


class ChoiceMixture(nn.Module):
    """All choices at once: a layer gives the mixture of what its choices give, and the head is new.

    x_(l+1) is the sum over choices c of softmax(alpha_l)_c g_l^c(x_l), with ``scores`` for alpha (section 3.2, Eq. 2).
    ``old`` holds copies of earlier layers, which stay as they are, and ``fresh`` what is trained; the seed is that of
    fresh weights.
    """

    def __init__(
        self, template: Template, choices: Sequence[Sequence[LayerChoice]], num_classes: int, seed: int
    ) -> None:
        super().__init__()
        self.old, self.fresh, self.choices = nn.ModuleDict(), nn.ModuleDict(), choices
        with seeded_globally(seed, "head"):
            self.head = template.make_head(num_classes)
        self.scores = nn.ParameterList([nn.Parameter(torch.zeros(len(options))) for options in choices])

    @abstractmethod
    def _take(self, place: int, index: int, choice: LayerChoice, x: Tensor) -> Tensor:
        """What a choice of a layer makes of its input."""

    def forward(self, x: Tensor, mixtures: Sequence[Tensor]) -> Tensor:
        """Logits, [batch, classes], from images and for each layer the probabilities of its choices."""
        self._images = x
        for place, (options, mixture) in enumerate(zip(self.choices, mixtures, strict=True)):
            x = torch.stack(
                [
                    share * self._take(place, index, choice, x)
                    for index, (choice, share) in enumerate(zip(options, mixture, strict=True))
                ]
            ).sum(0)
        logits: Tensor = self.head(x)
        return logits

    def mixtures(self) -> list[Tensor]:
        """The probabilities of each layer's choices."""
        return [scores.softmax(0) for scores in self.scores]


class ChoiceNetwork(ChoiceMixture):
    """The choices of a chain's layers."""

    def __init__(
        self,
        graph: LayerGraph,
        skeleton: Skeleton,
        choices: Sequence[Sequence[LayerChoice]],
        num_classes: int,
        seed: int,
    ) -> None:
        super().__init__(skeleton, choices, num_classes, seed)
        keys = dict.fromkeys(key for options in choices for c in options if c.source for key in c.source.keys)
        self.old.update({key: copy.deepcopy(graph.nodes[key]) for key in keys})
        self.old.requires_grad_(False)
        for place, options in enumerate(choices):
            for index, choice in enumerate(options):
                if choice.patch is not None:
                    assert choice.source is not None
                    generator = torch_generator(seed, "patch", place, index)
                    module: nn.Module = make_patch(self.old[choice.source.node], choice.patch, generator)
                elif choice.source is None:
                    with seeded_globally(seed, "new", place):
                        module = skeleton.make_layer(place)
                else:
                    continue
                self.fresh[f"{place}-{index}"] = module.requires_grad_(True)

    def _take(self, place: int, index: int, choice: LayerChoice, x: Tensor) -> Tensor:
        if choice.kind == "reuse":
            assert choice.source is not None
            return take(self.old, choice.source, x)
        module = self.fresh[f"{place}-{index}"]
        if choice.source is not None:
            assert isinstance(module, Patch)
            adapted: Tensor = module(x, self.old[choice.source.node])
            return adapted
        out: Tensor = module(x)
        return out


def expected_size(mixtures: Sequence[Tensor], choices: Sequence[Sequence[LayerChoice]]) -> Tensor:
    """The parameters that the mixture adds on average, as a share of a network that is all new; between 0 and 1.

    >>> options = [LayerChoice("reuse", PathStep("n0"), None, 0), LayerChoice("new", None, None, 8)]
    >>> expected_size([torch.tensor([0.75, 0.25])], [options])
    tensor(0.2500)
    """
    total = sum(options[-1].size for options in choices)
    sizes = [
        mixture @ mixture.new_tensor([c.size for c in options])
        for mixture, options in zip(mixtures, choices, strict=True)
    ]
    return torch.stack(sizes).sum() / total


def search_choices(
    network: ChoiceMixture,
    data: Split,
    settings: Settings,
    *,
    seed: int,
    choice_rate: float,
    size_penalty: float,
    saves: Saves | None = None,
) -> list[Tensor]:
    """Train the mixture: weights on one half of the data, choices on the other, earlier layers not at all.

    Gives for each layer the probabilities of its choices. ``choice_rate`` is the learning rate of their scores (Adam),
    ``size_penalty`` the weight of ``expected_size`` in their loss. Departs from DARTS, which alternates: both take
    their step at once, from gradients at the same point.
    """
    half = len(data) // 2
    if half < 2:
        raise ConfigError(f"a search needs at least 4 training samples, but got {len(data)}.")
    order = torch.randperm(len(data), generator=torch_generator(seed, "halves")).to(data.x.device)
    weight_half, choice_half = order[:half], order[half : 2 * half]
    weights = {name: param for name, param in network.named_parameters() if not name.startswith("scores.")}

    of_outputs = settings.loss_for(data.y)

    def loss(x: Tensor, y: Tensor, indices: Tensor) -> Tensor:
        mixtures = network.mixtures()
        fit = of_outputs(network(x, [mixture.detach() for mixture in mixtures]), y)
        rows = choice_half[indices]
        fixed = {name: param.detach() for name, param in weights.items()}
        choice = of_outputs(functional_call(network, fixed, (data.x[rows], mixtures)), data.y[rows])
        return fit + choice + size_penalty * expected_size(mixtures, network.choices)

    train(
        network,
        loss,
        Split(data.x[weight_half], data.y[weight_half]),
        settings,
        seed=derive_seed(seed, "search"),
        frozen=[network.old],
        optimizer=lambda groups: SgdAndAdam(groups, list(network.scores), choice_rate, settings),
        saves=saves,
        phase="search",
    )
    return [mixture.detach() for mixture in network.mixtures()]
