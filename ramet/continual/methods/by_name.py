"""Methods by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ramet.continual.method import Method
from ramet.continual.methods.apd.method import AdditiveDecomposition
from ramet.continual.methods.bind_and_grow.method import BindAndGrow
from ramet.continual.methods.bind_and_grow.random_growth import RandomGrowth
from ramet.continual.methods.cpg.method import CompactPickGrow
from ramet.continual.methods.den import ExpandableNetwork
from ramet.continual.methods.distillation import Distillation
from ramet.continual.methods.elastic import Elastic
from ramet.continual.methods.firefly.method import ContinualFirefly
from ramet.continual.methods.individual import Individual
from ramet.continual.methods.joint_training import Joint
from ramet.continual.methods.learn_to_grow.method import LearnToGrow
from ramet.continual.methods.naive import Naive
from ramet.continual.methods.packnet import PackNet
from ramet.continual.methods.progressive import Progressive
from ramet.continual.methods.rcl.method import Reinforced
from ramet.continual.methods.replay import Replay
from ramet.errors import ConfigError

_BUILT_IN: tuple[type[Method], ...] = (
    Individual,
    Naive,
    Joint,
    Elastic,
    Distillation,
    Replay,
    PackNet,
    Progressive,
    ContinualFirefly,
    BindAndGrow,
    RandomGrowth,
    LearnToGrow,
    CompactPickGrow,
    ExpandableNetwork,
    Reinforced,
    AdditiveDecomposition,
)
METHODS: dict[str, type[Method]] = {method.name: method for method in _BUILT_IN}
"""The built-in methods."""


def make_method(spec: str, methods: Mapping[str, type[Method]] | None = None, **options: Any) -> Method:
    """A method by name, with options after a colon if wanted: ``elastic:strength=100``, ``packnet:share=0.5``.

    Args:
        spec: The name and its options, separated by commas.
        methods: Methods of one's own, besides the built-in ones.
        options: Further options.

    Raises:
        ConfigError: There is no such method, or it has no such option.

    >>> make_method("naive").name
    'naive'
    """
    known = {**METHODS, **(methods or {})}
    name, _, text = spec.partition(":")
    if name not in known:
        raise ConfigError(f"a method must be one of {', '.join(known)}, but got {name!r}.")
    given = dict(options)
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise ConfigError(f"an option of a method must be NAME=VALUE, but got {part!r}.")
        given[key.strip().replace("-", "_")] = _value(value.strip())
    try:
        return known[name](**given)
    except TypeError as error:
        raise ConfigError(f"the method {name} must have the options it is given, but: {error}.") from None


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
