"""Uses of a parameter that no product shows: a guard that sees some of its products must not pass for a whole one.

A weight that is divided by its norm meets its input in another tensor; what is seen of it, a product that the norm is
made of, says nothing of that. So the calls that make a tensor of a parameter's values, and that nobody reads, are
looked for.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator
from types import FrameType
from typing import Any

from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge


def tensors_in(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among the arguments or the results of a call, those in lists and tuples too."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors_in(value)


def nodes_of(tensors: Iterable[Tensor]) -> list[Any]:
    """Where each of some tensors is in the graph; to be asked before a call, which may work in place."""
    return [get_gradient_edge(tensor).node for tensor in tensors if tensor.requires_grad]


def is_made_of(output: Tensor, wanted: Tensor, node: Any, given: Collection[Any]) -> bool:
    """Whether a call made its output, with a graph, of the values of a tensor that it was given.

    Not if the output is the tensor or a view of it, or of what it is a view of; nor if only the tensor's shape or type
    was asked for. ``node`` is where the tensor is in the graph and ``given`` where all arguments are, the ends of what
    the call has added.
    """
    base = wanted if wanted._base is None else wanted._base
    if not output.requires_grad or output is wanted or output is base or output._base is base:
        return False
    left, seen = [output.grad_fn], set()
    while left:
        one = left.pop()
        if one is None or one in seen:
            continue
        if one == node:
            return True
        seen.add(one)
        if one not in given:
            left += [following for following, _ in one.next_functions]
    return False


def runs_inside(modules: Collection[nn.Module]) -> bool:
    """Whether the caller is in the forward pass of a module: a penalty on weights beside it is no use of the model."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name in ("forward", "_call_impl"):
            owner = frame.f_locals.get("self")
            if isinstance(owner, nn.Module) and owner in modules:
                return True
        frame = frame.f_back
    return False
