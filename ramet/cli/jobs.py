"""The commands of the jobs: start one, go on with one, write its report anew."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ramet.cli.options import FLAG, Common, print_json

if TYPE_CHECKING:
    from ramet.jobs import Job
    from ramet.jobs.result import Result


def start_job(job: Job[Any], common: Common) -> None:
    """Start a new run of a job, and show its result."""
    from ramet.jobs.job import new_folder
    from ramet.jobs.runner import start

    out = common.out or new_folder(job.kind)
    _run(partial(start, job.anchored(), out, overwrite=common.overwrite), common)


def resume(
    directory: Path,
    *,
    common: Common = Common(),  # noqa: B008 - an immutable default
) -> None:
    """Go on with a run that was interrupted; it ends with the same numbers as if it had never stopped.

    Args:
        directory: the run directory.
        common: where and how it is done; out is the run's own and is not taken from here.
    """
    from ramet.jobs.runner import resume as go_on

    _run(partial(go_on, directory), common)


def report(directory: Path, *, json: Annotated[bool, FLAG] = False) -> None:
    """Write a run's report.html anew from its records, and print the result.

    Args:
        directory: the run directory.
        json: print the result as one JSON object on standard output.
    """
    from ramet.jobs.runner import read_result

    result = read_result(directory)
    if not json:
        result.write_report()
    _show(result, json)


def _run(run: Callable[..., Result | None], common: Common) -> None:
    """Start or go on, in as many processes as torchrun has started, and show the result."""
    from ramet.execution.ranks import joined

    with joined() as ranks:
        result = run(
            executor=common.executor(),
            trust=common.trust,
            tensorboard=common.tensorboard,
            seconds_between_checkpoints=common.checkpoint_every,
            ranks=ranks,
            notify=_notify,
        )
    if result is not None:
        _show(result, common.json)


def _show(result: Result, as_json: bool) -> None:
    if as_json:
        print_json(result.to_json())
    else:
        result.show()


def _notify(event: str, values: dict[str, Any]) -> None:
    """A line on standard error, as the job goes on, if that is a terminal."""
    import sys

    if sys.stderr.isatty():
        print(values.get("line", event), file=sys.stderr)
