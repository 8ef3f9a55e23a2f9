"""The benchmark of a supernet of all of NAS-Bench-201: what is trained, what is scored, and its table."""

from __future__ import annotations

import pytest

from benchmarks.whole_space import NUM_SCORED, SETTINGS, Setting, architectures, table_of
from ramet.spaces import NasBench201
from ramet.spaces.cells.nasbench201 import NONE, SKIP


@pytest.mark.parametrize(
    ("setting", "trained"),
    [
        (Setting(), 5**6),
        (Setting(without=(NONE, SKIP)), 3**6),
        (Setting(drawn_alone=True), NUM_SCORED),
        (Setting(drawn_alone=True, without=(NONE,)), NUM_SCORED),
    ],
)
def test_a_setting_says_what_is_trained_and_scored(setting: Setting, trained: int) -> None:
    space = NasBench201(channels=4, cells_per_stage=1)
    found, scored = architectures(space, setting, seed=0)
    assert len(found) == len(set(found)) == trained and len(set(scored)) == NUM_SCORED
    assert set(scored) <= set(found) and not any(set(arch) & set(setting.without) for arch in found)
    assert architectures(space, setting, seed=0)[1] == scored != architectures(space, setting, seed=1)[1]


def test_a_table_has_a_row_for_each_setting_that_was_measured() -> None:
    def line(seed: int, tau: float) -> dict[str, object]:
        ways = dict.fromkeys(("loss", "smoothed", "accuracy", "batch norm anew", "parameters"), tau)
        seconds = {"training": 10.0 * (seed + 1), "scoring": 1.0}
        return {"setting": name, "seed": seed, "tau": ways, "tau_of_better_half": ways, "cpu_seconds": seconds}

    name = list(SETTINGS)[1]
    _, _, row = table_of([line(0, 0.1), line(1, 0.3)]).splitlines()
    assert row == f"| {name} | 2 " + "| 0.10, 0.30 " * 7 + "| 15 |"
