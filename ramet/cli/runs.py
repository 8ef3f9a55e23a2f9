"""`ramet resume` and `ramet report`: what can be done with a run directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ramet.cli.kinds import KINDS, kind_of
from ramet.cli.options import Common
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
    from ramet.execution.ranks import joined

    with joined() as ranks:
        # Only the leader needs the directory; the others know already that it can only be a search.
        kind = ranks.agree(lambda: kind_of(directory, "resume") if ranks.is_leader else KINDS["search"])
        result = kind.resume(
            directory, common.executor(), ranks, tensorboard=common.tensorboard, checkpoint_every=checkpoint_every
        )
    if ranks.is_leader:
        kind.show(result, directory, common.json)


def report(directory: Path, *, json: Annotated[bool, Parameter(negative=())] = False) -> None:
    """Write a run's report.html anew from its records, and print the result.

    Args:
        directory: the run directory.
        json: print the result as one JSON object on standard output.
    """
    from ramet.runs import read_records

    kind = kind_of(directory, "report")
    result: dict[str, Any] | None = next((r for r in read_records(directory) if r["key"] == "result"), None)
    if result is None:
        raise ConfigError(f"a run must be finished before its report, but {directory} is not; `ramet resume` goes on.")
    if not json:
        kind.write_report(directory)
    kind.show({key: value for key, value in result.items() if key != "key"}, directory, json)
