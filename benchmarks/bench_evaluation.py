"""Evaluating all 64 children on one batch: their common prefixes once, against one child after the other."""

from __future__ import annotations

import torch

from benchmarks.rows import Row
from benchmarks.timing import cpu_milliseconds
from ramet.spaces import Cells64

CHANNELS, NUM_CELLS, IMAGE, BATCH = 16, 4, 32, 16


def run() -> list[Row]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    space = Cells64(CHANNELS, NUM_CELLS)
    net = space.supernet(in_channels=3, num_classes=10).eval()
    archs = list(space)
    x = torch.randn(BATCH, 3, IMAGE, IMAGE)

    def at_once() -> None:
        for _ in net.forward_all(x, archs):
            pass

    def one_by_one() -> None:
        for arch in archs:
            net(x, arch)

    with torch.no_grad():
        ours, theirs = cpu_milliseconds(at_once, one_by_one, repeats=3)
    detail = f"{ours:.0f} / {theirs:.0f} CPU-ms, C {CHANNELS}, {NUM_CELLS} cells, {IMAGE}x{IMAGE}, batch {BATCH}"
    return [Row(name="64 children at once / one by one", value=ours / theirs, limit=0.75, detail=detail)]
