"""What a guard costs: guarded steps against plain ones in one run, and block updates against one-by-one updates.

``OMP_NUM_THREADS=1 python -m benchmarks.bench_guards`` prints CPU milliseconds, the least of several repeats in turns,
so that a shared machine disturbs little. A step is forward, backward, guard and optimizer on one child of ``Cells64``
(16 channels, batch 64, 16 x 16 images); every guard has remembered all the children that are timed, and remembers
after each step, as in Algorithm 1 of the disturbance-immune paper.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch.nn.functional import cross_entropy

from ramet.guards import (
    ElasticConsolidation,
    Guard,
    KroneckerPlasticity,
    NoGuard,
    OrthogonalProjection,
    WeightPlasticity,
    chain,
)
from ramet.guards.closing import close_one_by_one
from ramet.guards.projectors import MatrixProjector, close_matrices
from ramet.params import named_params
from ramet.spaces import Cells64

GUARDS: dict[str, tuple[type[Guard] | object, float | None]] = {
    "none": (NoGuard, None),
    "plasticity": (lambda: WeightPlasticity(eta=0.9), 1.10),
    "plasticity, explicit": (lambda: WeightPlasticity(eta=0.9, form="explicit"), 1.10),
    "elastic": (ElasticConsolidation, 1.10),
    "projection, mean inputs": (lambda: OrthogonalProjection(inputs="mean"), 1.50),
    "plasticity and projection": (
        lambda: chain(WeightPlasticity(eta=0.9), OrthogonalProjection(inputs="mean")),
        None,
    ),
    "projection, all inputs": (OrthogonalProjection, None),
    "kronecker": (KroneckerPlasticity, None),
}


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


def time_steps(children: list[str], repeats: int, names: list[str], batch: int, image: int) -> None:
    loops = {name: Loop(GUARDS[name][0](), batch, image) for name in names}  # type: ignore[operator]
    best = {(name, child): float("inf") for name in names for child in children}
    for _ in range(repeats + 1):
        for child in children:
            for name, loop in loops.items():
                start = time.process_time()
                loop.step(child)
                best[name, child] = min(best[name, child], 1000 * (time.process_time() - start))
    print(f"| guard | {' | '.join(f'child {child}' for child in children)} | ratio | limit |")
    print("|---" * (len(children) + 3) + "|")
    plain = sum(best["none", child] for child in children)
    for name in names:
        times = [best[name, child] for child in children]
        limit = GUARDS[name][1]
        cells = " | ".join(f"{value:.1f}" for value in times)
        print(f"| {name} | {cells} | {sum(times) / plain:.3f} | {'' if limit is None else f'{limit:.2f}'} |")


def time_blocks(samples: int, repeats: int) -> None:
    print(f"\n| projections | one by one, {samples} samples | in one block | ratio |\n|---|---|---|---|")
    for width in (16, 48, 145, 433):
        print(_block_row(f"width {width}", [(1, width)], samples, repeats))
    memory = OrthogonalProjection().memory_of(Cells64().supernet(in_channels=3, num_classes=10))
    shapes = [(layer.product.groups, layer.product.width) for layer in memory.layers]
    print(_block_row(f"all {len(shapes)} layers of Cells64", shapes, samples, max(1, repeats // 4)))
    print(f"\nprojections of Cells64 (16 channels, 4 cells): {memory.num_bytes / 2**20:.2f} MiB")


def _block_row(name: str, shapes: list[tuple[int, int]], samples: int, repeats: int) -> str:
    """One row: the same samples closed in projections of some groups and widths, from the identity on."""
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(groups, width, samples, generator=generator) for groups, width in shapes]
    best = [float("inf"), float("inf")]
    for _ in range(repeats + 1):
        start = time.process_time()
        for x in inputs:
            close_one_by_one(torch.eye(x.shape[1]).expand(x.shape[0], -1, -1), x, 1.0)
        middle = time.process_time()
        projectors = [MatrixProjector(1.0, mean=False) for _ in inputs]
        for projector, x in zip(projectors, inputs, strict=True):
            projector.gather(x)
        close_matrices(projectors, 1.0, None)
        best = [min(best[0], middle - start), min(best[1], time.process_time() - middle)]
    return f"| {name} | {1000 * best[0]:.2f} | {1000 * best[1]:.2f} | {best[0] / best[1]:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--children", nargs="+", default=["111", "222", "434"], help="in the space's own notation")
    parser.add_argument("--guards", nargs="+", default=list(GUARDS)[:6], choices=list(GUARDS))
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--image", type=int, default=16)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    names = ["none", *(name for name in arguments.guards if name != "none")]
    time_steps(arguments.children, arguments.repeats, names, arguments.batch, arguments.image)
    time_blocks(256, arguments.repeats)


if __name__ == "__main__":
    main()
