"""What goes to standard error: one line, of characters that a terminal only shows, and not too long."""

from __future__ import annotations

import logging
import os
import sys

MOST_CHARACTERS = 400
"""Of an error's line; what it quotes may be a whole file."""


def one_line(text: str) -> str:
    r"""A text as one line; what would steer the terminal, such as an escape code, is written as Python writes it.

    >>> one_line("the server answered 404 \x1b[2J\nNot Found")
    'the server answered 404 \\x1b[2J Not Found'
    """
    joined = " ".join(text.split())
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in joined)


def shortened(line: str, most: int = MOST_CHARACTERS) -> str:
    """A line without its middle, if it is too long: the rule is at its beginning, and the value's end at its end.

    >>> shortened("a name must be short, but got 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'.", most=50)
    "a name must be short, but got '... [30] ...xxxxx'."
    """
    if len(line) <= most:
        return line
    kept = most - len(f"... [{len(line)}] ...")
    end = kept // 5
    return f"{line[: kept - end]}... [{len(line) - kept}] ...{line[len(line) - end :]}"


class LineFormatter(logging.Formatter):
    """A line of the log as the command line shows it."""

    def format(self, record: logging.LogRecord) -> str:
        """The message, after the name of the program."""
        return f"ramet: {one_line(record.getMessage())}"


def open_closed_streams() -> None:
    """Give standard streams that the caller closed to the null device.

    Otherwise the first files that are opened get their numbers, and whatever is printed goes into them.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 (until the end)


def drop_output() -> None:
    """Write what is left to the null device: nobody reads standard output any more, and Python would complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
