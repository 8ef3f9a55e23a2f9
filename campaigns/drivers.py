"""`ramet` in processes of their own that begin at once: forked from one that has imported everything already."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from campaigns.spare_server import offer

SECONDS_TO_END = 900.0
"""Long, because on a busy machine a worker may still be importing torch when its driver dies."""

_forked: list[int] = []
"""The processes that were forked here, each the first of its session."""


def preload() -> None:
    """Import what the jobs need, and start no thread: a thread does not come along when a process forks."""
    import importlib

    import torch

    torch.set_num_threads(1)
    torch.optim.SGD([torch.nn.Parameter(torch.empty(1))], lr=0.1)  # brings in what torch imports late
    os.environ["RAMET_PROGRESS"] = "0"
    for name in (
        "ramet.cli", "ramet.jobs.runner", "ramet.ranking.diagnosis", "ramet.searching.loop", "ramet.growth.growing",
        "ramet.continual.loop", "ramet.continual.study.search", "ramet.continual.methods", "ramet.execution.processes",
        "ramet.exporting.program", "ramet.jobs.rank.report", "ramet.jobs.search.report", "ramet.jobs.grow.report",
        "ramet.jobs.learn.report", "ramet.jobs.study.report", "ramet.runs.packing", "sklearn.datasets", "optuna",
        "sqlalchemy.dialects.sqlite", "hypothesis.stateful", "torch.export", "torch._dynamo", "scipy.stats", "networkx",
    ):  # fmt: skip
        importlib.import_module(name)
    _warm_hypothesis()


def _warm_hypothesis() -> None:
    """Let it look through all modules for numbers and texts, which takes seconds, once instead of in each process."""
    import hypothesis
    from hypothesis import strategies as st

    @hypothesis.settings(max_examples=1, database=None, deadline=None)
    @hypothesis.given(st.integers())
    def warm(number: int) -> None:
        assert number == int(number)

    warm()


@dataclass(frozen=True)
class Driver:
    """A process that was forked, the first of a session of its own; what it prints goes into a file."""

    pid: int
    output: Path

    def code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None

    def wait(self, seconds: float = SECONDS_TO_END) -> int:
        """The exit code, once it has ended.

        Raises:
            TimeoutError: It hangs; it is killed, with all that it started.
        """
        deadline = time.monotonic() + seconds
        while (code := self.code()) is None:
            if time.monotonic() > deadline:
                self.kill_group()
                os.waitpid(self.pid, 0)
                raise TimeoutError(f"it had not ended after {seconds:g} s.")
            time.sleep(0.002)
        return code

    def kill_group(self) -> None:
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:  # it has yet to make its own group, or is gone
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def errors(self) -> list[str]:
        """The lines that it wrote to standard error."""
        return self.output.read_text(errors="replace").splitlines()


@contextlib.contextmanager
def own_folder() -> Iterator[Path]:
    """A temporary folder. Not ``TemporaryDirectory``: at its end every forked process would remove that, too.

    Its name is short, because a socket's path, such as those of Ray, has at most 107 characters.
    """
    folder = Path(tempfile.mkdtemp(prefix="rc-"))
    try:
        yield folder
    finally:
        end_forked()
        shutil.rmtree(folder, ignore_errors=True)


def end_forked() -> None:
    """End what was forked here and still runs, with all that it started: it would go on to write into our folder.

    Only children that nobody has waited for: the numbers of others may be those of strangers by now.
    """
    for pid in _forked:
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(pid, os.WNOHANG)[0]:
                continue
            for number in [pid, *alive({pid})]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            os.waitpid(pid, 0)
            wait_until_gone({pid}, 60)
    _forked.clear()


def fork(work: Callable[[], None], output: Path) -> Driver:
    """Do something in a forked process; standard error goes into a file, standard output nowhere."""
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        _forked.append(pid)
        return Driver(pid, output)
    _forked.clear()
    code = 1
    try:
        os.setsid()
        _end_with(parent)
        nowhere = os.open(os.devnull, os.O_RDWR)
        errors = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        for number, descriptor in ((0, nowhere), (1, nowhere), (2, errors)):
            os.dup2(descriptor, number)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)  # also under pytest
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        work()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
    os._exit(_ended(code))


def _end_with(parent: int) -> None:
    """Let the kernel kill this process when the campaign ends, however it does: nothing of it may go on."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):  # other systems have no such call
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:  # it ended before that
        os._exit(1)


def _ended(code: int) -> int:
    """Do what the end of a process does, which ``os._exit`` leaves out: a cluster or a folder of our own goes then."""
    import atexit

    with contextlib.suppress(BaseException):
        atexit._run_exitfuncs()
    return code


def command(arguments: Sequence[str], output: Path, folder: Path, *, has_spare_server: bool = False) -> Driver:
    """`ramet` with some arguments, in a working folder that also holds its temporary files and its home.

    With a spare server, workers are forked by a process that has imported everything already.
    """

    def work() -> None:
        from ramet.cli import main

        os.chdir(folder)
        temporary = folder / "tmp"
        temporary.mkdir(exist_ok=True)
        os.environ |= {"HOME": str(folder), "TMPDIR": str(temporary), "RAY_TMPDIR": str(folder)}
        # A quarter of ramet's patience with a worker that starts: one that was killed then is missed only afterwards,
        # and these seconds of waiting were most of what a kill on Ray took.
        os.environ |= {"RAY_worker_register_timeout_seconds": "30"}
        tempfile.tempdir = None  # it was asked for before
        if has_spare_server:
            offer()
        main(list(arguments))

    return fork(work, output)


def alive(sessions: set[int]) -> dict[int, str]:
    """The processes of some sessions that are not zombies, with their command lines."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, _, _, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            if state != "Z" and int(session) in sessions:
                found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ").strip()
    return found


def wait_until_gone(sessions: set[int], seconds: float = SECONDS_TO_END) -> list[str]:
    """Wait until no process of some sessions is left; the command lines of those that stay, which are ended then."""
    deadline = time.monotonic() + seconds
    while left := alive(sessions):
        if time.monotonic() > deadline:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return sorted(left.values())
        time.sleep(0.01)
    return []
