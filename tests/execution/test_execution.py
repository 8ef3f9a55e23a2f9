"""Executors: the conformance suite over each, and what is particular to processes."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
import torch

from ramet import progress
from ramet.errors import ConfigError, DataError, MissingExtraError, RametError, RunError
from ramet.execution import Executor, Inline, Processes, WorkItem, make_executor, pulse
from ramet.execution.failures import Failure
from ramet.execution.numerics import Numerics, settled
from ramet.execution.sharing import SharedContext
from ramet.testing.executors import ExecutorSuite, WorkerSuite, note


class TestInline(ExecutorSuite):
    max_in_flight = 0

    def make(self) -> Executor:
        return Inline()


class TestProcesses(WorkerSuite):
    def make(self) -> Executor:
        return Processes(2)


# --- tasks ------------------------------------------------------------------------------------------------------------


def report_settings(context: object) -> dict[str, object]:
    for fraction in (0.25, 0.5, 2.0):
        pulse(fraction)
        time.sleep(0.15)
    settings = Numerics.of_this_process()
    return {"dtype": str(settings.default_dtype), "flush": settings.flush_denormal, "threads": torch.get_num_threads()}


def open_nothing(context: object) -> None:
    pass


class Unopenable:
    """Pickles well, and cannot be made again."""

    def __reduce__(self) -> tuple[object, ...]:
        return _refuse, ()


def _refuse() -> None:
    raise DataError("this context cannot be opened")


def test_a_task_needs_a_function_that_others_can_import():
    def local(context: object) -> None:
        pass

    for function in (local, lambda context: None, "text".upper):
        with pytest.raises(ConfigError, match="top of a module"):
            WorkItem("a", function)


def test_bad_tasks_are_refused():
    with pytest.raises(ConfigError, match="key"):
        WorkItem("", note)
    for cost in (0, -1.0, float("nan")):
        with pytest.raises(ConfigError, match="cost"):
            WorkItem("a", note, cost=cost)
    with pytest.raises(TypeError, match="arguments of task 'a'"):
        WorkItem("a", note, {"name": torch.ones(1)})  # type: ignore[dict-item]


@pytest.mark.parametrize("workers", [0, -1, 1.5, True, None])
def test_the_number_of_workers_is_checked(workers):
    with pytest.raises(ConfigError, match="workers must be at least 1"):
        make_executor(workers)
    with pytest.raises(ConfigError, match="threads"):
        Inline(threads=workers)


def test_one_worker_is_this_process():
    assert isinstance(make_executor(1), Inline) and isinstance(make_executor(2), Processes)


# --- numerics ---------------------------------------------------------------------------------------------------------


def test_a_task_leaves_the_caller_s_settings_alone():
    torch.manual_seed(3)
    before = torch.get_num_threads(), torch.get_rng_state()
    with settled("key", threads=2):
        assert torch.get_num_threads() == 2
        first = torch.rand(1)
    assert torch.get_num_threads() == before[0] and torch.equal(torch.get_rng_state(), before[1])
    with settled("key", threads=1), torch.no_grad():
        assert torch.equal(torch.rand(1), first)
    with settled("another key", threads=1):
        assert not torch.equal(torch.rand(1), first)


def test_workers_take_over_the_caller_s_settings_and_send_pulses():
    torch.set_default_dtype(torch.float64)
    torch.set_flush_denormal(True)
    try:
        pulses: list[float] = []
        task = WorkItem("report", report_settings)
        stream = Processes(1)._stream([task], None, lambda task, fraction: pulses.append(fraction))
        ((_, outcome),) = stream
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_flush_denormal(False)
    assert outcome.value == {"dtype": "torch.float64", "flush": True, "threads": 1}
    assert pulses == [0.25, 0.5, 1.0]


def test_inline_pulses_reach_the_progress_bar(monkeypatch):
    seen: list[float] = []
    monkeypatch.setattr(progress.Bar, "set", lambda bar, completed: seen.append(completed))
    list(Inline().run([WorkItem("a", report_settings, cost=4.0), WorkItem("b", open_nothing, cost=2.0)]))
    assert seen == [1.0, 2.0, 4.0, 4.0, 6.0]
    pulse(0.5)  # Outside a task it is heard by nobody.
    assert len(seen) == 5


# --- the context and failures -----------------------------------------------------------------------------------------


def test_tensors_travel_in_one_shared_piece_of_memory():
    weight = torch.randn(1000)
    shared = SharedContext.of({"a": weight, "b": weight[10:20], "c": [torch.ones(3, 5).t(), torch.tensor(7)]})
    assert shared.memory.is_shared() and shared.memory.numel() == 4032 + 64 + 64 and len(shared.data) < 1000
    first, second = shared.open(), shared.open()
    assert torch.equal(first["a"], weight) and first["c"][0].stride() == (1, 5) and first["c"][1].item() == 7
    first["a"][10] = 5.0
    assert first["b"][0] == 5.0 and second["a"][10] == 5.0 and weight[10] != 5.0
    assert all(tensor.data_ptr() % 64 == 0 for tensor in (first["a"], *first["c"]))


def test_a_context_that_cannot_be_opened_ends_the_run():
    with pytest.raises(DataError, match="cannot be opened"):
        list(Processes(1).run([WorkItem("a", open_nothing)], Unopenable()))


class Awkward(Exception):  # noqa: N818
    """An exception that pickle cannot make again."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} {second}")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConfigError("rule"), ConfigError),
        (DataError("rule"), DataError),
        (RunError("rule"), RunError),
        (KeyError("key"), KeyError),
        (OSError(28, "No space left on device"), OSError),
        (MissingExtraError("library", "extra"), ConfigError),
        (Awkward(1, 2), RunError),
    ],
)
def test_exceptions_survive_the_way(error, expected):
    def raiser() -> None:
        raise error

    try:
        raiser()
    except Exception as caught:
        packed = Failure.of(caught)
    found = pickle.loads(pickle.dumps(packed)).unpack("a note")
    assert type(found) is expected and str(error) in str(found) and found.__notes__ == ["a note"]
    assert "in raiser" in str(found.__cause__)
    if isinstance(error, RametError):
        assert found.exit_code == error.exit_code


