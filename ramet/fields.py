"""Dataclasses that hold configuration and results: as JSON values and back, and which of their fields are options.

One writer and one reader for every job, plan, recipe and result. A field that is missing takes its default, so that a
file of an earlier version is read; a field that is not known is refused, because it would be ignored in silence.
"""

from __future__ import annotations

import builtins
import dataclasses
import os
import sys
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from numbers import Integral, Real
from typing import Any, TypeVar

from ramet.errors import ConfigError
from ramet.registry import describe_source

T = TypeVar("T")

HIDDEN = ""
"""The name of a field that the command line does not offer."""


def option(default: Any = MISSING, *, name: str | None = None, factory: Any = MISSING, kind: Any = None) -> Any:
    """A field of a dataclass, with what the command line needs besides its name, its type and its docstring.

    Args:
        default: its default.
        name: its name on the command line where that differs, such as ``method`` for ``methods``; ``HIDDEN`` for none.
        factory: makes the default, in place of one.
        kind: its type on the command line where Python takes more, such as a text for a space.
    """
    metadata = {"option": name, "kind": kind}
    if factory is not MISSING:
        return dataclasses.field(default_factory=factory, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def to_json(value: Any) -> Any:
    """A dataclass as JSON values: nested ones too, tuples as lists; what is no value is described.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Sizes:
    ...     widths: tuple[int, ...] = (3, 4)
    >>> to_json(Sizes())
    {'widths': [3, 4]}
    """
    if is_dataclass(value) and not isinstance(value, type) and _is_configuration(value):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return described(value)


def _is_configuration(value: Any) -> bool:
    """Whether the fields of a dataclass say all that it is: not for one that changes, as a method that learns does."""
    return type(value).__dataclass_params__.frozen and not hasattr(value, "fingerprint")


def described(value: Any) -> Any:
    """What identifies an object of the user's: what it says of itself, or its class.

    An object can't be made from it again, so that a run that was given one goes on from Python only.
    """
    found: dict[str, Any] = describe_source(value)
    say = getattr(value, "describe", None) or getattr(value, "fingerprint", None)
    if callable(say) and not isinstance(value, type):
        return {"$object": found["class"], "is": say()}
    return {"$object": found.pop("class"), **found}


def from_json(kind: type[T], values: Any, where: str = "") -> T:
    """A dataclass from the JSON values that ``to_json`` gave, or that an earlier version of the class gave.

    Raises:
        ConfigError: a value is missing, is of another type or is not known; the message names its place.

    >>> @dataclasses.dataclass
    ... class Sizes:
    ...     width: int
    ...     depth: int = 2
    >>> from_json(Sizes, {"width": 3})
    Sizes(width=3, depth=2)
    """
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where or 'the configuration'} must be a JSON object, but got {values!r}.")
    hints = field_types(kind)  # type: ignore[arg-type]
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    if unknown := sorted(set(values) - set(known)):
        raise ConfigError(
            f"{where or 'the configuration'} must hold fields of {kind.__name__}, but has {unknown[0]!r}."
        )
    made: dict[str, Any] = {}
    for name, field in known.items():
        if name in values:
            held = field.metadata.get("kind")  # a recipe of a job has the defaults of that job
            hint = held if is_dataclass(held) else hints[name]
            made[name] = _read(hint, values[name], f"{where}.{name}".lstrip("."))
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ConfigError(f"{where or 'the configuration'} must hold {name}, but does not.")
    return kind(**made)


@cache
def field_types(kind: type) -> dict[str, Any]:
    """The types of a dataclass's fields; a name that is imported for type checkers only stands for anything."""
    names: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        names |= vars(sys.modules[base.__module__])
    return typing.get_type_hints(kind, globalns={}, localns=_Anything(names))


