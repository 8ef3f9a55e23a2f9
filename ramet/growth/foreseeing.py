"""What a growth will cost, told before it begins: rounds, sizes, work, and about how long it takes."""

from __future__ import annotations

import time
from dataclasses import dataclass

from torch import nn

from ramet.costs import count_parameters
from ramet.growth.arms import PROBE, scale
from ramet.growth.rounds import foreseen_sizes
from ramet.growth.tasks import GrowthSetup
from ramet.growth.work import step_work
from ramet.training import Step, make_optimizer, output_of

NUM_TIMED = 3
"""Training steps that are timed, after one that is not."""


@dataclass(frozen=True, kw_only=True)
class Foresight:
    """What is foreseen of a growth by one method, without what it is compared with.

    Attributes:
        rounds: trainings.
        params: of the final network, if its layers keep their proportions.
        work: multiply-adds of the trainings; growing itself comes to it, unless it is paid from them.
        seconds: at the speed of some steps at the final size; small networks use a device less well than large ones.
    """

    rounds: int
    params: int
    work: float
    seconds: float


def foresee(setup: GrowthSetup) -> Foresight:
    """Time a few steps of a network of the final size, in the start's proportions, and count the rest."""
    with setup.growing(next(iter(setup.methods))) as growing:
        network, size, rounds = growing.network, growing.size, growing.rounds
    x, budget = setup.data.train.x, setup.budget
    sizes = foreseen_sizes(budget, size, setup.ends.max_steps)
    power = 2 if budget.unit == "neurons" else 1
    first_work = step_work(network, x, min(setup.settings.batch_size, len(x)))
    first_params = count_parameters(network)
    scale(network, x[:PROBE], first_params * (sizes[-1] / size) ** power, setup.ties)
    last_work = step_work(network, x, min(setup.settings.batch_size, len(x)))
    if rounds.by_work:
        work = rounds.foreseen.work
    else:
        work = rounds.num_steps * first_work * sum((each / size) ** power for each in sizes)
    per_step = _seconds_a_step(setup, network)
    return Foresight(
        rounds=len(sizes),
        params=count_parameters(network),
        work=work,
        seconds=per_step * work / last_work if last_work else 0.0,
    )


def _seconds_a_step(setup: GrowthSetup, network: nn.Module) -> float:
    settings, data = setup.settings, setup.data.train
    step = Step(network, make_optimizer(network, settings), settings)
    loss = settings.loss_for(data.y)
    batch = data.x[: settings.batch_size], data.y[: settings.batch_size]
    network.train()
    started = time.perf_counter()
    for number in range(1 + NUM_TIMED):
        if number == 1:
            started = time.perf_counter()
        step(number, settings.learning_rate, lambda x, y: loss(output_of(network(x)), y), *batch)
    return (time.perf_counter() - started) / NUM_TIMED
