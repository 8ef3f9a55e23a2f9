"""Growth inside a training loop of one's own: propose, score, apply, with a data loader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.growth.base import Candidate, Growth, GrowthContext, Proposal, carry_out
from ramet.growth.budget import Budget
from ramet.growth.choosing import check_edit, choose_within
from ramet.growth.history import GrowthStep, describe
from ramet.growth.looking import Looking
from ramet.growth.meter import Meter
from ramet.growth.methods.making import make_method
from ramet.growth.ties import warn_apart
from ramet.seeding import derive_seed, seeded_globally
from ramet.training import Recipe
from ramet.training.functions import Loss

Loader = Iterable[Any]
"""Gives mini-batches ``(x, y, ...)`` each time it is gone through: a torch ``DataLoader``, or a list."""

PROBE_SIZE = 4
"""Examples that a network is traced and checked with."""


class Grower:
    """Grows a network in place while a loop of one's own trains it.

    ``propose`` makes the candidates (and trains them, where the method does), ``score`` says what each is worth, and
    ``apply`` adds the best that fit the budget's step, or those that you choose. The optimizer's state and averages
    grow along; parameter groups, and schedulers of torch that hold the optimizer, stay as they are. Nothing here trains
    the network itself. What is drawn follows from the seed and leaves torch's global generators alone.

    Args:
        network: the module that the loop trains; it grows in place.
        loader: mini-batches of training data, augmented as in the loop; candidates are trained and scored with them.
        budget: how large it may get, and how fast: ``"params=200k, step=30%"``.
        method: an object or a name of ``ramet.growth.METHODS``, with options: ``firefly:num_new=8``.
        loss: of outputs and targets; the mean over a mini-batch.
        optimizer: what trains the network, if its state is to follow.
        averages: copies of the network that follow it, such as ``torch.optim.swa_utils.AveragedModel``.
        validation: mini-batches that methods which compare trained candidates measure them with; the first of the
            loader's if none.
        make_optimizer: what such methods train their candidates with; SGD at 0.01 if none.
        epochs: how long the loop trains between two growths, which is what the cost of scores is a share of.
        ties: ``none`` lets layers of a model of Hugging Face grow apart; by default they grow as its configuration can
            say, so that ``from_pretrained`` loads what ``save_network`` writes.
        seed: of everything random.

    Raises:
        ConfigError: nothing can grow, the loader is empty, or steps are taken out of their order.

    >>> torch.manual_seed(0) and None
    >>> network = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> loader = [(torch.randn(8, 4), torch.randint(0, 2, (8,))) for _ in range(4)]
    >>> grower = Grower(network, loader, "neurons=6, step=2")
    >>> candidates = grower.propose()
    >>> scores = grower.score()
    >>> step = grower.apply()
    >>> network[0].out_features, step.num_candidates == len(candidates) == len(scores)
    (5, True)
    """

    def __init__(
        self,
        network: nn.Module,
        loader: Loader,
        budget: Budget | str,
        method: Growth | str = "firefly",
        *,
        loss: Loss = nn.functional.cross_entropy,
        optimizer: torch.optim.Optimizer | None = None,
        averages: Iterable[nn.Module] = (),
        validation: Loader | None = None,
        make_optimizer: Callable[[nn.Module], torch.optim.Optimizer] | None = None,
        epochs: int = 10,
        ties: str = "auto",
        seed: int = 0,
    ) -> None:
        self.network, self.loader, self.loss, self.seed = network, loader, loss, seed
        self.budget = Budget.parse(budget) if isinstance(budget, str) else budget
        self.method = make_method(method)
        self.method.check_budget(self.budget.layers)
        self._looking = Looking(layers=self.budget.layers, ties=ties, needs_sites=self.method.needs_sites)
        self.optimizer, self.averages = optimizer, list(averages)
        self.steps: list[GrowthStep] = []
        self._validation, self._recipe = validation, Recipe(epochs=epochs)
        self._make_optimizer = make_optimizer or (lambda net: torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9))
        self._context: LoaderContext | None = None
        self._proposal: Proposal | None = None
        self._scores: Tensor | None = None

    def propose(self) -> list[Candidate]:
        """The candidates of a step; there may be none. The network stays as it is."""
        self._context, self._scores = self._look(), None
        self._proposal = self.method.propose(self._context)
        return list(self._proposal.candidates)

    def score(self) -> Tensor:
        """What each candidate is worth in the method's measure, higher is better, shape [candidates]."""
        if self._context is None or self._proposal is None:
            raise ConfigError("candidates are scored after they were proposed, but propose() was not called.")
        proposal = self._proposal
        self._scores = self.method.score(self._context, proposal) if proposal.candidates else torch.zeros(0)
        return self._scores

    def choose(self) -> list[int]:
        """The candidates that ``apply`` takes by default: the best that fit the budget's step, best first."""
        if self._context is None or self._proposal is None or self._scores is None:
            raise ConfigError("candidates are chosen by their scores, but score() was not called.")
        if not self._proposal.candidates or self._context.allowance <= 0:
            return []
        size = self._context.meter().size
        return choose_within(self._context, self._proposal, self._scores, self.budget, size)

    def apply(self, chosen: Sequence[int] | None = None) -> GrowthStep:
        """Add the chosen candidates, by their places among the proposed; gives what grew, nothing if none was chosen.

        The budget is not looked at where you choose.
        """
        taken = self.choose() if chosen is None else list(chosen)
        context, proposal, scores = self._context, self._proposal, self._scores
        if context is None or proposal is None or scores is None:
            raise ConfigError("candidates are added after they were scored, but score() was not called.")
        places = range(len(proposal.candidates))
        if unknown := [number for number in taken if number not in places]:
            raise ConfigError(f"chosen candidates are places below {len(places)}, but got {unknown[0]}.")
        step = GrowthStep(len(self.steps) + 1, num_candidates=len(proposal.candidates))
        if taken:
            edit = self.method.apply(context, proposal, taken)
            check_edit(context, edit, context.x[:PROBE_SIZE])
            step = describe(context, edit, proposal.candidates, scores.cpu(), taken)
            step.number = len(self.steps) + 1
            carry_out(
                self.network,
                context.coupling,
                context.sites,
                edit,
                seed=context.seed,
                optimizer=self.optimizer,
                averages=self.averages,
                blocks=context.blocks,
            )
        self.steps.append(step)
        self._context = self._proposal = self._scores = None
        return step

    @property
    def size(self) -> float:
        """The network's size in the budget's unit."""
        return self._look().meter().size

    def _look(self) -> LoaderContext:
        """What can grow now, and the data to judge it with."""
        if self.budget.unit.endswith("latency"):
            raise ConfigError(f"a budget is neurons, params or flops here, but got {self.budget.unit}.")
        device = next((param.device for param in self.network.parameters()), torch.device("cpu"))
        seed = derive_seed(self.seed, "growth step", len(self.steps) + 1)
        x, y = next(_mini_batches(self.loader, device, seed, "probe"))
        found = self._looking(self.network, x[:PROBE_SIZE], began=any(step.grew for step in self.steps))
        found.check(self.budget.layers)
        coupling, sites, blocks = found.coupling, found.sites, found.blocks
        if found.apart and not self.steps:
            warn_apart(self.network, found.apart)
        held_x, held_y = x, y
        if self._validation is not None:
            parts = list(_once(self._validation, device, seed, "validation"))
            held_x, held_y = torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])

        def meter() -> Meter:
            return Meter(self.network, coupling, sites, self.budget.unit, blocks=blocks)

        return LoaderContext(
            network=self.network,
            coupling=coupling,
            sites=sites,
            loss=self.loss,
            x=x,
            y=y,
            validation_x=held_x,
            validation_y=held_y,
            batch_size=len(x),
            seed=seed,
            allowance=self.budget.allowance(meter().size),
            max_layers=self.budget.layers,
            meter=meter,
            make_optimizer=self._make_optimizer,
            recipe=self._recipe,
            blocks=blocks,
            loader=self.loader,
        )


