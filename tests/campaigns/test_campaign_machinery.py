"""What the campaigns stand on, for a moment each: processes that die, what runs give, parsers, costs."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing import forkserver
from pathlib import Path

import pytest

from campaigns import fuzzing, kills
from campaigns.drivers import alive, command, fork, own_folder, wait_until_gone
from campaigns.measuring import cost_of, exponent
from campaigns.opening import cpu_seconds_below
from campaigns.parsers import Parser, _runs, _texts, parsers
from campaigns.spare_server import offer
from campaigns.tiny_jobs import JOBS, beginning, differences, going_on, left_behind, outcome
from ramet.errors import ConfigError
from ramet.runs import Run


def sleep() -> None:
    time.sleep(600)


def test_processes_are_found_and_their_ends_waited_for(tmp_path: Path) -> None:
    driver = fork(sleep, tmp_path / "errors")
    while not alive({driver.pid}):  # until it has a session of its own
        time.sleep(0.01)
    assert list(alive({driver.pid})) == [driver.pid] and driver.code() is None and not kills._has_ended(driver)
    assert kills._kill(driver, "group", 0.0, set())
    assert driver.wait() == -signal.SIGKILL and wait_until_gone({driver.pid}, 60) == []
    other = fork(sleep, tmp_path / "errors")
    os.kill(other.pid, 0)
    with pytest.raises(TimeoutError, match="after 0 s"):
        other.wait(0.0)


def note_server(path: Path) -> None:
    path.with_suffix(".part").write_text(str(os.getppid()))
    path.with_suffix(".part").rename(path)
    sleep()


def test_a_spare_server_forks_workers_and_ends_with_its_driver(tmp_path: Path) -> None:
    """It was forked, and no interpreter started; one that nobody asks for ends with its driver as well."""

    def drive() -> None:
        known = forkserver._forkserver  # of a test before this one, in another process
        known._forkserver_pid = known._forkserver_address = known._forkserver_alive_fd = None
        offer()
        multiprocessing.get_context("forkserver").Process(target=note_server, args=(tmp_path / "server",)).start()
        sleep()

    def wait() -> None:
        offer()
        (tmp_path / "offered").touch()
        sleep()

    driver, idle = fork(drive, tmp_path / "errors"), fork(wait, tmp_path / "idle")
    while not (tmp_path / "server").exists() or not (tmp_path / "offered").exists():
        assert driver.code() is None, driver.errors()
        time.sleep(0.01)
    server, there = int((tmp_path / "server").read_text()), alive({driver.pid})
    (worker,) = kills.workers_of(driver.pid)
    assert there[server] == there[worker] == there[driver.pid] and len(alive({idle.pid})) == 2
    for each in (driver, idle):
        os.kill(each.pid, signal.SIGKILL)
        assert each.wait() == -signal.SIGKILL
        for pid in {worker} & alive({each.pid}).keys():  # a worker of ramet's ends by itself; this one sleeps
            os.kill(pid, signal.SIGKILL)
    assert wait_until_gone({driver.pid, idle.pid}, 60) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_what_a_campaign_forks_ends_with_it(tmp_path: Path) -> None:
    def campaign() -> None:
        (tmp_path / "pid").write_text(str(fork(sleep, tmp_path / "inner").pid))
        sleep()

    driver = fork(campaign, tmp_path / "errors")
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        time.sleep(0.01)
    inner = int((tmp_path / "pid").read_text())
    os.kill(driver.pid, signal.SIGKILL)
    assert driver.wait() == -signal.SIGKILL and wait_until_gone({inner}, 60) == []


def test_a_folder_goes_after_whoever_writes_there(tmp_path: Path) -> None:
    """Of a campaign that is ended early; a process that went on would leave its next file there."""

    def write() -> None:
        while True:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "file").write_text("")

    with pytest.raises(SystemExit), own_folder() as place:
        folder = place / "run"
        driver = fork(write, tmp_path / "errors")
        while not (folder / "file").exists():
            time.sleep(0.01)
        sys.exit(143)
    assert not place.exists() and alive({driver.pid}) == {}


def test_a_command_that_fails_says_why_in_its_file(tmp_path: Path) -> None:
    driver = command(["rank", "--children", "1"], tmp_path / "errors", tmp_path)
    assert driver.wait() == 2
    assert [line.startswith("ramet: ") for line in driver.errors()] == [True]


def test_outcomes_differ_where_runs_do(tmp_path: Path) -> None:
    for name, loss in (("a", 0.5), ("b", 0.5), ("c", 0.25)):
        with Run.create(tmp_path / name, "learn", {}) as run:
            run.records.append("task/1", loss=loss, seconds=len(name) * loss + ord(name))
            run.records.append("step/1/seconds", training=ord(name))
            (tmp_path / name / "networks").mkdir()
            (tmp_path / name / "networks" / "x.pt2").write_bytes(b"x")
            (tmp_path / name / "report.html").write_text(name)
    first, same, other = (outcome(tmp_path / name) for name in "abc")
    assert len(first) == 2 and differences(first, same) == []
    assert differences(first, other) == ["record task/1 differs"]
    (tmp_path / "b" / "networks" / "x.pt2").write_bytes(b"y")
    (tmp_path / "b" / ".x.1.ramet-tmp").touch()
    assert differences(first, outcome(tmp_path / "b"))[-1] == "file networks/x.pt2 differs"
    assert left_behind(tmp_path / "b") == [".x.1.ramet-tmp was left"]
    assert going_on("learn", tmp_path / "a")[:2] == ["resume", str(tmp_path / "a")]
    assert going_on("learn", tmp_path / "none") == beginning("learn", tmp_path / "none")


def test_every_job_has_one() -> None:
    from ramet.jobs import JOBS as KINDS

    # The tour is made of the others, and scores of one's own are judged in a second.
    assert set(JOBS) == set(KINDS) - {"tour", "scores"}


@pytest.mark.parametrize("make", [_runs, _texts, pytest.param(parsers, marks=pytest.mark.slow)])
def test_parsers_read_what_is_whole(tmp_path: Path, make: Callable[[Path], list[Parser]]) -> None:
    made, here = tmp_path / "made", tmp_path / "here"
    for folder in (made, here):
        folder.mkdir()
    for parser in make(made):
        assert fuzzing._surprise(parser, parser.inputs[0], here) == "", parser.name


def test_surprises_are_noticed(tmp_path: Path) -> None:
    here = tmp_path
    bad = Parser("bad", [b"abc"], lambda content, folder: 1 / (content == b"abc"))
    assert fuzzing._surprise(bad, b"x", here) == "ZeroDivisionError: division by zero"

    def refuse(content: bytes, folder: Path) -> None:
        raise ConfigError("no.")

    assert fuzzing._surprise(Parser("good", [b"abc"], refuse), b"x", here) == ""


@pytest.mark.slow  # hypothesis looks through all modules for numbers and texts first
def test_surprises_are_looked_for(tmp_path: Path) -> None:
    bad = Parser("bad", [b"abc"], lambda content, folder: 1 / (content == b"abc"))
    count, lost = fuzzing.surprises(bad, tmp_path, 20, seed=0)
    assert count >= 1 and len(lost) == 1 and "ZeroDivisionError" in lost[0]


def test_the_processor_time_of_what_was_started(tmp_path: Path) -> None:
    """Of a child that computes, and not of this process or of one that waits."""

    def compute() -> None:
        while time.process_time() < 0.3:
            sum(range(10_000))
        (tmp_path / "done").touch()
        sleep()

    drivers = [fork(compute, tmp_path / "errors"), fork(sleep, tmp_path / "other")]
    while not (tmp_path / "done").exists():
        sum(range(10_000))
    used = cpu_seconds_below(os.getpid())
    assert used[drivers[0].pid] >= 0.25 and os.getpid() not in used
    assert used[drivers[1].pid] < used[drivers[0].pid]
    for driver in drivers:
        driver.kill_group()
        driver.wait()


def test_costs_are_those_of_the_work(tmp_path: Path) -> None:
    cost = cost_of(lambda: {"held": len(bytearray(200 << 20))}, tmp_path)
    small = cost_of(lambda: None, tmp_path / "small")
    assert cost.figures == {"held": 200 << 20} and cost.megabytes > small.megabytes + 150
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        cost_of(lambda: {"x": 1 // 0}, tmp_path / "bad")
    assert exponent([1, 2, 4, 8], [9.0, 10.0, 14.0, 30.0]) == pytest.approx(2.0)
