"""A guard in words, ``plasticity:60`` or ``plasticity+projection``, for the command line and for configurations."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ramet.errors import ConfigError
from ramet.guards.base import Guard
from ramet.guards.chain import NoGuard, chain
from ramet.guards.elastic import ElasticConsolidation
from ramet.guards.plasticity import WeightPlasticity
from ramet.guards.projection import OrthogonalProjection


def _none(strength: float | None) -> Guard:
    if strength is not None:
        raise ConfigError(f"guard none takes no strength, but got {strength}.")
    return NoGuard()


def _plasticity(strength: float | None) -> Guard:
    return WeightPlasticity.for_search(60.0 if strength is None else strength, warmup_epochs=3)


def _projection(strength: float | None) -> Guard:
    # All inputs would close a supernet's layers within an epoch; mean inputs leave most directions open.
    return OrthogonalProjection(1.0 if strength is None else strength, inputs="mean")


def _elastic(strength: float | None) -> Guard:
    # A supernet remembers a model a mini-batch: without a discount, its sum would freeze the weights in no time.
    return ElasticConsolidation(60.0 if strength is None else strength, form="implicit", discount=0.9)


GUARDS: Mapping[str, Callable[[float | None], Guard]] = {
    "none": _none,
    "plasticity": _plasticity,
    "projection": _projection,
    "elastic": _elastic,
}
"""The guards of a supernet's training by the names that the command line gives them."""

_JOINT = re.compile(r"(?<![0-9.]e)\+", re.IGNORECASE)  # a plus, but not that of 1e+06


def make_guard(text: str, *, warmup_epochs: int = 3) -> Guard:
    """The guard of a text: ``NAME``, ``NAME:STRENGTH``, or several of them joined by ``+``, in their order.

    The values are those for training many models on one set of weights, one mini-batch a model: the search variant of
    weight plasticity, projection by mean inputs, elastic consolidation with a discount.

    Args:
        text: the guard in words.
        warmup_epochs: epochs in which weight plasticity neither guards nor remembers.

    Raises:
        ConfigError: an unknown name, or a strength that is no number.

    >>> type(make_guard("plasticity:100")).__name__
    'WeightPlasticity'
    >>> type(make_guard("plasticity+projection")).__name__
    'Chain'
    """
    guards = []
    for part in _JOINT.split(text):
        name, colon, strength = part.partition(":")
        if name not in GUARDS:
            raise ConfigError(f"a guard is one of {', '.join(GUARDS)}, or several joined by +, but got {text!r}.")
        try:
            value = float(strength) if colon else None
        except ValueError:
            raise ConfigError(f"the strength of a guard must be a number, but got {part!r}.") from None
        guard = GUARDS[name](value)
        if isinstance(guard, WeightPlasticity):
            guard.warmup_epochs = warmup_epochs
        guards.append(guard)
    return chain(*guards)
