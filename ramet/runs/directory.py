"""A run's directory: what was asked, where it ran, what happened, and how to go on."""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import ramet
from ramet.errors import ConfigError, DiskError, RunError, text_of
from ramet.runs.atomic import is_temporary, remove_folder, write_atomically, writing
from ramet.runs.checkpoints import Checkpoints
from ramet.runs.encoding import FORMAT_VERSION, JSON, READABLE_FORMATS, decode, encode, plain
from ramet.runs.environment import changed_entries, describe_environment
from ramet.runs.identity import agrees, identity
from ramet.runs.lock import RunLock
from ramet.runs.records import Records
from ramet.runs.regular import read_regular

_logger = logging.getLogger(__name__)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=+,-]*(/[A-Za-z0-9][A-Za-z0-9._=+,-]*)*")
# What a creation that was killed before its last step leaves behind; config.json is that last step.
_HALF_CREATED = {"lock", "environment.json", "records.jsonl", "checkpoints"}


class Run:
    """One run directory, locked for this process until ``close`` or the end of a ``with`` block.

    Made by ``create`` or ``open``. The driver is the only one that appends records; tasks in worker processes
    write checkpoints only, each under a name of its own.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp() + "/first"
    >>> with Run.create(folder, "rank", {"seed": 1}) as run:
    ...     run.records.append("epoch/1", loss=0.5)
    True
    >>> with Run.open(folder) as run:
    ...     run.kind, run.config, run.records["epoch/1"]["loss"]
    ('rank', {'seed': 1}, 0.5)
    """

    def __init__(
        self, path: Path, kind: str, config: dict[str, Any], lock: RunLock, version: int = FORMAT_VERSION
    ) -> None:
        self.path = path
        self.kind = kind
        self.config = config
        self.identity: str | None = None
        self._lock = lock
        self.records = Records(path / "records.jsonl", checked=version > 1)

    @classmethod
    def create(cls, path: str | os.PathLike[str], kind: str, config: Mapping[str, JSON]) -> Self:
        """Make a new run directory and lock it.

        Args:
            path: The directory; it may exist if it is empty. Its parents are made.
            kind: The job, such as ``"rank"``; ``ramet resume`` starts this job again.
            config: Every value that the run uses.

        Raises:
            ConfigError: If the directory exists and is not empty.
            RunError: If it cannot be written or is in use; nothing is left behind.
            TypeError: If the configuration is not JSON.
        """
        folder = Path(path)
        document = {"format": FORMAT_VERSION, "ramet": ramet.__version__, "kind": kind, "config": config}
        text = encode(document, where="config", indent=2) + "\n"
        _check_free(folder)
        with writing(folder):
            is_new = _make_folder(folder)
        try:
            lock = RunLock(folder / "lock")
        except RunError:
            if is_new:
                with contextlib.suppress(OSError):
                    folder.rmdir()
            raise
        try:
            _check_free(folder)  # Again, now that no other process can be creating the same run.
        except ConfigError:
            lock.release()
            raise
        try:
            write_atomically(folder / "environment.json", _pretty(describe_environment()))
            with writing(folder):
                (folder / "records.jsonl").unlink(missing_ok=True)
            run = cls(folder, kind, decode(text)["config"], lock)
            # Last, because a directory is a run once it has its configuration.
            write_atomically(folder / "config.json", text.encode())
        except BaseException:
            _discard(folder, is_new)
            lock.release()
            raise
        return run

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Lock a run directory in order to go on with it; leftovers of an interrupted write are removed.

        Raises:
            ConfigError: If there is no run, or one that another version of the format wrote.
            RunError: If it is in use, its records are damaged, or it cannot be written.
        """
        folder = Path(path)
        read_config(folder)
        lock = RunLock(folder / "lock")
        try:
            document = read_config(folder)  # Again: another process may have put a new run in its place before.
            _sweep(folder)
            run = cls(folder, document["kind"], document["config"], lock, document["format"])
        except BaseException:
            lock.release()
            raise
        _warn_of_changes(folder)
        return run

    def checkpoints(self, name: str) -> Checkpoints:
        """The checkpoints of one part of the run, in the folder ``checkpoints/NAME``.

        Raises:
            ConfigError: If the name is anything but letters, digits and ``. _ = + , -``, in parts divided by ``/``.
        """
        if not _NAME.fullmatch(name):
            raise ConfigError(f"a checkpoint's name must be letters, digits and ._=+,- divided by /, but got {name!r}.")
        # A checkpoint stands for the records before it, so these have to be on the disk first.
        folder = self.path / "checkpoints" / name
        return Checkpoints(folder, before_save=self.records.sync, identity=self.identity)

    def identify(self, asked: JSON, setting: Mapping[str, JSON]) -> None:
        """Say what the run is, before it does anything, in the record ``setting``; refuse to go on as another one.

        From then on ``identity`` names the run, and its checkpoints carry it. A run from before there were identities
        has none, and goes on without.

        Args:
            asked: The values of the configuration that a result depends on; the ``differences`` from its defaults.
            setting: What the configuration led to when it was read: fingerprints of data, the layers of a network. A
                file may have changed since.

        Raises:
            ConfigError: If the configuration, what it leads to, or a checkpoint is not what the run began with.
        """
        if "setting" in self.records:
            began = self.records["setting"]
            del began["key"]
            self.identity = began.pop("identity", None)
            changed = [name for name, value in began.items() if not agrees(value, plain(setting.get(name)))]
            if not changed and self.identity not in (None, identity(self.kind, asked, began)):
                changed = ["config.json"]
            if changed:
                also = ", or the defaults did with the version" if changed == ["config.json"] else ""
                raise ConfigError(
                    f"a run goes on with what it began with, but the {changed[0]} of {self.path} changed since{also}."
                )
        elif len(self.records) == 0:  # where records began without a setting, an earlier version wrote them
            self.identity = identity(self.kind, asked, setting)
            self.records.append("setting", identity=self.identity, **setting)
        inside = {path.parent for path in self.path.glob("*/**/config.json") if _is_run(path.parent)}
        for folder in sorted({path.parent for path in self.path.rglob("step-*.json")}):
            if not inside.intersection(folder.parents):  # a run inside this one looks after its own
                Checkpoints(folder, identity=self.identity).check()

    def record_failure(self, key: str, error: BaseException) -> None:
        """Record that a task has failed for good, and why; it is not done, so a resumed run tries it again.

        The record's own key counts the failures of the same task, one for each resumption.
        """
        number = 1
        while f"failed/{number}/{key}" in self.records:
            number += 1
        reason = " ".join(text_of(error).split())
        self.records.append(f"failed/{number}/{key}", kind=type(error).__name__, reason=reason)

    def close(self) -> None:
        """Release the lock; twice is the same as once."""
        self.records.close()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def read_config(run: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of a run's ``config.json``, read without a lock: ``format``, ``ramet``, ``kind`` and ``config``."""
    folder = Path(run)
    path = folder / "config.json"
    if not folder.is_dir():
        raise ConfigError(f"a run directory must exist, but {folder} does not.")
    if not path.is_file():
        raise ConfigError(f"a run directory must contain config.json, but {folder} does not.")
    try:
        document = decode(read_regular(path))
    except OSError as error:
        raise DiskError(f"cannot read {path}: {error.strerror or error}.") from error
    except ValueError:
        raise ConfigError(f"config.json must be JSON, but {path} is damaged.") from None
    if not isinstance(document, dict):
        raise ConfigError(f"config.json must be a JSON object, but {path} is not.")
    version = document.get("format")
    if type(version) is not int or version not in READABLE_FORMATS:
        known = " and ".join(map(str, READABLE_FORMATS))
        raise ConfigError(f"this ramet reads run directories of the formats {known}, but {folder} has {version!r:.80}.")
    if not isinstance(document.get("kind"), str) or not isinstance(document.get("config"), dict):
        raise ConfigError(f"config.json must hold a kind and a config, but {path} does not.")
    return document


