"""Whether every value is finite: asked of all gradients in each guarded step."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def all_finite(tensors: Sequence[Tensor]) -> Tensor:
    """1 where every value is finite and 0 otherwise, as a tensor of one value on the first tensor's device.

    Largest magnitudes are used because a sum of squares of float16 overflows. On a CPU the infinity norm takes three
    to sixteen times as long as the square root of that sum, which is therefore asked first: where it is finite, all is.
    Where it is not, the extremes tell, which carry NaN along.
    """
    dense = [tensor.coalesce().values() if tensor.is_sparse else tensor for tensor in tensors]
    dense = [tensor for tensor in dense if tensor.numel()]
    if not dense:
        return torch.ones(())
    if all(tensor.device.type == "cpu" for tensor in dense):
        if bool(torch.isfinite(torch.stack(torch._foreach_norm(dense))).all()):
            return torch.ones(())
        extremes = [extreme for tensor in dense for extreme in torch.aminmax(tensor)]
    else:
        extremes = list(torch._foreach_norm(dense, float("inf")))
    largest = [value.to(dense[0].device, torch.float32) for value in extremes]
    return torch.isfinite(torch.stack(largest)).all().to(torch.float32)
