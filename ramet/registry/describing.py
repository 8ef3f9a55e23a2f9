"""What identifies a part that a user gave as an object: its class and its public arguments, as JSON values."""

from __future__ import annotations

import functools
from typing import Any

from ramet.registry.entries import parameters_of
from ramet.registry.references import reference_to
from ramet.registry.specs import Spec


def describe_source(source: Any) -> Any:
    """The JSON value of what a registry makes a part from: a text as it is, an object as its class and arguments.

    Public arguments are the parameters of the class that the object keeps under their own names.

    >>> from fractions import Fraction
    >>> describe_source("plasticity:60"), describe_source(Fraction)
    ('plasticity:60', {'class': 'fractions:Fraction'})
    """
    if source is None or isinstance(source, str | int | float | bool):
        return source
    if isinstance(source, Spec):
        return str(source)
    if isinstance(source, functools.partial):
        arguments = {str(place): value for place, value in enumerate(source.args)} | source.keywords
        return {"class": _name(source.func), "arguments": _plain(arguments)}
    if isinstance(source, type) or hasattr(source, "__qualname__"):
        return {"class": _name(source)}
    own = {name: getattr(source, name) for name in parameters_of(type(source)) or () if hasattr(source, name)}
    arguments = _plain(own)
    return {"class": _name(type(source)), **({"arguments": arguments} if arguments else {})}


def _name(thing: Any) -> str:
    return reference_to(thing) or str(getattr(thing, "__qualname__", type(thing).__name__))


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """JSON values; a part inside a part is described in its turn."""
    return {name: _value(value) for name, value in values.items()}


def _value(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_value(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _value(each) for key, each in value.items()}
    return describe_source(value)
