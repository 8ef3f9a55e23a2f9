"""A network from what identifies it on the command line: a built-in name, or a function of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import nn

from ramet.data import InputForm
from ramet.errors import ConfigError
from ramet.growth import NETWORKS
from ramet.registry import Spec
from ramet.seeding import seeded_globally

NetworkSource = str | Callable[..., nn.Module]
"""What names a network: a text, or a class or function that makes a module."""


def parse_network(text: str) -> Spec:
    """The spec of a network, whose values without a key are its widths.

    >>> parse_network("mlp:8,16").options
    {'width': [8, 16]}
    """
    spec = NETWORKS.parse(text)
    if not spec.values:
        return spec
    widths = spec.values[0] if len(spec.values) == 1 else list(spec.values)
    return Spec(spec.name, (), {"width": widths, **spec.options})


def make_network(
    network: NetworkSource,
    *,
    num_classes: int,
    in_channels: int | None = None,
    image_size: Sequence[int] | None = None,
    input_shape: Sequence[int] | None = None,
    length: int | None = None,
    words: int | None = None,
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
    trusted: bool = True,
) -> nn.Module:
    """Make the network that a text names.

    Args:
        network: ``mlp``, ``vgg``, ``mobilenet``, each with options (``mlp:width=8``) or its widths (``mlp:8,16``) after
            a colon if wanted; or ``FILE.py:function`` (``package.module:function``) of one's own, or the function
            itself, which is given what it asks for: ``num_classes`` (or ``num_outputs``), ``input_shape``, and
            ``in_channels`` and ``image_size`` of images, ``num_features`` of vectors, ``length`` and ``words`` of text.
        num_classes: outputs.
        in_channels: channels of an image.
        image_size: height and width.
        input_shape: of inputs that are no images: [features] of a vector.
        length: tokens of a text.
        words: the size of its vocabulary.
        options: further arguments of the function.
        seed: of the weights.
        trusted: whether code that the text names may run; False for a text that comes from data.

    Raises:
        ConfigError: for an unknown name, an option that it does not take, or a function that does not give a module.

    >>> make_network("mlp:width=3", in_channels=1, image_size=(8, 8), num_classes=10)[1].out_features
    3
    """
    if isinstance(network, nn.Module) or not (isinstance(network, str) or callable(network)):
        raise ConfigError(f"a network is named, or made by a function, but got {type(network).__name__}.")
    source: Any = network
    if isinstance(network, str):
        source = parse_network(network).with_options(options or {})
    elif options:
        raise ConfigError(f"options are for a network by name, but got {', '.join(options)} beside a function.")
    form = InputForm.given(
        in_channels=in_channels, image_size=image_size, input_shape=input_shape, length=length, words=words
    )
    with seeded_globally(seed, "network"):
        return NETWORKS.make(source, trusted=trusted, **form.arguments(num_classes))
