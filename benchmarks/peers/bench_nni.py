"""A single-path training step beside NNI 3.0's: the same cell, channels, depth, images and mini-batch, CPU time.

Ours is a path of the supernet, with all its other weights beside it; NNI's is the same cell frozen, which has no other
weights and none of the work of choosing a path. So NNI is spared what its own single-path training adds.
"""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.bench_steps import stepper
from benchmarks.rows import Row
from benchmarks.timing import cpu_milliseconds
from ramet.costs import count_flops
from ramet.spaces import Darts, NasBench201, Space
from ramet.spaces.darts.genotypes import DARTS_V2

BATCH, IMAGE, CHANNELS, LIMIT = 64, 32, 16, 0.7
CELL = "|nor_conv_3x3~0|+|skip_connect~0|nor_conv_3x3~1|+|nor_conv_1x1~0|avg_pool_3x3~1|nor_conv_3x3~2|"
"""Every operation of NAS-Bench-201 but none."""


def run() -> list[Row]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    benchmark, darts = NasBench201(CHANNELS, 5), Darts(CHANNELS, 8)
    return [
        _compare("NAS-Bench-201, 15 cells", benchmark, CELL, nasbench201_of(benchmark)),
        _compare("DARTS_V2, 8 cells", darts, DARTS_V2, darts_of(darts)),
    ]


def nasbench201_of(space: NasBench201) -> nn.Module:
    """NNI's network of the same cell."""
    from nni.nas.hub.pytorch import NasBench201 as Theirs

    edges = [(start, end) for end in range(1, 4) for start in range(end)]
    names = [part.split("~")[0].replace("nor_", "") for part in CELL.replace("+", "").split("|") if part]
    sample = {f"cell/{start}_{end}": name for (start, end), name in zip(edges, names, strict=True)}
    network: nn.Module = Theirs.frozen_factory(sample)(space.channels, space.cells_per_stage, 10)
    return network


def darts_of(space: Darts) -> nn.Module:
    """NNI's network of the same genotype."""
    from nni.nas.hub import pytorch as hub

    sample: dict[str, object] = {}
    for cell, nodes in zip(("normal", "reduce"), space.cells(space.parse(DARTS_V2)), strict=True):
        for number, node in enumerate(nodes, start=2):
            for place, (operation, start) in enumerate(node):
                sample[f"{cell}/op_{number}_{place}"] = space.operations[operation]
                sample[f"{cell}/input_{number}_{place}"] = [start]
    network: nn.Module = hub.DARTS.frozen_factory(sample)(
        width=space.channels, num_cells=space.num_cells, dataset="cifar"
    )
    return network


def _compare(name: str, space: Space, text: str, theirs: nn.Module) -> Row:
    arch = space.parse(text)
    supernet = space.supernet(in_channels=3, num_classes=10)
    shape = (3, IMAGE, IMAGE)
    work = count_flops(supernet, shape, arch), count_flops(theirs, shape)
    assert abs(work[0] / work[1] - 1) < 0.01, f"equal work is compared, but the multiply-adds are {work}"
    x, y = torch.randn(BATCH, *shape), torch.randint(10, (BATCH,))
    ours, nni = cpu_milliseconds(stepper(supernet, x, y, arch), stepper(theirs, x, y), repeats=5)
    detail = f"{ours:.0f} / {nni:.0f} CPU-ms, C {CHANNELS}, {IMAGE}x{IMAGE}, batch {BATCH}, {work[0] / 1e6:.1f} M each"
    return Row(name=f"single-path step / NNI's, {name}", value=ours / nni, limit=LIMIT, detail=detail)
