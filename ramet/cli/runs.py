"""`ramet runs`: the run directories under a folder, and making room."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App

from ramet.cli.options import FLAG, print_json
from ramet.errors import ConfigError

if TYPE_CHECKING:
    from ramet.jobs.overview import RunOverview

FOLDER = Path("runs")
"""Where commands put their runs if they are told no other place."""

runs_app = App(name="runs", help="List the runs under a folder, or make room.", help_format="markdown")


@runs_app.default
def list_runs(folder: Path = FOLDER, *, json: Annotated[bool, FLAG] = False) -> None:
    """List the runs under a folder: what each is, how far it is, its best figure, its size and its age.

    A run is *finished*, *running* (a process of this machine writes it), *interrupted* (`ramet resume DIR` goes on) or
    *damaged*. The best figure is the best of the first column of its table that is compared; `ramet report DIR` shows
    all. `ramet runs clean` makes room.

    For example:

    - `ramet runs`
    - `ramet runs results/runs --json`

    Args:
        folder: where to look; folders in it are looked into, runs are not.
        json: print the list as one JSON object on standard output.
    """
    from ramet.jobs.overview import runs_table

    runs = _found(folder)
    if json:
        print_json({"runs": [run.to_json() for run in runs]})
        return
    if not runs:
        print(f"There is no run in {folder}.")
        return
    runs_table(runs, folder).print()
    for run in runs:
        if run.words:
            print(f"{run.path}: {run.words}")


@runs_app.command
def clean(
    folder: Path = FOLDER,
    *,
    state: Annotated[tuple[Literal["finished", "interrupted", "damaged"], ...], FLAG] = (),
    older_than: float | None = None,
    checkpoints: Annotated[bool, FLAG] = False,
    yes: Annotated[bool, FLAG] = False,
    json: Annotated[bool, FLAG] = False,
) -> None:
    """Remove runs, or only the checkpoints of finished ones; without --yes it only says what it would remove.

    At least one of --state, --older-than and --checkpoints must say which. A run that is running is never touched. A
    finished run without its checkpoints keeps its figures, its report and its networks, and `ramet resume` and
    `ramet report` give its result as before.

    For example:

    - `ramet runs clean --checkpoints --yes`
    - what nobody went on with for a week: `ramet runs clean --state interrupted --older-than 7`

    Args:
        folder: where to look.
        state: only runs in that state; may be given several times.
        older_than: only runs that have written nothing for that many days.
        checkpoints: only the checkpoints of finished runs.
        yes: remove, and do not only say what would be removed.
        json: print what is removed as one JSON object on standard output.
    """
    from ramet.jobs.overview import clean as remove
    from ramet.reports.formats import size

    if not state and older_than is None and not checkpoints:
        raise ConfigError("clean must be told which runs, by --state, --older-than or --checkpoints, but got none.")
    if older_than is not None and not older_than >= 0:
        raise ConfigError(f"older_than must not be negative, but got {older_than}.")
    wanted = ("finished",) if checkpoints else state or ("finished", "interrupted", "damaged")
    chosen = [
        run
        for run in _found(folder)
        if run.state in wanted
        and (not state or run.state in state)
        and (older_than is None or run.seconds >= 86400 * older_than)
        and (not checkpoints or run.checkpoint_bytes)
    ]
    freed = 0
    for run in chosen:
        num_bytes = run.checkpoint_bytes if checkpoints else run.num_bytes
        freed += remove(run, checkpoints_only=checkpoints) if yes else num_bytes
        if not json:
            what = "checkpoints of " if checkpoints else ""
            print(f"{'removed' if yes else 'would remove'} {what}{run.path} ({run.state}, {size(num_bytes)})")
    if json:
        print_json({"removed": yes, "bytes": freed, "runs": [str(run.path) for run in chosen]})
    elif not chosen:
        print("There is nothing to remove.")
    else:
        print(f"{size(freed)} {'are free now' if yes else 'would be free'}.")
        if not yes:
            print("Nothing was removed: say --yes.", file=sys.stderr)


def _found(folder: Path) -> list[RunOverview]:
    """The runs of a folder; who has not run anything yet has no folder of runs, which is no mistake."""
    from ramet.jobs.overview import find_runs

    return [] if folder == FOLDER and not folder.exists() else find_runs(folder)
