"""The plain loop with a guard and without, as a piece of work."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ramet.data import load
from ramet.guards import Guard, NoGuard, OrthogonalProjection
from ramet.jobs.tour.loop import train
from ramet.runs.encoding import Json
from ramet.seeding import seeded_globally, torch_generator

GUARD = "OrthogonalProjection.gpm()"
WIDTH = 128


def guarded_pair(context: object, seed: int, epochs: int, size: int | None) -> Json:
    """Test accuracies of two loops from the same start: on the digits, then on digits with their pixels permuted."""
    return {
        "guarded": _curves(OrthogonalProjection.gpm(), seed, epochs, size),
        "free": _curves(NoGuard(), seed, epochs, size),
    }


def _curves(guard: Guard, seed: int, epochs: int, size: int | None) -> Json:
    data = load("digits", seed=seed, train_size=size)
    order = torch.randperm(data.train.x[0].numel(), generator=torch_generator(seed, "tour", "permutation"))
    orders = {"old": torch.arange(len(order)), "new": order}
    tasks = [(data.train.x.flatten(1)[:, seen], data.train.y) for seen in orders.values()]
    with seeded_globally(seed, "tour", "loop"):
        network = nn.Sequential(
            nn.Linear(len(order), WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10)
        )
        kept = train(network, tasks, guard, epochs)
    tested = {name: data.test.x.flatten(1)[:, seen] for name, seen in orders.items()}
    return {name: [_accuracy(network, weights, x, data.test.y) for weights in kept] for name, x in tested.items()}


def _accuracy(network: nn.Module, weights: list[Tensor], x: Tensor, y: Tensor) -> float:
    named = dict(zip((name for name, _ in network.named_parameters()), weights, strict=True))
    with torch.no_grad():
        right: Tensor = functional_call(network, named, (x,)).argmax(1) == y
    return float(right.float().mean())
