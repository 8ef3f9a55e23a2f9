"""The seam of growth: a method proposes candidates, scores them, and writes the chosen ones as an edit.

What may be chosen is decided outside, by the budget, in the same way for every method; what is chosen is carried out
outside too, so that the optimizer's state, averages and the history are never a method's business. A method of your own
is a subclass with three functions; ``ramet.testing.growths`` checks it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.growth.meter import Meter, select
from ramet.growth.surgery.blocks import BlockCopy, BlockSite, copy_blocks
from ramet.growth.surgery.layers import Deepening, Site, deepen
from ramet.growth.surgery.widening import Widening
from ramet.growth.surgery.writing import widen
from ramet.params import Params
from ramet.registry.lines import one_line
from ramet.seeding import seeded_globally, torch_generator
from ramet.tracing.coupling import Coupling
from ramet.tracing.probing import copy_network
from ramet.training import Batches, Recipe, Step, in_batches, output_of, training_modes
from ramet.training.functions import Loss

MiniBatches = Sequence[tuple[Tensor, Tensor]]
"""Inputs and targets of some mini-batches."""


@dataclass(frozen=True)
class Candidate:
    """One thing that could be added.

    Attributes:
        kind: ``split`` of a unit, a ``new`` unit, a neuron of a new ``layer``, a copy of a ``block``, or a whole
            ``morph`` of the network.
        where: the group, or for a layer the site, or the block; empty for a morph.
        unit: which unit is split; the number of the new one otherwise.
    """

    kind: str
    where: str
    unit: int


@dataclass
class Edit:
    """What is done to a network: widenings by group, new layers, and copies of blocks.

    Once it has its new shape, ``weights`` are loaded (of a candidate that was trained already), or all drawn anew.
    """

    widenings: dict[str, Widening] = field(default_factory=dict)
    layers: list[Deepening] = field(default_factory=list)
    weights: Params | None = None
    reset: bool = False
    blocks: list[BlockCopy] = field(default_factory=list)

    @property
    def num_units(self) -> int:
        """How many units are added, those of new layers included; a copy of a block counts as one."""
        widened = sum(w.num_added for w in self.widenings.values())
        return widened + sum(layer.width for layer in self.layers) + len(self.blocks)


@dataclass
class Proposal:
    """Candidates, and in ``notes`` whatever the method needs to write them as an edit.

    With ``exclusive`` just one may be chosen, because each is a whole new network within the budget.
    """

    candidates: list[Candidate]
    exclusive: bool = False
    notes: Any = None


@dataclass
class GrowthContext:
    """What a method sees of the world in one growth step; it must leave the network as it is.

    Attributes:
        sites: where layers can be added.
        blocks: what can be copied.
        validation_x, validation_y: for methods that compare trained candidates.
        seed: of this step; a method draws from ``generator``.
        allowance: what the step may add, in the meter's unit, besides ``max_layers`` layers.
        meter: makes a fresh meter.
        make_optimizer: the optimizer that trains a candidate network.
        recipe: of the training, for what is done to the mini-batches that candidate networks are trained with.
        round_steps: mini-batches of the training between two growths, by which a method may measure what it spends;
            the recipe's epochs if none.
        proportions: the widths of the groups before anything grew; those of now, if none.
    """

    network: nn.Module
    coupling: Coupling
    sites: list[Site]
    loss: Loss
    x: Tensor
    y: Tensor
    validation_x: Tensor
    validation_y: Tensor
    batch_size: int
    seed: int
    allowance: float
    max_layers: int
    meter: Callable[[], Meter]
    make_optimizer: Callable[[nn.Module], torch.optim.Optimizer]
    recipe: Recipe = field(default_factory=Recipe)
    blocks: list[BlockSite] = field(default_factory=list)
    round_steps: int | None = None
    proportions: Mapping[str, int] | None = None

    def generator(self, *role: str | int) -> torch.Generator:
        """Randomness for one use of a method."""
        return torch_generator(self.seed, "growth", *role)

    @property
    def steps_per_epoch(self) -> int:
        """Mini-batches in a pass over the training data."""
        return Batches(len(self.x), min(self.batch_size, len(self.x)), 0).steps_per_epoch

    def batches(self, num_steps: int, *role: str | int) -> Iterator[tuple[Tensor, Tensor]]:
        """Mini-batches of the training data, the same for the same role."""
        seed = int(torch.randint(2**62, (), generator=self.generator("batches", *role)))
        order = Batches(len(self.x), min(self.batch_size, len(self.x)), seed)
        for step in range(num_steps):
            indices = order[step].to(self.x.device)
            yield self.x[indices], self.y[indices]

    def choose(self, candidates: Sequence[Candidate], scores: Tensor) -> list[int]:
        """The best candidates that fit the step's budget."""
        places = [(candidate.kind, candidate.where) for candidate in candidates]
        return select(self.meter(), places, scores, self.allowance, self.max_layers)

    def train(self, network: nn.Module, num_steps: int, *role: str | int) -> None:
        """Train a candidate network in place, at the learning rates that its optimizer has, without clipping."""
        optimizer = self.make_optimizer(network)
        rates = [group["lr"] for group in optimizer.param_groups]
        recipe = replace(self.recipe, clip_norm=None)
        step = Step(network, optimizer, recipe, group_rates=rates, where=" of a candidate")
        network.train()
        for number, (x, y) in enumerate(self.batches(num_steps, *role)):
            if recipe.augment is not None:
                x, y = recipe.augmented(x, y, self.generator("transform", *role, number))
            step(number, 1.0, lambda x, y: self.loss(output_of(network(x)), y), x, y)

    def grown(self, edit: Edit) -> nn.Module:
        """A copy of the network with an edit carried out."""
        network = copy_network(self.network)
        carry_out(network, self.coupling, self.sites, edit, seed=self.seed, blocks=self.blocks)
        return network

    def validation_loss(self, network: nn.Module) -> float:
        """The mean loss on the validation data."""
        return mean_loss(network, self.loss, self.validation_x, self.validation_y)


