"""What a guard costs: guarded steps against plain ones in one run, and block updates against one-by-one updates.

CPU milliseconds, the least of several repeats in turns, so that a shared machine disturbs little. A step is forward,
backward, guard and optimizer on one child of ``Cells64`` (16 channels, batch 64, 16 x 16 images); every guard has
remembered all the children that are timed, and remembers after each step, as in Algorithm 1 of the disturbance-immune
paper. Or on a transformer of torch's own layers, all of which are covered, by AdamW; there the guard has remembered a
task, and the next is trained, as in fine-tuning.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.rows import Row
from benchmarks.timing import keep_memory
from ramet.guards import (
    ElasticConsolidation,
    Guard,
    NoGuard,
    OrthogonalProjection,
    UncoveredWarning,
    WeightPlasticity,
    step_sizes,
)
from ramet.guards.closing import close_one_by_one
from ramet.guards.projectors import MatrixProjector, close_matrices
from ramet.params import named_params
from ramet.spaces import Cells64

CHILDREN, BATCH, IMAGE, REPEATS = ("111", "222", "434"), 64, 16, 20
TRANSFORMER_REPEATS = 60
"""A step of 50 ms meets a quiet moment less often: the least of ten still varied by a tenth."""
LIMITS: dict[str, tuple[Callable[[], Guard], float]] = {
    "plasticity": (lambda: WeightPlasticity(eta=0.9, towards="mean"), 1.05),
    "plasticity, explicit": (lambda: WeightPlasticity(eta=0.9, towards="mean", form="explicit"), 1.05),
    "elastic": (ElasticConsolidation, 1.05),
    "projection, mean inputs": (lambda: OrthogonalProjection(inputs="mean"), 1.20),
}
SAMPLES = 256
WORDS, LENGTH, WIDTH, LAYERS, SENTENCES = 500, 32, 128, 2, 32
"""Of the transformer: its vocabulary, words in a sentence, width, encoder layers, and sentences in a mini-batch."""
TRANSFORMER_LIMITS: dict[str, tuple[Callable[[], Guard], float]] = {
    "plasticity": (WeightPlasticity, 1.05),
    "elastic": (ElasticConsolidation, 1.05),
    "projection, all inputs": (lambda: OrthogonalProjection(unit="energy"), 1.50),
}


def run() -> list[Row]:
    torch.set_num_threads(1)
    keep_memory()
    return [*step_rows(), *transformer_rows(), *block_rows()]


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


class Transformer(nn.Module):
    """An embedding, torch's encoder layers, and a head for each of two tasks."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        layers = [nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True) for _ in range(LAYERS)]
        self.layers = nn.Sequential(*layers)
        self.heads = nn.ModuleList([nn.Linear(WIDTH, 10), nn.Linear(WIDTH, 10)])

    def forward(self, x: Tensor, task: int) -> Tensor:
        """Logits, [batch, classes]."""
        logits: Tensor = self.heads[task](self.layers(self.words(x)).mean(1))
        return logits


class TransformerLoop:
    """The training of a second task, under a guard that remembers the first."""

    def __init__(self, guard: Guard) -> None:
        generator = torch.Generator().manual_seed(0)
        torch.manual_seed(0)
        self.guard, self.network = guard, Transformer()
        self.params = named_params(self.network)
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=1e-3)
        self.sizes = step_sizes(self.optimizer, self.params)
        self.x = torch.randint(WORDS, (SENTENCES, LENGTH), generator=generator)
        self.y = torch.randint(10, (SENTENCES,), generator=generator)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UncoveredWarning)  # all layers are covered, or there is nothing to compare
            with guard.watch(self.network):
                cross_entropy(self.network(self.x, 0), self.y).backward()
            guard.remember(self.params)

    def step(self, _: str) -> None:
        self.optimizer.zero_grad()
        cross_entropy(self.network(self.x, 1), self.y).backward()
        with self.guard.step(self.params, self.sizes):
            self.optimizer.step()


def step_rows() -> list[Row]:
    """A guarded step over a plain one, summed over a few children."""
    loops = {"none": Loop(NoGuard(), BATCH, IMAGE)}
    loops |= {name: Loop(make(), BATCH, IMAGE) for name, (make, _) in LIMITS.items()}
    limits = {name: limit for name, (_, limit) in LIMITS.items()}
    return _compared(loops, CHILDREN, REPEATS, limits, "step", f"children {', '.join(CHILDREN)}, {IMAGE}x{IMAGE}")


def transformer_rows() -> list[Row]:
    """The same on the transformer."""
    loops = {"none": TransformerLoop(NoGuard())}
    loops |= {name: TransformerLoop(make()) for name, (make, _) in TRANSFORMER_LIMITS.items()}
    limits = {name: limit for name, (_, limit) in TRANSFORMER_LIMITS.items()}
    setting = f"{LAYERS} encoder layers of width {WIDTH}, {SENTENCES} x {LENGTH} words, AdamW"
    return _compared(loops, ("second task",), TRANSFORMER_REPEATS, limits, "transformer's step", setting)


def _compared(
    loops: Mapping[str, Loop | TransformerLoop],
    children: Sequence[str],
    repeats: int,
    limits: Mapping[str, float],
    what: str,
    setting: str,
) -> list[Row]:
    """The least time of each loop's steps over that of the loop without a guard, in turns."""
    best = {(name, child): float("inf") for name in loops for child in children}
    for _ in range(repeats + 1):
        for child in children:
            for name, loop in loops.items():
                start = time.process_time()
                loop.step(child)
                best[name, child] = min(best[name, child], 1000 * (time.process_time() - start))
    spent = {name: sum(best[name, child] for child in children) for name in loops}
    return [
        Row(
            name=f"{what} guarded by {name} / plain",
            value=spent[name] / spent["none"],
            limit=limit,
            detail=f"{spent[name]:.0f} / {spent['none']:.0f} CPU-ms, {setting}",
        )
        for name, limit in limits.items()
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
