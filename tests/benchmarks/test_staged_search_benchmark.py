"""The table of the staged search's benchmark, and the spaces of its sibling that no table knows."""

from __future__ import annotations

import pytest
import torch

from benchmarks.staged_own import SPACES
from benchmarks.staged_search import ARMS, largest, table_of
from ramet.spaces import ModuleSpace, NasBench201


def line(arm: str, seed: int, top: float) -> dict:
    tops = {"cifar10_top": top, "cifar100_top": 0.5, "imagenet16_120_top": 0.25}
    return {"arm": arm, "seed": seed, "cpu_seconds": 1200.0, **tops}


def test_the_table_has_medians_and_the_worst() -> None:
    lines = [line("staged", 0, 0.001), line("staged", 1, 0.004), line("staged", 2, 0.002), line("random", 0, 0.1)]
    rows = table_of(lines).splitlines()
    assert rows[2] == "| staged | 3 | 0.20 | 0.40 | 50.00 | 25.00 | 1200 |"
    assert rows[3].startswith("| random | 1 | 10.00 |") and len(rows) == 4


def test_the_largest_is_one_of_the_space(tmp_path) -> None:
    name, about = largest(0, tmp_path)
    assert NasBench201().parse(name) == (3,) * 6 and about == {"cpu_seconds": 0.0} and set(ARMS) > {"staged", "present"}


@pytest.mark.parametrize(("name", "count"), [("layers", 3**8), ("macro", 12**3)])
def test_spaces_that_no_table_knows(name: str, count: int) -> None:
    space = ModuleSpace(SPACES[name], in_channels=1, num_classes=10)
    assert space.num_archs == count
    network = space.supernet(1, 10).eval()
    for place in (0, count // 2, count - 1):
        assert network(torch.randn(2, 1, 14, 14), space[place]).shape == (2, 10)
