"""Cells64 against the paper's description, and its supernet against its own slow way of doing things."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.spaces import Arch, Cells64, Choice, NasBench201, Space, space_of, trace_child
from ramet.spaces.base import CellGraph
from ramet.spaces.cells.chain import CellSupernet
from ramet.spaces.kernels.depthwise import DepthwiseConv2d
from ramet.testing.spaces import (
    SPACE_CHECKS,
    check_children,
    check_description,
    check_enumeration,
    check_final_network,
    check_forward_all,
    check_gradients,
    check_graph,
    check_names,
    check_sizes,
    check_stages,
)

Check = Callable[[Space, Sequence[int], int], None]


def test_the_default_is_the_papers_space() -> None:
    space = Cells64()
    assert len(space) == 64
    assert space.name(space[0]) == "111"
    assert space.name((3, 2, 3)) == "434"
    assert list(space)[59] == space.parse("434") == (3, 2, 3)
    assert space.name(space[63]) == "444"


def test_a_space_is_cut_and_copied_as_a_sequence() -> None:
    space = Cells64()
    assert [space.name(arch) for arch in space[62:]] == ["443", "444"]
    assert space[::16] == [(0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0)]
    net = space.supernet(1, 2)
    assert copy.deepcopy(net).space is space
    with pytest.raises(IndexError):
        space[64]


def test_child_434_has_the_layers_of_the_paper() -> None:
    """Counted by hand: dil 5x5 is 25 C + C C, sep 5x5 is twice that; only the stem's batch norms have parameters."""
    child = Cells64().supernet(3, 10).child((3, 2, 3))
    stem = 3 * 48 * 9 + 2 * 48 + 48 * 48 * 9 + 2 * 48
    separable = 25 * 16 + 16 * 16
    cells = 48 * 16 + 3 * 32 * 16 + 4 * (separable + 2 * separable + separable)
    assert sum(param.numel() for param in child.parameters()) == stem + cells + 32 * 10 + 10
    norms = [module for module in child.modules() if isinstance(module, nn.BatchNorm2d)]
    assert [norm.affine for norm in norms] == [True, True] + [False] * (4 * (1 + 1 + 2 + 1))
    assert {norm.momentum for norm in norms} == {0.4}


@pytest.mark.parametrize("text", ["", "43", "4344", "435", "430", "4a4", "٤٣٤", "43 "])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="3 digits from 1 to 4"):
        Cells64().parse(text)


