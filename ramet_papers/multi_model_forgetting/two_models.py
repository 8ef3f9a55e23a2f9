"""Two networks that share layers, trained one after the other: A, then B under a guard, A watched all the while."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, relu

from ramet.data import DataSet, Split
from ramet.errors import ConfigError
from ramet.guards import Guard, diagonal_fisher, sample_labels
from ramet.params import Params, named_params
from ramet.seeding import derive_seed, seeded_globally, torch_generator
from ramet.training import Batches, Step, accuracy

FIRST_HIDDEN, SECOND_HIDDEN = 3, 5
"""Hidden layers of A and of B; with their heads these are the 4 and 6 layers of section 4.1."""

MEAN_BATCH = 10
"""Images in a forward pass while A is remembered: a guard that works on mean inputs learns one column of each."""

FisherKind = Literal["per-sample", "sampled-labels", "mini-batch"]


@dataclass(frozen=True, kw_only=True)
class TwoModelTraining:
    """How both models are trained, by plain SGD as in section 4.1, which names no learning rate."""

    width: int = 200  # units of every hidden layer
    batch_size: int = 64  # images in a mini-batch
    learning_rate: float = 0.1  # of B throughout, and of A at first, from where it falls in a straight line to 0
    first_steps: int  # mini-batches after which A counts as converged
    second_steps: int  # mini-batches of B
    measure_every: int = 5  # A's accuracy is taken after every so many mini-batches of B, and after the last
    remembered: int = 200  # images from which the guards learn what matters to A (200 in the paper)


class TwoModels(nn.Module):
    """A, with 4 layers, and B, with 6, the first of which are A's own; ``forward(x, "a")`` or ``forward(x, "b")``.

    B uses the first ``shared_layers`` of A's three hidden layers, and A's last layer too if it shares the head.
    """

    def __init__(
        self, in_features: int, num_classes: int, *, width: int, shared_layers: int = 3, share_head: bool = False
    ) -> None:
        super().__init__()
        if not 0 <= shared_layers <= FIRST_HIDDEN:
            raise ConfigError(f"shared_layers must be between 0 and {FIRST_HIDDEN}, but got {shared_layers}.")
        widths_in = [in_features] + [width] * SECOND_HIDDEN
        self.hidden_a = nn.ModuleList(nn.Linear(widths_in[depth], width) for depth in range(FIRST_HIDDEN))
        self.head_a = nn.Linear(width, num_classes)  # drawn before B's layers, so that A is the same whatever is shared
        # Only B's own layers stand here: torch.func loses the weights of a module that is registered in two places.
        self.hidden_b = nn.ModuleList(nn.Linear(widths_in[k], width) for k in range(shared_layers, SECOND_HIDDEN))
        self.head_b = None if share_head else nn.Linear(width, num_classes)
        self.shared_layers = shared_layers

    def layers_of(self, model: Literal["a", "b"]) -> list[nn.Module]:
        """The layers of one of the two, from the image to the logits."""
        if model == "a":
            return [*self.hidden_a, self.head_a]
        return [*self.hidden_a[: self.shared_layers], *self.hidden_b, self.head_b or self.head_a]

    def parameters_of(self, model: Literal["a", "b"]) -> list[nn.Parameter]:
        """The parameters of one of the two."""
        return [param for layer in self.layers_of(model) for param in layer.parameters()]

    def forward(self, x: Tensor, model: Literal["a", "b"]) -> Tensor:
        """The logits of one of the two, [n, classes]."""
        *hidden, head = self.layers_of(model)
        x = x.flatten(1)
        for layer in hidden:
            x = relu(layer(x))
        logits: Tensor = head(x)
        return logits


def new_models(
    data: DataSet, budget: TwoModelTraining, seed: int, *, shared_layers: int = 3, share_head: bool = False
) -> TwoModels:
    """Fresh models for a data set; their weights follow from the seed."""
    with seeded_globally(seed, "weights"):
        sizes = (data.train.x[0].numel(), data.num_classes)
        models = TwoModels(*sizes, width=budget.width, shared_layers=shared_layers, share_head=share_head)
    return models.to(data.train.x.device)


def train_first(
    models: TwoModels,
    data: DataSet,
    budget: TwoModelTraining,
    seed: int,
    *,
    watched: Split,
    stop_at: float | None = None,
) -> float:
    """Train A, to the end of its budget or until its accuracy on the watched images reaches ``stop_at``.

    Returns:
        Its accuracy on the watched images.
    """
    batches = Batches(len(data.train), budget.batch_size, derive_seed(seed, "batches", "a"))
    optimizer = torch.optim.SGD(models.parameters_of("a"), lr=budget.learning_rate)
    step, reached = Step(models, optimizer), 0.0
    for number in range(budget.first_steps):
        # Annealed to 0: at a constant rate A only hovers about its optimum, and has learnt to bear what B does to it.
        rate, rows = budget.learning_rate * (1 - number / budget.first_steps), batches[number]
        step(number, rate, lambda x, y: cross_entropy(models(x, "a"), y), data.train.x[rows], data.train.y[rows])
        # Within a few dozen mini-batches A goes from chance to 80 %, so that a stop on the way needs every step.
        if stop_at is not None or number + 1 == budget.first_steps:
            reached = accuracy(models, watched.x, watched.y, "a")
            if stop_at is not None and reached >= stop_at:
                break
    return reached


def fishers_of_first(models: TwoModels, kept: Split, seed: int) -> dict[FisherKind, Params]:
    """How much each weight matters to A, by three estimates on the same images.

    - ``per-sample``: the mean of squared per-sample gradients, with the labels of the data (Eq. 7).
    - ``sampled-labels``: the same with labels drawn from A's own predictions, as elastic consolidation has it.
    - ``mini-batch``: the square of the mean gradient, which is what the released code of the paper takes.
    """
    models.eval()
    with torch.no_grad():
        drawn = sample_labels(models(kept.x, "a"), torch_generator(seed, "labels"))
    models.zero_grad()
    cross_entropy(models(kept.x, "a"), kept.y).backward()  # type: ignore[no-untyped-call]
    squares = {name: p.grad.square() for name, p in named_params(models).items() if p.grad is not None}
    models.zero_grad()
    return {
        "per-sample": diagonal_fisher(models, cross_entropy, kept.x, kept.y, arguments=("a",)),
        "sampled-labels": diagonal_fisher(models, cross_entropy, kept.x, drawn, arguments=("a",)),
        "mini-batch": squares,
    }


def remember_first(models: TwoModels, guard: Guard, kept: Split, fisher: Params) -> None:
    """Show A to a guard: its inputs and gradients on the kept images, then its weights and their importance."""
    models.zero_grad()
    with guard.watch(models):
        for x, y in zip(torch.split(kept.x, MEAN_BATCH), torch.split(kept.y, MEAN_BATCH), strict=True):
            cross_entropy(models(x, "a"), y).backward()  # type: ignore[no-untyped-call]
    guard.remember(named_params(models), fisher)
    models.zero_grad()


@dataclass(frozen=True)
class Course:
    """What happened while B was trained: A's accuracy before it and at every measurement, and B's at the end."""

    steps: list[int]
    first: list[float]
    second: float


def train_second(
    models: TwoModels, guard: Guard, data: DataSet, budget: TwoModelTraining, seed: int, *, watched: Split
) -> Course:
    """Train B under a guard that remembers A, and measure A on the watched images all the while."""
    batches = Batches(len(data.train), budget.batch_size, derive_seed(seed, "batches", "b"))
    optimizer = torch.optim.SGD(models.parameters_of("b"), lr=budget.learning_rate)
    params = named_params(models)
    steps, first = [0], [accuracy(models, watched.x, watched.y, "a")]
    models.zero_grad()  # A's head, which B lacks, must be without a gradient to be off the path
    # Written out, and not a ``Step``: the guard watched A alone, and what it gathers of B would be A's too.
    for step in range(budget.second_steps):
        rows = batches[step]
        optimizer.zero_grad()
        cross_entropy(models(data.train.x[rows], "b"), data.train.y[rows]).backward()  # type: ignore[no-untyped-call]
        with guard.step(params, budget.learning_rate):
            optimizer.step()
        if (step + 1) % budget.measure_every == 0 or step + 1 == budget.second_steps:
            steps.append(step + 1)
            first.append(accuracy(models, watched.x, watched.y, "a"))
    return Course(steps, first, accuracy(models, watched.x, watched.y, "b"))
