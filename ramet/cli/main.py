"""The front door of the command line: sub-commands, exit codes, one line for each error."""

from __future__ import annotations

import errno
import logging
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

import ramet
from ramet.cli.data import data_app
from ramet.cli.grow import grow
from ramet.cli.learn import learn
from ramet.cli.rank import rank
from ramet.cli.reproduce import reproduce
from ramet.cli.runs import report, resume
from ramet.cli.search import search
from ramet.cli.study import study
from ramet.errors import RametError

app = App(
    name="ramet",
    help="Train many networks on one set of weights without letting them forget each other.",
    version=ramet.__version__,
    help_format="markdown",
    help_epilogue="Exit code 0: done. 1: a failure. 2: bad input, nothing written. `ramet COMMAND --help` says more.",
)
app.command(rank)
app.command(grow)
app.command(learn)
app.command(study)
app.command(search)
app.command(reproduce)
app.command(resume)
app.command(report)
app.command(data_app)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 a failure, 2 bad input."""
    logging.basicConfig(level=logging.WARNING, format="ramet: %(message)s", stream=sys.stderr)
    try:
        app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        _fail(" ".join(str(error).split()), code=2)
    except RametError as error:
        _fail(" ".join(str(error).split()), code=error.exit_code)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        is_input = error.errno == errno.ENAMETOOLONG  # no path of ramet's own making is that long
        _fail(f"the system refused: {error.strerror or error}{where}.", code=2 if is_input else 1)
    except KeyboardInterrupt:
        _fail("interrupted; `ramet resume DIR` goes on from here.", code=130)


def _fail(message: str, code: int) -> None:
    print(f"ramet: {message}", file=sys.stderr)
    sys.exit(code)
