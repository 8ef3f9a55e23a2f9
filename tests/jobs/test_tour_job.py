"""The tour as a run: the parts that it is made of, from its first to its last, killed and resumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from exactness import bits
from torch import nn

from ramet.cli.main import main
from ramet.costs import count_flops
from ramet.guards import NoGuard
from ramet.jobs.tour import parts
from ramet.jobs.tour.loop import train
from ramet.jobs.tour.looping import guarded_pair
from ramet.jobs.tour.result import TourResult
from ramet.runs import Records
from ramet.spaces import ModuleSpace


class Killed(BaseException):
    """The process is gone."""


def toured(folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> Any:
    main(["tour", "--quick", "--out", str(folder), "--json", *options])
    return json.loads(capsys.readouterr().out)


def test_the_whole_way_in_seconds(tmp_path, capsys):
    values = toured(tmp_path / "run", capsys)
    result = TourResult.load(tmp_path / "run")
    assert result.to_json() == TourResult.from_json(values).to_json() and result.quick
    assert len(result.words()) == 5 + 4  # a sentence a part, that it was quick, and where the report is
    page = (tmp_path / "run" / "report.html").read_text()
    assert page.count("<figcaption>") == 6 and str(tmp_path) not in page
    reports = sorted(path.parent.name for path in (tmp_path / "run" / "parts").rglob("report.html"))
    assert reports == ["1-rank", "2-search", "4-learn", "seed-0"]


def test_the_plain_loop_learns_and_forgets():
    curves = guarded_pair(None, seed=0, epochs=5, size=600)
    (old, new), (old_free, new_free) = ([curves[name][task] for task in ("old", "new")] for name in ("guarded", "free"))
    assert len(old) == len(new) == len(old_free) == len(new_free) == 10
    assert old[:5] == old_free[:5], "both loops begin alike: nothing is to be kept yet"
    assert old_free[4] > 0.8 and new_free[9] > 0.8, "both tasks are learned"
    assert old_free[4] - old_free[9] > 0.1 + (old[4] - old[9]), "and only without a guard the old one is lost"


def test_the_loop_without_a_guard_is_plain_training():
    """Beside a loop that knows nothing of guards."""
    x, y = torch.randn(64, 4), torch.randint(3, (64,))
    networks = []
    for _ in range(2):
        torch.manual_seed(1)
        networks.append(nn.Linear(4, 3))
    torch.manual_seed(2)
    train(networks[0], [(x, y)], NoGuard(), 2)
    torch.manual_seed(2)
    optimizer = torch.optim.SGD(networks[1].parameters(), lr=0.1)
    for _ in range(2):
        for batch in torch.randperm(64).split(32):
            optimizer.zero_grad()
            nn.functional.cross_entropy(networks[1](x[batch]), y[batch]).backward()
            optimizer.step()
    assert torch.equal(networks[0].weight, networks[1].weight)


def test_in_the_space_the_largest_child_sees_one_pixel_at_a_time():
    space = ModuleSpace(parts.SPACE, in_channels=1)
    supernet = space.supernet(1, 10).eval()
    flops = {space.name(arch): count_flops(supernet.child(arch), (1, 8, 8)) for arch in space}
    assert max(flops, key=flops.__getitem__) == "first=wide-1x1,second=wide-1x1,third=wide-1x1"
    assert len(space) == 64


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_killed_and_resumed_it_ends_with_the_same_bits(share, tmp_path, capsys, monkeypatch):
    append, counted, last = Records.append, [], []

    def last_append(self: Records, key: str, **values: Any) -> bool:
        done = append(self, key, **values)
        counted.append(key)
        if len(counted) in last:
            raise Killed
        return done

    with monkeypatch.context() as patch:
        patch.setattr(Records, "append", last_append)
        expected = toured(tmp_path / "whole", capsys)
    last.append(round(share * len(counted)))
    counted.clear()
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Records, "append", last_append)
        toured(tmp_path / "killed", capsys)
    main(["resume", str(tmp_path / "killed"), "--json"])
    assert bits(json.loads(capsys.readouterr().out)) == bits(expected)


@pytest.mark.slow
def test_two_workers_and_one_give_the_same(tmp_path, capsys):
    assert bits(toured(tmp_path / "one", capsys)) == bits(toured(tmp_path / "two", capsys, "--workers", "2"))


@pytest.mark.slow
def test_the_tour_itself(tmp_path, capsys):
    """Enough was done for verdicts: the truth is reliable, and every part could come out in either way."""
    main(["tour", "--out", str(tmp_path / "run"), "--workers", "2"])
    result = TourResult.load(tmp_path / "run")
    assert result.judged.reliability >= 0.7
    assert result.found.rank(result.found.found) <= 16
    assert result.learned.growing.forgetting <= 0 < result.learned.naive.forgetting
    assert len(result.grown.pairs) == 3 and len(result.guarded.free) == 3
    printed = capsys.readouterr().out
    assert all(told.words in printed for told in result.told.values())
