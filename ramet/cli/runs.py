"""`ramet resume` and `ramet report`: what can be done with a run directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ramet.cli.options import Common
from ramet.cli.rank import show_rank
from ramet.errors import ConfigError


def resume(
    directory: Path,
    *,
    checkpoint_every: float = 30.0,
    common: Common = Common(),  # noqa: B008 - an immutable default
) -> None:
    """Go on with a run that was interrupted; it ends with the same numbers as if it had never stopped.

    Args:
        directory: the run directory.
        checkpoint_every: seconds after which a training saves itself; how much of it a kill may cost.
        common: the options of every command; seed, out and device are the run's own and are not taken from here.
    """
    from ramet.runs import read_config

    kind = read_config(directory)["kind"]
    if kind != "rank":
        raise ConfigError(f"a run to resume must be one of: rank; but {directory} is of kind {kind!r}.")
    from ramet.ranking.job import resume as resume_rank

    result = resume_rank(
        directory,
        common.executor(),
        tensorboard=common.tensorboard,
        seconds_between_checkpoints=checkpoint_every,
    )
    show_rank(result, directory, as_json=common.json)


def report(directory: Path, *, json: Annotated[bool, Parameter(negative=())] = False) -> None:
    """Write a run's report.html anew from its records, and print the result.

    Args:
        directory: the run directory.
        json: print the result as one JSON object on standard output.
    """
    from ramet.reports.rank import write_rank_report
    from ramet.runs import read_config, read_records

    kind = read_config(directory)["kind"]
    if kind not in ("rank", "rank-from-python"):
        raise ConfigError(f"a run to report must be one of: rank; but {directory} is of kind {kind!r}.")
    result: dict[str, Any] | None = next((r for r in read_records(directory) if r["key"] == "result"), None)
    if result is None:
        raise ConfigError(f"a run must be finished before its report, but {directory} is not; `ramet resume` goes on.")
    if not json:
        write_rank_report(directory)
    show_rank({key: value for key, value in result.items() if key != "key"}, directory, as_json=json)
