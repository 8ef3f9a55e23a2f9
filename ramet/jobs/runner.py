"""One way to start a job and one to go on with it, whatever the job is."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from ramet.errors import ConfigError, refusing
from ramet.execution import Executor
from ramet.execution.ranks import ALONE, Ranks
from ramet.fields import differing_places, from_json
from ramet.jobs import JOBS, Job, job_class
from ramet.jobs.job import Session
from ramet.jobs.result import Result
from ramet.registry import check_trust
from ramet.runs import Run, differences, read_config, read_records, remove_run
from ramet.runs.encoding import Json, decode, encode, plain
from ramet.runs.identity import agrees
from ramet.runs.loggers import Mirror, RunLogger

_logger = logging.getLogger(__name__)
Notify = Callable[[str, Json], None]


def start(
    job: Job[Any],
    out: Path,
    executor: Executor,
    *,
    overwrite: bool = False,
    go_on: bool = False,
    trust: bool = False,
    loggers: Sequence[RunLogger] = (),
    seconds_between_checkpoints: float = 30.0,
    ranks: Ranks = ALONE,
    notify: Notify = lambda event, values: None,
) -> Result | None:
    """Do a job in a new run directory; gives its result, and leaves ``report.html`` there.

    Args:
        job: what is asked.
        out: the run directory.
        executor: where independent trainings run.
        overwrite: replace a run that is there already.
        go_on: go on with a run of the same job that is there already.
        trust: run code that files name which the job names; what the job itself names runs in any case.
        loggers: what is told the numbers of the records besides; ``ramet.runs.loggers.make_loggers`` makes some.
        seconds_between_checkpoints: how much work a kill may cost; it has no influence on the result.
        ranks: the processes that do the job together; only the leader writes, the others get no result.
        notify: called with events while the job is done.

    Raises:
        ConfigError: something cannot work, or ``out`` is in the way; nothing is written then.
        RunError: the job failed.
    """
    _check(job, seconds_between_checkpoints, ranks)
    setup = ranks.agree(lambda: replace(job, device=ranks.device(job.device)).build(trust=trust))

    def make() -> Run | None:
        if not ranks.is_leader:
            return None
        if overwrite:
            remove_run(out)
        if go_on and (out / "config.json").exists():
            return _opened(out, job)
        return Run.create(out, job.kind, job.to_json())

    with ranks.agree(make) or nullcontext() as run:
        session = Session(run, executor, ranks, seconds_between_checkpoints, notify)  # type: ignore[arg-type]
        return _do(job, setup, session, loggers)


def resume(
    path: Path,
    executor: Executor,
    *,
    trust: bool = False,
    loggers: Sequence[RunLogger] = (),
    seconds_between_checkpoints: float = 30.0,
    ranks: Ranks = ALONE,
    notify: Notify = lambda event, values: None,
) -> Result | None:
    """Go on with a run that was interrupted; one that is finished gives its result again.

    Code that the run's configuration names (``FILE.py:name``) runs only with ``trust``; without it, such a run is
    refused. Only the leader of the ranks needs the path, and there may be more or fewer ranks than before. All else is
    as in ``start``.
    """
    with ranks.agree(lambda: Run.open(path) if ranks.is_leader else None) or nullcontext() as run:
        kind, config = decode(ranks.tell(b"" if run is None else encode([run.kind, run.config]).encode()))
        if ranks.size == 1 and run is not None and "result" in run.records:
            known = job_class(kind) if kind in JOBS else None
            if known is not None and not known.is_checked_when_finished:
                with refusing(f"{path} must hold a result as a run writes it"):
                    return _given(known, run)
        job = ranks.agree(lambda: read_job(kind, config, path))
        _check(job, seconds_between_checkpoints, ranks)
        ranks.agree(lambda: check_trust(job.code(), trust))
        setup = ranks.agree(lambda: replace(job, device=ranks.device(job.device)).build(trust=trust))
        session = Session(run, executor, ranks, seconds_between_checkpoints, notify)  # type: ignore[arg-type]
        return _do(job, setup, session, loggers)


def read_job(kind: str, config: Json, where: Path) -> Job[Any]:
    """The job of a run; refused if it was given objects from Python."""
    if kind not in JOBS:
        raise ConfigError(f"a run must be of one of the kinds {', '.join(JOBS)}, but {where} is of kind {kind!r}.")
    if objects := _objects(config):
        raise ConfigError(
            f"a run that was given objects goes on from Python, with the same call, but {where} was given {objects[0]}."
        )
    return job_class(kind).from_json(config)


def read_result(path: Path) -> Result:
    """The result of a finished run."""
    kind = read_config(path)["kind"]
    if kind not in JOBS:
        raise ConfigError(f"a run must be of one of the kinds {', '.join(JOBS)}, but {path} is of kind {kind!r}.")
    values = next((dict(record) for record in read_records(path) if record["key"] == "result"), None)
    if values is None:
        raise ConfigError(f"a run must be finished before its report, but {path} is not; `ramet resume` goes on.")
    del values["key"]
    return job_class(kind).result_class().from_json(values, path)


def _check(job: Job[Any], seconds_between_checkpoints: float, ranks: Ranks) -> None:
    if not seconds_between_checkpoints >= 0:
        raise ConfigError(f"seconds_between_checkpoints must not be negative, but got {seconds_between_checkpoints}.")
    if ranks.size > 1 and not job.can_share_ranks:
        raise ConfigError(f"torchrun is for searches, but got a job of kind {job.kind!r}.")


def _opened(path: Path, job: Job[Any]) -> Run:
    run = Run.open(path)
    unused = set(job.idle()) - set(job.apart)
    began, asked = (_without(values, unused) for values in (run.config, plain(job.to_json())))
    if run.kind != job.kind or not agrees(began, asked):
        run.close()
        changed = differing_places(began, asked)
        what = f"its {changed[0]} is another" if run.kind == job.kind else f"it is of kind {run.kind!r}"
        raise ConfigError(f"a run goes on with what it began with, but for {path}: {what}.")
    return run


def _without(values: Any, names: Collection[str]) -> Any:
    """A configuration without some of its fields, such as ``plan.staged``."""
    if not isinstance(values, dict):
        return values
    parts = [name.partition(".") for name in names]
    inner = {first: [rest for other, _, rest in parts if other == first] for first, dot, _ in parts if dot}
    return {
        key: _without(value, inner.get(key, [])) if key in inner else value
        for key, value in values.items()
        if key not in names
    }


def _do(job: Job[Any], setup: Any, session: Session, loggers: Sequence[RunLogger]) -> Result | None:
    run: Run | None = session.run  # none on a rank that is not the leader, whose job does not ask for it
    session.ranks.agree(lambda: _identify(job, setup, run))
    with Mirror(run, loggers) if loggers and run is not None else nullcontext():
        values = job.work(setup, session)
        if run is None or values is None:
            return None
        if "result" not in run.records:
            run.records.append("result", **plain(values))
    return _given(type(job), run)


def _given(job: type[Job[Any]], run: Run) -> Result:
    """The result of a finished run; writes its report."""
    values = {key: value for key, value in run.records["result"].items() if key != "key"}
    result = job.result_class().from_json(values, run.path)
    result.write_report()
    return result


def _identify(job: Job[Any], setup: Any, run: Run | None) -> None:
    """Say what the run is, or refuse to go on as another one: a file or config.json may have changed meanwhile."""
    if run is None:
        return
    values = plain(job.to_json())
    # A recipe that was given from Python is read back as the job's own, whose defaults may be others.
    read = job if _objects(values) else from_json(type(job), values)
    run.identify(differences(read, apart=job.idle()), plain(job.setting(setup)))


def _objects(values: Any) -> list[str]:
    """The objects that a configuration describes and can't make again."""
    if isinstance(values, dict):
        if "$object" in values:
            return [str(values["$object"])]
        return [found for value in values.values() for found in _objects(value)]
    return [found for value in values for found in _objects(value)] if isinstance(values, list) else []
