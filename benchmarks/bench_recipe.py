"""What a recipe costs: a step through it against a loop by hand, augmentation, and data that stay on disk."""

from __future__ import annotations

import itertools
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.bench_memory import resident_bytes, tree
from benchmarks.rows import Row
from benchmarks.timing import cpu_milliseconds, remark_on_others
from ramet.data import load
from ramet.training import Batches, Recipe, Step, fit, make_optimizer
from ramet.training.augmentation import augmentation_of

BATCH, IMAGE = 64, 32
BIG = (28_000, 3, 224, 224)  # 4.2 GB of bytes
LARGE_IMAGES, LARGE_BATCH = 640, 32


def residual_network() -> nn.Module:
    """Some 30 layers of 16 to 64 channels, about the smallest network that people train on CIFAR."""
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    for width, stride in ((16, 1), (32, 2), (64, 2)):
        before = layers[-3].out_channels if isinstance(layers[-3], nn.Conv2d) else width
        for inputs, step in ((before, stride), (width, 1), (width, 1)):
            layers += [nn.Conv2d(inputs, width, 3, step, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def run() -> list[Row]:
    torch.set_num_threads(1)
    residual = step_row("a small residual network", residual_network(), (3, IMAGE, IMAGE))
    return [residual, small_row(), augmentation_row(), *big_rows()]


def step_row(name: str, network: nn.Module, shape: tuple[int, ...]) -> Row:
    x, y = torch.randn(4 * BATCH, *shape), torch.randint(10, (4 * BATCH,))
    recipe = Recipe(optimizer="adamw", learning_rate=1e-3, clip_norm=1.0)
    ours, by_hand = cpu_milliseconds(
        through_recipe(network, x, y, recipe), plain_loop(network, x, y, recipe), repeats=25
    )
    detail = f"{ours:.2f} / {by_hand:.2f} CPU-ms, {name}, batch {BATCH}"
    return Row(name=f"step through the recipe / by hand, {name}", value=ours / by_hand, limit=1.02, detail=detail)


def small_row() -> Row:
    network = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 10)
    )
    row = step_row("a perceptron on digits", network, (1, 8, 8))
    return Row(
        name=row.name, value=row.value, limit=1.25, detail=row.detail + "; a step of 0.3 ms has nothing to hide in"
    )


def through_recipe(network: nn.Module, x: Tensor, y: Tensor, recipe: Recipe) -> Callable[[], object]:
    step, batches = Step(network, make_optimizer(network, recipe), recipe), Batches(len(x), BATCH, seed=0)
    loss, numbers = recipe.loss_for(y), itertools.count()

    def once() -> None:
        number = next(numbers)
        batch = recipe.batch(x, y, batches[number], seed=0, step=number)
        step(number, recipe.learning_rate_at(number % 1000, 1000), lambda x, y: loss(network(x), y), *batch)

    return once


def plain_loop(network: nn.Module, x: Tensor, y: Tensor, recipe: Recipe) -> Callable[[], object]:
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=recipe.weight_decay, foreach=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1000)
    generator, rows = torch.Generator().manual_seed(0), iter(())

    def once() -> None:
        nonlocal rows
        chosen = next(rows, None)
        if chosen is None:
            rows = iter(torch.randperm(len(x), generator=generator).split(BATCH))
            chosen = next(rows)
        loss = cross_entropy(network(x[chosen]), y[chosen])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        loss.item()

    return once


def augmentation_row() -> Row:
    network, recipe = residual_network(), Recipe()
    x, y = torch.randn(4 * BATCH, 3, IMAGE, IMAGE), torch.randint(10, (4 * BATCH,))
    change, generator = augmentation_of("crop:4+flip+cutout:16"), torch.Generator().manual_seed(0)
    step, augmented = cpu_milliseconds(
        through_recipe(network, x, y, recipe), lambda: change(x[:BATCH], y[:BATCH], generator), repeats=25
    )
    detail = f"{augmented:.2f} of {step:.2f} CPU-ms, crop, flip and cutout of {BATCH} images of {IMAGE}x{IMAGE}"
    return Row(name="augmentation / step", value=augmented / step, limit=0.05, detail=detail)


def big_rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        return [memory_row(Path(folder)), busy_row(Path(folder))]


def memory_row(folder: Path) -> Row:
    """Training over a file of more than 4 GB that is mapped, and what it takes of memory."""
    images = np.lib.format.open_memmap(folder / "x.npy", mode="w+", dtype=np.uint8, shape=BIG)
    generator = np.random.default_rng(0)
    for start in range(0, BIG[0], 500):
        images[start : start + 500] = generator.integers(0, 256, (1, *BIG[1:]), dtype=np.uint8)
    images.flush()
    del images
    np.save(folder / "y.npy", np.arange(BIG[0]) % 10)
    data = load(folder, in_memory=False)
    network = nn.Sequential(nn.AvgPool2d(32), nn.Flatten(), nn.Linear(3 * 49, 10))
    peak = 0

    def look(step: int, loss: float) -> None:
        nonlocal peak
        peak = max(peak, sum(anonymous_bytes(pid) for pid in tree(os.getpid())))

    fit(network, data.train.x, data.train.y, Recipe(epochs=1, batch_size=64), seed=0, after_step=look, stop_after=250)
    size = os.path.getsize(folder / "x.npy") / 1e9
    detail = f"250 steps of 64 images over {size:.1f} GB; pages of the file itself not counted"
    return Row(name="memory of a training on a mapped file", value=peak / 1e9, limit=1.5, unit=" GB", detail=detail)


def anonymous_bytes(pid: int) -> int:
    """What a process holds besides pages of files, which the system drops when it needs them."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return 1024 * int(line.split()[1])
    return resident_bytes(pid)


def busy_row(folder: Path) -> Row:
    """The share of the time that a trainer computes, while four processes read images of 224x224 from class folders."""
    from PIL import Image

    generator = np.random.default_rng(0)
    for number in range(LARGE_IMAGES):
        place = folder / "images" / f"class {number % 4}"
        place.mkdir(parents=True, exist_ok=True)
        coarse = generator.integers(0, 256, (14, 14, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((224, 224)).save(place / f"{number}.jpg", quality=90)
    data = load(folder / "images", in_memory=False, readers=4)
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Conv2d(64, 128, 3, 2, 1), nn.ReLU(),
        nn.Conv2d(128, 256, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 4),
    )  # fmt: skip
    recipe = Recipe(epochs=2, batch_size=LARGE_BATCH)
    marks: list[float] = []
    fit(network, data.train.x, data.train.y, recipe, seed=0, after_step=lambda *_: marks.append(time.perf_counter()))
    x, y = data.train.x[:LARGE_BATCH], data.train.y[:LARGE_BATCH]
    step = Step(network, make_optimizer(network, recipe), recipe)
    alone = []
    for _ in range(5):
        start = time.perf_counter()
        step(0, 0.01, lambda x, y: cross_entropy(network(x), y), x, y)
        alone.append(time.perf_counter() - start)
    gaps = sorted(after - before for before, after in itertools.pairwise(marks))
    fed = gaps[len(gaps) // 2]
    detail = f"{1000 * min(alone):.0f} ms a step alone, {1000 * fed:.0f} ms in the training{remark_on_others()}"
    return Row(
        name="trainer busy, 224x224 from folders", value=min(alone) / fed, limit=0.9, at_least=True, detail=detail
    )
