"""What a cell computes, whatever its notation: without dead edges, through skip connections, sums in any order."""

from __future__ import annotations

from collections.abc import Sequence

from ramet.spaces.cells.dag import edges_of


def live_part(operations: Sequence[int], num_nodes: int, *, none: int, skip: int) -> str:
    """A text that two densely connected cells have in common if and only if the last nodes sum the same terms.

    A node is the multiset of the terms that reach it. ``skip`` hands the terms of its start on, ``none`` gives nothing,
    and so does an operation whose start holds nothing; what never reaches the last node is not in the text.

    A convolution of nothing is taken for nothing, although its batch norm could learn a constant.

    >>> live_part([3, 0, 0, 0, 1, 0], 3, none=0, skip=1) == live_part([0, 0, 0, 3, 0, 0], 3, none=0, skip=1)
    True
    """
    nodes: list[list[str]] = [["x"]]
    for end in range(1, num_nodes + 1):
        terms: list[str] = []
        for edge, (start, stop) in enumerate(edges_of(num_nodes)):
            if stop != end or operations[edge] == none or not nodes[start]:
                continue
            held = nodes[start]
            terms += held if operations[edge] == skip else [f"{operations[edge]}({'+'.join(held)})"]
        nodes.append(sorted(terms))
    return "+".join(nodes[-1])
