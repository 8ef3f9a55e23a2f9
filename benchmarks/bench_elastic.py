"""What a step of a sandwich costs by the sum of what its parts cost, each as a network of its own."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.backbone_network import IMAGE, ResNet
from benchmarks.rows import Row
from benchmarks.timing import cpu_milliseconds
from ramet.spaces import elastic
from ramet.training import Recipe, Step, make_optimizer

BATCH, WIDTHS = 64, (0.25, 0.5, 0.75, 1.0)


def run() -> list[Row]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    x, y = torch.randn(BATCH, 3, IMAGE, IMAGE), torch.randint(10, (BATCH,))
    space = elastic(ResNet().eval(), x[:4], widths=WIDTHS)
    recipe = Recipe(optimizer="adamw", learning_rate=1e-4)
    of_outputs, supernet = recipe.loss_for(y), space.supernet(3, 10)
    archs = (space.whole, space.smallest, space.parse("width=0.5"))
    steps = [_step(supernet, recipe, lambda x, y: space.sandwich.loss(supernet, x, y, archs, of_outputs), x, y)]
    for arch in archs:
        child = supernet.child(arch).train()
        steps.append(_step(child, recipe, lambda x, y, own=child: of_outputs(own(x), y), x, y))
    sandwich, *parts = cpu_milliseconds(*steps)
    detail = (
        f"{sandwich:.1f} / ({' + '.join(f'{part:.1f}' for part in parts)}) CPU-ms, a residual network, batch {BATCH}"
    )
    # Each part alone takes an optimizer's step of its own; the sandwich one, and copies of gradients into the whole.
    return [Row(name="step of a sandwich / its parts", value=sandwich / sum(parts), limit=1.2, detail=detail)]


def _step(module: nn.Module, recipe: Recipe, loss: Callable[..., Tensor], x: Tensor, y: Tensor) -> Callable[[], object]:
    step = Step(module, make_optimizer(module, recipe), recipe)
    return lambda: step(0, recipe.learning_rate, loss, x, y)
