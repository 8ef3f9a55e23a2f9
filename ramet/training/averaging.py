"""Averages of weights over the steps of a training, which often generalise better than the last ones."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.registry import parse_spec

KINDS = ("ema", "tail")


def check_average(text: str) -> tuple[str, float]:
    """The kind of an average and its number.

    Raises:
        ConfigError: it reads otherwise than ``ema:DECAY`` or ``tail:SHARE``.

    >>> check_average("ema:0.99"), check_average("tail")
    (('ema', 0.99), ('tail', 0.25))
    """
    spec = parse_spec(text, KINDS)
    number = spec.values[0] if len(spec.values) == 1 else {"ema": 0.999, "tail": 0.25}.get(spec.name)
    is_number = isinstance(number, int | float) and 0 < number < 1
    if spec.name not in KINDS or spec.options or len(spec.values) > 1 or not is_number:
        raise ConfigError(f"average reads ema:DECAY or tail:SHARE, a number between 0 and 1, but got {text!r}.")
    return spec.name, float(number)  # type: ignore[arg-type]


class WeightAverage:
    """The average of a network's weights and statistics over the steps of a training.

    ``ema:DECAY`` weighs a step by DECAY to the power of its age; early on, when there are few steps, the decay is
    smaller (``(1 + n) / (10 + n)`` after n steps), so that the first weights are soon forgotten. ``tail:SHARE`` is the
    plain mean over the last share of the steps (Izmailov and others, 2018).

    Args:
        network: what is averaged: parameters and buffers that are broken numbers; others are those of the last step.
        text: ``ema:DECAY`` or ``tail:SHARE``.
    """

    def __init__(self, network: nn.Module, text: str) -> None:
        self._kind, self._number = check_average(text)
        self._count = 0
        self._source = {
            name: value for name, value in network.state_dict(keep_vars=True).items() if value.is_floating_point()
        }
        self._mean = {name: value.detach().clone() for name, value in self._source.items()}

    @torch.no_grad()
    def update(self, step: int, num_steps: int) -> None:
        """Take in the weights after a step, counted from 0."""
        if self._kind == "tail":
            if step < round((1 - self._number) * num_steps):
                return
            share = 1 / (self._count + 1)
        else:
            share = 1 - min(self._number, (1 + self._count) / (10 + self._count)) if self._count else 1.0
        self._count += 1
        values = [value.detach() for value in self._source.values()]
        torch._foreach_lerp_(list(self._mean.values()), values, share)

    @torch.no_grad()
    def put(self) -> None:
        """Give the network the average, if there is one."""
        if self._count:
            torch._foreach_copy_([value.detach() for value in self._source.values()], list(self._mean.values()))

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint must hold."""
        return {"count": self._count, "mean": dict(self._mean)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self._count = state["count"]
        mean: dict[str, Tensor] = state["mean"]
        for name, value in self._mean.items():
            value.copy_(mean[name])
