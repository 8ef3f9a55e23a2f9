"""What a guard costs: guarded steps against plain ones in one run, and block updates against one-by-one updates.

CPU milliseconds, the least of several repeats in turns, so that a shared machine disturbs little. A step is forward,
backward, guard and optimizer on one child of ``Cells64`` (16 channels, batch 64, 16 x 16 images); every guard has
remembered all the children that are timed, and remembers after each step, as in Algorithm 1 of the disturbance-immune
paper.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch.nn.functional import cross_entropy

from benchmarks.rows import Row
from ramet.guards import (
    ElasticConsolidation,
    Guard,
    NoGuard,
    OrthogonalProjection,
    WeightPlasticity,
)
from ramet.guards.closing import close_one_by_one
from ramet.guards.projectors import MatrixProjector, close_matrices
from ramet.params import named_params
from ramet.spaces import Cells64

CHILDREN, BATCH, IMAGE, REPEATS = ("111", "222", "434"), 64, 16, 10
LIMITS: dict[str, tuple[Callable[[], Guard], float]] = {
    "plasticity": (lambda: WeightPlasticity(eta=0.9, towards="mean"), 1.10),
    "plasticity, explicit": (lambda: WeightPlasticity(eta=0.9, towards="mean", form="explicit"), 1.10),
    "elastic": (ElasticConsolidation, 1.10),
    "projection, mean inputs": (lambda: OrthogonalProjection(inputs="mean"), 1.50),
}
SAMPLES = 256


def run() -> list[Row]:
    torch.set_num_threads(1)
    return [*step_rows(), *block_rows()]


class Loop:
    """A training loop of one guard on a supernet of its own."""

    def __init__(self, guard: Guard, batch: int, image: int) -> None:
        generator = torch.Generator().manual_seed(0)
        torch.manual_seed(0)
        self.space = Cells64(channels=16, num_cells=4)
        self.guard = guard
        self.network = self.space.supernet(in_channels=3, num_classes=10).to(memory_format=torch.channels_last)
        self.params = named_params(self.network)
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.025, momentum=0.9, weight_decay=1e-3)
        x = torch.randn(batch, 3, image, image, generator=generator)
        self.x = x.contiguous(memory_format=torch.channels_last)
        self.y = torch.randint(10, (batch,), generator=generator)

    def step(self, child: str) -> None:
        self.optimizer.zero_grad()
        with self.guard.watch(self.network):
            cross_entropy(self.network(self.x, self.space.parse(child)), self.y).backward()
        with self.guard.step(self.params, 0.025):
            self.optimizer.step()
        self.guard.remember(self.params)


def step_rows() -> list[Row]:
    """A guarded step over a plain one, summed over a few children."""
    loops = {"none": Loop(NoGuard(), BATCH, IMAGE)}
    loops |= {name: Loop(make(), BATCH, IMAGE) for name, (make, _) in LIMITS.items()}
    best = {(name, child): float("inf") for name in loops for child in CHILDREN}
    for _ in range(REPEATS + 1):
        for child in CHILDREN:
            for name, loop in loops.items():
                start = time.process_time()
                loop.step(child)
                best[name, child] = min(best[name, child], 1000 * (time.process_time() - start))
    spent = {name: sum(best[name, child] for child in CHILDREN) for name in loops}
    return [
        Row(
            name=f"step guarded by {name} / plain",
            value=spent[name] / spent["none"],
            limit=limit,
            detail=f"{spent[name]:.0f} / {spent['none']:.0f} CPU-ms, children {', '.join(CHILDREN)}, {IMAGE}x{IMAGE}",
        )
        for name, (_, limit) in LIMITS.items()
    ]


def block_rows() -> list[Row]:
    """All projections of Cells64 closed sample by sample, over closed in one block."""
    memory = OrthogonalProjection().memory_of(Cells64().supernet(in_channels=3, num_classes=10))
    generator = torch.Generator().manual_seed(0)
    shapes = [(layer.product.groups, layer.product.width, SAMPLES) for layer in memory.layers]
    inputs = [torch.randn(shape, generator=generator) for shape in shapes]
    singly, together = float("inf"), float("inf")
    for _ in range(3):
        start = time.process_time()
        for x in inputs:
            close_one_by_one(torch.eye(x.shape[1]).expand(x.shape[0], -1, -1), x, 1.0)
        middle = time.process_time()
        projectors = [MatrixProjector(1.0, mean=False) for _ in inputs]
        for projector, x in zip(projectors, inputs, strict=True):
            projector.gather(x)
        close_matrices(projectors, 1.0, None)
        singly, together = min(singly, middle - start), min(together, time.process_time() - middle)
    return [
        Row(
            name="projection one by one / in blocks",
            value=singly / together,
            limit=20,
            at_least=True,
            detail=f"{1000 * singly:.0f} / {1000 * together:.0f} CPU-ms, {len(shapes)} layers, {SAMPLES} samples",
        )
    ]