@dataclass
class LoaderContext(GrowthContext):
    """A context whose mini-batches come from a loader; ``x`` and ``y`` are the first one, to trace the network with."""

    loader: Loader = field(default_factory=list)

    @property
    def steps_per_epoch(self) -> int:
        """Mini-batches in a pass over the loader."""
        length = getattr(self.loader, "__len__", None)
        return max(1, int(length())) if length is not None else sum(1 for _ in self.batches_once())

    def batches_once(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The loader's mini-batches, one time."""
        return _once(self.loader, self.x.device, self.seed, "count")

    def batches(self, num_steps: int, *role: str | int) -> Iterator[tuple[Tensor, Tensor]]:
        """Mini-batches of the loader, again from its beginning where it ends; the same for the same role."""
        source = _mini_batches(self.loader, self.x.device, self.seed, *role)
        for _ in range(num_steps):
            yield next(source)


def _mini_batches(loader: Loader, device: torch.device, seed: int, *role: str | int) -> Iterator[tuple[Tensor, Tensor]]:
    """A loader's mini-batches without end."""
    epoch = 0
    while True:
        number = -1
        for number, batch in enumerate(_once(loader, device, seed, *role, epoch)):  # noqa: B007 - counted below
            yield batch
        if number < 0:
            raise ConfigError("a loader must give mini-batches each time it is gone through, but this one is empty.")
        epoch += 1


def _once(loader: Loader, device: torch.device, seed: int, *role: str | int) -> Iterator[tuple[Tensor, Tensor]]:
    """A loader's mini-batches; what it and its augmentations draw follows from the seed, a mini-batch at a time."""
    source: Iterator[Any] | None = None
    number = 0
    while True:
        with seeded_globally(seed, "loader", *role, number):
            source = iter(loader) if source is None else source
            batch = next(source, None)
        if batch is None:
            return
        if not (isinstance(batch, list | tuple) and len(batch) >= 2 and all(isinstance(t, Tensor) for t in batch[:2])):
            raise ConfigError(f"a loader must give mini-batches (x, y) of tensors, but gives {type(batch).__name__}.")
        number += 1
        yield batch[0].to(device), batch[1].to(device)
