"""A growth step of an MLP 64-16-16-10 on digits beside GroMo's: the same data, eight new neurons, CPU time.

GroMo takes its statistics from the whole training set; Firefly trains its candidates on an eighth of it, its default.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import nn

from benchmarks import bench_growth
from benchmarks.rows import Row
from ramet.data import load
from ramet.growth import Budget, make_method

NUM_NEW, BATCH, REPEATS = 8, 64, 100


def run() -> list[Row]:
    torch.set_num_threads(1)
    train = load("digits").train
    x, y = train.x.flatten(1), train.y
    best = {"ours": float("inf"), "gromo": float("inf")}
    for _ in range(REPEATS):  # in turns, so that a change of the machine's load meets both alike
        for name, step in (("ours", ours(x, y)), ("gromo", gromo(x, y))):
            start = time.process_time()
            step()
            best[name] = min(best[name], 1000 * (time.process_time() - start))
    detail = f"{best['ours']:.0f} / {best['gromo']:.0f} CPU-ms, {len(x):,} images in mini-batches of {BATCH}"
    name = "Firefly step / GroMo's, MLP 64-16-16-10 + 8"
    return [Row(name=name, value=best["ours"] / best["gromo"], limit=1.0, detail=detail)]


def ours(x: torch.Tensor, y: torch.Tensor) -> Callable[[], object]:
    network = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 10))
    method = make_method("firefly", num_new=NUM_NEW)
    return lambda: bench_growth.grow(network, x, y, Budget("neurons", 1e9, float(NUM_NEW)), method)


def gromo(x: torch.Tensor, y: torch.Tensor) -> Callable[[], object]:
    """Its own sequence: statistics over the data, the best new neurons of each layer, the best layer, the change."""
    from gromo.containers.growing_mlp import GrowingMLP

    network = GrowingMLP(64, 10, 16, 2, activation=nn.ReLU(), device=torch.device("cpu"))

    def step() -> None:
        network.set_growing_layers("all")
        network.init_computation()
        for inputs, targets in zip(x.split(BATCH), y.split(BATCH), strict=True):
            network.zero_grad()
            nn.functional.cross_entropy(network(inputs), targets, reduction="sum").backward()
            network.update_computation()
        network.compute_optimal_updates(maximum_added_neurons=NUM_NEW)
        network.reset_computation()
        network.select_best_update()
        network.set_scaling_factor(1.0)
        network.apply_change()

    return step
