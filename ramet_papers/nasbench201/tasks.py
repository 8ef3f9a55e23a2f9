"""The work of the judged searches, as tasks that give JSON values; none of them sees the table."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ramet.ranking.instance import load_network, train_instance
from ramet.ranking.scores.jacobian import JacobianCovariance
from ramet.ranking.scores.synflow import Synflow
from ramet.ranking.setup import SupernetSetup
from ramet.runs.encoding import Json
from ramet.searching.costs import ArchCosts
from ramet.searching.final import train_final
from ramet.searching.measures import measure
from ramet.searching.strategies import STRATEGIES, make_strategy
from ramet.seeding import derive_seed
from ramet.spaces import Arch, Space

Objective = tuple[Space, Callable[[Arch], float]]
"""A space, and the reward of each of its architectures."""

OPTIONS: dict[str, dict[str, Any]] = {
    "random": {},
    "evolution": {},
    "enas": {},
    # The reference's 600 random seeds are more than all 500 queries: a sixth of them instead. The model goes on from
    # its last training, so that few passes over few observations are enough; they are nearly all that NAO costs.
    "nao": {"num_seeds": 100, "epochs": 30, "train_every": 100},
}
BATCHES = {"random": 10, "evolution": 10, "enas": 1, "nao": 50}
"""Architectures a turn. The controller takes a step for each one, as Algorithm 1 of *Disturbance-immune* does."""


def find_best(objective: Objective, name: str, *, seed: int, num_queries: int, **options: Any) -> tuple[Arch, float]:
    """The architecture of the highest reward among the queries of one search, and that reward.

    A repeated architecture is a query too. Of equal rewards the first counts.
    """
    space, reward = objective
    strategy = make_strategy(name, space, seed=seed, **(OPTIONS[name] | options))
    best, highest, left = space[0], -np.inf, num_queries
    while left > 0:
        archs = strategy.propose(min(BATCHES[name], left))
        rewards = [reward(arch) for arch in archs]
        strategy.observe(archs, rewards)
        left -= len(archs)
        if max(rewards) > highest:
            highest = max(rewards)
            best = archs[rewards.index(highest)]
    return best, float(highest)


def count_costs(setup: SupernetSetup) -> Json:
    """Costs of architectures that differ from the first one in one decision; for each cost a list a decision.

    Each decision of NAS-Bench-201 adds its own share of ``parameters`` and ``flops``, whatever the others are, so that
    25 architectures are counted instead of 15,625.
    """
    space, first = setup.space, setup.space[0]
    costs = ArchCosts(space, setup.data.train.x.shape[1:], setup.data.num_classes)
    return {
        name: [
            [costs(short, (*first[:place], option, *first[place + 1 :])) for option in range(options)]
            for place, options in enumerate(space.num_options)
        ]
        for name, short in (("parameters", "params"), ("flops", "flops"))
    }


def score_free(setup: SupernetSetup, *, scored: Sequence[int], num_inputs: int, seed: int) -> Json:
    """The training-free scores of some architectures, each a path of one untrained supernet.

    Jacobians are taken at the first ``num_inputs`` training images; the seed is that of the weights.

    Returns:
        ``synflow`` and ``jacobian`` [scored], and the CPU seconds of each under ``seconds``.
    """
    network = setup.new_supernet(seed, "training-free")
    images = setup.data.train.x[:num_inputs]
    archs = [setup.space[index] for index in scored]
    start = time.process_time()
    flow = Synflow(network, images.shape[1:])
    flows = [flow(arch) for arch in archs]
    between = time.process_time()
    jacobian = JacobianCovariance(network, images)
    jacobians = [jacobian(arch) for arch in archs]
    seconds = {"synflow": between - start, "jacobian": time.process_time() - between}
    return {"synflow": flows, "jacobian": jacobians, "seconds": seconds}


def train_and_search(
    setup: SupernetSetup,
    *,
    name: str,
    guard: str,
    seed: int,
    scored: Sequence[int],
    num_queries: int,
    strategy_options: dict[str, Json],
) -> Json:
    """Train one supernet, score architectures with it, and let every strategy search on it.

    Each mini-batch trains an architecture drawn uniformly. The weights then stay as they are, so that an
    architecture has one score: its accuracy on the validation split with the batch norms' statistics of that split.
    A strategy's find is the best score among its queries.

    Returns:
        ``scores`` [scored], ``found`` (for each strategy the index of its find), the mean training ``loss`` of the last
        epoch, and CPU ``seconds`` of the training, of the scoring and of each strategy. Seconds of a training that was
        killed and gone on with are those of its last part.
    """
    arguments: Json = {
        "name": name,
        "trained": None,
        "scored": [],
        "order": "uniform",
        "guard": guard,
        "num_shared_cells": None,
        **{f"{role}_seed": derive_seed(seed, role) for role in ("weights", "order", "batches")},
        "last_epochs": 0,
        "last_steps": 0,
    }
    start = time.process_time()
    trained = train_instance(setup, **arguments)
    network = load_network(setup, arguments)
    seconds = {"training": time.process_time() - start}
    space, data = setup.space, setup.data.validation
    known: dict[Arch, float] = {}

    def reward(arch: Arch) -> float:
        if arch not in known:
            accuracy = measure(network, arch, data.x, data.y, batch_norm="batch").reward
            known[arch] = accuracy if accuracy == accuracy else 0.0  # a child that gives NaN is worth nothing
        return known[arch]

    found = {}
    for strategy in STRATEGIES:
        known.clear()  # each strategy pays for its own queries
        start = time.process_time()
        options = strategy_options.get(strategy, {})
        arch, _ = find_best(
            (space, reward), strategy, seed=derive_seed(seed, strategy), num_queries=num_queries, **options
        )
        found[strategy] = space.index(arch)
        seconds[strategy] = time.process_time() - start
    start = time.process_time()
    scores = [reward(space[index]) for index in scored]
    seconds["scoring"] = time.process_time() - start
    return {"scores": scores, "found": found, "loss": trained["loss"][-1], "seconds": seconds}


def train_alone(setup: SupernetSetup, *, arch: list[int], seed: int, epochs: int) -> Json:
    """One architecture trained from scratch: its ``accuracy`` on the validation split, and CPU ``seconds``."""
    start = time.process_time()
    result = train_final(setup, arch=arch, seed=seed, epochs=epochs)
    return {"accuracy": 1 - result["validation"], "seconds": time.process_time() - start}
