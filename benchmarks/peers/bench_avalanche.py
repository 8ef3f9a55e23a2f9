"""Elastic consolidation beside Avalanche's EWC: the same network, images and mini-batches, and CPU time a step."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from benchmarks.rows import Row
from ramet.guards import ElasticConsolidation, Guard, NoGuard
from ramet.params import named_params
from ramet.spaces import Cells64

BATCH, STEPS, RATE = 64, 8, 0.025
Maker = Callable[[], nn.Module]


def run() -> list[Row]:
    torch.set_num_threads(1)
    return [
        # Convolutions are nearly all of this step: whoever guards them cheaply enough is level.
        compared("child 434, C 16, 16x16", child, (3, 16, 16), repeats=4, limit=1.05),
        compared("MLP 64-100-100-10", mlp, (64,), repeats=30, limit=1.0),
    ]


def compared(name: str, make: Maker, shape: tuple[int, ...], *, repeats: int, limit: float) -> Row:
    """The CPU time of a guarded step, over Avalanche's; what guarding costs each stands beside it."""
    contenders = {
        "plain": Ours(NoGuard(), make, shape),
        "elastic": Ours(ElasticConsolidation(), make, shape),
        "naive": Avalanche(make, shape, guarded=False),
        "ewc": Avalanche(make, shape, guarded=True),
    }
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(repeats):  # in turns, so that a change of the machine's load meets all alike
        for key, contender in contenders.items():
            start = time.process_time()
            contender.train()
            best[key] = min(best[key], 1000 * (time.process_time() - start) / STEPS)
    detail = (
        f"{best['elastic']:.2f} / {best['ewc']:.2f} CPU-ms; guarding costs {best['elastic'] / best['plain']:.2f} / "
    )
    detail += f"{best['ewc'] / best['naive']:.2f} times unguarded, batch {BATCH}"
    return Row(
        name=f"elastic / Avalanche's EWC, {name}", value=best["elastic"] / best["ewc"], limit=limit, detail=detail
    )


def images(shape: tuple[int, ...], seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    count = BATCH * STEPS
    return torch.randn(count, *shape, generator=generator), torch.randint(10, (count,), generator=generator)


def child() -> nn.Module:
    """The same plain module for everyone; contiguous, because Avalanche's loader gives contiguous batches."""
    torch.manual_seed(0)
    space = Cells64(channels=16, num_cells=4)
    return space.supernet(in_channels=3, num_classes=10).child(space.parse("434"))


def mlp() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 10))


class Ours:
    """A loop of one's own with a guard that remembers one task."""

    def __init__(self, guard: Guard, make: Maker, shape: tuple[int, ...]) -> None:
        self.guard, self.network = guard, make()
        self.params = named_params(self.network)
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=RATE, momentum=0.9)
        x, y = images(shape, 0)
        with self.guard.watch(self.network):
            cross_entropy(self.network(x[:BATCH]), y[:BATCH]).backward()
        self.guard.remember(self.params)
        self.x, self.y = images(shape, 1)

    def train(self) -> None:
        for rows in torch.arange(len(self.x)).split(BATCH):
            self.optimizer.zero_grad()
            cross_entropy(self.network(self.x[rows]), self.y[rows]).backward()
            with self.guard.step(self.params, RATE):
                self.optimizer.step()


class Avalanche:
    """Avalanche's loop on the second of two tasks, with or without its EWC.

    Its training of a task ends with the Fisher information of that task, which is not part of a step: the plugin's
    hook for it is taken out once the first task is remembered.
    """

    def __init__(self, make: Maker, shape: tuple[int, ...], *, guarded: bool) -> None:
        _let_torchvision_import()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from avalanche.benchmarks.scenarios.deprecated.generators import tensors_benchmark
            from avalanche.training.plugins import EvaluationPlugin, EWCPlugin
            from avalanche.training.supervised import Naive

            silent = EvaluationPlugin()
        net = make()
        plugin = EWCPlugin(ewc_lambda=1.0)
        self.strategy = Naive(
            model=net,
            optimizer=torch.optim.SGD(net.parameters(), lr=RATE, momentum=0.9),
            criterion=nn.CrossEntropyLoss(),
            train_mb_size=BATCH,
            train_epochs=1,
            evaluator=silent,
            plugins=[plugin] if guarded else [],
        )
        tasks = tensors_benchmark([images(shape, 0), images(shape, 1)], [images(shape, 2)], task_labels=[0, 0])
        first, self.second = tasks.train_stream
        self.strategy.train(first)
        plugin.after_training_exp = lambda *arguments, **options: None

    def train(self) -> None:
        self.strategy.train(self.second)


def _let_torchvision_import() -> None:
    """Avalanche imports torchvision, whose operators are compiled for another build of torch: declare the two it asks
    for while it is imported. None of them is called here."""
    if hasattr(torch.ops.torchvision, "nms"):
        return
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _DECLARED.append(library)


_DECLARED: list[torch.library.Library] = []
