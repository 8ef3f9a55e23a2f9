"""Folders for the sockets of workers: one a process, and none after a kill."""

from __future__ import annotations

import fcntl
import os
import tempfile
from multiprocessing import process, util
from pathlib import Path

import pytest

from ramet.errors import RunError
from ramet.execution import Processes, socket_folder


def made(place: Path, name: str, age: float) -> Path:
    folder = place / name
    folder.mkdir()
    (folder / "listener-x").touch()
    os.utime(folder, (folder.stat().st_atime, folder.stat().st_mtime - age))
    return folder


def test_only_folders_that_nobody_holds_are_removed(tmp_path: Path) -> None:
    left = made(tmp_path, "ramet-workers-left", 100)
    young = made(tmp_path, "ramet-workers-young", 1)
    held = made(tmp_path, "ramet-workers-held", 100)
    others = made(tmp_path, "pymp-others", 100)
    descriptor = os.open(held, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    socket_folder.sweep(tmp_path)
    assert (left.exists(), young.exists(), held.exists(), others.exists()) == (False, True, True, True)
    os.close(descriptor)  # as a kill does
    socket_folder.sweep(tmp_path)
    assert not held.exists()


def test_sockets_go_into_a_folder_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(socket_folder, "_held", {})
    monkeypatch.setitem(process.current_process()._config, "tempdir", None)
    socket_folder.use_own_folder()
    socket_folder.use_own_folder()
    (folder,) = tmp_path.iterdir()
    assert folder.name.startswith("ramet-workers-") and util.get_temp_dir() == str(folder)


@pytest.mark.parametrize(
    ("reason", "hint"),
    [("killed by SIGKILL", "the system does that where memory ends"), ("exit code 1", "needs `if __name__")],
)
def test_workers_that_are_lost_while_they_start(reason: str, hint: str) -> None:
    executor = Processes(2)
    executor._check_starts(2, reason)
    with pytest.raises(RunError, match=rf"3 were lost at once \({reason}\).*{hint}"):
        executor._check_starts(3, reason)
