"""What comparing layers costs, in CPU milliseconds, beside rsatoolbox, which gets float64, as it works in."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from benchmarks.rows import Row
from benchmarks.timing import cpu_milliseconds
from ramet.continual.methods.bind_and_grow.similarity import dissimilarity_matrix

NARROW, WIDE = (1000, 512), (500, 53_824)


def run() -> list[Row]:
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    x, wide = (torch.randn(shape, generator=generator) for shape in (NARROW, WIDE))
    theirs, note = _theirs(x)
    ours = cpu_milliseconds(lambda: dissimilarity_matrix(x))[0]
    wide_theirs, wide_note = _theirs(wide)
    wide_ours = cpu_milliseconds(lambda: dissimilarity_matrix(wide), repeats=3)[0]
    return [
        Row(
            name="dissimilarity matrix 1000 x 512: rsatoolbox / ramet",
            value=theirs / ours,
            limit=10,
            at_least=True,
            detail=f"{theirs:.0f} / {ours:.1f} CPU-ms{note}",
        ),
        Row(
            name="dissimilarity matrix 500 x 53,824: ramet / rsatoolbox",
            value=wide_ours / wide_theirs,
            limit=0.3,
            detail=f"{wide_ours:.0f} / {wide_theirs:.0f} CPU-ms{wide_note}",
        ),
    ]


def _theirs(x: torch.Tensor) -> tuple[float, str]:
    """rsatoolbox' time for a matrix, and a note; checks that both give the same matrix."""
    from rsatoolbox.data import Dataset
    from rsatoolbox.rdm import calc_rdm

    dataset = Dataset(x.double().numpy())
    difference = abs(calc_rdm(dataset, method="correlation").get_matrices()[0] - dissimilarity_matrix(x).numpy()).max()
    if difference > 1e-6:
        raise AssertionError(f"the matrices must agree to 1e-6, but differ by {difference:.1e}.")
    spent = min(_once(lambda: calc_rdm(dataset, method="correlation")) for _ in range(5 if len(x[0]) < 1000 else 1))
    return spent, f", largest difference {difference:.0e}"


def _once(function: Callable[[], object]) -> float:
    start = time.process_time()
    function()
    return 1000 * (time.process_time() - start)
