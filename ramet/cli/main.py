"""The front door of the command line: sub-commands, exit codes, one line for each error."""

from __future__ import annotations

import errno
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Literal, get_args, get_origin

from cyclopts import App, CycloptsError, Group, MissingArgumentError

import ramet
from ramet.cli.compare import compare
from ramet.cli.completion import completion
from ramet.cli.doctor import doctor
from ramet.cli.forgot import forgot
from ramet.cli.init import init
from ramet.cli.jobs import report, resume
from ramet.cli.lines import LineFormatter, drop_output, one_line, open_closed_streams, shortened
from ramet.cli.listing import data_app, list_parts
from ramet.cli.reproduce import reproduce
from ramet.cli.runs import runs_app
from ramet.cli.watch import watch
from ramet.errors import ConfigError, LostRankError, RametError, text_of
from ramet.execution.launch import is_launched, is_leader
from ramet.jobs import SUMMARIES, job_class

_COMMANDS: dict[str, Callable[..., None]] = {
    "doctor": doctor,
    "init": init,
    "list": list_parts,
    "completion": completion,
    "resume": resume,
    "watch": watch,
    "report": report,
    "compare": compare,
    "forgot": forgot,
    "reproduce": reproduce,
}
"""The commands that are neither jobs nor have commands of their own."""

_GROUPS = {
    Group("To begin with", sort_key=1): ("tour", "doctor", "init", "list", "data", "completion"),
    Group("The jobs, each a question with a report", sort_key=2): ("rank", "search", "grow", "learn", "study"),
    Group("What was run", sort_key=3): ("runs", "resume", "watch", "report", "compare"),
    Group("Beside them", sort_key=4): ("forgot", "reproduce", "--help", "--version"),
}
"""What `ramet --help` shows, in the order in which one needs it."""


def make_app(arguments: Sequence[str]) -> App:
    """The commands; only that of the job which the arguments name has its options, which take time to make."""
    app = App(
        name="ramet",
        help="Train many networks on one set of weights without letting them forget each other.\n\n"
        "New here? `ramet tour` shows in minutes what it is for; every job runs as it stands, on embedded digits: try "
        "`ramet learn --method naive,packnet`.",
        version=ramet.__version__,
        suppress_keyboard_interrupt=False,  # where the run is, and how to go on, is ours to say
        help_format="markdown",
        help_epilogue="Exit code 0: done. 1: a failure. 2: bad input, nothing written. "
        "`ramet COMMAND --help` says more.",
    )
    for kind, summary in SUMMARIES.items():
        if kind in arguments:
            app.command(_job_command(kind), name=kind)
        else:
            app.command(App(name=kind, help=summary, help_format="markdown"))
    for name, command in _COMMANDS.items():
        app.command(command, name=name)
    for sub_app in (runs_app, data_app):
        app.command(sub_app)
    names = [(group, name) for group, names in _GROUPS.items() for name in names]
    for order, (group, name) in enumerate(names):
        app[name].group, app[name].sort_key = group, order
    return app


def _job_command(kind: str) -> Callable[..., None]:
    from ramet.cli.jobs import start_job
    from ramet.cli.options import command_of

    return command_of(job_class(kind), start_job)


_OUT_OF_MEMORY = ("allocate memory", "out of memory", "not enough memory", "size calculation overflowed")
"""Words of torch's own errors, which are of no class of their own on a CPU."""

RANKED = ("search", "resume")
"""The commands that share their work among the processes of torchrun."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 a failure, 2 bad input, 130 interrupted."""
    open_closed_streams()
    _log_to_standard_error()
    try:
        given = sys.argv[1:] if arguments is None else arguments
        _check_launch(given)
        make_app(given)(given, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except MissingArgumentError as error:
        _fail(_missing(error), code=2)
    except CycloptsError as error:
        _fail(str(error), code=2)
    except LostRankError as error:
        _fail(str(error), code=error.exit_code, speaks=True)
    except RametError as error:
        _fail(str(error), code=error.exit_code)
    except BrokenPipeError:
        drop_output()
        _fail("standard output must be read to its end, but was closed.", code=1)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        is_input = error.errno == errno.ENAMETOOLONG  # no path of ramet's own making is that long
        _fail(f"the system refused: {error.strerror or error}{where}.", code=2 if is_input else 1)
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not any(words in text_of(error) for words in _OUT_OF_MEMORY):
            raise
        _fail(f"the memory must suffice for what is asked, but did not{f': {error}' if str(error) else ''}.", code=1)
    except KeyboardInterrupt as error:
        _fail(str(error) or "interrupted.", code=130)


def _log_to_standard_error() -> None:
    level = logging.WARNING if is_leader() else logging.CRITICAL
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=level, handlers=[handler])


def _check_launch(arguments: Sequence[str]) -> None:
    """Refuse torchrun where its processes would all do the same."""
    if is_launched() and arguments and arguments[0] not in RANKED and not arguments[0].startswith("-"):
        names = " and ".join(f"`ramet {name}`" for name in RANKED)
        raise ConfigError(f"torchrun is for {names}, but got {arguments[0]!r}.")


def _missing(error: MissingArgumentError) -> str:
    """What a command lacks, by the name that its usage has: nobody gave the option that cyclopts would speak of."""
    argument = error.argument
    if argument is None or argument.tokens or getattr(error, "keyword", None) is not None:
        return str(error)
    command = " ".join(["ramet", *(error.command_chain or ())])
    choices = get_args(argument.hint) if get_origin(argument.hint) is Literal else ()
    among = f", one of {', '.join(choices)}" if choices else ""
    return f"`{command}` needs {argument.name.lstrip('-').upper()}{among}; `{command} --help` says more."


def _fail(message: str, code: int, *, speaks: bool = False) -> None:
    if speaks or is_leader():
        print(f"ramet: {shortened(one_line(message))}", file=sys.stderr)
    sys.exit(code)
