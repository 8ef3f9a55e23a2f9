"""The one saver: what it saves, when, in which order it puts parts back, and how processes begin alike."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from ramet.runs import Checkpoints
from ramet.training import Saver, Values, global_generators, saved_part


def test_parts_come_back_in_their_order(tmp_path: Path):
    layer, order = nn.Linear(2, 1), []
    parts = {
        "shapes": Values(lambda: (1, 2), lambda shapes: order.append(shapes)),
        "network": layer,
        "after": Values(lambda: {"a": None}, lambda value: order.append(value)),
    }
    saver = Saver(Checkpoints(tmp_path), parts)
    assert saver.resume() is None and order == [], "nothing was saved, and nothing is put back"
    saver.save(4)
    kept = layer.weight.detach().clone()
    nn.init.zeros_(layer.weight)
    assert saver.resume() == 4
    assert torch.equal(layer.weight, kept) and order == [(1, 2), {"a": None}]
    checkpoint = Checkpoints(tmp_path).load()
    assert checkpoint is not None
    assert torch.equal(saved_part(checkpoint, "network")["weight"], kept)
    assert saved_part(checkpoint, "shapes") == (1, 2)


def test_it_is_time_to_save_when_so_much_could_be_lost(tmp_path: Path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("ramet.training.saver.time.monotonic", lambda: now[0])
    saver = Saver(Checkpoints(tmp_path), {}, seconds=5.0)
    assert not saver.is_due
    now[0] = 105.0
    assert saver.is_due
    saver.save(1)
    assert not saver.is_due, "the time begins anew with each save"
    now[0] = 111.0
    saver.resume()
    assert not saver.is_due
    assert Saver(Checkpoints(tmp_path), {}, seconds=0.0).is_due
    nowhere = Saver(None, {}, seconds=0.0)
    nowhere.save(1)
    assert not nowhere.is_due and nowhere.resume() is None


def test_generators_go_on_where_they_were(tmp_path: Path):
    saver = Saver(Checkpoints(tmp_path), {"generators": global_generators(nn.Linear(1, 1))})
    torch.manual_seed(3)
    torch.rand(2)
    saver.save(1)
    expected = torch.rand(4)
    torch.manual_seed(9)
    saver.resume()
    assert torch.equal(torch.rand(4), expected)


class Two:
    """Two processes, played one after the other: the leader speaks, then the other listens."""

    size = 2

    def __init__(self, said: list[bytes]) -> None:
        self.said, self.is_leader = said, not said

    def tell(self, message: bytes) -> bytes:
        assert bool(message) == self.is_leader
        self.said.append(message)
        return self.said[0]


def test_all_processes_begin_with_the_leaders_bits(tmp_path: Path):
    for saved in (False, True):
        said: list[bytes] = []
        leader, follower = nn.Linear(2, 2), nn.Linear(2, 2)
        if saved:
            Saver(Checkpoints(tmp_path), {"network": leader}).save(6)
            expected = leader.weight.detach().clone()
            leader = nn.Linear(2, 2)
        else:
            expected = leader.weight.detach().clone()
        assert Saver(Checkpoints(tmp_path), {"network": leader}, several=Two(said)).resume() == (6 if saved else None)
        assert Saver(None, {"network": follower}, several=Two(said)).resume() == (6 if saved else None)
        assert torch.equal(leader.weight, expected) and torch.equal(follower.weight, expected)
