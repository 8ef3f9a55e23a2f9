"""What makes steps faster where the machine can: half precision and compilation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ramet.errors import ConfigError

if TYPE_CHECKING:
    from ramet.training.recipe import Recipe


def has_bfloat16(device: torch.device) -> bool:
    """Whether a device computes with bfloat16 itself; a processor that has to emulate it is slower than without."""
    if device.type == "cpu":
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return device.type != "cuda" or torch.cuda.is_bf16_supported(including_emulation=False)


def precision_of(recipe: Recipe, device: torch.device) -> AbstractContextManager[object]:
    """The precision that a recipe's losses are computed in; gradients and weights stay in single precision.

    Raises:
        ConfigError: the device does not have it.
    """
    if recipe.precision == "float32":
        return nullcontext()
    if not has_bfloat16(device):
        raise ConfigError(f"precision bfloat16 is for devices that have it, but {device} would emulate it, slowly.")
    return torch.autocast(device.type, dtype=torch.bfloat16)


@contextmanager
def compiled(network: nn.Module, recipe: Recipe) -> Iterator[None]:
    """Within the block calls of a network run compiled, if the recipe says so; afterwards it is as before.

    The first steps take seconds to minutes, for the compiler. A network that is called with architectures is compiled
    for each, until torch gives up and goes on without.
    """
    if not recipe.compile or network._compiled_call_impl is not None:
        yield
        return

    # Of what torch's own files hold, such as a Sequential's forward, Module.compile() compiles nothing.
    def call(*args: Any, **kwargs: Any) -> Any:
        return network._call_impl(*args, **kwargs)  # type: ignore[no-untyped-call]

    network._compiled_call_impl = torch.compile(call)
    try:
        yield
    finally:
        network._compiled_call_impl = None
