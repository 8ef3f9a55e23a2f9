"""Other slopes for ReLU while a block runs: its values stay, its derivatives are what an analysis needs.

ReLU has no second derivative and, in torch, a slope of 0 at 0. Splitting needs a curvature, GradMax a slope of 1 at 0.
Modules and functions are caught alike, so that the user's network needs no change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode


class _SlopedReLU(torch.autograd.Function):
    """ReLU forward; its slope is a function that may itself have a derivative."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, slope: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.save_for_backward(x)
        ctx.slope = slope
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return gradients[0] * ctx.slope(x), None


class _Replacing(TorchFunctionMode):
    def __init__(self, slope: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.slope = slope

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if getattr(func, "__name__", "") in ("relu", "relu_") and args and isinstance(args[0], Tensor):
            return _SlopedReLU.apply(args[0], self.slope)  # type: ignore[no-untyped-call]
        return func(*args, **(kwargs or {}))


@contextmanager
def smooth_relu(sharpness: float) -> Iterator[None]:
    """Give ReLU the derivatives of a softplus of this sharpness, and attention a second derivative."""
    with sdpa_kernel(SDPBackend.MATH), _Replacing(lambda x: torch.sigmoid(sharpness * x)):
        yield


@contextmanager
def open_relu() -> Iterator[None]:
    """Give ReLU a slope of 1 at 0, as the right derivative has it, and attention a second derivative."""
    with sdpa_kernel(SDPBackend.MATH), _Replacing(lambda x: (x >= 0).to(x)):
        yield
