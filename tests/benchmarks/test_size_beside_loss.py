"""The table of how much size tells beside a loss, on a space whose truth is made up."""

from __future__ import annotations

import pytest

from benchmarks import size_beside_loss
from ramet.searching.costs import ArchCosts
from ramet.spaces import NasBench201

SPACE = NasBench201(channels=2, cells_per_stage=1)
NAMES = [SPACE.name((3,) * count + (1,) * (6 - count)) for count in range(7)]
"""From six skips to six convolutions."""


@pytest.fixture
def truth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size_beside_loss, "judged", lambda name: {"cifar10": float(NAMES.index(name))})


@pytest.mark.usefixtures("truth")
def test_size_helps_where_a_loss_says_too_little_of_it() -> None:
    costs = ArchCosts(SPACE, (3, 8, 8), 10)
    losses = {name: [float(place % 3)] for place, name in enumerate(NAMES)}
    count, found = size_beside_loss.taus(losses, 0, SPACE, costs)
    assert count == 7 and found == sorted(found) and found[0] < 0.2 < found[-1]
    by_loss = {name: [-float(place), -float(place)] for place, name in enumerate(NAMES)}
    by_loss[NAMES[0]] = [0.0, None]
    count, found = size_beside_loss.taus(by_loss, 1, SPACE, costs)
    assert count == 6 and found == pytest.approx([1.0] * len(size_beside_loss.WEIGHTS))
    rows = size_beside_loss.table_of({3: by_loss}, SPACE, costs).splitlines()
    assert [row.split(" | ")[:3] for row in rows[2:]] == [["| 3", "the shortest", "7"], ["| 3", "2 times as long", "6"]]
