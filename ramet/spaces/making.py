"""A space from what identifies it: words, a file, a class, or the description in a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

from torch import nn

from ramet.errors import ConfigError
from ramet.registry import Spec, check_trust, reference_to
from ramet.spaces import SPACES
from ramet.spaces.base import Space
from ramet.spaces.own.module_space import GaveSpaceError, ModuleSpace, asks_for_text
from ramet.spaces.slicing.space import ElasticSpace

SpaceSource = str | Mapping[str, Any] | Space | Callable[..., Space | nn.Module]
"""What names a space: a text, a description, a space, a class of spaces, or a factory of modules with choices."""


def make_space(source: SpaceSource, *, trusted: bool | None = None, **arguments: Any) -> Space:
    """A space from its name or its description.

    Args:
        source: a name of ``SPACES``, with options after a colon if wanted (``cells64:channels=8``); a reference to a
            factory of one's own modules, to a function that makes a space (``elastic``) or to a class of spaces
            (``package.module:name`` or ``FILE.py:name``), or such a factory, function or class itself; a space, which
            is given back; or what ``space.describe()`` gave.
        trusted: whether code that the source names may run; by default that of a text, which the caller wrote, and not
            that of a description, which is data.
        **arguments: further arguments of the space.

    Raises:
        ConfigError: if there is no such space, it does not take the arguments, its code is not trusted, or a module's
            factory makes another module than the one that was described.

    Example:
        >>> make_space(make_space("cells64:channels=8").describe()).channels
        8
    """
    if isinstance(source, Space):
        if arguments:
            raise ConfigError(f"a space that is made takes no arguments, but got {', '.join(arguments)}.")
        return source
    if isinstance(source, Mapping):
        arguments = {**source, **arguments}
        spec, trusted = Spec(str(arguments.pop("kind", ""))), bool(trusted)
        if spec.name == "module":
            return _make_module_space(arguments, trusted)
        if spec.name == "elastic":
            return _make_elastic(arguments, trusted)
    elif isinstance(source, str):
        spec = SPACES.parse(source)
    else:
        return _made(getattr(source, "__name__", "a space"), source, source, Spec("", (), arguments))
    maker = SPACES.maker(spec.name, trusted=trusted is not False)
    # A factory that was named by a reference is kept by it: another process may not have its file imported.
    factory = maker if spec.name in SPACES else spec.name
    return _made(spec.name, maker, factory, spec.with_options(arguments))


def fitting_options(source: SpaceSource, *, trusted: bool = True, **known: Any) -> dict[str, Any]:
    """What a space of one's own is told of the data: a factory of modules all of it, a class what it asks for.

    >>> fitting_options("cells64", in_channels=3)
    {}
    """
    made = _class_of(source, trusted)
    return known if made is None else {key: known[key] for key in signature(made).parameters if key in known}


def takes_text(source: SpaceSource, *, trusted: bool = True) -> bool:
    """Whether a space is of language models, by its class or by what its factory asks for; nothing is made."""
    made = source if isinstance(source, Space) else _class_of(source, trusted)
    if made is not None or isinstance(source, Mapping):
        return bool(getattr(made, "takes_text", False))
    factory: Any = SPACES.maker(SPACES.parse(source).name, trusted=trusted) if isinstance(source, str) else source
    return bool(asks_for_text(factory))


def size_options(source: SpaceSource, *, trusted: bool = True, **sizes: int | None) -> dict[str, Any]:
    """The arguments of a space for sizes (see ``Space.size_arguments``), small ones where none are given.

    >>> size_options("recurrent", channels=32, nodes=4), size_options("darts")
    ({'hidden_size': 32, 'num_nodes': 4}, {'channels': 8, 'num_cells': 4})
    """
    return (_class_of(source, trusted) or Space).size_arguments(small=True, **sizes)


def _class_of(source: SpaceSource, trusted: bool) -> type[Space] | None:
    """The class of the spaces that a source makes; none for a factory of modules."""
    if isinstance(source, Space):
        return type(source)
    if isinstance(source, Mapping):
        return None if source.get("kind") in ("module", "elastic") else _class_of(str(source.get("kind", "")), trusted)
    maker: Any = SPACES.maker(SPACES.parse(source).name, trusted=trusted) if isinstance(source, str) else source
    return maker if isinstance(maker, type) and issubclass(maker, Space) else None


def _made(name: str, maker: Any, factory: Any, spec: Spec) -> Space:
    """A space of a class, of a class of one's own, or of a factory of modules."""
    if not isinstance(maker, type):
        maker, spec = ModuleSpace, Spec(spec.name, (factory, *spec.values), spec.options)
    elif not issubclass(maker, Space):
        raise ConfigError(f"a space is made by a factory of modules or a class of spaces, but {name} is neither.")
    try:
        space: Space = maker(*spec.values, **spec.options)
    except GaveSpaceError as given:  # a function of one's own may make the space itself
        space = given.space
        if isinstance(space, ElasticSpace):
            reference = factory if isinstance(factory, str) else reference_to(factory)
            space.source = None if reference is None else (reference, dict(spec.options))
    except TypeError as error:
        raise ConfigError(f"the space {name!r} must get the arguments it knows, but: {error}.") from error
    return space


def _make_module_space(description: dict[str, Any], trusted: bool) -> ModuleSpace:
    expected = description.pop("fingerprint", None)
    factory = description.pop("factory", None)
    if factory is None:
        raise ConfigError("a space of one's own is made again from a factory that can be imported, but it has none.")
    if not isinstance(factory, str):
        raise ConfigError(f"a described factory is a reference, but got {factory!r}.")
    check_trust([factory], trusted)
    space = ModuleSpace(factory, **description)
    if expected is not None and space.fingerprint != expected:
        raise ConfigError(f"{factory} must make the module that was described, but it has changed since.")
    return space


def _make_elastic(description: dict[str, Any], trusted: bool) -> Space:
    factory = description.get("factory")
    if not isinstance(factory, str):
        raise ConfigError("an elastic space is made again by a function that can be imported, but it has none.")
    check_trust([factory], trusted)
    space = make_space(factory, **description.get("arguments", {}))
    if {**space.describe(), "kind": "elastic"} != {**description, "kind": "elastic"}:
        raise ConfigError(f"{factory} must make the network and the sizes that were described, but it has changed.")
    return space
