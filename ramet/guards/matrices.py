"""A product's weight and bias as one matrix, and back, by the product's key alone: saved states need no module."""

from __future__ import annotations

from torch import Tensor, cat

from ramet.errors import ConfigError
from ramet.params import Params


def key_of(own: str, weight: str, has_bias: bool) -> str:
    """The key of a product: the weight's name in its layer, and whether a bias belongs to it.

    Where the parameter goes by the name that another layer gives it, that name follows.

    >>> key_of("head.weight", "head.weight", True), key_of("decoder.weight", "encoder.weight", False)
    ('head.weight+bias', 'decoder.weight=encoder.weight')
    """
    return own + ("+bias" if has_bias else "") + ("" if own == weight else f"={weight}")


def weight_of(key: str) -> str:
    """The name of a product's weight parameter.

    >>> weight_of("decoder.weight+bias=encoder.weight"), weight_of("head.weight+bias")
    ('encoder.weight', 'head.weight')
    """
    return key.rpartition("=")[2].removesuffix("+bias")


def bias_of(key: str) -> str | None:
    """The name of the bias parameter that belongs to a product, or None.

    >>> bias_of("rnn.weight_ih_l0+bias"), bias_of("decoder.weight+bias=encoder.weight"), bias_of("head.weight")
    ('rnn.bias_ih_l0', 'decoder.bias', None)
    """
    own = key.partition("=")[0]
    if not own.endswith("+bias"):
        return None
    layer, dot, local = own.removesuffix("+bias").rpartition(".")
    return f"{layer}{dot}{local.replace('weight', 'bias')}"


def names_of(key: str, known: Params) -> list[str]:
    """The names of a product's weight and bias that are known."""
    return [name for name in (weight_of(key), bias_of(key)) if name in known and name is not None]


def check_width(key: str, width: int, expected: int) -> None:
    """Refuse a layer whose inputs have become more or fewer than those that were remembered."""
    if width != expected:
        raise ConfigError(
            "a guarded parameter keeps its shape until forget() is called, "
            f"but {key} went from {expected} inputs to {width}."
        )


def joined(key: str, groups: int, width: int, tensors: Params) -> Tensor:
    """Weight and bias of a product side by side, [groups, outputs / groups, width], the bias's column last.

    Raises:
        ConfigError: if the shapes do not fit, or the bias is missing.
    """
    weight, bias = tensors[weight_of(key)], bias_of(key)
    rows = weight.reshape(groups, weight.shape[0] // groups, -1)
    check_width(key, rows.shape[-1] + (bias is not None), width)
    if bias is None:
        return rows
    if bias not in tensors:
        raise ConfigError(f"a guarded weight trains together with its bias, but {bias} has no gradient.")
    return cat([rows, tensors[bias].reshape(groups, -1, 1)], dim=-1)


def parted(key: str, matrix: Tensor, tensors: Params) -> Params:
    """The inverse of ``joined``: the matrix's weight and, where it is in it, bias, in the shapes of ``tensors``."""
    weight, bias = tensors[weight_of(key)], bias_of(key)
    if bias is None:
        return {weight_of(key): matrix.reshape(weight.shape)}
    return {weight_of(key): matrix[..., :-1].reshape(weight.shape), bias: matrix[..., -1].reshape(-1)}
