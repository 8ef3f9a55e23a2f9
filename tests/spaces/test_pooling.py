"""The quick max pooling is torch's, bit for bit, and differentiable like torch's."""

import pytest
import torch
from torch.nn.functional import max_pool2d

from ramet.spaces.kernels.pooling import MaxPool3x3


@pytest.mark.parametrize("shape", [(2, 3, 8, 8), (1, 1, 1, 5), (3, 2, 7, 1), (1, 4, 1, 1)])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_values_are_torchs(shape, memory_format):
    x = torch.randint(-3, 4, shape).float().contiguous(memory_format=memory_format)
    with torch.no_grad():
        pooled = MaxPool3x3()(x)
    assert torch.equal(pooled, max_pool2d(x, 3, 1, 1))
    assert pooled.is_contiguous(memory_format=memory_format)


def test_nan_is_not_hidden():
    x = torch.zeros(1, 1, 5, 5)
    x[0, 0, 2, 2] = float("nan")
    with torch.no_grad():
        assert MaxPool3x3()(x).isnan().sum() == 9


def test_gradients_are_torchs():
    x = torch.randn(2, 3, 6, 6, requires_grad=True)
    (ours,) = torch.autograd.grad(MaxPool3x3()(x).square().sum(), x)
    (theirs,) = torch.autograd.grad(max_pool2d(x, 3, 1, 1).square().sum(), x)
    assert torch.equal(ours, theirs)
