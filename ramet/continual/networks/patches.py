"""What changes a shared layer for one task alone: some channels of its own, or a small map beside it."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ramet.continual.networks.skeletons import norm_of, weights_of
from ramet.errors import ConfigError


class Patch(nn.Module):
    """A change of a shared layer that one task trains and no other sees; the layer is read, and never changed.

    It is a function from the layer's weights to other weights of the same shapes: what a task trains beside a layer can
    therefore be merged into a plain layer when the task is exported. Where the layer has a batch norm, the patch has
    one of its own, because the statistics are another task's.
    """

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.norm = copy.deepcopy(norm_of(block))

    @abstractmethod
    def effective(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """The weights and the bias that the task sees."""

    def forward(self, x: Tensor, block: nn.Module) -> Tensor:
        """What the layer gives for this task."""
        for name, part in block.named_children():
            if name == "weights":
                weights = weights_of(block)
                weight, bias = self.effective(weights.weight, weights.bias)
                x = functional_call(part, {"weight": weight, "bias": bias}, (x,))
            elif name == "norm":
                assert self.norm is not None
                x = self.norm(x)
            else:
                x = part(x)
        return x

    @torch.no_grad()
    def merged(self, block: nn.Module) -> nn.Module:
        """A plain layer that gives what the patched one gives."""
        plain = copy.deepcopy(block)
        weights = weights_of(plain)
        weight, bias = self.effective(weights.weight, weights.bias)
        weights.weight.copy_(weight)
        weights.bias.copy_(bias)
        if self.norm is not None:
            plain.get_submodule("norm").load_state_dict(self.norm.state_dict())
        return plain


class ChannelPatch(Patch):
    """Some channels of a layer are the task's own, and start as copies; the others stay shared."""

    channels: Tensor

    def __init__(self, block: nn.Module, channels: list[int]) -> None:
        super().__init__(block)
        weights = weights_of(block)
        if (
            not channels
            or sorted(set(channels)) != channels
            or not 0 <= channels[0] <= channels[-1] < len(weights.weight)
        ):
            raise ConfigError(
                f"channels must be different ones of {len(weights.weight)}, in order, but got {channels}."
            )
        self.register_buffer("channels", torch.tensor(channels, device=weights.weight.device))
        self.weight = nn.Parameter(weights.weight.detach()[channels].clone())
        self.bias = nn.Parameter(weights.bias.detach()[channels].clone())

    def effective(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """The shared rows, with the task's own in their places."""
        return weight.index_copy(0, self.channels, self.weight), bias.index_copy(0, self.channels, self.bias)


class AdapterPatch(Patch):
    """A small linear map beside a layer, added to what the layer gives before its activation.

    Beside a convolution it is a full 1 x 1 convolution (``rank`` 0), or one of low rank over the whole kernel; beside a
    linear layer a map of low rank. It starts at zero, so that the task begins with just what the shared layer gives:
    the first factor is drawn from the generator, and zeros if there is none, as when weights are loaded.
    """

    def __init__(self, block: nn.Module, rank: int, generator: torch.Generator | None = None) -> None:
        super().__init__(block)
        weights = weights_of(block)
        if rank < 0 or (rank == 0 and weights.weight.ndim == 2):
            raise ConfigError(f"the rank of an adapter must be at least 1, or 0 beside a convolution, but got {rank}.")
        outputs, device = len(weights.weight), weights.weight.device
        self.bias = nn.Parameter(torch.zeros(outputs, device=device))
        if rank == 0:
            self.pointwise = nn.Parameter(torch.zeros(outputs, weights.weight.shape[1], device=device))
            self.down = None
        else:
            inputs = weights.weight[0].numel()
            drawn = torch.zeros(rank, inputs) if generator is None else torch.randn(rank, inputs, generator=generator)
            self.down = nn.Parameter((drawn / inputs**0.5).to(device))
            self.up = nn.Parameter(torch.zeros(outputs, rank, device=device))

    def effective(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """The shared weights plus the map."""
        if self.down is not None:
            return weight + (self.up @ self.down).view_as(weight), bias + self.bias
        tap = torch.zeros_like(weight[0, 0])  # [kernel, kernel]: the one place where a 1 x 1 convolution looks
        tap[(tap.shape[0] - 1) // 2, (tap.shape[1] - 1) // 2] = 1.0
        return weight + self.pointwise[:, :, None, None] * tap, bias + self.bias


def make_patch(block: nn.Module, values: Mapping[str, Any], generator: torch.Generator | None = None) -> Patch:
    """A patch of its description: ``{"channels": [...]}`` or ``{"rank": 4}``."""
    if "channels" in values:
        return ChannelPatch(block, list(values["channels"]))
    return AdapterPatch(block, int(values["rank"]), generator)