def require_choices(value: Any) -> None:
    """Refuse a dataclass of which a field that is one of several words is another.

    >>> @dataclasses.dataclass
    ... class Door:
    ...     state: typing.Literal["open", "closed"] = "open"
    >>> require_choices(Door("ajar"))
    Traceback (most recent call last):
    ramet.errors.ConfigError: state must be one of open, closed, but got 'ajar'.
    """
    for name, kind in field_types(type(value)).items():  # type: ignore[arg-type]
        known = typing.get_args(kind) if typing.get_origin(kind) is typing.Literal else None
        if known is not None and getattr(value, name) not in known:
            raise ConfigError(f"{name} must be one of {', '.join(known)}, but got {getattr(value, name)!r}.")


def require_types(value: Any) -> None:
    """Refuse a dataclass of which a field that is a number, a text, yes or no or a dataclass is something else.

    Other types are not looked at: what they take, their own makers say.

    >>> @dataclasses.dataclass
    ... class Box:
    ...     width: int | None = None
    >>> require_types(Box("8"))
    Traceback (most recent call last):
    ramet.errors.ConfigError: width must be a whole number or none, but got '8'.
    """
    known = field_types(type(value))  # type: ignore[arg-type]
    for field in dataclasses.fields(value):
        kind, given = known[field.name], getattr(value, field.name)
        kinds = set(typing.get_args(kind)) if isinstance(kind, types.UnionType) else {kind}
        held = [each for each in kinds if isinstance(each, type) and is_dataclass(each)]
        if kinds <= {*_PLAIN, *held} and not any(_is_of(given, each) for each in kinds):
            rules = [words for each, words in _PLAIN.items() if each in kinds]
            rule = " or ".join([*rules, *sorted(f"an object of {each.__name__}" for each in held)])
            raise ConfigError(f"{field.name} must be {rule}, but got {given!r:.80}.")


_PLAIN: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    type(None): "none",
}


def _is_of(value: Any, kind: Any) -> bool:
    if kind in (int, float):  # NumPy's numbers are numbers, and true is none
        return isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
    return isinstance(value, str | os.PathLike if kind is str else kind)


class _Anything(dict):  # type: ignore[type-arg]
    def __missing__(self, name: str) -> Any:
        if hasattr(builtins, name):
            raise KeyError(name)
        return Any


def differing_places(values: Any, others: Any, where: str = "") -> list[str]:
    """The places in which two JSON values differ.

    >>> differing_places({"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"c": 3}})
    ['b.c']
    """
    if isinstance(values, Mapping) and isinstance(others, Mapping):
        names = [*values, *(name for name in others if name not in values)]
        missing = object()
        return [
            place
            for name in names
            for place in differing_places(
                values.get(name, missing), others.get(name, missing), f"{where}.{name}".lstrip(".")
            )
        ]
    return [] if values == others else [where]


def _read(kind: Any, value: Any, where: str) -> Any:
    if is_dataclass(kind) and isinstance(kind, type):
        return from_json(kind, value, where)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _read_union(inner, value, where)
    if origin is tuple:
        return tuple(_read(inner[0], item, where) for item in _sequence(value, where))
    if origin is list:
        return [_read(inner[0], item, where) for item in _sequence(value, where)]
    if origin is dict or origin is Mapping:
        if not isinstance(value, Mapping):
            raise ConfigError(f"{where} must be a JSON object, but got {value!r}.")
        return {key: _read(inner[1], item, f"{where}.{key}") for key, item in value.items()}
    if origin is typing.Literal:
        if value not in inner:
            raise ConfigError(f"{where} must be one of {', '.join(map(str, inner))}, but got {value!r}.")
        return value
    if isinstance(value, int) and abs(value) >= 2**63 and kind in (int, float):
        raise ConfigError(f"{where} must fit into 64 bits, but got a number of {len(str(abs(value)))} digits.")
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind in (int, float, str, bool) and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
        raise ConfigError(f"{where} must be of type {kind.__name__}, but got {value!r}.")
    return value


def _read_union(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in kinds:
        return None
    errors = []
    for kind in kinds:
        if kind is type(None):
            continue
        try:
            return _read(kind, value, where)
        except ConfigError as error:
            errors.append(error)
    raise errors[-1]


def _sequence(value: Any, where: str) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        raise ConfigError(f"{where} must be a list, but got {value!r}.")
    return list(value)
