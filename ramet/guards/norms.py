"""Scales and shifts of norms: entries whose inputs are the normalised values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ramet.guards.entries import by_channel, gathered
from ramet.guards.meetings import Meeting, Readers, ones
from ramet.guards.precision import precise

READERS = Readers()


def _scaled(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, inputs: Callable[[bool], Tensor]
) -> list[Meeting]:
    found = [] if weight is None else [Meeting(weight, "entries", inputs)]
    if bias is not None:
        shift = bias
        found.append(Meeting(bias, "entries", lambda mean: ones(shift, input.numel(), mean)))
    return found


@READERS.of(functional.layer_norm)
def _layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Iterable[Meeting]:
    def inputs(mean: bool) -> Tensor:
        assert weight is not None
        return gathered(functional.layer_norm(precise(input), normalized_shape, eps=eps), weight, mean)

    return _scaled(input, weight, bias, inputs)


@READERS.of(functional.rms_norm)
def _rms_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None
) -> Iterable[Meeting]:
    def inputs(mean: bool) -> Tensor:
        assert weight is not None
        return gathered(functional.rms_norm(precise(input), normalized_shape, eps=eps), weight, mean)

    return _scaled(input, weight, None, inputs)


@READERS.of(functional.group_norm)
def _group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Iterable[Meeting]:
    def inputs(mean: bool) -> Tensor:
        assert weight is not None
        return by_channel(functional.group_norm(precise(input), num_groups, eps=eps), weight, mean)

    return _scaled(input, weight, bias, inputs)


@READERS.of(functional.batch_norm)
def _batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Iterable[Meeting]:
    if weight is None and bias is None:
        return ()

    def inputs(mean: bool) -> Tensor:
        assert weight is not None
        if training and mean:
            return torch.zeros_like(
                weight, dtype=torch.promote_types(weight.dtype, torch.float32)
            )  # what it is made for
        known = (None, None) if training else (running_mean, running_var)
        return by_channel(functional.batch_norm(precise(input), *known, training=training, eps=eps), weight, mean)

    return _scaled(input, weight, bias, inputs)


@READERS.of(functional.instance_norm)
def _instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Iterable[Meeting]:
    def inputs(mean: bool) -> Tensor:
        assert weight is not None
        known = (None, None) if use_input_stats else (running_mean, running_var)
        x = functional.instance_norm(precise(input), *known, use_input_stats=use_input_stats, eps=eps)
        return by_channel(x, weight, mean)

    return _scaled(input, weight, bias, inputs)
