"""NasBench201 against the benchmark's own table and notation."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from ramet.costs import count_flops, count_parameters
from ramet.errors import ConfigError
from ramet.spaces import NasBench201
from ramet.spaces.cells.chain import CellSupernet
from ramet.spaces.cells.nasbench201 import CONV_1X1, CONV_3X3, NONE, SKIP

ALL_NONE = (NONE,) * 6

# Names and parameter counts on CIFAR-10, read from the benchmark's table.
PUBLISHED = {
    "|avg_pool_3x3~0|+|nor_conv_1x1~0|skip_connect~1|+|nor_conv_1x1~0|skip_connect~1|skip_connect~2|": 129306,
    "|nor_conv_3x3~0|+|nor_conv_3x3~0|avg_pool_3x3~1|+|skip_connect~0|nor_conv_3x3~1|skip_connect~2|": 802426,
    "|avg_pool_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|avg_pool_3x3~0|avg_pool_3x3~1|avg_pool_3x3~2|": 559386,
    "|avg_pool_3x3~0|+|skip_connect~0|none~1|+|none~0|none~1|skip_connect~2|": 73306,
}

NUM_PARTS = 10
"""Of the test that exports all 15,625 children, which several processes share."""


@pytest.fixture(scope="module")
def table() -> dict[str, np.ndarray]:
    folder = os.environ.get("RAMET_DATA")
    if not folder or not (Path(folder) / "nas" / "nasbench201.npz").is_file():
        pytest.skip("RAMET_DATA does not point at a folder with nas/nasbench201.npz")
    with np.load(Path(folder) / "nas" / "nasbench201.npz", allow_pickle=False) as file:
        return {key: file[key] for key in ("arch", "cifar10_params", "cifar10_mflops")}


def count_options(net: CellSupernet) -> tuple[int, dict[int, int]]:
    """The parameters of a child without any edge, and what each option adds on the first, on real exports."""
    base = count_parameters(net.child(ALL_NONE))
    return base, {option: count_parameters(net.child((option, *ALL_NONE[1:]))) - base for option in range(5)}


def test_names_are_the_benchmarks() -> None:
    space = NasBench201()
    assert len(space) == 15625
    for name in PUBLISHED:
        assert space.name(space.parse(name)) == name
    assert space.parse(next(iter(PUBLISHED))) == (4, 2, 1, 2, 1, 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "|none~0|",
        "|none~0|+|none~0|none~1|+|none~0|none~1|",
        "|none~0|+|none~0|none~1|+|none~0|none~1|none~3|",
        "|none~0|+|none~0|none~0|+|none~0|none~1|none~2|",
        "|none~0|+|none~0|none~1|+|none~0|none~1|sep_conv~2|",
        "|none~0|+|none~0|none~1|+|none~0|none~1|none~2|+|none~0|",
        " |none~0|+|none~0|none~1|+|none~0|none~1|none~2|",
        "|none~0|none~0|none~1|none~0|none~1|none~2|",
    ],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="NAS-Bench-201"):
        NasBench201().parse(text)


def test_exported_children_have_the_published_number_of_parameters() -> None:
    space = NasBench201()
    net = space.supernet(3, 10)
    for name, expected in PUBLISHED.items():
        assert count_parameters(net.child(space.parse(name))) == expected


@pytest.mark.slow
def test_parameters_of_exported_children_add_up_over_the_edges() -> None:
    """What an option adds on one edge, counted on real exports, is what it adds beside any others."""
    space = NasBench201()
    net = space.supernet(3, 10)
    base, added = count_options(net)
    assert base == 73306 and [option for option, count in added.items() if count] == [CONV_1X1, CONV_3X3]
    generator = torch.Generator().manual_seed(0)
    for arch in {space.sample(generator) for _ in range(30)}:
        assert count_parameters(net.child(arch)) == base + sum(added[option] for option in arch)


def test_nodes_that_nothing_reaches_hold_zeros() -> None:
    """All none: each row of cells gives zeros, so that the logits are the same for every image."""
    space = NasBench201(channels=4, cells_per_stage=1)
    net = space.supernet(3, 5).eval()
    child = net.child(ALL_NONE)
    x = torch.randn(3, 3, 8, 8)
    logits = child(x)
    assert torch.equal(logits, net(x, ALL_NONE))
    assert torch.equal(logits[0], logits[1]) and logits.isfinite().all()
    # A cell of skip connections on the edges 0-1, 1-2 and 2-3 alone hands its input on.
    cell = net.stages[1]
    y = torch.randn(2, 4, 5, 5)
    assert torch.equal(cell(y, (SKIP, NONE, SKIP, NONE, NONE, SKIP)), y)
    # Node 3 = skip(0) + skip(1) + skip(2) with node 1 = x and node 2 = x + x.
    assert torch.allclose(cell(y, (SKIP,) * 6), 4 * y)


@pytest.mark.parametrize("arch", [ALL_NONE, (3, 0, 1, 4, 2, 0), (0, 0, 3, 0, 0, 1)])
def test_children_export(arch: tuple[int, ...]) -> None:
    """Also with a node that nothing reaches, and with a convolution that leads nowhere."""
    child = NasBench201(channels=4, cells_per_stage=1).supernet(3, 5).eval().child(arch).double()
    x = torch.randn(3, 3, 8, 8).double()
    program = torch.export.export(child, (x,))
    assert torch.allclose(program.module()(x), child(x), atol=1e-12)


@pytest.mark.realdata
def test_the_table_holds_each_architecture_once_with_the_sum_of_its_edges(table: dict[str, np.ndarray]) -> None:
    space = NasBench201()
    archs = [space.parse(str(name)) for name in table["arch"]]
    assert sorted(map(space.index, archs)) == list(range(len(space)))
    base, added = count_options(space.supernet(3, 10))
    assert [base + sum(added[option] for option in arch) for arch in archs] == table["cifar10_params"].tolist()


@pytest.mark.realdata
def test_200_real_exports_have_the_parameters_and_flops_of_the_table(table: dict[str, np.ndarray]) -> None:
    space = NasBench201()
    net = space.supernet(3, 10)
    rows = np.random.default_rng(0).choice(len(space), 200, replace=False)
    for number, row in enumerate(rows):
        child = net.child(space.parse(str(table["arch"][row])))
        assert count_parameters(child) == table["cifar10_params"][row]
        if number < 20:
            # The benchmark counts the ten additions of the last bias as well.
            found = (count_flops(child, (3, 32, 32)) + 10) / 1e6
            assert found == pytest.approx(float(table["cifar10_mflops"][row]), rel=1e-6)


@pytest.mark.slow
@pytest.mark.realdata
@pytest.mark.parametrize("part", range(NUM_PARTS))
def test_every_real_export_has_the_parameters_of_the_table(table: dict[str, np.ndarray], part: int) -> None:
    space = NasBench201()
    net = space.supernet(3, 10)
    for name, expected in zip(table["arch"][part::NUM_PARTS], table["cifar10_params"][part::NUM_PARTS], strict=True):
        assert count_parameters(net.child(space.parse(str(name)))) == expected, name
