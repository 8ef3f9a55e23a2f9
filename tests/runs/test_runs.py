"""Run directories: lock, creation, resumption and what a full or read-only disk does to them."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import math
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ramet.errors import ConfigError, RunError
from ramet.reports import Page
from ramet.runs import Run, describe_environment, read_config, read_records, remove_run
from ramet.runs.atomic import write_atomically
from ramet.runs.lock import RunLock


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with Run.create(tmp_path / "run", "rank", {"seed": 1}) as run:
        yield run


# --- the directory ----------------------------------------------------------------------------------------------------


def test_a_run_is_created_and_opened_again(tmp_path):
    config = {"seed": 1, "sharing": "groups:8", "rates": [0.1, 0.01], "limit": math.inf}
    with Run.create(tmp_path / "a" / "b", "rank", config) as run:
        assert (run.path, run.kind, run.config) == (tmp_path / "a" / "b", "rank", config)
        run.records.append("x", value=1)
    assert sorted(os.listdir(run.path)) == ["config.json", "environment.json", "lock", "records.jsonl"]
    with Run.open(run.path) as again:
        assert (again.kind, again.config) == ("rank", config)
        assert again.records["x"] == {"key": "x", "value": 1}
    assert read_config(run.path)["config"] == config
    with pytest.raises(RunError, match="closed"):
        run.records.append("y", value=1)


def test_an_empty_folder_and_a_half_created_run_can_be_used(tmp_path):
    Run.create(tmp_path, "rank", {}).close()
    (tmp_path / "config.json").unlink()  # What a kill before the last step of the creation leaves.
    (tmp_path / ".config.json.1.ramet-tmp").write_bytes(b"{")
    Run.create(tmp_path, "grow", {"seed": 2}).close()
    assert read_config(tmp_path)["kind"] == "grow"


@pytest.mark.parametrize("name", ["notes.txt", "config.json", "environment.json"])
def test_a_folder_with_something_in_it_is_refused_and_untouched(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(ConfigError, match="new or empty directory"):
        Run.create(tmp_path, "rank", {})
    assert os.listdir(tmp_path) == [name] and (tmp_path / name).read_text() == "mine"


def test_a_file_in_place_of_a_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ConfigError, match="file is a file"):
            Run.create(path, "rank", {})
    with pytest.raises(ConfigError, match="does not"):
        Run.open(tmp_path / "file")


def test_a_configuration_that_is_not_json_writes_nothing(tmp_path):
    with pytest.raises(TypeError, match=r"config\['config'\]\['x'\]"):
        Run.create(tmp_path / "run", "rank", {"x": object()})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "damaged"),
        (b"[]", "object"),
        (b'{"format": 3, "kind": "rank", "config": {}}', "of the formats 1 and 2, but .* has 3"),
        (b'{"kind": "rank", "config": {}}', "of the formats 1 and 2, but .* has None"),
        (b'{"format": 1, "kind": 3, "config": {}}', "kind"),
        (None, "must contain config.json"),
    ],
)
def test_what_is_not_a_run_of_this_format_is_refused(tmp_path, content, message):
    if content is not None:
        (tmp_path / "config.json").write_bytes(content)
    names = os.listdir(tmp_path)
    with pytest.raises(ConfigError, match=message):
        Run.open(tmp_path)
    assert os.listdir(tmp_path) == names


def test_leftovers_are_removed_when_a_run_is_opened(run):
    run.checkpoints("a/b").save(1, {}, None)
    run.close()
    left = [run.path / ".config.json.77.ramet-tmp", run.path / "checkpoints" / "a" / "b" / ".step.json.7.ramet-tmp"]
    for path in left:
        path.write_bytes(b"half")
    Run.open(run.path).close()
    assert not any(path.exists() for path in left)


@pytest.mark.parametrize("name", ["", "../x", "a/../b", "/abs", "a//b", ".hidden", "a b", "a/"])
def test_a_checkpoint_name_cannot_leave_its_folder(run, name):
    with pytest.raises(ConfigError, match="checkpoint's name"):
        run.checkpoints(name)


def test_a_checkpoint_brings_the_records_before_it_to_the_disk(run, monkeypatch):
    calls: list[str] = []
    records = os.stat(run.path / "records.jsonl").st_ino
    fsync = os.fsync

    def spy(descriptor: int) -> None:
        calls.append("records" if os.fstat(descriptor).st_ino == records else "other")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    run.records.append("a", value=1)
    run.checkpoints("part").save(1, {}, None)
    assert calls[0] == "records" and "other" in calls[1:]


# --- the environment --------------------------------------------------------------------------------------------------


def test_the_environment_names_neither_people_nor_places(run):
    text = (run.path / "environment.json").read_text()
    environment = json.loads(text)
    assert environment["format"] == 2 and environment["python"] == platform.python_version()
    assert environment["cores"] >= 1 and environment["torch"].startswith("2.")
    for secret in (socket.gethostname(), os.path.expanduser("~"), os.getcwd(), str(run.path)):
        assert secret not in text
    assert environment == describe_environment()


def test_a_changed_environment_is_named(run, caplog):
    run.close()
    with caplog.at_level(logging.WARNING):
        Run.open(run.path).close()
    assert not caplog.records
    path = run.path / "environment.json"
    path.write_text(path.read_text().replace(f'"torch": "{describe_environment()["torch"]}"', '"torch": "1.0"'))
    with caplog.at_level(logging.WARNING):
        Run.open(run.path).close()
    assert "torch: 1.0 -> 2." in caplog.text


# --- the lock ---------------------------------------------------------------------------------------------------------

HOLD = """
import signal, sys
from pathlib import Path
from ramet.runs.atomic import write_atomically
from ramet.runs.lock import RunLock
lock = RunLock(Path(sys.argv[1]) / "lock")
print("locked", flush=True)
signal.pause()
"""


@pytest.mark.parametrize("left", ["nothing", "another"])
def test_a_lock_on_a_file_that_lost_its_name_is_none(run, monkeypatch, left):
    """Between opening and locking, another process overwrites the directory; once."""
    run.close()
    flock, path = fcntl.flock, run.path / "lock"

    def overwriting(file, operation):
        monkeypatch.setattr(fcntl, "flock", flock)
        path.unlink()
        if left == "another":
            path.touch()
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", overwriting)
    lock = RunLock(path)
    with pytest.raises(RunError, match="one writer at a time"):
        RunLock(path)
    lock.release()


def test_a_directory_that_is_removed_while_it_is_locked_is_refused(run, monkeypatch):
    run.close()
    flock = fcntl.flock

    def removing(file, operation):
        shutil.rmtree(run.path)
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", removing)
    with pytest.raises(RunError, match="No such file"):
        RunLock(run.path / "lock")


def test_a_run_that_was_put_in_the_place_of_another_is_opened_as_it_is(run, monkeypatch):
    run.close()

    def overwriting(path):
        monkeypatch.setattr("ramet.runs.directory.RunLock", RunLock)
        remove_run(run.path)
        Run.create(run.path, "grow", {"seed": 2}).close()
        return RunLock(path)

    monkeypatch.setattr("ramet.runs.directory.RunLock", overwriting)
    with Run.open(run.path) as opened:
        assert (opened.kind, opened.config) == ("grow", {"seed": 2})


def test_a_run_loses_its_name_before_its_content(run, monkeypatch):
    run.close()
    seen = []
    rmtree = shutil.rmtree
    monkeypatch.setattr(shutil, "rmtree", lambda path, **options: seen.append((run.path.exists(), path)))
    remove_run(run.path)
    assert [exists for exists, _ in seen] == [False]
    assert [path.name for path in run.path.parent.iterdir()] == [seen[0][1].name]  # as after a kill
    monkeypatch.setattr(shutil, "rmtree", rmtree)
    Run.create(run.path, "rank", {}).close()
    remove_run(run.path)
    assert list(run.path.parent.iterdir()) == []


def test_a_second_process_is_refused_and_a_killed_one_does_not_block(run):
    run.close()
    command = [sys.executable, "-c", HOLD, str(run.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None and holder.stdout.readline() == "locked\n"
            with pytest.raises(RunError, match=f"in use by process {holder.pid}"):
                Run.open(run.path)
            assert len(read_records(run.path)) == 0  # Readers need no lock.
        finally:
            holder.send_signal(signal.SIGKILL)
    with Run.open(run.path), pytest.raises(RunError, match=f"in use by process {os.getpid()}"):
        Run.open(run.path)


def test_the_shared_memory_of_a_killed_owner_goes_when_the_run_goes_on(run, monkeypatch, tmp_path):
    monkeypatch.setattr("ramet.runs.lock._SHARED_MEMORY", tmp_path)
    gone = os.fork()
    if gone == 0:
        os._exit(0)
    os.waitpid(gone, 0)
    for owner in (gone, os.getpid(), f"{gone}1"):
        (tmp_path / f"torch_{owner}_5_0").touch()
    run.close()
    (run.path / "lock").write_text(f"{gone}\n")
    Run.open(run.path).close()
    kept = sorted([f"torch_{os.getpid()}_5_0", f"torch_{gone}1_5_0"])
    assert sorted(path.name for path in tmp_path.glob("torch_*")) == kept
    Run.open(run.path).close()  # the owner before is this process, which lives
    assert sorted(path.name for path in tmp_path.glob("torch_*")) == kept


def test_neither_a_forked_nor_a_spawned_process_keeps_the_lock(run):
    reader, writer = os.pipe()
    spawned = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], close_fds=False)
    forked = os.fork()
    if forked == 0:
        os.write(writer, b"x")
        signal.pause()
    try:
        os.read(reader, 1)  # The fork's own clean-up is done by now.
        with pytest.raises(RunError):
            Run.open(run.path)  # The fork has not taken the parent's lock away.
        run.close()
        Run.open(run.path).close()
    finally:
        spawned.kill()
        spawned.wait()
        os.kill(forked, signal.SIGKILL)
        os.waitpid(forked, 0)
        os.close(reader)
        os.close(writer)


def test_creating_a_run_that_another_process_creates_is_refused_and_leaves_it_alone(run):
    (run.path / "config.json").unlink()  # As if the other were half-way.
    with pytest.raises(RunError, match="in use"):
        Run.create(run.path, "rank", {})
    assert (run.path / "environment.json").exists()


# --- disks that refuse ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failing", ["environment.json", "config.json"])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_creation_that_fails_leaves_nothing(tmp_path, monkeypatch, failing, is_new):
    folder = tmp_path / "run"
    if not is_new:
        folder.mkdir()
    replace = os.replace

    def full(source: str, target: Path) -> None:
        if target.name == failing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(RunError, match=rf"^cannot write .*{failing}: No space left on device\.$"):
            Run.create(folder, "rank", {})
    assert not folder.exists() if is_new else os.listdir(folder) == []
    Run.create(folder, "rank", {}).close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to change the user")
def test_a_read_only_folder_ends_in_one_line_for_root_too():
    """Root may write everywhere, so for a moment the process is nobody."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        with Run.create(Path(folder) / "run", "rank", {}) as run:
            pass
        os.seteuid(65534)
        try:
            with pytest.raises(RunError, match=r"^cannot write .*new: Permission denied\.$"):
                Run.create(Path(folder) / "new", "rank", {})
            with pytest.raises(RunError, match=r"^cannot write .*lock: Permission denied\.$"):
                Run.open(run.path)
        finally:
            os.seteuid(0)
        assert os.listdir(folder) == ["run"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_ends_in_one_line(tmp_path):
    tmp_path.chmod(0o555)
    with pytest.raises(RunError, match=r"^cannot write .*new: Permission denied\.$"):
        Run.create(tmp_path / "new", "rank", {})


def test_a_really_full_disk_ends_in_one_line(tmp_path):
    import torch

    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", tmp_path], capture_output=True)
    if mount.returncode != 0:
        pytest.skip("needs the right to mount")
    try:
        with Run.create(tmp_path / "run", "rank", {}) as run:
            checkpoints = run.checkpoints("part")
            checkpoints.save(1, {"w": torch.ones(100)}, 1)
            with pytest.raises(RunError, match=r"^cannot write .*safetensors: No space left on device\.$"):
                checkpoints.save(2, {"w": torch.ones(100_000)}, 2)
            checkpoint = checkpoints.load()
            assert checkpoint is not None and checkpoint.step == 1
            with pytest.raises(RunError, match=r"^cannot write .*records\.jsonl: No space left on device\.$"):
                for index in range(10_000):
                    run.records.append(f"event/{index}", text="x" * 100)
            assert len(read_records(run.path)) == len(run.records) == index
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_what_killed_writes_left_is_removed_by_the_next(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    dead = tmp_path / f".report.html.{ended.pid}.ramet-tmp"
    alive = tmp_path / f".report.html.{os.getppid()}.ramet-tmp"
    other = tmp_path / f".other.html.{ended.pid}.ramet-tmp"
    for path in (dead, alive, other):
        path.touch()
    write_atomically(tmp_path / "report.html", b"new")
    assert dead.exists(), "it may be written by another machine"
    for path in (dead, alive, other):
        os.utime(path, (0, 0))
    write_atomically(tmp_path / "report.html", b"new")
    assert (dead.exists(), alive.exists(), other.exists()) == (False, True, True)


def test_files_are_for_whom_the_mask_says(tmp_path):
    before = os.umask(0o077)
    try:
        with Run.create(tmp_path / "run", "rank", {}) as run:
            run.records.append("a", value=1)
            run.checkpoints("training").save(1, {}, None)
            Page("title").write(run.path / "report.html")
    finally:
        os.umask(before)
    paths = [run.path, *run.path.rglob("*")]
    assert len(paths) > 6 and {path.stat().st_mode & 0o077 for path in paths} == {0}
