"""What ramet raises, and the exit code that the command line gives each.

Two families are enough: what the user can mend by changing the input, and what went wrong outside. Both carry one
sentence that states the rule and then the value that broke it.
"""

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class RametError(Exception):
    """Base of every error that ramet raises on purpose; its message is one line, fit for a terminal.

    What it quotes of a user's own, such as the value of a tensor, may have several: they become one.
    """

    exit_code = 1

    def __init__(self, message: str = "") -> None:
        super().__init__(" ".join(line.strip() for line in str(message).splitlines()))


class ConfigError(RametError, ValueError):
    """An argument, option or name that breaks a rule: nothing was written, exit code 2."""

    exit_code = 2


class DataError(ConfigError):
    """A data set that is missing, damaged or of the wrong shape: nothing was written, exit code 2."""


def text_of(error: BaseException) -> str:
    r"""The text of an error. Its class may be a stranger's, and raise where it is asked for it.

    >>> text_of(ValueError("two\nlines"))
    'two\nlines'
    """
    try:
        return str(error)
    except Exception as another:
        return f"(its own text raises {type(another).__name__})"


def told(error: BaseException) -> str:
    r"""The class of an error and the first line of its text, for an error of ours that quotes it.

    >>> told(ValueError("two\nlines"))
    'ValueError: two'
    """
    return f"{type(error).__name__}: {(text_of(error).splitlines() or [''])[0]}"


def hint_at(word: str, known: Iterable[str]) -> str:
    """How an error about an unknown name ends: with the nearest that is known, or with a full stop.

    >>> hint_at("gaurd", ["guard", "space"]), hint_at("x", ["guard", "space"])
    ('; did you mean guard?', '.')
    """
    names = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), names, n=1)
    return f"; did you mean {names[near[0]]}?" if near else "."


@contextmanager
def refusing(rule: str) -> Iterator[None]:
    """Turn whatever content from outside makes the block raise into one line, a ``ConfigError``.

    For the doors through which a file of anybody's comes in: its checksums may be right and its values still be such
    as no ramet wrote, and which of the many checks on their way they break is of no interest to whoever opened it.

    >>> with refusing("a file must name its layers"):
    ...     {}["layers"]
    Traceback (most recent call last):
    ramet.errors.ConfigError: a file must name its layers, but reading it ended in KeyError: 'layers'.
    """
    try:
        yield
    except (RametError, BrokenPipeError):  # the reader of our output is gone: nothing of the file's
        raise
    except Exception as error:
        raise ConfigError(f"{rule}, but reading it ended in {told(error)[:300]}.") from error


class RunError(RametError):
    """A run that cannot go on: its directory is locked, damaged or not writable, or a worker failed."""


class DiskError(RunError):
    """A file that the system would not write or read: nothing that was being computed is to blame, nor its result."""


class LostRankError(RunError):
    """Another process of the same training is gone; only the one rank that is to tell the user raises this."""


class MissingExtraError(ConfigError):
    """An optional library that the request needs is not installed."""

    def __init__(self, library: str, extra: str) -> None:
        super().__init__(
            f"{library} is needed for this, but is not installed; install it with: pip install 'ramet[{extra}]'."
        )
