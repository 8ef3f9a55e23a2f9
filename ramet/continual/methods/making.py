"""A continual method from words, from a file, or from an object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ramet.continual.method import Method
from ramet.continual.methods import METHODS
from ramet.errors import ConfigError
from ramet.registry import Spec, parse_spec

MethodSource = str | Spec | Mapping[str, Any] | Method | Callable[..., Method]
"""What names a method: a text, a method, or a class or function that makes one."""


def make_method(
    source: MethodSource,
    methods: Mapping[str, type[Method]] | None = None,
    *,
    trusted: bool = True,
    **options: Any,
) -> Method:
    """A method by name, with options after a colon if wanted: ``elastic:strength=100``, ``packnet:share=0.5``.

    Args:
        source: The name and its options, separated by commas; ``FILE.py:Class`` for one's own; a class or function that
            makes a method; or a method, which is used as it is.
        methods: Methods of one's own by name, besides the built-in ones.
        trusted: Whether code that the text names may run; False for a text that comes from data.
        options: Further options.

    Raises:
        ConfigError: There is no such method, or it has no such option.

    >>> make_method("naive").name
    'naive'
    """
    spec: Any = source
    if isinstance(source, str):
        spec = parse_spec(source, [*METHODS, *(methods or {})])
    if isinstance(spec, Spec):
        spec = spec.with_options(options)
    elif options:
        raise ConfigError(f"options are for a method by name, but got {', '.join(options)} beside an object.")
    if not isinstance(spec, Spec) or spec.name not in (methods or {}):
        method = METHODS.make(spec, trusted=trusted)
        # A saved network names its method, and must find one of a file or of an installed package again.
        method.source = spec.name if isinstance(spec, Spec) else method.source
        return method
    try:
        return (methods or {})[spec.name](*spec.values, **spec.options)
    except TypeError as error:
        raise ConfigError(f"the method {spec.name} must have the options it is given, but: {error}.") from None
