"""Making a space from what identifies it: a name on the command line, or the description in a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ramet.errors import ConfigError
from ramet.registry import resolve_reference
from ramet.spaces.base import Space
from ramet.spaces.cells.cells64 import Cells64
from ramet.spaces.cells.nasbench201 import NasBench201
from ramet.spaces.darts.enas_micro import EnasMicro
from ramet.spaces.darts.space import Darts
from ramet.spaces.own.module_space import ModuleSpace
from ramet.spaces.recurrent.space import Recurrent

SPACES: Mapping[str, Callable[..., Space]] = {
    "cells64": Cells64,
    "nasbench201": NasBench201,
    "darts": Darts,
    "enas-micro": EnasMicro,
    "recurrent": Recurrent,
}
"""The built-in spaces by the names that the command line gives them."""


def make_space(source: str | Mapping[str, Any], **arguments: Any) -> Space:
    """A space from its name or its description.

    Args:
        source: a name of ``SPACES``, a reference to a factory of one's own modules or to a class of spaces
            (``package.module:name`` or ``FILE.py:name``), or what ``space.describe()`` gave.
        **arguments: the arguments of the space, if ``source`` is a text.

    Raises:
        ConfigError: if there is no such space, it does not take the arguments, or a module's factory makes another
            module than the one that was described.

    Example:
        >>> make_space(make_space("cells64", channels=8).describe()).channels
        8
    """
    if isinstance(source, Mapping):
        arguments = {**source, **arguments}
        source = str(arguments.pop("kind", ""))
        if source == "module":
            return _make_module_space(arguments)
    maker: Any = SPACES.get(source) or (resolve_reference(source, trusted=True) if ":" in source else None)
    if maker is None:
        raise ConfigError(f"a space is {', '.join(SPACES)} or FILE.py:function, but got {source!r}.")
    if not isinstance(maker, type):
        arguments, maker = {"factory": source, **arguments}, ModuleSpace
    elif not issubclass(maker, Space):
        raise ConfigError(f"a space is made by a factory of modules or a class of spaces, but {source} is neither.")
    try:
        space: Space = maker(**arguments)
    except TypeError as error:
        raise ConfigError(f"the space {source!r} must get the arguments it knows, but: {error}.") from error
    return space


def _make_module_space(description: dict[str, Any]) -> ModuleSpace:
    expected = description.pop("fingerprint", None)
    factory = description.pop("factory", None)
    if factory is None:
        raise ConfigError("a space of one's own is made again from a factory that can be imported, but it has none.")
    space = ModuleSpace(factory, **description)
    if expected is not None and space.fingerprint != expected:
        raise ConfigError(f"{factory} must make the module that was described, but it has changed since.")
    return space
