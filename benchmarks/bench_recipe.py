"""What a recipe costs: a step through it against a loop by hand, and augmentation."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.rows import Row
from benchmarks.timing import cpu_milliseconds, keep_memory
from ramet.training import Batches, Recipe, Step, make_optimizer
from ramet.training.augmentation import augmentation_of

BATCH, IMAGE = 64, 32


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
    keep_memory()
    residual = step_row("a small residual network", residual_network(), (3, IMAGE, IMAGE))
    return [residual, small_row(), augmentation_row()]


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
