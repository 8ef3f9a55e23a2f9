"""Values of options: each is made what its parameter wants, or refused in words, before the part is made."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from ramet.errors import ConfigError

_KINDS: Mapping[str, tuple[type, str]] = {
    "int": (Integral, "a whole number"),  # numpy's numbers are such, too
    "float": (Real, "a number"),
    "bool": (bool, "true or false"),
    "str": (str, "a text"),
    "dict": (dict, 'pairs such as {"key":value}'),
    "None": (type(None), "none"),
}
"""The types that a text can hold, each with what it is called."""


def suited(value: Any, parameter: inspect.Parameter | None, part: str) -> Any:
    """A value as a parameter of a part wants it: 60 for a number that may be broken is 60.0, and 60.0 for a count 60.

    Only parameters whose annotation names nothing but types that a text can hold are judged.

    Args:
        value: from a text, a file, or the caller.
        parameter: none where it is not known, and nothing is judged.
        part: what the message calls the one whose parameter it is.

    Raises:
        ConfigError: the value is of another kind, or a whole number of more than 64 bits.

    >>> def method(trials: int | None, rate: float, names: dict[str, str], other: Any): ...
    >>> trials, rate, names, other = inspect.signature(method).parameters.values()
    >>> suited(2.0, trials, "it"), suited(1, rate, "it"), suited(None, trials, "it"), suited("x", other, "it")
    (2, 1.0, None, 'x')
    >>> suited("b", names, "it")
    Traceback (most recent call last):
    ramet.errors.ConfigError: names of it must be pairs such as {"key":value}, but got 'b'.
    """
    kinds = [] if parameter is None else _kinds(parameter.annotation)
    if parameter is None or not all(kind in _KINDS for kind in kinds):
        return value
    if isinstance(value, float) and value.is_integer() and "int" in kinds and "float" not in kinds:
        value = int(value)
    if not any(_is(value, kind) for kind in kinds):
        wanted = " or ".join(_KINDS[kind][1] for kind in kinds)
        raise ConfigError(f"{parameter.name} of {part} must be {wanted}, but got {value!r:.80}.")
    if isinstance(value, int) and abs(value) >= 2**63:
        digits = len(str(abs(value)))
        raise ConfigError(f"{parameter.name} of {part} must fit into 64 bits, but got a number of {digits} digits.")
    return float(value) if type(value) is int and "float" in kinds and "int" not in kinds else value


def _is(value: Any, kind: str) -> bool:
    """Whether a value is of a kind; to Python, true is a number."""
    return kind == "bool" if isinstance(value, bool) else isinstance(value, _KINDS[kind][0])


def _kinds(annotation: Any) -> list[str]:
    """The names of an annotation's types, without what stands in their brackets."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return [part.strip().partition("[")[0] for part in re.sub(r"\[[^\]]*\]", "[]", text).split("|")]