class Growth(ABC):
    """A way to grow. Subclasses are final; what they remember between steps goes through ``state_dict``."""

    def __repr__(self) -> str:
        return one_line(self)

    @property
    def needs_layers(self) -> bool:
        """Whether it adds nothing but layers, so that a budget without any leaves it nothing to do."""
        return False

    @property
    def needs_sites(self) -> bool:
        """Whether it adds nothing but layers of its own, no copies of blocks."""
        return False

    def check_budget(self, layers: int) -> None:
        """Refuse a budget of so many new layers a step that leaves the method nothing to do."""
        if self.needs_layers and not layers:
            raise ConfigError(
                f"{type(self).__name__} adds nothing but layers, so that the budget must allow some, but it has none: "
                "add layers=1, as in params=200k,layers=1."
            )

    @abstractmethod
    def propose(self, context: GrowthContext) -> Proposal:
        """The candidates of a step."""

    @abstractmethod
    def score(self, context: GrowthContext, proposal: Proposal) -> Tensor:
        """How much each candidate helps, shape [candidates]; higher is better, minus infinity means never."""

    @abstractmethod
    def apply(self, context: GrowthContext, proposal: Proposal, chosen: Sequence[int]) -> Edit:
        """The chosen candidates as an edit of the network, with values for what is new."""

    def observe(self, score: float) -> bool:
        """The validation score after the step and its training; returns whether the method wants to go on."""
        return True

    def state_dict(self) -> dict[str, Any]:
        """What the method remembers between steps, as JSON values."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what was remembered."""
        assert not state, f"{type(self).__name__} remembers nothing"


def carry_out(
    network: nn.Module,
    coupling: Coupling,
    sites: Sequence[Site],
    edit: Edit,
    *,
    seed: int,
    optimizer: torch.optim.Optimizer | None = None,
    averages: Iterable[nn.Module] = (),
    blocks: Sequence[BlockSite] = (),
) -> None:
    """Do an edit to a network in place; the optimizer's state and averages follow. ``seed`` is for new weights.

    ``sites`` and ``blocks`` are those that were found in the network. Blocks are copied last, because those behind
    them then have other names.
    """
    averages = list(averages)
    plan = widen(network, coupling, edit.widenings, optimizer=optimizer, averages=averages)
    places = {site.name: site for site in sites}
    for number, layer in enumerate(edit.layers):
        with seeded_globally(seed, "layer", number):
            deepen(network, places[layer.site], layer, plan=plan, optimizer=optimizer, averages=averages)
    if edit.blocks:
        copy_blocks(network, blocks, edit.blocks, optimizer=optimizer, averages=averages)
    if edit.weights is not None:
        network.load_state_dict(edit.weights)
    if edit.reset:
        redraw(network, seed, optimizer)


def redraw(network: nn.Module, seed: int, optimizer: torch.optim.Optimizer | None = None) -> None:
    """Draw the weights of every module that can draw them anew, in place; the optimizer forgets what it knew.

    Tensors of modules without ``reset_parameters`` keep their values.
    """
    with seeded_globally(seed, "reset"):
        for module in network.modules():
            if callable(reset := getattr(module, "reset_parameters", None)):
                reset()
    if optimizer is not None:
        optimizer.state.clear()


def mean_loss(network: nn.Module, loss: Loss, x: Tensor, y: Tensor) -> float:
    """The mean loss over data, in evaluation mode."""
    total = 0.0
    with training_modes(network), torch.no_grad():
        network.eval()
        for inputs, targets in in_batches(x, y):
            total += float(loss(output_of(network(inputs)), targets)) * len(inputs)
    return total / len(x)


def widenings_of(coupling: Coupling, candidates: Iterable[Candidate]) -> dict[str, Widening]:
    """Plain splits and silent new units for candidates, without directions: the same function exactly."""
    units: dict[str, list[int]] = {}
    new: dict[str, int] = {}
    for candidate in candidates:
        if candidate.kind == "split":
            units.setdefault(candidate.where, []).append(candidate.unit)
        elif candidate.kind == "new":
            new[candidate.where] = new.get(candidate.where, 0) + 1
    return {
        name: Widening(sources=torch.tensor(units.get(name, []), dtype=torch.long), num_new=new.get(name, 0))
        for name in coupling.groups
        if name in units or name in new
    }
