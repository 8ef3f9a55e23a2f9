"""A sharing from words, ``groups:8:similar`` or ``prefix:2``, from a file, or from an object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ramet.sharing import SHARINGS
from ramet.sharing.base import Sharing

SharingSource = str | Mapping[str, Any] | Sharing | Callable[..., Sharing]
"""What names a sharing: a text, a sharing, or a class or function that makes one."""


def make_sharing(source: SharingSource, *, trusted: bool = True) -> Sharing:
    """The sharing of a text: ``full``, ``groups:M:similar`` (or random, or interference) or ``prefix:K``.

    Args:
        source: the sharing in words, ``FILE.py:Class`` for one's own, a class or function that makes one, or a sharing.
        trusted: whether code that the text names may run.

    Raises:
        ConfigError: an unknown name, or numbers that it does not take.

    >>> str(make_sharing("prefix:2"))
    'prefix:2'
    >>> make_sharing("groups:8:random").num_groups
    8
    """
    return SHARINGS.make(source, trusted=trusted)
