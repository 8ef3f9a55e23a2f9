"""Comparisons to the last bit, for tests."""

from __future__ import annotations

import math
import struct

import torch
from torch import Tensor


def bits(value: object) -> object:
    """A value in which NaN equals NaN, 0.0 differs from -0.0, and 1, 1.0 and True differ."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("<d", value)
    if isinstance(value, dict):
        return {key: bits(item) for key, item in value.items()}
    if isinstance(value, list):
        return [bits(item) for item in value]
    return type(value), value


def same_bits(a: Tensor, b: Tensor) -> bool:
    """Equal in shape, strides, dtype and every bit, so that NaN equals itself and 0.0 differs from -0.0."""
    raw = [tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (a, b)]
    return a.shape == b.shape and a.stride() == b.stride() and a.dtype == b.dtype and torch.equal(*raw)
