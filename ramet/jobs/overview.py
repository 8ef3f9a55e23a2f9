"""The runs under a folder: what each is, how far it is, its best figure, how large and how old it is."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ramet.errors import ConfigError, RametError
from ramet.jobs import JOBS
from ramet.reports.formats import duration, size
from ramet.reports.tables import Cell, Column, Columns, Headline, Table
from ramet.runs import read_config, read_records, remove_run

State = Literal["running", "finished", "interrupted", "damaged"]
STATES: tuple[State, ...] = ("running", "finished", "interrupted", "damaged")


@dataclass(frozen=True, kw_only=True)
class RunOverview:
    """One run directory.

    Attributes:
        path: where it is.
        kind: the job; none if its configuration cannot be read.
        state: ``running`` (a process of this machine holds its lock), ``finished``, ``interrupted`` (it can be
            resumed) or ``damaged`` (``words`` says how).
        best: its best figure; none before it is finished.
        num_bytes: how much room it takes.
        checkpoint_bytes: how much of that is checkpoints.
        seconds: since it last wrote a record.
        words: what else there is to say.
    """

    path: Path
    kind: str | None
    state: State
    best: Headline | None
    num_bytes: int
    checkpoint_bytes: int
    seconds: float
    words: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        best = None if self.best is None else {"name": self.best.name, "value": self.best.value, "of": self.best.of}
        values = {name: getattr(self, name) for name in ("kind", "state", "num_bytes", "checkpoint_bytes", "seconds")}
        return {"path": str(self.path), **values, "best": best, "words": self.words}


def find_runs(folder: Path) -> list[RunOverview]:
    """Every run under a folder, or the folder itself if it is one; the one that wrote last comes first.

    Raises:
        ConfigError: if there is no such folder.
    """
    if not folder.is_dir():
        raise ConfigError(f"runs are looked for in a folder, but {folder} is none.")
    return sorted((overview(path) for path in _run_folders(folder)), key=lambda run: (run.seconds, str(run.path)))


def overview(path: Path) -> RunOverview:
    """What there is to know of one run without changing anything in it."""
    sizes = _sizes(path)
    checkpoints = sum(length for name, length in sizes.items() if name.startswith("checkpoints" + os.sep))
    kind: str | None = None
    best, words = None, ""
    state: State = "interrupted"
    try:
        kind = read_config(path)["kind"]
        records = path / "records.jsonl"
        is_finished = records.exists() and any(record["key"] == "result" for record in read_records(path))
        if is_finished:
            state, best = "finished", _headline(path) if kind in JOBS else None
        elif is_running(path):
            state = "running"
    except RametError as error:
        state, words = "damaged", str(error)
    except Exception as error:  # one that somebody has edited must not hide the others
        state, words = "damaged", f"reading its result ended in {type(error).__name__}."
    age = max(0.0, time.time() - _last_written(path))
    total = sum(sizes.values())
    return RunOverview(
        path=path,
        kind=kind,
        state=state,
        best=best,
        num_bytes=total,
        checkpoint_bytes=checkpoints,
        seconds=age,
        words=words,
    )


def is_running(path: Path) -> bool:
    """Whether a process of this machine is writing a run.

    The lock is asked only while the process that it names is alive: asking takes the lock for a moment, and a run that
    is being resumed must not meet that moment. A process of another machine is not seen.
    """
    try:
        with open(path / "lock", encoding="ascii") as file:
            owner = int(file.read().strip() or 0)
            if owner <= 0 or not _is_alive(owner):
                return False
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    except (OSError, ValueError):
        pass  # no lock, or none that this user may read
    return False


def runs_table(runs: list[RunOverview], folder: Path) -> Table:
    """The runs in rows."""
    rows: list[list[Cell]] = [
        [
            _name(run.path, folder),
            run.kind or "-",
            run.state,
            "-" if run.best is None else f"{run.best.name} {run.best.text}",
            run.num_bytes,
            run.seconds,
        ]
        for run in runs
    ]
    columns: Columns = ["run", "kind", "state", "best figure", Column("size", size), Column("last written", _ago)]
    return Table(columns, rows)


def clean(run: RunOverview, *, checkpoints_only: bool) -> int:
    """Remove a run, or only the checkpoints of a finished one; gives the bytes that are free now.

    Raises:
        ConfigError: if it is running, or only checkpoints are to go and it is not finished.
        RunError: if it is in use, or the disk refuses.
    """
    if run.state == "running":
        raise ConfigError(f"a run must have ended before it is removed, but {run.path} is running.")
    if not checkpoints_only:
        remove_run(run.path)
        return run.num_bytes
    if run.state != "finished":
        raise ConfigError(f"checkpoints are needed until a run is finished, but {run.path} is {run.state}.")
    shutil.rmtree(run.path / "checkpoints", ignore_errors=True)
    return run.checkpoint_bytes


def _run_folders(folder: Path) -> Iterator[Path]:
    """Folders with the files of a run; a run holds no other run, so that nothing below one is looked at."""
    for parent, names, files in os.walk(folder):
        if {"config.json", "environment.json"} <= set(files):
            names.clear()
            yield Path(parent)
        names[:] = sorted(name for name in names if not name.startswith("."))


def _sizes(path: Path) -> dict[str, int]:
    found = {}
    for parent, _, names in os.walk(path):
        for name in names:
            file = Path(parent) / name
            try:
                found[str(file.relative_to(path))] = file.lstat().st_size
            except OSError:  # a run that goes on replaces its files
                continue
    return found


def _last_written(path: Path) -> float:
    for name in ("records.jsonl", "config.json"):
        try:
            return (path / name).stat().st_mtime
        except OSError:
            continue
    return time.time()


def _headline(path: Path) -> Headline | None:
    from ramet.jobs.runner import read_result

    return read_result(path).headline()


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _name(path: Path, folder: Path) -> str:
    return path.name if path == folder else str(path.relative_to(folder))


def _ago(seconds: float) -> str:
    return f"{duration(seconds)} ago"