# --- processes that end -----------------------------------------------------------------------------------------------

DRIVER = """
import signal
import sys
from ramet.execution import Processes, WorkItem
from ramet.testing.executors import sleep

# A shell without job control starts what it puts in the background, and all that this starts, with SIGINT ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

if __name__ == "__main__":
    tasks = [WorkItem(str(index), sleep, {"name": str(index)}) for index in range(2)]
    try:
        list(Processes(2).run(tasks, sys.argv[1]))
    except KeyboardInterrupt:
        sys.exit(130)
"""


def processes_of_session(session: int) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(folder.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("how", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGKILL])
def test_the_workers_end_with_the_driver(tmp_path, how):
    """Ctrl-C reaches the whole group, as from a terminal; SIGKILL the driver alone."""
    script = tmp_path / "driver.py"
    script.write_text(textwrap.dedent(DRIVER))
    (tmp_path / "begun").mkdir()
    driver = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "begun")],
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    try:
        while len(os.listdir(tmp_path / "begun")) < 2:
            assert driver.poll() is None
            time.sleep(0.02)
        assert len(processes_of_session(driver.pid)) >= 3
        if how == signal.SIGINT:
            os.killpg(driver.pid, how)
        else:
            driver.kill()
        _, errors = driver.communicate(timeout=300)
        assert driver.returncode == (130 if how == signal.SIGINT else -signal.SIGKILL) and errors == b""
        deadline = time.monotonic() + 300
        while processes_of_session(driver.pid):
            assert time.monotonic() < deadline, "a worker has outlived its driver"
            time.sleep(0.01)
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)


@pytest.mark.slow
def test_a_script_without_a_guard_is_told_so(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from ramet.execution import Processes, WorkItem\n"
        "from ramet.testing.executors import note\n"
        "list(Processes(1, attempts=1).run([WorkItem('a', note, {'name': 'a'})], '.'))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=environment)
    assert done.returncode == 1 and "needs `if __name__ == '__main__':`" in done.stderr.splitlines()[-1]


# --- progress ---------------------------------------------------------------------------------------------------------


class Terminal:
    """A standard error that is a terminal and remembers what it was shown."""

    def __init__(self) -> None:
        self.text = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass


def test_a_bar_shows_late_on_a_terminal_only(monkeypatch):
    terminal = Terminal()
    num_threads = threading.active_count()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "_SECONDS_BEFORE_SHOWN", 3600.0)
    with progress.progress("short work", total=1):
        pass
    assert terminal.text == ""
    monkeypatch.setattr(progress, "_SECONDS_BEFORE_SHOWN", 0.0)
    with (
        progress.progress("outer work", total=4, completed=1) as outer,
        progress.progress("inner work", total=2) as bar,
    ):
        while outer.line is None or bar.line is None:
            time.sleep(0.01)
        outer.advance(2)
        while "75%" not in terminal.text:
            time.sleep(0.01)
        assert outer.time_left() != "-:--:--" and bar.time_left() == "-:--:--"
    assert "outer work" in terminal.text and " left" in terminal.text
    assert progress._screen._display is None
    deadline = time.monotonic() + 300
    while threading.active_count() > num_threads + 1:  # the timer of the short work waits for an hour
        assert time.monotonic() < deadline, "a thread of a bar is left"
        time.sleep(0.01)
    length = len(terminal.text)
    monkeypatch.setattr(terminal, "isatty", lambda: False)
    with progress.progress("outer work", total=4):
        time.sleep(0.1)
    assert len(terminal.text) == length


def test_the_time_left_counts_this_run_only(monkeypatch):
    clock = iter([100.0, 130.0, 160.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    bar = progress.Bar("work", total=100, completed=40)
    bar.set(50)  # Ten units in thirty seconds: fifty units take 150.
    assert bar.time_left() == "0:02:30"
    bar.set(100)
    assert bar.time_left() == "0:00:00"
