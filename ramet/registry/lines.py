"""A part as one line: its class and the arguments that it keeps under their own names."""

from __future__ import annotations

from typing import Any

from ramet.registry.entries import parameters_of

_MOST_CHARACTERS = 60


def one_line(part: Any, also: str = "") -> str:
    """What a part is, for ``__repr__``: its class, the arguments that are not at their defaults, what else there is.

    Arguments are shown if they are numbers, words, or short lists of them; tensors, networks and spaces are left out.

    >>> from fractions import Fraction
    >>> one_line(Fraction(1, 2), "a half")
    'Fraction(numerator=1, denominator=2), a half'
    """
    own = {}
    for name, parameter in (parameters_of(type(part)) or {}).items():
        value = getattr(part, name, parameter.default)
        if _is_plain(value) and value != parameter.default:
            own[name] = value
    told = ", ".join(f"{name}={value!r}" for name, value in own.items())
    return f"{type(part).__name__}({told})" + (f", {also}" if also else "")


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value)) and len(repr(value)) <= _MOST_CHARACTERS
    return value is None or (isinstance(value, bool | int | float | str) and len(repr(value)) <= _MOST_CHARACTERS)
