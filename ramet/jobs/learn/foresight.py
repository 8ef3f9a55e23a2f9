"""What to expect of a stream, in seconds: how large, how much work, how long, and whether tasks help each other."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torch import nn

from ramet.continual.methods.feature_fit import feature_fit
from ramet.continual.training import classification, epoch_work, train
from ramet.costs import count_parameters
from ramet.data import Split
from ramet.reports.formats import count, duration
from ramet.seeding import derive_seed

if TYPE_CHECKING:
    from ramet.jobs.learn.learning import StreamSetup

PROBED_IMAGES, PROBED_TASKS = 500, 5
"""The most images that the probe trains on and judges by, and the most other tasks that it looks at."""


@dataclass(frozen=True, kw_only=True)
class StreamForesight:
    """What is known before a stream is learned.

    Attributes:
        parameters: of individual networks, all tasks together.
        work: their multiply-adds.
        seconds: about how long they take here, with one seed.
        served: tasks that a network of the first task, trained for an epoch, serves better than an untrained one.
        probed: the tasks that were looked at.
    """

    parameters: int
    work: float
    seconds: float
    served: int
    probed: int


def foresee(setup: StreamSetup) -> StreamForesight:
    """Count, time and probe; it has no influence on what is learned."""
    stream, recipe = setup.streams[0], setup.recipe
    parameters, work = 0, 0.0
    for task in stream:
        network = setup.template.make_network(task.info.num_classes, setup.seed, "foreseen").to(setup.device)
        parameters += count_parameters(network)
        data = task.dataset.train
        data = Split(data.x[: recipe.batch_size].to(setup.device), data.y[: recipe.batch_size].to(setup.device))
        each = epoch_work(network, *classification(network, data, recipe), recipe, seed=0) / len(data.y)
        work += each * len(task.dataset.train.y) * recipe.epochs
    first, seconds, probed_work = _trained_first(setup)
    body = setup.template.body_of(first).eval()
    others = list(stream)[1 : 1 + PROBED_TASKS]
    served = 0
    for task in others:
        parts = [_some(split, setup.device) for split in (task.dataset.train, task.dataset.validation)]
        untrained = setup.template.make_features(setup.seed, "foreseen", task.name).to(setup.device)
        ours, theirs = (
            feature_fit(each, (parts[0].x, parts[0].y), (parts[1].x, parts[1].y), task.info.num_classes).score
            for each in (body, untrained)
        )
        served += ours > theirs
    return StreamForesight(
        parameters=parameters,
        work=work,
        seconds=seconds * work / max(probed_work, 1.0),
        served=served,
        probed=len(others),
    )


def _trained_first(setup: StreamSetup) -> tuple[nn.Module, float, float]:
    """A network after an epoch on images of the first task; and what that took, in seconds and multiply-adds."""
    task, recipe = setup.streams[0][0], replace(setup.recipe, epochs=1)
    data = _some(task.dataset.train, setup.device)
    network = setup.template.make_network(task.info.num_classes, setup.seed, "foreseen", "first").to(setup.device)
    loss = classification(network, data, recipe)
    work = epoch_work(network, *loss, recipe, seed=0)
    begun = time.monotonic()
    train(network, *loss, recipe, seed=derive_seed(setup.seed, "foreseen"))
    return network, time.monotonic() - begun, work


def _some(split: Split, device: str) -> Split:
    return Split(split.x[:PROBED_IMAGES].to(device), split.y[:PROBED_IMAGES].to(device))


def foreseen_stream(foresight: StreamForesight, controls: str) -> str:
    """What to expect, in a line.

    >>> seen = StreamForesight(parameters=84_010, work=9e8, seconds=12.0, served=1, probed=4)
    >>> print(foreseen_stream(seen, "none"))
    foreseen: individual networks of 84,010 parameters, 900 M multiply-adds and about 12 s a seed, a method as much or \
more; knowledge of the first task serves 1 of 4 others: expect little more than from networks alone
    """
    words = f"foreseen: individual networks of {count(foresight.parameters)} parameters, {count(foresight.work)} "
    words += f"multiply-adds and about {duration(foresight.seconds)} a seed, a method as much or more"
    if controls != "none":
        words += ", and each of its controls as much as it"
    if not foresight.probed:
        return words
    is_likely = 2 * foresight.served > foresight.probed
    expected = "it is likely to pay" if is_likely else "expect little more than from networks alone"
    return f"{words}; knowledge of the first task serves {foresight.served} of {foresight.probed} others: {expected}"
