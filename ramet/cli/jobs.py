"""The commands of the jobs: start one, go on with one, write its report anew."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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

    job = job.asked()
    out = common.out or new_folder(job.kind)
    _run(partial(start, job.anchored(), out, overwrite=common.overwrite), common, out)


def resume(
    directory: Path,
    *,
    common: Common = Common(),  # noqa: B008 - an immutable default
) -> None:
    """Go on with a run that was interrupted; it ends with the same numbers as if it had never stopped.

    For example:

    - `ramet resume runs/first`
    - faster, to the same numbers: `ramet resume runs/first --workers 4`


    Args:
        directory: the run directory.
        common: how it is done; where is the run's own, so that out and overwrite are refused.
    """
    from ramet.errors import ConfigError
    from ramet.jobs.runner import resume as go_on

    if common.out is not None or common.overwrite:
        option = "--overwrite" if common.out is None else f"--out {common.out}"
        raise ConfigError(f"a run goes on in its own directory with what it began with, but got {option}.")
    _run(partial(go_on, directory), common, directory)


def report(directory: Path, *, json: Annotated[bool, FLAG] = False) -> None:
    """Write a run's report.html anew from its records, and print the result.

    For example:

    - `ramet report runs/first`
    - its result for programs: `ramet report runs/first --json`


    Args:
        directory: the run directory.
        json: print the result as one JSON object on standard output.
    """
    from ramet.errors import refusing
    from ramet.jobs.runner import read_result

    with refusing(f"{directory} must hold a result as a run writes it"):
        result = read_result(directory)
        if not json:
            result.write_report()
        _show(result, json)


def _run(run: Callable[..., Result | None], common: Common, directory: Path) -> None:
    """Start or go on, in as many processes as torchrun has started, and show the result."""
    from ramet.execution.ranks import joined

    with _saying_how_to_go_on(directory), joined() as ranks, _not_ended_from_within():
        result = run(
            executor=common.executor(),
            trust=common.trust,
            loggers=common.loggers(),
            seconds_between_checkpoints=common.checkpoint_every,
            ranks=ranks,
            notify=_notify,
        )
    if result is not None:
        _show(result, common.json)


@contextmanager
def _saying_how_to_go_on(directory: Path) -> Iterator[None]:
    """Give an interruption, Ctrl-C, the line that says where the run is."""
    try:
        yield
    except KeyboardInterrupt:
        if (directory / "config.json").exists():
            command = f"ramet resume {shlex.quote(str(directory))}"
            raise KeyboardInterrupt(f"interrupted; the run is in {directory}, and `{command}` goes on.") from None
        raise KeyboardInterrupt("interrupted, before anything was written.") from None


@contextmanager
def _not_ended_from_within() -> Iterator[None]:
    """Let ``sys.exit`` and its like, in code that a run was given, be a failure: otherwise the run passes for done."""
    from ramet.errors import RunError, told
    from ramet.execution.failures import ENDS

    try:
        yield
    except ENDS as error:
        raise RunError(f"what a run is given must not end it, but raised {told(error)}.") from error


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
