"""A depthwise convolution whose backward pass is quick on a CPU.

Torch hands a depthwise convolution to oneDNN. Its kernels for depthwise shapes are quick, but the one for the weight
gradient takes only undilated kernels of at most three columns, padded by at most half a kernel; everything else goes
to a kernel for grouped convolutions, which multiplies all channels of a block with each other and is ten times slower.
So larger and dilated weight gradients are rewritten here as the undilated, three-column ones that oneDNN likes. The
input gradient is a convolution of the output gradient with the flipped kernel, which costs as much as the forward pass.
``benchmarks/bench_depthwise.py`` times both against torch's own.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ramet.errors import ConfigError

_TILE = 3  # the most kernel columns that oneDNN's depthwise weight gradient takes
_SMALL = 64 * 8 * 8 * 8  # elements up to which a few calls from Python cost more than they save


class DepthwiseConv2d(nn.Conv2d):
    """``nn.Conv2d`` with one filter a channel, and a quicker backward pass on a CPU; other options are those of torch.

    The forward pass is torch's own, bit for bit, and so are the parameters, their names and their initialisation. The
    gradients are equal to torch's but for rounding. Torch's own backward pass is taken where it is as quick, on other
    devices, under autocast and ``torch.func``, for gradients of gradients, and for settings that differ between height
    and width.

    >>> convolution = DepthwiseConv2d(8, 8, 5, padding=4, dilation=2, bias=False)
    >>> convolution(torch.zeros(2, 8, 16, 16)).shape
    torch.Size([2, 8, 16, 16])
    """

    shows_products = True
    """For guards: the forward pass is a function of torch that meets the weight itself."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: str | int | tuple[int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        groups: int | None = None,
        bias: bool = True,
        **options: Any,
    ) -> None:
        groups = in_channels if groups is None else groups
        if not in_channels == out_channels == groups:
            numbers = f"{in_channels}, {out_channels} and {groups}"
            raise ConfigError(f"a depthwise convolution has as many inputs as outputs and groups, but got {numbers}.")
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, **options)

    def forward(self, input: Tensor) -> Tensor:
        """The convolution of ``input``, ``[batch, C, height, width]``."""
        if self._is_worth_it(input):
            settings = (self.stride[0], self.padding[0], self.dilation[0])
            return _Depthwise.apply(input, self.weight, self.bias, *settings)  # type: ignore[no-any-return, no-untyped-call]
        return super().forward(input)

    def plain(self) -> nn.Conv2d:
        """An ``nn.Conv2d`` that holds the very same parameters."""
        names = ("kernel_size", "stride", "padding", "dilation", "groups", "padding_mode")
        options: dict[str, Any] = {name: getattr(self, name) for name in names}
        convolution = nn.Conv2d(self.in_channels, self.out_channels, bias=False, device="meta", **options)
        convolution.weight, convolution.bias = self.weight, self.bias
        return convolution.train(self.training)

    def _is_worth_it(self, x: Tensor) -> bool:
        """Whether the backward pass of this file is both quicker than torch's and able to do the work."""
        # Torch is quick without dilation if there is a stride, or the kernel or the tensor is small.
        if self.dilation[0] == 1 and (self.stride[0] > 1 or self.kernel_size[0] <= _TILE or x.numel() <= _SMALL):
            return False
        pairs = (self.kernel_size, self.stride, self.padding, self.dilation)
        return (
            torch.is_grad_enabled()
            and x.device.type == "cpu"
            and x.dim() == 4
            and self.padding_mode == "zeros"
            and all(len(pair) == 2 and pair[0] == pair[1] for pair in pairs)  # "same" and "valid" are not pairs
            and not torch.is_autocast_enabled("cpu")  # which casts around torch's own convolution only
            and not torch._C._are_functorch_transforms_active()  # torch.func looks into torch's own, too
        )


