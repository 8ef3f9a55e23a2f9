"""Chains of other widths: the same shape at another size, so that networks can be compared at equal parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from ramet.continual.networks.skeletons import Skeleton
from ramet.costs import count_parameters
from ramet.errors import ConfigError

STEPS = 40
"""Halvings of the interval in which a width is looked for: widths are whole numbers long before."""


def resized(skeleton: Skeleton, factor: float) -> Skeleton:
    """The same layers, each of ``factor`` times its width, and of at least one neuron.

    >>> from ramet.continual.networks.skeletons import mlp
    >>> [layer.width for layer in resized(mlp(100, 40, in_channels=1, image_size=(8, 8)), 0.5).layers]
    [50, 20]
    """
    if not factor > 0:
        raise ConfigError(f"a width must be a positive multiple of the network's, but got {factor}.")
    layers = tuple(replace(layer, width=max(1, round(factor * layer.width))) for layer in skeleton.layers)
    return replace(skeleton, layers=layers)


def network_size(skeleton: Skeleton, num_classes: int) -> int:
    """The parameters of one task's network."""
    with torch.device("meta"):
        head = count_parameters(skeleton.make_head(num_classes))
        return sum(skeleton.layer_sizes()) + head


def factor_for(skeleton: Skeleton, classes: Sequence[int], parameters: float, *, at_most: bool = False) -> float:
    """The multiple of the widths at which networks for tasks of so many classes have some parameters together.

    Widths are whole numbers, so that the sum seldom is just what is wanted: it is the smallest that is not below, or
    with ``at_most`` the largest that is not above.

    Raises:
        ConfigError: with ``at_most``, networks of one neuron a layer are too large already.

    >>> from ramet.continual.networks.skeletons import mlp
    >>> skeleton = mlp(100, in_channels=1, image_size=(8, 8))
    >>> factor = factor_for(skeleton, [10, 10], network_size(skeleton, 10), at_most=True)
    >>> resized(skeleton, factor).layers[0].width
    49
    """

    def total(factor: float) -> int:
        chain = resized(skeleton, factor)
        return sum(network_size(chain, number) for number in classes)

    low, high = 0.5 / max(layer.width for layer in skeleton.layers), 1.0  # at ``low`` every layer has one neuron
    if at_most and total(low) > parameters:
        raise ConfigError(
            f"a budget must leave each of {len(classes)} tasks a neuron a layer, {total(low)} parameters in all, but "
            f"got {parameters:g}."
        )
    while total(high) < parameters:
        high *= 2
    for _ in range(STEPS):
        middle = (low + high) / 2
        is_low = total(middle) <= parameters if at_most else total(middle) < parameters
        low, high = (middle, high) if is_low else (low, middle)
    return low if at_most else high
