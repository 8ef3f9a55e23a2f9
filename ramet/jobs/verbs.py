"""What the five verbs of Python have in common: where they run, and that a second call goes on."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ramet.errors import ConfigError
from ramet.jobs.job import Job

if TYPE_CHECKING:
    from ramet.execution import Executor
    from ramet.jobs.result import Result


def new_folder(kind: str) -> Path:
    """Where a run goes that was given no place."""
    return Path("runs") / f"{kind}-{time.strftime('%Y%m%d-%H%M%S')}"


def run_verb(
    job: Job[Any],
    out: str | Path | None,
    executor: Executor | int | None,
    data_options: dict[str, Any],
    *,
    trust: bool = False,
) -> Result:
    """Do a job, or go on with it, and give its result; ``trust`` is for code that files name which the job names."""
    from ramet.execution import make_executor
    from ramet.jobs.runner import start

    if data_options:
        try:
            job = replace(job, data_options=replace(job.data_options, **data_options))  # type: ignore[attr-defined,call-arg]
        except TypeError as error:
            raise ConfigError(f"options must be options of a data set, but: {error}.") from None
    place = new_folder(job.kind) if out is None else Path(out)
    engine = make_executor(executor or 1) if executor is None or isinstance(executor, int) else executor
    result = start(job.anchored(), place, engine, go_on=True, trust=trust)
    assert result is not None  # there are no ranks here
    return result
