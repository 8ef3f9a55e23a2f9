"""What a network costs: parameters, multiply-adds for one image, and measured latency."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from ramet.errors import ConfigError
from ramet.training import training_modes


def count_parameters(module: nn.Module) -> int:
    """The number of trainable values; a tensor that is used twice counts once.

    >>> count_parameters(nn.Linear(3, 2))
    8
    """
    return sum(param.numel() for param in module.parameters() if param.requires_grad)


class ProductCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the multiply-adds of what runs within it, by torch's own formulas.

    Torch's own counter also follows which module calls which, by hooks that parameters in inference mode do not take.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._operations: int = 0

    @property
    def multiply_adds(self) -> int:
        """What was counted so far."""
        return self._operations // 2  # the formulas count the multiplication and the addition

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, and count it if it is a product; one that is made of others is taken apart."""
        kwargs = kwargs or {}
        packet = func._overloadpacket
        if packet not in flop_registry and func is not torch.ops.prim.device.default:
            with self:
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        result = func(*args, **kwargs)
        if packet in flop_registry:
            self._operations += flop_registry[packet](*args, **kwargs, out_val=result)
        elif packet in _RECURRENT:
            self._operations += 2 * _RECURRENT[packet] * _products_of_recurrent_layers(*args[:3])
        return result


_RECURRENT: dict[Any, int] = {
    torch.ops.aten.mkldnn_rnn_layer: 1,
    torch.ops.aten.mkldnn_rnn_layer_backward: 2,
    torch.ops.aten._cudnn_rnn: 1,
    torch.ops.aten._cudnn_rnn_backward: 2,
}
"""Kernels of whole recurrent layers, which torch has no formula for, and how many products each weight has in them."""


def _products_of_recurrent_layers(sequence: Tensor, weights: Tensor | Sequence[Tensor], second: Any) -> int:
    """The multiply-adds of each matrix at each place of a sequence: of one layer's two matrices, or a list of many."""
    matrices = [weights, second] if isinstance(weights, Tensor) else weights
    num_places = sequence.numel() // sequence.shape[-1]
    return num_places * sum(matrix.numel() for matrix in matrices if matrix.dim() == 2)


def count_flops(
    module: nn.Module, input_shape: Sequence[int], *arguments: Any, dtype: torch.dtype = torch.float32
) -> int:
    """The multiply-adds of one forward pass for a single input, which the field calls FLOPs.

    Convolutions and matrix products count, additions of biases, norms, activations and poolings do not. For
    NAS-Bench-201 this is the benchmark's figure up to the additions of the last layer's bias.

    Args:
        module: any module; it is run once on zeros in evaluation mode, and left as it was.
        input_shape: the shape of one input without its batch, such as (3, 32, 32).
        *arguments: what ``forward`` takes besides, such as a supernet's architecture.
        dtype: of an input; ``torch.int64`` for words.

    Raises:
        ConfigError: if ``input_shape`` is not made of positive numbers.

    Example:
        >>> count_flops(nn.Conv2d(3, 8, 3, padding=1), (3, 4, 4))
        3456
    """
    x = zeros_for(module, input_shape, 1, dtype)
    counter = ProductCounter()
    with evaluating(module), counter:
        module(x, *arguments)
    return counter.multiply_adds


def measure_latency(
    module: nn.Module,
    input_shape: Sequence[int],
    *arguments: Any,
    batch_size: int = 1,
    num_runs: int = 20,
    num_warmups: int = 3,
    dtype: torch.dtype = torch.float32,
) -> float:
    """Seconds of one forward pass: the median of several, on the device where the module is.

    Args:
        module: any module; it is run in evaluation mode, and left as it was.
        input_shape: the shape of one input without its batch.
        *arguments: what ``forward`` takes besides, such as a supernet's architecture.
        batch_size: inputs in a pass.
        num_runs: passes that are measured.
        num_warmups: passes before them, which are not.
        dtype: of an input; ``torch.int64`` for words.

    Raises:
        ConfigError: if a shape or a count is out of range.
    """
    if batch_size < 1 or num_runs < 1 or num_warmups < 0:
        counts = (batch_size, num_runs, num_warmups)
        raise ConfigError(f"batch size, runs and warm-ups must be at least 1, 1 and 0, but got {counts}.")
    x = zeros_for(module, input_shape, batch_size, dtype)
    seconds = []
    with evaluating(module):
        for run in range(num_warmups + num_runs):
            _wait_for(x.device)
            start = time.perf_counter()
            module(x, *arguments)
            _wait_for(x.device)
            if run >= num_warmups:
                seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def zeros_for(
    module: nn.Module, input_shape: Sequence[int], batch_size: int, dtype: torch.dtype = torch.float32
) -> Tensor:
    """A batch that stands for any other of its shape, of positive numbers, where the module is."""
    shape = tuple(input_shape)
    if not shape or any(size < 1 for size in shape):
        raise ConfigError(f"an input shape is made of positive numbers, but got {shape}.")
    device = next((tensor.device for tensor in module.parameters()), torch.device("cpu"))
    return torch.zeros(batch_size, *shape, dtype=dtype, device=device)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; each part gets its own mode back, also where they differ."""
    with training_modes(module), torch.no_grad():
        module.eval()
        yield


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
