"""A product's weight and bias as one matrix, and back, by the product's key alone: saved states need no module."""

from __future__ import annotations

from torch import Tensor, cat

from ramet.errors import ConfigError
from ramet.params import Params


def weight_of(key: str) -> str:
    """The name of a product's weight parameter; the key of a tied weight ends in the parameter's own name.

    >>> weight_of("decoder.weight=encoder.weight")
    'encoder.weight'
    """
    return key.rpartition("=")[2]


def bias_of(key: str) -> str:
    """The name that the bias of a product has, if it has one.

    >>> bias_of("rnn.weight_ih_l0"), bias_of("decoder.weight=encoder.weight")
    ('rnn.bias_ih_l0', 'decoder.bias')
    """
    layer, dot, local = key.partition("=")[0].rpartition(".")
    return f"{layer}{dot}{local.replace('weight', 'bias')}"


def names_of(key: str, known: Params) -> list[str]:
    """The names of a product's weight and, where it is known, its bias."""
    return [name for name in (weight_of(key), bias_of(key)) if name in known]


def check_width(key: str, width: int, expected: int) -> None:
    """Refuse a layer whose inputs have become more or fewer than those that were remembered."""
    if width != expected:
        raise ConfigError(
            "a guarded parameter keeps its shape until forget() is called, "
            f"but {key} went from {expected} inputs to {width}."
        )


def joined(key: str, groups: int, width: int, tensors: Params) -> Tensor:
    """Weight and bias of a product side by side, [groups, outputs / groups, width].

    Args:
        key: the product's key.
        groups: its groups.
        width: its inputs; one more than the weight has, where the bias belongs to it.
        tensors: values by parameter name.

    Raises:
        ConfigError: if the shapes do not fit, or the bias is missing.
    """
    weight = tensors[weight_of(key)]
    rows = weight.reshape(groups, weight.shape[0] // groups, -1)
    if rows.shape[-1] == width:
        return rows
    check_width(key, rows.shape[-1] + 1, width)
    if bias_of(key) not in tensors:
        raise ConfigError(f"a guarded weight trains together with its bias, but that of {key} has no gradient.")
    return cat([rows, tensors[bias_of(key)].reshape(groups, -1, 1)], dim=-1)


def parted(key: str, matrix: Tensor, tensors: Params) -> Params:
    """The inverse of ``joined``: the matrix's weight and, where it is in it, bias, in the shapes of ``tensors``."""
    weight = tensors[weight_of(key)]
    inputs = weight[0].numel()
    parts = {weight_of(key): matrix[..., :inputs].reshape(weight.shape)}
    if matrix.shape[-1] > inputs:
        parts[bias_of(key)] = matrix[..., -1].reshape(-1)
    return parts
