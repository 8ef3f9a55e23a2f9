"""Functions and classes by a text that another process can follow: ``package.module:name`` or ``FILE.py:name``.

The rule of trust lives here: code that is named by *data* (a run directory, a saved network, a stream's file) runs only
after the user has said so.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Container, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from ramet.errors import ConfigError, text_of, told
from ramet.registry.specs import split_chain, split_list


def resolve_reference(text: str, *, trusted: bool) -> Any:
    """The object that a reference names.

    A file is imported under its own name, as if its folder were on the path: what it defines can then be pickled, and
    is found again wherever the file can be imported.

    Args:
        text: ``package.module:name`` or ``FILE.py:name``.
        trusted: whether the user named it, or has said that what data name may run. Nothing is imported otherwise.

    Raises:
        ConfigError: if the text is no reference, is not trusted, or the module, file or name does not exist or cannot
            be imported.

    Example:
        >>> resolve_reference("math:gcd", trusted=True)(12, 18)
        6
    """
    place, colon, name = text.rpartition(":")
    if not colon or not place or not name:
        raise ConfigError(f"a reference reads package.module:name or FILE.py:name, but got {text!r}.")
    check_trust([text], trusted)
    found: Any = _import_file(Path(place)) if place.endswith(".py") else _import_module(place)
    for part in name.split("."):
        if not hasattr(found, part):
            raise ConfigError(f"{place} must define {name}, but it has no {part!r}.")
        found = getattr(found, part)
    return found


def check_trust(references: Iterable[str], trusted: bool) -> None:
    """Refuse code that data name, unless the user trusts it: nothing is imported, and one line shows what would run."""
    names = list(dict.fromkeys(references))
    if names and not trusted:
        shown = ", ".join(map(repr, names))
        raise ConfigError(f"code that data name runs only with --trust (trust=True), but this would run {shown}.")


def reference_to(thing: Any) -> str | None:
    """The reference of a function or class, or None for one that no other process could import (a lambda, a local)."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    if not module or not name or module == "__main__" or "<" in name:
        return None
    return f"{module}:{name}"


def anchored(text: str, names: Container[str] = ()) -> str:
    """A source whose file or folder, up to the first colon, is named from the root: found again from any other folder.

    Args:
        text: PATH or PATH:REST. One that does not exist is kept, for the message about it.
        names: what is no path, whatever lies in this folder.
    """
    place, colon, rest = text.partition(":")
    if not place or place in names or not os.path.exists(place):  # False also for a name that is too long
        return text
    return f"{Path(place).absolute()}{colon}{rest}"


def anchored_parts(text: str, names: Container[str] = ()) -> str:
    """A list or a chain of specs, each of which is anchored."""
    if not text.strip():
        return text
    return ",".join("+".join(anchored(part, names) for part in split_chain(whole)) for whole in split_list(text))


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the name may be none, and the module may do anything, such as exit
        raise ConfigError(f"{name} must be a module that can be imported, but: {text_of(error)}.") from error


def _import_file(path: Path) -> ModuleType:
    path = path.resolve()
    known = sys.modules.get(path.stem)
    if known is not None:
        if Path(getattr(known, "__file__", None) or "").resolve() == path:
            return known
        raise ConfigError(f"a file of one's own must not have the name of a loaded module, but got {path.name}.")
    if not path.is_file():
        raise ConfigError(f"a reference to a file needs the file, but there is no {path}.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[path.stem]
        if isinstance(error, KeyboardInterrupt):
            raise
        raise ConfigError(f"{path.name} must run without an error, but: {told(error)}.") from error
    return module