class _Depthwise(torch.autograd.Function):
    """Torch's forward pass with the backward pass of this file."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, stride: int, padding: int, dilation: int
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.settings = (stride, padding, dilation)
        return F.conv2d(x, weight, bias, stride, padding, dilation, x.shape[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        arguments = (grad, *ctx.saved_tensors, *ctx.settings)
        for_x, for_weight, for_bias = ctx.needs_input_grad[:3]
        for_rest = (grad.sum((0, 2, 3)) if for_bias else None, None, None, None)
        if torch.is_grad_enabled():  # this pass will be differentiated in turn, which torch's own operation allows
            return *_torch_gradients(*arguments, wanted=(for_x, for_weight)), *for_rest
        for_x = input_gradient(*arguments) if for_x else None
        for_weight = weight_gradient(*arguments) if for_weight else None
        return for_x, for_weight, *for_rest


def input_gradient(grad: Tensor, x: Tensor, weight: Tensor, stride: int, padding: int, dilation: int) -> Tensor:
    """The gradient of a depthwise convolution with respect to its input ``x``.

    Without a stride it is the output gradient ``grad`` convolved with the flipped filters ``weight``, ``[C, 1, k, k]``,
    padded by what the forward pass left out. Of ``x`` only the shape and the memory format count.
    """
    rest = dilation * (weight.shape[-1] - 1) - padding
    if rest >= 0 and stride == 1:
        return F.conv2d(grad, weight.flip(2, 3), None, 1, rest, dilation, x.shape[1])
    if rest >= 0 and stride == dilation and padding % stride == 0:  # other rows and columns never meet the kernel
        gradient = torch.zeros_like(x)
        seen = gradient[..., ::stride, ::stride]
        seen.copy_(input_gradient(grad, seen, weight, 1, padding // stride, 1))
        return gradient
    return _torch_gradients(grad, x, weight, stride, padding, dilation, wanted=(True, False))[0]


def weight_gradient(grad: Tensor, x: Tensor, weight: Tensor, stride: int, padding: int, dilation: int) -> Tensor:
    """The gradient of a depthwise convolution with respect to its filters, ``[C, 1, k, k]``.

    A dilated kernel never lets pixels of different remainders modulo the dilation d meet. So each remainder of the rows
    becomes an image of its own and each remainder of the columns a channel (in channels_last memory just another
    view): an undilated convolution of d C channels, whose gradients are summed. It is computed three columns of the
    kernel at a time, each from a shifted view of one buffer that holds the rows end to end with zeros between them.
    """
    size = weight.shape[-1]
    if stride == dilation > 1 and padding % stride == 0:  # other rows and columns never meet the kernel
        return weight_gradient(grad, x[..., ::stride, ::stride], weight, 1, padding // stride, 1)
    if stride > 1 or (size <= _TILE and dilation == 1):  # oneDNN is quick by itself, or the stride stands in the way
        return _torch_gradients(grad, x, weight, stride, padding, dilation, wanted=(False, True))[1]
    if any(n % dilation for n in (padding, *x.shape[2:])):
        x, grad, padding = _pad_to_multiples(x, grad, size, padding, dilation)

    x, grad, padding = _split(x, dilation), _split(grad, dilation).flatten(0, 1), padding // dilation
    batch, _, height, width, channels = x.shape  # [batch, d, height / d, width / d, d C]
    top = padding if height < size else 0  # oneDNN wants images no lower than the kernel; else it pads by itself
    row = max(width + padding, grad.shape[2] + _TILE - 1)  # the zeros right of a row are those left of the next
    shape = (batch * dilation, channels, height + 2 * top, row)
    image = shape[2] * row * channels
    buffer = x.new_zeros(shape[0] * image + size * channels)  # with room for the last row's shift
    inside = (dilation * image, image, row * channels, channels, 1)
    buffer.as_strided(x.shape, inside, (top * row + padding) * channels).copy_(x)
    if row + 1 - _TILE > grad.shape[2]:
        grad = F.pad(grad, (0, 0, 0, row + 1 - _TILE - grad.shape[2]))
    grad = grad.permute(0, 3, 1, 2)

    tile = weight.new_empty(channels, 1, size, _TILE)
    parts = []
    for column in range(0, size, _TILE):
        shifted = buffer.as_strided(shape, (image, 1, row * channels, channels), column * channels)
        parts.append(_torch_gradients(grad, shifted, tile, 1, (padding - top, 0), 1, wanted=(False, True))[1])
    columns = torch.cat(parts, dim=3)[..., :size]  # [d C, 1, k, k]
    return columns.reshape(dilation, *weight.shape).sum(0)


def _pad_to_multiples(x: Tensor, grad: Tensor, size: int, padding: int, dilation: int) -> tuple[Tensor, Tensor, int]:
    """The same convolution with its padding made explicit, and all sizes multiples of the dilation."""
    height, width = (-(-n // dilation) * dilation for n in grad.shape[2:])
    reach = dilation * (size - 1) - padding
    x = F.pad(x, (padding, width + reach - x.shape[3], padding, height + reach - x.shape[2]))
    return x, F.pad(grad, (0, width - grad.shape[3], 0, height - grad.shape[2])), 0


def _split(x: Tensor, dilation: int) -> Tensor:
    """Rows and columns by their remainder modulo the dilation d: ``[batch, d, height / d, width / d, d C]``."""
    batch, channels, height, width = x.shape
    by_remainder = (batch, height // dilation, dilation, width // dilation, dilation * channels)
    return x.permute(0, 2, 3, 1).reshape(by_remainder).transpose(1, 2)


def _torch_gradients(
    grad: Tensor, x: Tensor, weight: Tensor, stride: int, padding: Any, dilation: int, *, wanted: tuple[bool, bool]
) -> tuple[Tensor, Tensor]:
    """Torch's own gradients for the input and the weight, those ``wanted``; the other is ``None``."""
    pads = (padding, padding) if isinstance(padding, int) else padding
    settings = ((stride, stride), pads, (dilation, dilation), False, (0, 0), x.shape[1])
    gradients = torch.ops.aten.convolution_backward(grad, x, weight, None, *settings, (*wanted, False))
    return gradients[0], gradients[1]
