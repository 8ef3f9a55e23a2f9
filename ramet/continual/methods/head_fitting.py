"""A head fitted to what a body gives that is not trained along: each image goes through the body once."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from ramet.continual.networks.template import Template, seeded
from ramet.continual.streams.stream import TaskData
from ramet.continual.training import Samples, Saves, train
from ramet.data import Split
from ramet.seeding import derive_seed, torch_generator
from ramet.training import Settings, evaluating, output_of

FITTED = 5000
"""The most images that the first weights of a head are fitted to, where all of a network is trained afterwards."""

SEEN_AT_ONCE = 64
"""Samples that go through the body at a time; inputs that lie on a disk are read as many at a time."""


def fit_head(
    head: nn.Module,
    body: nn.Module,
    data: Split | Samples,
    settings: Settings,
    *,
    seed: int,
    most: int | None = None,
    saves: Saves | None = None,
    phase: str = "train",
) -> None:
    """Train a head in place by a recipe; the body stays as it is, and images are not augmented.

    Args:
        head: from features to logits.
        body: from inputs to features.
        data: what the head is fitted to.
        settings: the recipe.
        seed: of the batches, and of which samples are taken.
        most: the most samples to take; all if none. What the body makes of them is held at once.
        saves: where the training saves itself.
        phase: its name among the trainings of its task.

    >>> head, data = nn.Linear(2, 2), Samples(torch.eye(2).repeat(4, 1), torch.tensor([0, 1]).repeat(4))
    >>> fit_head(head, nn.Identity(), data, Settings(epochs=20, batch_size=4, learning_rate=0.5), seed=0)
    >>> head(torch.eye(2)).argmax(1).tolist()
    [0, 1]
    """
    of_outputs = settings.loss_for(data.y)
    rows = torch.arange(len(data.y))
    if most is not None and most < len(rows):
        rows = torch.randperm(len(rows), generator=torch_generator(seed, "samples"))[:most].sort().values
    rows = rows.to(data.x.device)
    saves = Saves() if saves is None else saves
    with evaluating(body), saves.work.counted("features"):
        seen = torch.cat([output_of(body(data.x[part])) for part in torch.split(rows, SEEN_AT_ONCE)])
    features = Samples(seen.clone(), data.y[rows])  # what is computed in inference mode could not be trained on

    def loss(x: Tensor, y: Tensor, indices: Tensor) -> Tensor:
        return of_outputs(head(x), y)

    train(head, loss, features, replace(settings, augment=None), seed=seed, saves=saves, phase=phase)


def copy_with_fitted_head(
    template: Template, task: TaskData, settings: Settings, role: tuple[str | int, ...], *, seed: int, saves: Saves
) -> nn.Module:
    """A copy of a trained network for a task, before it is trained: its head is fitted to what the network gives.

    Args:
        template: of the trained network.
        task: what the head is for, and fitted to.
        settings: the recipe.
        role: what the copy is, which its head is drawn from.
        seed: what all randomness follows from.
        saves: where the fitting saves itself, as the phase ``head``.
    """
    device = task.train.x.device
    body = template.make_features(seed, *role).to(device)
    head = seeded(lambda: template.make_head(task.info.num_classes), seed, *role, "head").to(device)
    own_seed = derive_seed(seed, "head", task.info.name)
    fit_head(head, body, task.train, settings, seed=own_seed, most=FITTED, saves=saves, phase="head")
    return template.joined(body, head)
