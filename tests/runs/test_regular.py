"""What is no regular file is not read, wherever somebody may have put it: a device has no end, a pipe no beginning."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ramet.continual import JointNetwork, make_stream
from ramet.errors import RametError
from ramet.growth import load_network
from ramet.jobs.learn.result import LearnResult
from ramet.runs import Checkpoints, regular
from ramet.runs.appended import AppendedList
from ramet.runs.regular import check_regular, read_regular

RULE = "it is no regular file"


DOORS: dict[str, Callable[[Path], object]] = {
    "net.safetensors": JointNetwork.load,
    "stream.json": lambda path: make_stream(str(path)),
    "network.json": lambda path: load_network(path.parent),
    "result.json": LearnResult.load,
    "rows.jsonl": lambda path: AppendedList(path).load({"bytes": 1, "sha256": ""}),
}


@pytest.mark.parametrize("name", DOORS)
def test_a_device_in_the_place_of_a_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).symlink_to(os.devnull)
    with pytest.raises(RametError) as caught:
        DOORS[name](tmp_path / name)
    assert "\n" not in str(caught.value)
    assert RULE in f"{caught.value} {caught.value.__cause__} {caught.value.__context__}"


@pytest.mark.parametrize("suffix", [".json", ".safetensors"])
def test_a_device_in_the_place_of_a_part_of_a_checkpoint(tmp_path: Path, suffix: str) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, {"x": torch.zeros(2)}, {})
    (part,) = (path for path in tmp_path.iterdir() if path.suffix == suffix)
    part.unlink()
    part.symlink_to(os.devnull)
    with pytest.raises(RametError, match=RULE):
        checkpoints.load()


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match=RULE):
        check_regular(tmp_path / "pipe")
    check_regular(tmp_path)
    check_regular(tmp_path / "absent")


def test_a_file_that_the_memory_cannot_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(bytes(10))
    monkeypatch.setattr(regular, "machine_memory", lambda: 20)
    assert read_regular(tmp_path / "file") == bytes(10)
    monkeypatch.setattr(regular, "machine_memory", lambda: 19)
    with pytest.raises(OSError, match="half of this machine's memory"):
        read_regular(tmp_path / "file")
