"""The front door of the command line: sub-commands, exit codes, one line for each error."""

from __future__ import annotations

import errno
import logging
import sys
from collections.abc import Callable, Sequence

from cyclopts import App, CycloptsError

import ramet
from ramet.cli.forgot import forgot
from ramet.cli.jobs import report, resume
from ramet.cli.listing import data_app, list_parts
from ramet.cli.reproduce import reproduce
from ramet.errors import ConfigError, LostRankError, RametError
from ramet.execution.launch import is_launched, is_leader
from ramet.jobs import SUMMARIES, job_class


def make_app(arguments: Sequence[str]) -> App:
    """The commands; only that of the job which the arguments name has its options, which take time to make."""
    app = App(
        name="ramet",
        help="Train many networks on one set of weights without letting them forget each other.",
        version=ramet.__version__,
        help_format="markdown",
        help_epilogue="Exit code 0: done. 1: a failure. 2: bad input, nothing written. "
        "`ramet COMMAND --help` says more.",
    )
    for kind, summary in SUMMARIES.items():
        if kind in arguments:
            app.command(_job_command(kind), name=kind)
        else:
            app.command(App(name=kind, help=summary, help_format="markdown"))
    app.command(forgot)
    app.command(reproduce)
    app.command(resume)
    app.command(report)
    app.command(list_parts, name="list")
    app.command(data_app)
    return app


def _job_command(kind: str) -> Callable[..., None]:
    from ramet.cli.jobs import start_job
    from ramet.cli.options import command_of

    return command_of(job_class(kind), start_job)


RANKED = ("search", "resume")
"""The commands that share their work among the processes of torchrun."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 a failure, 2 bad input."""
    level = logging.WARNING if is_leader() else logging.CRITICAL
    logging.basicConfig(level=level, format="ramet: %(message)s", stream=sys.stderr)
    try:
        given = sys.argv[1:] if arguments is None else arguments
        _check_launch(given)
        make_app(given)(given, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        _fail(" ".join(str(error).split()), code=2)
    except LostRankError as error:
        _fail(str(error), code=error.exit_code, speaks=True)
    except RametError as error:
        _fail(" ".join(str(error).split()), code=error.exit_code)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        is_input = error.errno == errno.ENAMETOOLONG  # no path of ramet's own making is that long
        _fail(f"the system refused: {error.strerror or error}{where}.", code=2 if is_input else 1)
    except KeyboardInterrupt:
        _fail("interrupted; `ramet resume DIR` goes on from here.", code=130)


def _check_launch(arguments: Sequence[str]) -> None:
    """Refuse torchrun where its processes would all do the same."""
    if is_launched() and arguments and arguments[0] not in RANKED and not arguments[0].startswith("-"):
        names = " and ".join(f"`ramet {name}`" for name in RANKED)
        raise ConfigError(f"torchrun is for {names}, but got {arguments[0]!r}.")


def _fail(message: str, code: int, *, speaks: bool = False) -> None:
    if speaks or is_leader():
        print(f"ramet: {message}", file=sys.stderr)
    sys.exit(code)