@pytest.mark.parametrize(
    "arguments",
    [
        {"channels": 0},
        {"num_cells": -1},
        {"num_nodes": 0},
        {"operations": ()},
        {"operations": ("max_pool_3x3", "max_pool_3x3")},
        {"operations": ("max_pool_4x4",)},
        {"bn_momentum": 0.0},
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        Cells64(**arguments)  # type: ignore[arg-type]


def test_forward_all_refuses_training_mode_and_keeps_the_order() -> None:
    space = Cells64(channels=4, num_cells=2)
    net = space.supernet(1, 3)
    x = torch.randn(2, 1, 6, 6)
    with pytest.raises(ConfigError, match="evaluation mode"):
        net.forward_all(x, list(space))
    net.eval()
    archs = [space[i] for i in (63, 5, 5, 0, 17)]
    with torch.no_grad():
        for arch, logits in zip(archs, net.forward_all(x, archs), strict=True):
            assert torch.equal(logits, net(x, arch))


SMALL = [
    Cells64(channels=4, num_cells=2),
    Cells64(channels=2, num_cells=1, num_nodes=3, operations=("skip_connect", "avg_pool_3x3", "dil_conv_3x3")),
    NasBench201(channels=4, cells_per_stage=1),
]


@pytest.mark.parametrize("space", SMALL, ids=["cells64", "three nodes", "nasbench201"])
@pytest.mark.parametrize("check", SPACE_CHECKS, ids=lambda check: check.__name__)
def test_built_in_spaces_conform(check: Check, space: Space) -> None:
    check(space, (3, 8, 8), 4)


def test_the_suite_catches_a_space_that_is_wrong() -> None:
    """One defect for each check; a suite that passes everything proves nothing."""

    class Unordered(Cells64):
        def __getitem__(self, index: int) -> Arch:  # type: ignore[override]
            return tuple(reversed(super().__getitem__(index)))

    class Misnamed(Cells64):
        def parse(self, text: str) -> Arch:
            return super().parse(text[:3])

    class Misdescribed(Cells64):
        def describe(self) -> dict[str, object]:
            return {**super().describe(), "channels": 1}

    class Unsized(Cells64):
        small_sizes = {"cells": 1, "layers": 2}  # noqa: RUF012 - a class of the test

    class Undrawn(Cells64):
        def graph(self, arch: Arch) -> list[CellGraph]:
            return [CellGraph("cell", (("0", "in"),), (("0", "1", "conv"),))]

    class Unfinished(Cells64):
        def final_network(self, *arguments: object, **options: object) -> Any:
            return None

    class Wrapped(Cells64):
        def __init__(self, fault: str) -> None:
            super().__init__(channels=2, num_cells=1)
            self.fault = fault

        def supernet(self, in_channels: int, num_classes: int) -> CellSupernet:
            return Faulty(self, list(super().supernet(in_channels, num_classes).stages))

    class Faulty(CellSupernet):
        space: Wrapped

        def child(self, arch: Arch) -> nn.Module:
            return super().child((0, 0, 0) if self.space.fault == "child" else arch)

        def forward_all(self, x: Tensor, archs: Sequence[Arch]) -> Iterator[Tensor]:
            return super().forward_all(x, sorted(archs) if self.space.fault == "order" else archs)

        def forward(self, x: Tensor, arch: Arch) -> Tensor:
            logits = super().forward(x, arch)
            if self.space.fault == "gradient" and self.training:
                logits = logits + 0 * sum(param.sum() for param in self.parameters())
            return logits + 1 if self.space.fault == "chain" else logits

    faults: list[tuple[Check, Space]] = [
        (check_enumeration, Unordered()),
        (check_names, Misnamed()),
        (check_description, Misdescribed()),
        (check_children, Wrapped("child")),
        (check_forward_all, Wrapped("order")),
        (check_gradients, Wrapped("gradient")),
        (check_stages, Wrapped("chain")),
        (check_sizes, Unsized()),
        (check_graph, Undrawn()),
        (check_final_network, Unfinished()),
    ]
    assert {check for check, _ in faults} == set(SPACE_CHECKS)
    for check, space in faults:
        with pytest.raises(AssertionError):
            check(space, (3, 6, 6), 4)


def test_a_cell_is_the_formula_of_the_paper() -> None:
    """Child 413 of one cell, layer by layer."""
    net = Cells64(channels=4, num_cells=1).supernet(3, 2).eval().double()
    stem, cell, head = net.stages
    x = torch.randn(2, 3, 6, 6).double()
    edges = cell.dag.edges
    with torch.no_grad():
        inner = cell.preprocess(stem.layers(x))
        x1 = edges[0]["3"](inner)
        x2 = edges[1]["0"](inner) + edges[2]["2"](x1)
        logits = head.linear(torch.cat([x1, x2], 1).mean((2, 3)))
        assert torch.allclose(net(x, (3, 0, 2)), logits, atol=1e-12)


def test_evaluating_all_computes_each_edge_of_the_first_cell_once_a_provenance() -> None:
    """Counted calls: 4 + 4 + 16 on the three edges, 1 for the stem, 64 a cell after it."""
    space = Cells64(channels=2, num_cells=2)
    net = space.supernet(1, 2).eval()
    calls: list[str] = []
    _, first, second, _ = net.stages
    for name, edges in (("first", first.dag.edges), ("second", second.dag.edges)):
        for number, options in enumerate(edges):
            for option in options.values():
                option.register_forward_hook(lambda *_, key=f"{name} {number}": calls.append(key))
    net.stages[0].register_forward_hook(lambda *_: calls.append("stem"))
    with torch.no_grad():
        list(net.forward_all(torch.randn(1, 1, 4, 4), list(space)))
    assert calls.count("stem") == 1
    assert [calls.count(f"first {edge}") for edge in range(3)] == [4, 4, 16]
    assert [calls.count(f"second {edge}") for edge in range(3)] == [64, 64, 64]


@pytest.mark.parametrize("in_channels", [1, 3])
@pytest.mark.parametrize("space", [SMALL[0], SMALL[2]], ids=["cells64", "nasbench201"])
def test_weights_and_features_keep_the_channels_last(space: Space, in_channels: int) -> None:
    """Also for grey images, whose own layout is both at once: the strides of the first weights decide."""
    net = space.supernet(in_channels, 4)
    arch = space[len(space) // 2 + 7]
    for network in (net, net.child(arch), pickle.loads(pickle.dumps(net.child(arch)))):
        for param in network.parameters():
            assert param.dim() != 4 or param.is_contiguous(memory_format=torch.channels_last)
    layouts: list[bool] = []
    for stage in list(net.stages)[:-1]:
        stage.register_forward_hook(
            lambda module, args, output: layouts.append(output.is_contiguous(memory_format=torch.channels_last))
        )
    net(torch.randn(2, in_channels, 8, 8), arch)
    assert layouts and all(layouts)


WITHOUT_RAMET = """
import pickle, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "ramet":
            raise ImportError("ramet is blocked")
sys.meta_path.insert(0, Blocked())
import torch
for child, x, expected in pickle.load(open(sys.argv[1], "rb")):
    assert torch.equal(child(x), expected), "outputs differ"
    program = torch.export.export(child, (x,))
    assert torch.allclose(program.module()(x), expected, atol=1e-6), "the exported program differs"
    child.train()
    child(x).sum().backward()
    print("done")
"""


@pytest.mark.slow
def test_pickled_children_run_where_ramet_cannot_be_imported(tmp_path: Path) -> None:
    cases = []
    layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    own = space_of(nn.Sequential(Choice([layers, nn.Identity()]), nn.Linear(4, 4), *[Choice([nn.ReLU()])] * 4))
    for space, arch in ((SMALL[0], (3, 2, 3)), (SMALL[2], (3, 0, 1, 4, 2, 0)), (own, (0, 0))):
        net = space.supernet(3, 4)
        x = torch.randn(4, 3, 8, 8)
        net(x, arch)
        child = net.eval().child(arch)
        cases.append((child, x, child(x).detach()))
        modules = {type(module).__module__ for module in child.modules()}
        assert all(name.startswith("torch.") for name in modules)
    (tmp_path / "cases").write_bytes(pickle.dumps(cases))
    command = [sys.executable, "-c", WITHOUT_RAMET, str(tmp_path / "cases")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0 and done.stdout.split() == ["done"] * 3, done.stderr


def test_a_childs_weights_go_back_into_the_supernet_by_name() -> None:
    net = Cells64(channels=2, num_cells=1).supernet(1, 2).eval()
    child = net.child((3, 2, 3))
    with torch.no_grad():
        for param in child.parameters():
            param.add_(0.5)
    assert not net.load_state_dict(child.state_dict(), strict=False).unexpected_keys
    x = torch.randn(2, 1, 6, 6)
    assert torch.equal(net(x, (3, 2, 3)), child(x))


def test_a_child_that_stays_inside_ramet_may_keep_its_fast_layers() -> None:
    net = Cells64(channels=4, num_cells=1).supernet(1, 2).eval()
    fast = trace_child(net.stages, (3, 2, 3), plain=False)
    plain = net.child((3, 2, 3))
    x = torch.randn(2, 1, 6, 6)
    assert torch.equal(fast(x), plain(x))
    assert sum(isinstance(module, DepthwiseConv2d) for module in fast.modules()) == 4
    assert not any(isinstance(module, DepthwiseConv2d) for module in plain.modules())
