"""A network from what identifies it on the command line: a built-in name, or a function of the user's own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import nn

from ramet.errors import ConfigError, RametError
from ramet.growth.networks import NETWORKS
from ramet.registry import resolve_reference
from ramet.seeding import seeded_globally


def make_network(
    network: str,
    *,
    in_channels: int,
    image_size: Sequence[int],
    num_classes: int,
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> nn.Module:
    """Make the network that a text names.

    Args:
        network: ``mlp``, ``vgg``, ``mobilenet``, or ``FILE.py:function`` (``package.module:function``) of one's own,
            which is given those of ``in_channels``, ``image_size`` and ``num_classes`` that it asks for.
        in_channels: channels of an image.
        image_size: height and width.
        num_classes: outputs.
        options: further arguments of the function.
        seed: of the weights.

    Raises:
        ConfigError: for an unknown name, an option that it does not take, or a function that does not give a module.

    >>> make_network("mlp", in_channels=1, image_size=(8, 8), num_classes=10, options={"width": 3})[1].out_features
    3
    """
    function: Callable[..., Any] | None = NETWORKS.get(network)
    if function is None:
        if ":" not in network:
            raise ConfigError(f"a network is {', '.join(NETWORKS)} or FILE.py:function, but got {network!r}.")
        function = resolve_reference(network, trusted=True)
        if not callable(function):
            raise ConfigError(f"{network} must be a function that gives a module, but is {type(function).__name__}.")
    given = {"in_channels": in_channels, "image_size": tuple(image_size), "num_classes": num_classes}
    arguments = _asked_for(network, function, given, dict(options or {}))
    try:
        with seeded_globally(seed, "network"):
            made = function(**arguments)
    except RametError:
        raise
    except Exception as error:
        raise ConfigError(f"the function of {network} must run, but raises {type(error).__name__}: {error}.") from error
    if not isinstance(made, nn.Module):
        raise ConfigError(f"the function of {network} must give an nn.Module, but gave {type(made).__name__}.")
    return made


def _asked_for(
    network: str, function: Callable[..., Any], given: dict[str, Any], options: dict[str, Any]
) -> dict[str, Any]:
    """What a function is called with: what it asks for of what is given, and all options."""
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:  # some callables of other languages have no signature
        return given | options
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    names = [name for name in parameters if name not in given]
    if unknown := sorted(set(options) - set(parameters)) if not takes_all else []:
        known = f"are {', '.join(names)}" if names else "are none"
        raise ConfigError(f"options of the network {network} {known}, but got {', '.join(unknown)}.")
    return {name: value for name, value in given.items() if takes_all or name in parameters} | options
