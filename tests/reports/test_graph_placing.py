"""Where boxes and arrows go without Graphviz."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ramet.reports.charts.placing import Arrow, place_graph
from ramet.spaces import Arch, Cells64, NasBench201, Space


@pytest.mark.parametrize("direction", ["LR", "TB"])
@pytest.mark.parametrize(
    ("space", "arch"), [(Cells64(channels=4, num_cells=1), (2, 2, 2)), (NasBench201(), (3, 2, 3, 1, 3, 3))]
)
def test_without_dot_no_arrow_and_no_label_runs_through_a_box(
    space: Space, arch: Arch, direction: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An edge that skips a node goes around it: a cell whose three nodes lie in a line hides one edge otherwise."""
    monkeypatch.setenv("PATH", str(tmp_path))
    (cell,) = space.graph(arch)
    keys = [key for key, _ in cell.nodes]
    arrows = [Arrow(keys.index(source), keys.index(target), len(label)) for source, target, label in cell.edges]
    layout = place_graph([60.0] * len(keys), arrows, 13.0, direction)
    assert layout is not None
    for arrow, route in zip(arrows, layout.routes, strict=True):
        assert route.label is not None and len(route.points) % 3 == 1
        seen = [route.label]
        for start in range(0, len(route.points) - 1, 3):
            bends = np.array(route.points[start : start + 4])
            for t in np.linspace(0, 1, 30):
                weights = np.array([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3])
                seen.append(tuple(weights @ bends))
        for number, (x, y, width, height) in enumerate(layout.places):
            if number not in (arrow.source, arrow.target):
                assert not any(abs(a - x) < width / 2 and abs(b - y) < height / 2 for a, b in seen)
        assert all(-1 <= a <= layout.width + 1 and -15 <= b <= layout.height + 1 for a, b in seen)