def remove_run(path: str | os.PathLike[str]) -> None:
    """Remove a run directory to make room for a new run; a folder that is not a run is refused, none is fine."""
    folder = Path(path)
    if not folder.exists():
        return
    if not _is_run(folder):
        raise ConfigError(f"only a run directory can be overwritten, but {folder} is not one.")
    lock = RunLock(folder / "lock")
    try:
        remove_folder(folder)
    finally:
        lock.release()


def _is_run(folder: Path) -> bool:
    """Whether a folder is a run of any format; other programs have a config.json too, and must not lose it."""
    try:
        document = decode(read_regular(folder / "config.json"))
    except (OSError, ValueError):
        return False
    return isinstance(document, dict) and {"format", "ramet", "kind", "config"} <= set(document)


def _check_free(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"a new run needs a new or empty directory, but {folder} is a file.")
    for parent in folder.parents:
        if parent.exists():
            if not parent.is_dir():
                raise ConfigError(f"a new run needs a new or empty directory, but {parent} is a file.")
            break
    if folder.is_dir():
        try:
            names = {name for name in os.listdir(folder) if not is_temporary(name)}
        except OSError as error:
            raise DiskError(f"cannot read {folder}: {error.strerror or error}.") from error
        if names - _HALF_CREATED or (names and "lock" not in names):
            hint = "name another one"
            if _is_run(folder):
                hint = f"`ramet resume {folder}` goes on with the run in it, --overwrite replaces it"
            raise ConfigError(f"a new run needs a new or empty directory, but {folder} is not empty; {hint}.")


def _make_folder(folder: Path) -> bool:
    """Make a folder and its parents; False if it was there already."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        return False
    return True


def _discard(folder: Path, is_new: bool) -> None:
    """Remove what a failed creation made, and nothing that was there before."""
    if is_new:
        with contextlib.suppress(RunError):
            remove_folder(folder)
    else:
        for name in ("environment.json", "records.jsonl", "lock"):
            with contextlib.suppress(OSError):
                (folder / name).unlink()


def _sweep(folder: Path) -> None:
    with writing(folder):
        for parent, _, names in os.walk(folder):
            for name in filter(is_temporary, names):
                (Path(parent) / name).unlink(missing_ok=True)


def _warn_of_changes(folder: Path) -> None:
    try:
        before = decode(read_regular(folder / "environment.json"))
        changes = changed_entries(before, describe_environment())
    except (OSError, ValueError, AttributeError):
        changes = ["environment.json cannot be read"]
    if changes:
        text = "; ".join(changes)
        _logger.warning("The numbers of %s may differ from an uninterrupted run: %s.", folder, text)


def _pretty(value: JSON) -> bytes:
    return (encode(value, indent=2) + "\n").encode()
