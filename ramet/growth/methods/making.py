"""A way to grow from words, from a file, or from an object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ramet.errors import ConfigError
from ramet.growth.base import Growth
from ramet.growth.methods import GROWTHS
from ramet.registry import Spec

GrowthSource = str | Spec | Mapping[str, Any] | Growth | Callable[..., Growth]
"""What names a growth: a text, a growth, or a class or function that makes one."""


def make_method(source: GrowthSource, *, trusted: bool = True, **options: Any) -> Growth:
    """A growth method.

    Args:
        source: ``NAME``, ``NAME:key=value,...``, ``FILE.py:Class`` for one's own, a class or function that makes one,
            or a growth, which is used as it is.
        trusted: whether code that the text names may run.
        **options: further options of the method.

    Raises:
        ConfigError: for an unknown name or option.

    >>> make_method("net2net:noise=0.5", depth=False).noise
    0.5
    """
    if isinstance(source, str):
        source = GROWTHS.parse(source)
    if isinstance(source, Spec):
        source = source.with_options(options)
    elif options:
        raise ConfigError(f"options are for a growth method by name, but got {', '.join(options)} beside an object.")
    return GROWTHS.make(source, trusted=trusted)
