"""Where everything that a network computes goes through one tensor: the places at which it can be cut.

One forward pass leaves torch's graph of derivatives behind. What lies on *every* way through it from the inputs to the
outputs is a cut: a residual block's output is one, the layers inside it are not, because the shortcut goes around them.
Nothing is known of the network's classes, and nothing is asked of how its ``forward`` is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor

Node = Any
"""A node of the graph: ``tensor.grad_fn``. Torch gives one object for one node as long as somebody holds it."""


class Flow:
    """The graph of one forward pass, from a leaf of inputs that require gradients to the outputs.

    Args:
        outputs: what the network gave; it must depend on the inputs.
        inputs: the leaf that was given to it.

    Example:
        >>> import torch
        >>> x = torch.ones(2, requires_grad=True)
        >>> middle = x * 3
        >>> flow = Flow((middle + middle.tanh()) * 2, x)
        >>> flow.is_cut(middle), flow.is_cut(middle.tanh())
        (True, False)
    """

    def __init__(self, outputs: Tensor, inputs: Tensor) -> None:
        self._order = _topological(outputs.grad_fn)  # from the outputs on; holds every node
        self._below: dict[Node, int] = {}  # ways from a node to the inputs
        for node in reversed(self._order):
            if getattr(node, "variable", None) is inputs:
                self._below[node] = 1
            else:
                self._below[node] = sum(self._below[each] for each, _ in _next(node))
        above = dict.fromkeys(self._order, 0)  # ways from the outputs to a node
        self._taken: dict[Node, set[int]] = {node: set() for node in self._order}  # which of its outputs are used
        above[outputs.grad_fn], self._taken[outputs.grad_fn] = 1, {outputs.output_nr}
        for node in self._order:
            for each, number in _next(node):
                above[each] += above[node]
                self._taken[each].add(number)
        total = self._below[outputs.grad_fn]
        # Numbers of ways grow without bound in dense networks; Python's integers do, too.
        self._places = {node: -number for number, node in enumerate(self._order)}
        self._cuts = {node for node in self._order if total and above[node] * self._below[node] == total}

    @property
    def depends_on_inputs(self) -> bool:
        """Whether there is any way at all."""
        return self._below[self._order[0]] > 0

    def is_cut(self, tensor: Tensor) -> bool:
        """Whether all that the outputs know of the inputs goes through a tensor of this pass, and no other."""
        node = tensor.grad_fn
        return node in self._cuts and self._taken[node] == {tensor.output_nr}

    def is_on_a_way(self, tensor: Tensor) -> bool:
        """Whether a tensor of this pass depends on the inputs, and the outputs on it."""
        return self._below.get(tensor.grad_fn, 0) > 0

    def place(self, tensor: Tensor) -> int:
        """A number by which the tensors of the pass are ordered, from the inputs on."""
        return self._places[tensor.grad_fn]

    def segments(self, cuts: Iterable[Tensor], params: Mapping[str, Tensor]) -> dict[str, tuple[int, int]]:
        """For each parameter the first and the last segment between cuts that uses it; one that no way uses is missing.

        The cuts come in their order from the inputs on; segment i lies before cut i, and the last behind all of them.
        """
        numbers = {cut.grad_fn: number for number, cut in enumerate(cuts)}
        passed: dict[Node, int] = {}  # how many cuts lie strictly between the inputs and a node
        for node in reversed(self._order):
            behind = [max(passed[each], numbers.get(each, -1) + 1) for each, _ in _next(node) if self._below[each]]
            passed[node] = max(behind, default=0)
        joined: dict[Node, set[int]] = {node: set() for node in self._order}
        for node in self._order:  # of what does not depend on the inputs: the segments that take it up
            for each, _ in _next(node):
                if not self._below[each]:
                    joined[each] |= {passed[node]} if self._below[node] else joined[node]
        names = {id(param): name for name, param in params.items()}
        found = {}
        for node in self._order:
            name = names.get(id(getattr(node, "variable", None)))
            if name is not None and joined[node]:
                found[name] = min(joined[node]), max(joined[node])
        return found


def _next(node: Node) -> list[tuple[Node, int]]:
    return [(each, number) for each, number in node.next_functions if each is not None]


def _topological(root: Node) -> list[Node]:
    """All nodes, each before those that it was computed from; without recursion, because networks are deep."""
    finished: list[Node] = []
    seen = {root}
    stack = [(root, iter(_next(root)))]
    while stack:
        node, rest = stack[-1]
        for each, _ in rest:
            if each not in seen:
                seen.add(each)
                stack.append((each, iter(_next(each))))
                break
        else:
            finished.append(node)
            stack.pop()
    return finished[::-1]
