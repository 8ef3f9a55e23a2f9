"""The learning rate of a task, found on its validation data by short trainings whose work counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ramet.continual.networks.template import Template
from ramet.continual.plan import check_rates
from ramet.continual.streams.stream import TaskData
from ramet.continual.training import Saves, classification, train
from ramet.errors import RunError
from ramet.seeding import derive_seed
from ramet.training import Settings, measure

SHARE = 0.2
"""The part of the recipe's epochs that each learning rate is tried for, at least one epoch."""


def with_rate(settings: Settings, rate: float) -> Settings:
    """A recipe with another learning rate, which its last one does not exceed."""
    return replace(settings, learning_rate=rate, final_learning_rate=min(settings.final_learning_rate, rate))


def find_rate(
    template: Template, task: TaskData, settings: Settings, rates: Sequence[float], *, seed: int, saves: Saves
) -> float:
    """The learning rate with which a network of the task alone is best on validation data after a few epochs.

    All begin with the same weights and see the same mini-batches. Of equals the first counts; one whose loss is not
    finite is out, and if all are, the smallest is taken.

    Args:
        template: what the network is made from.
        task: its training data are trained on, its validation data judge.
        settings: the recipe.
        rates: what is tried, in this order.
        seed: of weights and mini-batches.
        saves: where the trainings save themselves, and count their work.
    """
    check_rates(rates)
    metric = settings.metric_for(task.train.y)
    epochs = max(1, round(SHARE * settings.epochs))
    found: dict[float, float] = {}
    for rate in rates:
        network = template.make_network(task.info.num_classes, seed, "rate", task.info.name).to(task.train.x.device)
        tried = replace(with_rate(settings, rate), epochs=epochs)
        loss = classification(network, task.train, tried)
        try:
            train(network, *loss, tried, seed=derive_seed(seed, "rate", task.info.name), saves=saves, phase=_name(rate))
            with saves.work.counted("rates"):
                score = measure(network, task.validation.x, task.validation.y, metric)
        except RunError:
            continue
        found[rate] = score if metric.higher_is_better else -score
    return max(found, key=lambda rate: found[rate]) if found else min(rates)


def _name(rate: float) -> str:
    return f"rate-{rate:g}"
