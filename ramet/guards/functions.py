"""What a parameter meets in one call of a torch function: the table of all products that a guard can see.

Each reader has the arguments of the function that it reads, and gives the products in that call: the tensor that may be
a parameter, and what it is multiplied with. Nothing is computed before it is known that the tensor is a parameter.

In an elementwise product each entry has inputs of its own, and so has what is added, for which they are 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import handle_torch_function, has_torch_function_variadic

from ramet.guards.precision import precise


class Arrangement(NamedTuple):
    """How a tensor becomes [groups, outputs, inputs]: reshaped, its axes put in order, and reshaped again."""

    first: tuple[int, ...]
    order: tuple[int, ...]
    last: tuple[int, int, int]

    def __call__(self, tensor: Tensor) -> Tensor:
        """The tensor in groups of matrices."""
        return tensor.reshape(self.first).permute(self.order).reshape(self.last)


class Meeting(NamedTuple):
    """One product in one call.

    Attributes:
        weight: what may be a parameter, or a part of one.
        kind: see ``layers.Kind``.
        inputs: for a matrix the columns, [groups, inputs, n]; for rows how often each was looked up; for entries, in
            the weight's shape, the sum of their squared inputs. If called with True the mean: one column, and for
            entries the mean input itself.
        arrangement: how the weight is a matrix.
        bias: what is added to the product, or None.
        axis: where the outputs are: 1 for channels, -1 for the last; None where a product has no outputs of its own.
    """

    weight: Tensor
    kind: Literal["matrix", "rows", "entries"]
    inputs: Callable[[bool], Tensor]
    arrangement: Arrangement | None = None
    bias: Tensor | None = None
    axis: int | None = None


Reader = Callable[..., Iterable[Meeting]]
READERS: dict[Any, Reader] = {}
"""What is read of a torch function, by the function."""


def _reads(*functions: Any) -> Callable[[Reader], Reader]:
    def put(reader: Reader) -> Reader:
        READERS.update(dict.fromkeys(functions, reader))
        return reader

    return put


def with_bias(x: Tensor, has_bias: bool, *, mean: bool, value: float = 1.0) -> Tensor:
    """Columns, or their mean, with a last row for a bias, whose input is 1; and 0 in a call in which it had no part."""
    x = x.mean(-1, keepdim=True) if mean and x.shape[-1] > 1 else x
    return torch.cat([x, x.new_full((x.shape[0], 1, x.shape[2]), value)], dim=1) if has_bias else x


# Matrices.


def product(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> None:
    """Tell the guards that are watching that ``weight`` is multiplied with ``input`` here: for kernels of one's own.

    Guards see products that are made by torch's functions. Where another kernel makes one, call this beside it in
    ``forward``; outside of ``watch`` nothing happens. ``input`` is [..., inputs], ``weight`` [outputs, inputs], each a
    parameter or a view of one, and ``bias``, [outputs], is what is added.

    >>> from ramet.guards import OrthogonalProjection
    >>> class Own(torch.nn.Linear):
    ...     def forward(self, x):
    ...         x = x.relu()
    ...         product(x, self.weight, self.bias)
    ...         return torch.from_numpy(x.numpy() @ self.weight.detach().numpy().T)
    >>> guard, layer = OrthogonalProjection(), Own(3, 2)
    >>> with guard.watch(layer):
    ...     _ = layer(torch.randn(5, 3))
    >>> guard.remember(dict(layer.named_parameters()), {"weight": torch.ones(2, 3), "bias": torch.ones(2)})
    >>> sorted(guard.open_shares())
    ['weight+bias']
    """
    if has_torch_function_variadic(input, weight):
        handle_torch_function(product, (input, weight), input, weight, bias)


@_reads(functional.linear, product)
def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, **_: Any) -> Iterable[Meeting]:
    if weight.dim() == 1:
        return _matmul(input, weight)
    whole = Arrangement(tuple(weight.shape), (0, 1), (1, weight.shape[0], weight.shape[1]))
    return [Meeting(weight, "matrix", lambda mean: _flat(input), whole, bias, -1)]


def _linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None, **_: Any
) -> Iterable[Meeting]:
    *outputs, width = linear_weight.shape
    size = math.prod(outputs)
    whole = Arrangement((size, width), (0, 1), (1, size, width))
    return [Meeting(linear_weight, "matrix", lambda mean: _flat(input), whole, linear_bias)]


if hasattr(functional, "linear_cross_entropy"):  # since torch 2.13
    READERS[functional.linear_cross_entropy] = _linear_cross_entropy


def _flat(x: Tensor) -> Tensor:
    return precise(x).reshape(-1, x.shape[-1]).mT.unsqueeze(0)  # [1, inputs, n]


@_reads(torch.matmul, torch.mm, torch.bmm, torch.mv, Tensor.matmul, Tensor.mm, Tensor.bmm, Tensor.mv)
def _matmul(input: Tensor, other: Tensor | None = None, **others: Tensor) -> Iterable[Meeting]:
    other = next(iter(others.values())) if other is None else other
    found = []
    if other.dim() == 1:
        vector = Arrangement((1, 1, len(other)), (0, 1, 2), (1, 1, len(other)))
        found.append(Meeting(other, "matrix", lambda mean: _flat(input), vector))
    elif input.dim() > 0:
        *many, inputs, outputs = other.shape
        size = math.prod(many)
        right = Arrangement((size, inputs, outputs), (0, 2, 1), (size, outputs, inputs))
        axis = -1 if size == 1 else None
        found.append(Meeting(other, "matrix", lambda mean: _batched(input, other.shape[:-2]), right, None, axis))
    if input.dim() > 1:
        *many, outputs, inputs = input.shape
        size = math.prod(many)
        left = Arrangement((size, outputs, inputs), (0, 1, 2), (size, outputs, inputs))
        turned = other.unsqueeze(0) if other.dim() == 1 else other.mT
        found.append(Meeting(input, "matrix", lambda mean: _batched(turned, input.shape[:-2]), left))
    elif input.dim() == 1 and other.dim() == 2:
        vector = Arrangement((1, 1, len(input)), (0, 1, 2), (1, 1, len(input)))
        found.append(Meeting(input, "matrix", lambda mean: _flat(other.mT), vector))
    return found


def _broadcast(*shapes: Sequence[int]) -> tuple[int, ...]:
    return tuple(torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]


def _batched(x: Tensor, batch: Sequence[int]) -> Tensor:
    """The rows of x for each matrix of a batch of them, [groups, inputs, n]."""
    if math.prod(batch) == 1:
        return _flat(x)
    x = precise(x if x.dim() > 1 else x.unsqueeze(0))
    x = x.expand(*_broadcast(x.shape[:-2], batch), *x.shape[-2:])
    x = x.reshape(-1, math.prod(batch), *x.shape[-2:])  # [those before, groups, n, inputs]
    return x.permute(1, 3, 0, 2).flatten(2)


@_reads(torch.addmm, Tensor.addmm)
def _addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1, **_: Any
) -> Iterable[Meeting]:
    if alpha != 1:
        mat1, mat2 = mat1 * alpha, mat2  # the inputs of mat2, and mat1 is no parameter any more
    right, *left = _matmul(mat1, mat2)
    bias = input if beta == 1 and input.dim() == 1 else None
    rest = [Meeting(input, "entries", lambda mean: _ones(input, mat1.shape[0] * mat2.shape[1], mean))]
    return [
        Meeting(right.weight, "matrix", right.inputs, right.arrangement, bias, -1),
        *left,
        *([] if bias is not None else rest),
    ]


@_reads(functional.bilinear)
def _bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Iterable[Meeting]:
    width = weight.shape[1] * weight.shape[2]
    whole = Arrangement((weight.shape[0], width), (0, 1), (1, weight.shape[0], width))

    def inputs(mean: bool) -> Tensor:
        one, two = (precise(x).reshape(-1, x.shape[-1]) for x in (input1, input2))
        return _flat((one.unsqueeze(-1) * two.unsqueeze(-2)).flatten(1))

    return [Meeting(weight, "matrix", inputs, whole, bias, -1)]


@_reads(torch.einsum)
def _einsum(equation: Any, *operands: Any) -> Iterable[Meeting]:
    """Of two operands: what both and the result have is groups, what both have and not the result is summed over."""
    operands = tuple(operands[0]) if len(operands) == 1 and isinstance(operands[0], list | tuple) else operands
    if not isinstance(equation, str) or len(operands) != 2 or "->" not in equation or "." in equation:
        return []
    inputs, _, result = equation.replace(" ", "").partition("->")
    labels = inputs.split(",")
    if any(len(set(text)) < len(text) for text in labels):
        return []
    pairs = ((0, 1), (1, 0))
    found = [_contraction(operands[w], operands[x], labels[w], labels[x], result) for w, x in pairs]
    return [meeting for meeting in found if meeting is not None]


def _contraction(weight: Tensor, x: Tensor, ours: str, theirs: str, result: str) -> Meeting | None:
    groups = [label for label in ours if label in theirs and label in result]
    inputs = [label for label in ours if label in theirs and label not in result]
    outputs = [label for label in ours if label not in theirs and label in result]
    if len(groups) + len(inputs) + len(outputs) < len(ours):
        return None  # an axis of the weight is summed by itself
    sizes = dict(zip(ours, weight.shape, strict=True))
    last = [math.prod(sizes[label] for label in part) for part in (groups, outputs, inputs)]
    order = tuple(ours.index(label) for label in (*groups, *outputs, *inputs))
    rest = [label for label in theirs if label not in ours]

    def columns(mean: bool) -> Tensor:
        turned = precise(x).permute([theirs.index(label) for label in (*groups, *inputs, *rest)])
        return turned.reshape(last[0], last[2], -1)

    arrangement = Arrangement(tuple(weight.shape), order, (last[0], last[1], last[2]))
    return Meeting(weight, "matrix", columns, arrangement)


# Convolutions.


@_reads(functional.conv1d, functional.conv2d, functional.conv3d)
def _conv(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Iterable[Meeting]:
    dims = weight.dim() - 2
    kernel, strides, gaps = tuple(weight.shape[2:]), _each(stride, dims), _each(dilation, dims)
    shape = tuple(weight.shape)
    whole = Arrangement(shape, tuple(range(dims + 2)), (groups, shape[0] // groups, math.prod(shape[1:])))

    def inputs(mean: bool) -> Tensor:
        pads = _pads(padding, kernel, gaps)
        return conv_columns(input, kernel, strides, gaps, groups, pads=pads, padding_mode="zeros", mean=mean)

    return [Meeting(weight, "matrix", inputs, whole, bias, 1)]


def _each(value: Any, dims: int) -> tuple[int, ...]:
    if isinstance(value, int):
        return (value,) * dims
    return tuple(value) * dims if len(value) == 1 else tuple(value)


def _pads(padding: Any, kernel: tuple[int, ...], dilation: tuple[int, ...]) -> list[int]:
    """What is put before and after each axis, the last axis first, as ``functional.pad`` wants it."""
    pairs = []
    for axis, (size, gap) in enumerate(zip(kernel, dilation, strict=True)):
        if isinstance(padding, str):
            total = gap * (size - 1) if padding == "same" else 0
            pairs.append((total // 2, total - total // 2))
        else:
            pairs.append((_each(padding, len(kernel))[axis],) * 2)
    return [value for pair in reversed(pairs) for value in pair]


def conv_columns(
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    *,
    pads: Sequence[int],
    padding_mode: str,
    mean: bool,
) -> Tensor:
    """What a convolution's filters see, [groups, in / groups * kernel, n]; the mean only over samples."""
    dims = len(kernel)
    x = precise(x if x.dim() == dims + 2 else x.unsqueeze(0))
    if mean:
        # Taking patches is linear, so that the mean may be taken first, at a fraction of the cost.
        x = x.mean(0, keepdim=True)
    x = functional.pad(x, list(pads), mode="constant" if padding_mode == "zeros" else padding_mode)
    if dims == 1:
        x, kernel, stride, dilation = x.unsqueeze(2), (1, *kernel), (1, *stride), (1, *dilation)
    if dims < 3:
        patches = functional.unfold(x, tuple(kernel), dilation=tuple(dilation), stride=tuple(stride))
    else:
        patches = _unfold_3d(x, kernel, stride, dilation)
    batch, width, positions = patches.shape  # width is in * kernel
    patches = patches.reshape(batch, groups, width // groups, positions)
    return patches.permute(1, 2, 0, 3).reshape(groups, width // groups, batch * positions)


def _unfold_3d(x: Tensor, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Tensor:
    """``functional.unfold`` for volumes, which torch lacks: [batch, in * kernel, positions]."""
    for axis, (size, step, gap) in enumerate(zip(kernel, stride, dilation, strict=True), start=2):
        reach = gap * (size - 1) + 1
        x = x.unfold(axis, reach, step)[..., ::gap]  # the window becomes a last axis of its own
    batch, channels = x.shape[:2]
    return x.permute(0, 1, 5, 6, 7, 2, 3, 4).reshape(batch, channels * kernel[0] * kernel[1] * kernel[2], -1)


@_reads(functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d)
def _conv_transpose(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Iterable[Meeting]:
    """Each pixel of the input is multiplied with a matrix, [in / groups, out / groups * kernel]; they are added up."""
    each, outputs = weight.shape[0] // groups, math.prod(weight.shape[1:])
    turned = Arrangement((groups, each, outputs), (0, 2, 1), (groups, outputs, each))

    def inputs(mean: bool) -> Tensor:
        x = precise(input if input.dim() == weight.dim() else input.unsqueeze(0)).flatten(2)  # [batch, in, positions]
        return x.transpose(0, 1).reshape(groups, each, -1)

    found = [Meeting(weight, "matrix", inputs, turned)]
    if bias is not None:
        added = bias
        dims = weight.dim() - 2
        settings = (_each(value, dims) for value in (stride, padding, output_padding, dilation))
        sizes = zip(input.shape[-dims:], weight.shape[2:], *settings, strict=True)
        pixels = [(n - 1) * step - 2 * pad + gap * (size - 1) + more + 1 for n, size, step, pad, more, gap in sizes]
        num_outputs = (len(input) if input.dim() == weight.dim() else 1) * math.prod(pixels) * len(bias)
        found.append(Meeting(bias, "entries", lambda mean: _ones(added, num_outputs, mean)))
    return found


# Rows.


@_reads(functional.embedding, functional.embedding_bag, torch.embedding)
def _embedding(input: Tensor, weight: Tensor, *_: Any, **__: Any) -> Iterable[Meeting]:
    if input.is_floating_point():
        input, weight = weight, input  # the order of torch.embedding
    return [Meeting(weight, "rows", lambda mean: _counts(input, weight))]


@_reads(Tensor.__getitem__)
def _rows(input: Tensor, index: Any) -> Iterable[Meeting]:
    if isinstance(index, Tensor) and index.dtype == torch.int64:
        return [Meeting(input, "rows", lambda mean: _counts(index % len(input), input))]
    return []


@_reads(torch.index_select, Tensor.index_select)
def _selected(input: Tensor, dim: int, index: Tensor, **_: Any) -> Iterable[Meeting]:
    return [Meeting(input, "rows", lambda mean: _counts(index, input))] if dim == 0 else []


def _counts(index: Tensor, weight: Tensor) -> Tensor:
    # Departs from the mean: the mean of one-hot inputs is dense and would close no single row; counts are as cheap.
    counts = torch.bincount(index.reshape(-1), minlength=len(weight))
    return counts.to(torch.promote_types(weight.dtype, torch.float32))


# Entries.


@_reads(torch.mul, Tensor.mul, Tensor.mul_, torch.multiply, Tensor.multiply, Tensor.__rmul__)
def _mul(input: Any, other: Any, **_: Any) -> Iterable[Meeting]:
    if not (isinstance(input, Tensor) and isinstance(other, Tensor)):
        return []
    pairs = ((input, other), (other, input))
    return [Meeting(w, "entries", lambda mean, w=w, x=x: _gathered(x, w, mean)) for w, x in pairs]  # type: ignore[misc]


def _gathered(x: Tensor, weight: Tensor, mean: bool) -> Tensor:
    """The squares of what meets each entry, summed up, or the mean of what meets it."""
    x = precise(x).expand(_broadcast(x.shape, weight.shape))
    if mean:
        return x.sum_to_size(weight.shape) / (x.numel() / max(weight.numel(), 1))
    return x.square().sum_to_size(weight.shape)


def _ones(weight: Tensor, num_outputs: int, mean: bool) -> Tensor:
    """The same for inputs of 1: how many of the outputs have an entry in them."""
    count = 1.0 if mean else num_outputs / max(weight.numel(), 1)
    return torch.full_like(weight, count, dtype=torch.promote_types(weight.dtype, torch.float32))


@_reads(torch.add, Tensor.add, Tensor.add_, torch.sub, Tensor.sub, Tensor.sub_, Tensor.__radd__)
def _add(input: Any, other: Any, **_: Any) -> Iterable[Meeting]:
    if not (isinstance(input, Tensor) and isinstance(other, Tensor)):
        return []

    def inputs(w: Tensor, mean: bool) -> Tensor:
        return _ones(w, math.prod(_broadcast(input.shape, other.shape)), mean)

    return [Meeting(w, "entries", partial(inputs, w)) for w in (input, other)]


@_reads(torch.cat, torch.concat, torch.stack)
def _cat(tensors: Sequence[Tensor], *_: Any, **__: Any) -> Iterable[Meeting]:
    return [Meeting(w, "entries", lambda mean, w=w: _ones(w, w.numel(), mean)) for w in tensors]  # type: ignore[misc]


@_reads(Tensor.repeat)
def _repeat(input: Tensor, *sizes: Any, **_: Any) -> Iterable[Meeting]:
    """A copy has each entry several times."""
    flat = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    return [Meeting(input, "entries", lambda mean: _ones(input, input.numel() * math.prod(flat), mean))]


@_reads(functional.prelu, torch.prelu)
def _prelu(input: Tensor, weight: Tensor) -> Iterable[Meeting]:
    return [Meeting(weight, "entries", lambda mean: _by_channel(precise(input).clamp(max=0), weight, mean))]


def _by_channel(x: Tensor, weight: Tensor, mean: bool) -> Tensor:
    """``_gathered`` for a weight that has a value for each channel, the second axis of x, or one for all."""
    if weight.numel() == 1 or x.dim() < 2:
        return _gathered(x.reshape(-1, 1), weight.reshape(1), mean).reshape(weight.shape)
    return _gathered(x.transpose(1, -1), weight, mean)


def _scaled(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, inputs: Callable[[bool], Tensor]
) -> list[Meeting]:
    found = [] if weight is None else [Meeting(weight, "entries", inputs)]
    if bias is not None:
        shift = bias
        found.append(Meeting(bias, "entries", lambda mean: _ones(shift, input.numel(), mean)))
    return found


@_reads(functional.layer_norm)
def _layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Iterable[Meeting]:
    def inputs(mean: bool) -> Tensor:
        assert weight is not None
        return _gathered(functional.layer_norm(precise(input), normalized_shape, eps=eps), weight, mean)

    return _scaled(input, weight, bias, inputs)


@_reads(functional.rms_norm)
def _rms_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None
) -> Iterable[Meeting]:
    def inputs(mean: bool) -> Tensor:
        assert weight is not None
        return _gathered(functional.rms_norm(precise(input), normalized_shape, eps=eps), weight, mean)

    return _scaled(input, weight, None, inputs)


@_reads(functional.group_norm)
def _group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Iterable[Meeting]:
    def inputs(mean: bool) -> Tensor:
        assert weight is not None
        return _by_channel(functional.group_norm(precise(input), num_groups, eps=eps), weight, mean)

    return _scaled(input, weight, bias, inputs)


@_reads(functional.batch_norm)
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
    def inputs(mean: bool) -> Tensor:
        assert weight is not None
        if training and mean:
            return torch.zeros_like(
                weight, dtype=torch.promote_types(weight.dtype, torch.float32)
            )  # what it is made for
        known = (None, None) if training else (running_mean, running_var)
        return _by_channel(functional.batch_norm(precise(input), *known, training=training, eps=eps), weight, mean)

    return _scaled(input, weight, bias, inputs)


@_reads(functional.instance_norm)
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
        return _by_channel(x, weight, mean)

    return _scaled(input, weight, bias, inputs)
