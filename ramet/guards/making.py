"""A guard from words, ``plasticity:60`` or ``plasticity+projection``, from a file, or from an object."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from ramet.guards import GUARDS
from ramet.guards.base import Guard
from ramet.guards.chaining import chain
from ramet.registry import parse_chain

GuardSource = str | Mapping[str, Any] | Guard | Callable[..., Guard]
"""What names a guard: a text, a guard, or a class or function that makes one."""


def make_guard(
    source: GuardSource, *, warmup_epochs: int = 3, num_epochs: int | None = None, trusted: bool = True
) -> Guard:
    """The guard of a text: ``NAME``, ``NAME:STRENGTH``, ``NAME:key=value,...``, or several joined by ``+``.

    The values are those for training many models on one set of weights, one mini-batch a model: the search variant of
    weight plasticity, projection by mean inputs, elastic consolidation with a discount.

    Args:
        source: the guard in words, ``FILE.py:Class`` for one's own, a class or function that makes one, or a guard. A
            guard is copied, because each set of weights needs one of its own.
        warmup_epochs: for guards that have a schedule: epochs in which they neither guard nor remember.
        num_epochs: the length of the run, for guards whose strength changes over it; none if that is not known.
        trusted: whether code that the text names may run.

    Raises:
        ConfigError: an unknown name, or an option that the guard does not take.

    >>> type(make_guard("plasticity:100")).__name__
    'WeightPlasticity'
    >>> type(make_guard("plasticity+projection:inputs=all")).__name__
    'Chain'
    """
    if isinstance(source, Guard):
        return copy.deepcopy(source)
    context = {"warmup_epochs": warmup_epochs} | ({} if num_epochs is None else {"num_epochs": num_epochs})
    if not isinstance(source, str):
        return GUARDS.make(source, trusted=trusted, **context)
    return chain(*(GUARDS.make(spec, trusted=trusted, **context) for spec in parse_chain(source, GUARDS)))
