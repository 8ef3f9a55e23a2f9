"""Products of matrices with columns of inputs, as torch's functions make them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import handle_torch_function, has_torch_function_variadic

from ramet.guards.meetings import Arrangement, Meeting, Readers, broadcast, ones
from ramet.guards.precision import precise

READERS = Readers()


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


@READERS.of(functional.linear, product)
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


@READERS.of(torch.matmul, torch.mm, torch.bmm, torch.mv, Tensor.matmul, Tensor.mm, Tensor.bmm, Tensor.mv)
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


def _batched(x: Tensor, batch: Sequence[int]) -> Tensor:
    """The rows of x for each matrix of a batch of them, [groups, inputs, n]."""
    if math.prod(batch) == 1:
        return _flat(x)
    x = precise(x if x.dim() > 1 else x.unsqueeze(0))
    x = x.expand(*broadcast(x.shape[:-2], batch), *x.shape[-2:])
    x = x.reshape(-1, math.prod(batch), *x.shape[-2:])  # [those before, groups, n, inputs]
    return x.permute(1, 3, 0, 2).flatten(2)


@READERS.of(torch.addmm, Tensor.addmm)
def _addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1, **_: Any
) -> Iterable[Meeting]:
    if alpha != 1:
        mat1, mat2 = mat1 * alpha, mat2  # the inputs of mat2, and mat1 is no parameter any more
    right, *left = _matmul(mat1, mat2)
    bias = input if beta == 1 and input.dim() == 1 else None
    rest = [Meeting(input, "entries", lambda mean: ones(input, mat1.shape[0] * mat2.shape[1], mean))]
    return [
        Meeting(right.weight, "matrix", right.inputs, right.arrangement, bias, -1),
        *left,
        *([] if bias is not None else rest),
    ]


@READERS.of(functional.bilinear)
def _bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Iterable[Meeting]:
    width = weight.shape[1] * weight.shape[2]
    whole = Arrangement((weight.shape[0], width), (0, 1), (1, weight.shape[0], width))

    def inputs(mean: bool) -> Tensor:
        one, two = (precise(x).reshape(-1, x.shape[-1]) for x in (input1, input2))
        return _flat((one.unsqueeze(-1) * two.unsqueeze(-2)).flatten(1))

    return [Meeting(weight, "matrix", inputs, whole, bias, -1)]


@READERS.of(torch.einsum)
def _einsum(equation: Any, *operands: Any) -> Iterable[Meeting]:
    """Of two operands: what both and the result have is groups, what both have and not the result is summed over."""
    operands = tuple(operands[0]) if len(operands) == 1 and isinstance(operands[0], list | tuple) else operands
    if not isinstance(equation, str) or len(operands) != 2:
        return []
    labels, result = _spelled_out(equation.replace(" ", ""), [operand.dim() for operand in operands])
    if any(len(set(text)) < len(text) for text in labels):
        return []
    pairs = ((0, 1), (1, 0))
    found = [_contraction(operands[w], operands[x], labels[w], labels[x], result) for w, x in pairs]
    return [meeting for meeting in found if meeting is not None]


def _spelled_out(equation: str, num_axes: Sequence[int]) -> tuple[list[str], str]:
    """The labels of each operand and of the result, with those that ``...`` stands for, and of a result not given."""
    inputs, arrow, result = equation.partition("->")
    texts = inputs.split(",")
    counts = [axes - len(text.replace("...", "")) for text, axes in zip(texts, num_axes, strict=True)]
    most = max([0, *(count for text, count in zip(texts, counts, strict=True) if "..." in text)])
    unseen = "".join(map(chr, range(most)))  # no letters, and so none that the equation has
    labels = [text.replace("...", unseen[most - count :]) for text, count in zip(texts, counts, strict=True)]
    if not arrow:
        together = "".join(labels)
        rest = sorted(label for label in set(together) - set(unseen) if together.count(label) == 1)
        return labels, unseen + "".join(rest)
    return labels, result.replace("...", unseen)


def _contraction(weight: Tensor, x: Tensor, ours: str, theirs: str, result: str) -> Meeting | None:
    groups = [label for label in ours if label in theirs and label in result]
    inputs = [label for label in ours if label in theirs and label not in result]
    outputs = [label for label in ours if label not in theirs and label in result]
    if len(groups) + len(inputs) + len(outputs) < len(ours):
        return None  # an axis of the weight is summed by itself
    sizes = dict(zip(ours, weight.shape, strict=True))
    if any(sizes[label] != size for label, size in zip(theirs, x.shape, strict=True) if label in sizes):
        return None  # an axis of one is repeated
    last = [math.prod(sizes[label] for label in part) for part in (groups, outputs, inputs)]
    order = tuple(ours.index(label) for label in (*groups, *outputs, *inputs))
    rest = [label for label in theirs if label not in ours]

    def columns(mean: bool) -> Tensor:
        turned = precise(x).permute([theirs.index(label) for label in (*groups, *inputs, *rest)])
        return turned.reshape(last[0], last[2], -1)

    arrangement = Arrangement(tuple(weight.shape), order, (last[0], last[1], last[2]))
    return Meeting(weight, "matrix", columns, arrangement)
