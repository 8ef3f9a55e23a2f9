"""The storage of a study, and the study in it: opened by many at once, refused in one line, and never mixed up."""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ramet.continual.study.address import engine_address, masked, plain_address, scrubbed
from ramet.errors import ConfigError, MissingExtraError, RunError
from ramet.runs.encoding import encode
from ramet.runs.lock import folder_lock

if TYPE_CHECKING:
    import optuna

PATIENCE_SECONDS = 8.0
"""How long a server may take to answer."""
_ATTEMPTS = 6
_BUSY_SECONDS = 60


def import_optuna() -> Any:
    """Optuna, which is imported late because it is optional."""
    try:
        import optuna
    except ImportError:
        raise MissingExtraError("Optuna", "optuna") from None
    return optuna


@dataclass(frozen=True)
class StudyStorage:
    """An Optuna storage by an address that may hold a password, and is shown through ``masked`` only."""

    address: str

    @property
    def shown(self) -> str:
        """The address without its password."""
        return masked(self.address)

    def check(self, name: str, setting: Mapping[str, str], former: Mapping[str, str] | None = None) -> None:
        """Refuse, before anything is written, an address that does not work or a study that is another's."""
        url = engine_address(self.address)
        if url.get_backend_name() == "sqlite" and not Path(url.database).exists():
            return  # it will be made
        optuna = import_optuna()
        self._knock(url)
        with self._refusals():
            storage = self.open()
            with contextlib.suppress(KeyError):  # no such study yet
                study = optuna.load_study(study_name=name, storage=storage)
                _require_same(study, setting, former or {}, name, self.shown, may_adopt=False)

    def open(self) -> Any:
        """The storage, with its tables; several processes may make them at the same time."""
        optuna, url = import_optuna(), engine_address(self.address)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        arguments: dict[str, Any] = {"pool_pre_ping": True, "connect_args": _connect_arguments(url)}
        for attempt in range(_ATTEMPTS):
            try:
                with self.exclusively():
                    return optuna.storages.RDBStorage(plain_address(url), engine_kwargs=arguments)
            except _sql_errors():
                # Two that make the tables of a fresh database collide; the second finds them made.
                if attempt == _ATTEMPTS - 1:
                    raise
                time.sleep(0.2 * (attempt + 1))
        raise AssertionError("not reached")

    def join(
        self, name: str, setting: Mapping[str, str], former: Mapping[str, str] | None = None, *, may_adopt: bool
    ) -> optuna.Study:
        """The study of a name, made if there is none; exactly one of those that join makes it.

        ``setting`` has a digest of each thing that all trials of the study have in common; another one is refused, but
        for ``former`` ones, which earlier versions took. ``may_adopt`` says whether a study without a setting is taken
        for ours, as in a run of an earlier version.
        """
        optuna, storage = import_optuna(), self.open()
        try:
            study = optuna.create_study(storage=storage, study_name=name, directions=["maximize", "minimize"])
            study.set_user_attr("id", uuid.uuid4().hex)
            study.set_user_attr("setting", dict(setting))
        except optuna.exceptions.DuplicatedStudyError:
            study = optuna.load_study(study_name=name, storage=storage)
            deadline = time.monotonic() + PATIENCE_SECONDS
            while "setting" not in study.user_attrs and not study.get_trials() and time.monotonic() < deadline:
                time.sleep(0.1)  # its maker has yet to say what it is; one that died there never will
        may_adopt = may_adopt or not study.get_trials(deepcopy=False)
        _require_same(study, setting, former or {}, name, self.shown, may_adopt=may_adopt)
        if "setting" not in study.user_attrs:
            study.set_user_attr("setting", dict(setting))
        if "id" not in study.user_attrs:
            study.set_user_attr("id", uuid.uuid4().hex)
        return study  # type: ignore[no-any-return]

    @contextlib.contextmanager
    def exclusively(self) -> Iterator[None]:
        """A lock for all processes that use the storage, where it is a SQLite file; servers lock rows by themselves."""
        url = engine_address(self.address)
        if url.get_backend_name() != "sqlite":
            yield
            return
        with folder_lock(Path(url.database).parent):
            yield

    @contextlib.contextmanager
    def failures(self) -> Iterator[None]:
        """Turn what a storage raises while it is used into one line."""
        try:
            yield
        except _sql_errors() as error:
            raise RunError(f"the storage {self.shown} must work, but: {self._line(error)}.") from None

    @contextlib.contextmanager
    def _refusals(self) -> Iterator[None]:
        """The same at the beginning, when nothing is lost and the user can mend it."""
        try:
            yield
        except _sql_errors(RuntimeError) as error:  # which tables of another version of Optuna raise
            raise ConfigError(f"the storage {self.shown} must work, but: {self._line(error)}.") from None

    def _knock(self, url: Any) -> None:
        from sqlalchemy import create_engine
        from sqlalchemy.pool import NullPool

        engine = create_engine(url, poolclass=NullPool, connect_args=_connect_arguments(url))
        error = _within(PATIENCE_SECONDS, lambda: engine.connect().close())
        if isinstance(error, TimeoutError):
            raise ConfigError(
                f"the server of the storage {self.shown} must answer within {PATIENCE_SECONDS:g} s, but does not."
            )
        if error is not None:
            raise ConfigError(f"the storage {self.shown} must let us in, but: {self._line(error)}.")

    def _line(self, error: BaseException) -> str:
        """The first line of what the driver said, without SQLAlchemy's frame and without the password."""
        cause: BaseException = error
        while cause.__cause__ is not None:  # Optuna wraps SQLAlchemy's errors
            cause = cause.__cause__
        said = str(getattr(cause, "orig", None) or cause).strip() or type(cause).__name__
        return scrubbed(said, self.address).splitlines()[0].rstrip(" .")


def digest(value: Any) -> str:
    """A short name for JSON of any length."""
    return hashlib.sha256(encode(value, sort_keys=True).encode()).hexdigest()


def _require_same(
    study: Any, setting: Mapping[str, str], former: Mapping[str, str], name: str, where: str, *, may_adopt: bool
) -> None:
    known = study.user_attrs.get("setting")
    if known is None and may_adopt:
        return
    same = {key: (digest, former.get(key, digest)) for key, digest in setting.items()}
    differing = ["purpose"] if known is None else [key for key in setting if known.get(key) not in same[key]]
    if differing:
        raise ConfigError(
            f"a study has one stream and one setting, but the {name!r} in {where} has another "
            f"{', '.join(differing)}; another --name begins a new study."
        )


def _within(seconds: float, action: Callable[[], Any]) -> BaseException | None:
    """Do something that may hang, such as asking for a name or a server; gives what it raised, if anything."""
    raised: list[BaseException] = []

    def act() -> None:
        try:
            action()
        except BaseException as error:
            raised.append(error)

    # A daemon, because a connection that hangs must not keep the process from ending.
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(seconds)
    return TimeoutError() if thread.is_alive() else raised[0] if raised else None


def _connect_arguments(url: Any) -> dict[str, Any]:
    if url.get_backend_name() == "sqlite":
        return {"timeout": _BUSY_SECONDS}  # how long one writer waits for another
    if url.get_driver_name().startswith("psycopg") and "connect_timeout" not in url.query:
        return {"connect_timeout": int(PATIENCE_SECONDS)}
    return {}


def _sql_errors(*others: type[BaseException]) -> tuple[type[BaseException], ...]:
    from sqlalchemy.exc import SQLAlchemyError

    return (SQLAlchemyError, import_optuna().exceptions.StorageInternalError, *others)
