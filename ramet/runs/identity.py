"""What makes a run this run and no other: what was asked, as far as it differs from the defaults, and what it met.

A checkpoint of another run fits in shape and gives wrong numbers, and so does a ``config.json`` that was edited. Both
are found by a digest that goes into the first record and into every checkpoint.

Values at their defaults are left out of it, so that an option that a later version adds, with a default that changes
nothing, orphans no run and no cache. A default, once published, is therefore not to be changed silently: runs from
before would be refused.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ramet.fields import to_json
from ramet.runs.encoding import JSON, encode, plain

NUM_DIGITS = 32


def differences(value: Any, *, apart: Collection[str] = (), defaults_of: type | None = None) -> dict[str, Any]:
    """The fields of a dataclass that are not at their defaults, as JSON.

    A dataclass in a field is compared with the defaults of its own class, not with those of the field, because a
    job's favourite settings may change.

    Args:
        value: An instance of a dataclass.
        apart: Fields that do not count, because no result depends on them; ``search.storage`` is the field of a field.
        defaults_of: The class whose defaults are meant, where a subclass has others.

    >>> from ramet.training import Settings
    >>> differences(Settings(epochs=5))
    {'epochs': 5}
    """
    found = {}
    meant = {field.name: field for field in dataclasses.fields(defaults_of or type(value))}
    for own_field in dataclasses.fields(value):
        field = meant.get(own_field.name, own_field)
        own = getattr(value, field.name)
        if field.name in apart:
            continue
        if dataclasses.is_dataclass(own):
            inner = [name.removeprefix(f"{field.name}.") for name in apart if name.startswith(f"{field.name}.")]
            if inside := differences(own, apart=inner):
                found[field.name] = inside
        elif not _is_default(own, field.default, field.default_factory):
            found[field.name] = plain(to_json(own), field.name)
    return found


def unlike_defaults(maker: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a function or a class that are not at its defaults; those that it does not name are kept.

    >>> def space(channels=16, cells=4): ...
    >>> unlike_defaults(space, {"kind": "space", "channels": 8, "cells": 4})
    {'kind': 'space', 'channels': 8}
    """
    known = inspect.signature(maker).parameters
    return {
        name: value
        for name, value in arguments.items()
        if name not in known or not _is_default(value, known[name].default)
    }


def as_before(value: Any, names: Sequence[str]) -> dict[str, Any] | None:
    """A dataclass as it was when it had these fields only, from which names were made; None if it uses a later one."""
    if set(differences(value, defaults_of=_base(type(value)))) - set(names):
        return None
    return {name: plain(getattr(value, name), name) for name in names}


def _base(kind: type) -> type:
    """The first of the dataclasses that a class was made of; the others have other defaults."""
    return [base for base in kind.__mro__ if dataclasses.is_dataclass(base)][-1]


def identity(kind: str, asked: JSON, setting: JSON) -> str:
    """The digest of a run: its job, the ``differences`` of its configuration, and what it met, such as data."""
    text = encode({"kind": kind, "asked": asked, "setting": setting}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:NUM_DIGITS]


def agrees(before: Any, now: Any) -> bool:
    """Whether all that was written down still holds; what a later version says in addition does not count.

    >>> agrees({"kind": "cells64"}, {"kind": "cells64", "new": 1}), agrees({"kind": "cells64"}, {"kind": "darts"})
    (True, False)
    """
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        return all(name in now and agrees(value, now[name]) for name, value in before.items())
    if isinstance(before, list | tuple) and isinstance(now, list | tuple):
        return len(before) == len(now) and all(map(agrees, before, now))
    return encode(before) == encode(now)  # as text, so that NaN equals NaN, and 1, 1.0 and True differ


def _is_default(value: Any, default: Any, factory: Any = dataclasses.MISSING) -> bool:
    if factory is not dataclasses.MISSING:
        default = factory()
    if default is dataclasses.MISSING or default is inspect.Parameter.empty:
        return False
    try:
        return encode(value, sort_keys=True) == encode(default, sort_keys=True)
    except TypeError:  # an object of somebody's own is told by what it was made from, never by a default
        return False
