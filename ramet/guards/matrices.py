"""A product's weight and bias as one matrix, and back, by the product's key alone: saved states need no module.

A key is ``OWN``, ``OWN^T`` or ``OWN^E``, then ``+bias`` or ``+(NAME)``, then ``=WEIGHT``. OWN is the weight's name in
its layer, and WEIGHT the name that another layer gives the same parameter. ``^T`` marks a weight that is stored as
[inputs, outputs], ``^E`` one whose entries each have an input of their own, and ``^M`` a matrix whose rows are looked
up, too. The bias is that of the layer (``bias`` in the place of ``weight``), or the parameter NAME.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from torch import Tensor, cat

from ramet.errors import ConfigError
from ramet.params import Params

Marker = Literal["", "^T", "^E", "^M"]
_KEY = re.compile(r"(?P<own>.*?)(?P<marker>\^[TEM])?(?P<bias>\+bias|\+\(.*?\))?(?:=(?P<weight>.*))?")


@dataclass(frozen=True)
class Parts:
    """What a key says: the names of the parameters, and how the weight is to be read."""

    weight: str
    bias: str | None
    marker: str

    @property
    def transposed(self) -> bool:
        """Whether the weight is stored as [inputs, outputs]."""
        return self.marker == "^T"


@lru_cache(maxsize=65536)
def parts_of(key: str) -> Parts:
    """A key, read.

    >>> parts_of("h.c_attn.weight^T+bias"), parts_of("w+(shift)").bias
    (Parts(weight='h.c_attn.weight', bias='h.c_attn.bias', marker='^T'), 'shift')
    """
    found = _KEY.fullmatch(key)
    assert found is not None, "the expression takes any text"
    own, bias = found["own"], found["bias"]
    if bias == "+bias":
        bias = _bias_beside(own)
    return Parts(found["weight"] or own, bias[2:-1] if bias and bias.startswith("+(") else bias, found["marker"] or "")


def _bias_beside(weight: str) -> str:
    layer, dot, local = weight.rpartition(".")
    return f"{layer}{dot}{local.replace('weight', 'bias')}"


def key_of(own: str, weight: str, bias: bool | str | None, marker: Marker = "") -> str:
    """The key of a product: the weight's name in its layer, and whether a bias belongs to it, or which.

    Where the parameter goes by the name that another layer gives it, that name follows.

    >>> key_of("head.weight", "head.weight", True), key_of("decoder.weight", "encoder.weight", False)
    ('head.weight+bias', 'decoder.weight=encoder.weight')
    >>> key_of("w", "w", "shift", "^T")
    'w^T+(shift)'
    """
    if isinstance(bias, str):
        beside = "weight" in own.rpartition(".")[2] and bias == _bias_beside(own)
        added = "+bias" if beside else f"+({bias})"
    else:
        added = "+bias" if bias else ""
    return own + marker + added + ("" if own == weight else f"={weight}")


def weight_of(key: str) -> str:
    """The name of a product's weight parameter.

    >>> weight_of("decoder.weight+bias=encoder.weight"), weight_of("head.weight+bias")
    ('encoder.weight', 'head.weight')
    """
    return parts_of(key).weight


def bias_of(key: str) -> str | None:
    """The name of the bias parameter that belongs to a product, or None.

    >>> bias_of("rnn.weight_ih_l0+bias"), bias_of("decoder.weight+bias=encoder.weight"), bias_of("head.weight")
    ('rnn.bias_ih_l0', 'decoder.bias', None)
    """
    return parts_of(key).bias


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


def as_matrix(key: str, groups: int, inputs: int, weight: Tensor) -> Tensor:
    """A weight alone, [groups, outputs / groups, inputs].

    Raises:
        ConfigError: if the shape does not fit.
    """
    shape, transposed = weight.shape, parts_of(key).transposed
    for place in range(1, max(weight.dim(), 2)):  # a weight with more axes may have some of them for its groups
        outer, inner = math.prod(shape[:place]), math.prod(shape[place:])
        if transposed and outer == groups * inputs:
            return weight.reshape(groups, inputs, inner).mT
        if not transposed and inner == inputs and outer % groups == 0:
            return weight.reshape(groups, outer // groups, inputs)
    if not transposed and weight.dim() == 1 and groups == 1 and len(weight) == inputs:  # a product with a vector
        return weight.reshape(1, 1, inputs)
    check_width(key, shape[0] // groups if transposed else weight.numel() // shape[0], inputs)
    raise ConfigError(
        f"a guarded parameter keeps its shape until forget() is called, but {key} is {tuple(shape)} in {groups} groups."
    )


def joined(key: str, groups: int, width: int, tensors: Params) -> Tensor:
    """Weight and bias of a product side by side, [groups, outputs / groups, width], the bias's column last.

    The column of a bias that is not among the tensors, since it does not train, is 0.

    Raises:
        ConfigError: if the shapes do not fit.
    """
    bias = bias_of(key)
    rows = as_matrix(key, groups, width - (bias is not None), tensors[weight_of(key)])
    if bias is None:
        return rows
    column = tensors[bias].reshape(groups, -1, 1) if bias in tensors else rows.new_zeros(*rows.shape[:2], 1)
    return cat([rows, column], dim=-1)


def parted(key: str, matrix: Tensor, tensors: Params) -> Params:
    """The inverse of ``joined``: the matrix's weight and, where it is in it, bias, in the shapes of ``tensors``."""
    weight, bias = tensors[weight_of(key)], bias_of(key)
    rows = matrix if bias is None else matrix[..., :-1]
    rows = rows.mT if parts_of(key).transposed else rows
    found = {weight_of(key): rows.reshape(weight.shape)}
    if bias is not None and bias in tensors:
        found[bias] = matrix[..., -1].reshape(-1)
    return found
