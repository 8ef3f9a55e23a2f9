"""The recurrent cell over a whole window with a backward pass of its own: the same values in less than half the time.

A cell of six nodes over sixteen words is a thousand operations on tensors of a few thousand values, and on a CPU each
of them takes longer to be called than to be done; autograd then calls twice as many. Here the forward pass writes into
buffers, the backward pass of a node is a product and three operations, and the gradient of a matrix is one product over
all times. ``RecurrentCell`` has the plain way beside it, which this one is tested against, and which is taken whenever
somebody looks into the cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from ramet.spaces.base import Arch

TANH, RELU, IDENTITY, SIGMOID = range(4)
"""Activations by number, as architectures have them."""


def can_unroll(layers: Sequence[nn.Linear], driven: Tensor) -> bool:
    """Whether nobody would miss the cell's own calls: guards and counters that listen, hooks, transforms, exports.

    Guards listen to torch's functions, and see a product only where it is called; functorch wraps the weights.
    """
    if torch.compiler.is_compiling() or torch._C._is_tracing() or torch.is_autocast_enabled(driven.device.type):
        return False
    if torch._C._len_torch_function_stack() > 0:
        return False
    tensors = [driven, *(layer.weight for layer in layers)]
    if any(torch._C._functorch.is_functorch_wrapped_tensor(tensor) for tensor in tensors):
        return False
    is_same = all(tensor.dtype == driven.dtype and tensor.is_floating_point() for tensor in tensors)
    return is_same and not any(layer._forward_hooks or layer._forward_pre_hooks for layer in layers)


def unrolled(driven: Tensor, arch: Arch, max_norm: float, weights: Sequence[Tensor]) -> Tensor:
    """Hidden states at all times; see ``UnrolledCell``."""
    states: Tensor = UnrolledCell.apply(driven, arch, max_norm, *weights)  # type: ignore[no-untyped-call]
    return states


class UnrolledCell(Function):
    """Hidden states at all times from what the words drive the cell with.

    Shapes: ``driven`` [batch, time, 2 * hidden], ``weights`` [2 * hidden, hidden], the state's first and then one for
    each further node; the result is [batch, time, hidden]. With node j's parent i, value f and gate c,
    h_j = c f + (1 - c) h_i, as in ``Recurrent``.
    """

    @staticmethod
    def forward(ctx: Any, driven: Tensor, arch: Arch, max_norm: float, *weights: Tensor) -> Tensor:
        """The states; what the backward pass needs is kept."""
        batch, times, width = driven.shape
        size, count = width // 2, len(weights)
        driven = driven.transpose(0, 1).contiguous()  # [time, batch, 2 * hidden]
        both = driven.new_empty(count, times, batch, width)  # values and gates
        nodes = driven.new_empty(count, times, batch, size)
        means, states = driven.new_empty(times, batch, size), driven.new_zeros(times + 1, batch, size)
        norms = driven.new_empty(times, batch, 1)
        transposed = [weight.t() for weight in weights]
        parents, leaves = _tree(arch)
        # Views by node and time, made once: an index costs as much as an operation.
        drives, before, after = driven.unbind(), states[:-1].unbind(), states[1:].unbind()
        boths, values, gates = _parts(both), _parts(both[..., :size]), _parts(both[..., size:])
        found = _parts(nodes)
        for time, (mean, norm) in enumerate(zip(means.unbind(), norms.unbind(), strict=True)):
            torch.addmm(drives[time], before[time], transposed[0], out=boths[0][time])
            _node(values[0][time], gates[0][time], before[time], arch[0], found[0][time])
            for node, parent in enumerate(parents, start=1):
                torch.mm(found[parent][time], transposed[node], out=boths[node][time])
                _node(values[node][time], gates[node][time], found[parent][time], arch[2 * node], found[node][time])
            torch.mean(torch.stack([found[leaf][time] for leaf in leaves]), dim=0, out=mean)
            torch.linalg.vector_norm(mean, dim=1, keepdim=True, out=norm)
            torch.mul(mean, max_norm / norm.clamp_min(max_norm), out=after[time])
        ctx.save_for_backward(both, nodes, means, states, norms, *weights)
        ctx.arch, ctx.max_norm = arch, max_norm
        return states[1:].transpose(0, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Through time, node by node; matrices at the end, over all times at once."""
        both, nodes, means, states, norms, *weights = ctx.saved_tensors
        count, times, batch, width = both.shape
        size = width // 2
        parents, leaves = _tree(ctx.arch)
        befores = torch.stack([states[:-1], *(nodes[parent] for parent in parents)])  # [nodes, time, batch, hidden]
        values, gates = both[..., :size], both[..., size:]
        # What a node's gradient is multiplied with on its way to value, gate and parent: known for all times at once.
        slopes = torch.empty_like(both).view(count, times, batch, 2, size)
        torch.mul((values - befores) * gates, 1 - gates, out=slopes[..., 1, :])
        for node in range(count):
            activation = ctx.arch[2 * node]
            torch.mul(gates[node], _slope(values[node], activation), out=slopes[node, ..., 0, :])
        passed = 1 - gates
        inner = torch.empty_like(slopes)  # the gradients of values and gates before activations
        flat = inner.view(count, times, batch, width)
        scales = ctx.max_norm / norms.clamp_min(ctx.max_norm) / len(leaves)
        # Where the norm is above its limit only what is at right angles to the state counts.
        shares = (norms > ctx.max_norm) / norms.square().clamp_min(ctx.max_norm**2)
        arriving, carried = gradient.transpose(0, 1).unbind(), torch.zeros_like(means[0])
        slope, passing, target, own_inner = _parts(slopes), _parts(passed), _parts(inner), _parts(flat)
        for time in reversed(range(times)):
            outer, mean = arriving[time] + carried, means[time]
            outer = scales[time] * (outer - mean * ((outer * mean).sum(1, keepdim=True) * shares[time]))
            found: list[Tensor | None] = [outer if node in leaves else None for node in range(count)]
            for node in reversed(range(count)):
                own = found[node]
                assert own is not None, "a node that is no leaf has children, which come after it"
                torch.mul(own.unsqueeze(1), slope[node][time], out=target[node][time])
                carried = torch.addmm(own * passing[node][time], own_inner[node][time], weights[node])
                if node > 0:
                    known = found[parents[node - 1]]
                    found[parents[node - 1]] = carried if known is None else known + carried
        by_node = [
            flat[node].view(-1, width).t() @ befores[node].reshape(-1, size) if needed else None
            for node, needed in enumerate(ctx.needs_input_grad[3:])
        ]
        return flat[0].transpose(0, 1), None, None, *by_node


def _tree(arch: Arch) -> tuple[tuple[int, ...], list[int]]:
    """The parent of each node but the first, and the nodes that are nobody's parent."""
    parents = tuple(arch[1::2])
    return parents, [node for node in range(len(parents) + 1) if node not in parents]


def _parts(tensor: Tensor) -> list[tuple[Tensor, ...]]:
    """Views of [nodes, time, ...] by node and time."""
    return [of_node.unbind() for of_node in tensor.unbind()]


def _node(value: Tensor, gate: Tensor, before: Tensor, activation: int, out: Tensor) -> None:
    """Value and gate in place, and the node between what it computes and what came before."""
    gate.sigmoid_()
    if activation == TANH:
        value.tanh_()
    elif activation == RELU:
        value.relu_()
    elif activation == SIGMOID:
        value.sigmoid_()
    torch.lerp(before, value, gate, out=out)


def _slope(value: Tensor, activation: int) -> Tensor:
    """The derivative of an activation, from its value."""
    if activation == TANH:
        return 1 - value.square()
    if activation == RELU:
        return (value > 0).to(value.dtype)
    if activation == SIGMOID:
        return value * (1 - value)
    return torch.ones_like(value)
