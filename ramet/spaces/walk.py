"""Evaluating many architectures on one batch by walking the tree of their common prefixes once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, cast

from torch import Tensor, nn

from ramet.spaces.base import Arch
from ramet.spaces.dag import DagMemo, DenseDag, lexicographic_places


class CellStage(Protocol):
    """A stage made of a preparation that all architectures share, a dag, and what makes the output from its nodes."""

    preprocess: nn.Module
    dag: DenseDag

    def finish(self, nodes: list[Tensor]) -> Tensor:
        """The stage's output from the values of nodes 1 to n."""


def walk_prefixes(stages: nn.ModuleList, x: Tensor, archs: Sequence[Arch]) -> Iterator[Tensor]:
    """Logits of each architecture, in the order given, bitwise those of one by one in evaluation mode.

    The stem does not depend on the architecture and is computed once. The first cell has the same input for all, so
    each of its edges is computed once for each choice that leads to it. Further on, no two children have the same
    input. Architectures are evaluated in lexicographic order, in which little has to be held at a time; results
    that are ready before their turn wait, a batch of logits each.

    Args:
        stages: the stem, a first stage that is a ``CellStage``, and the rest.
        x: one batch.
        archs: any architectures of the space, in any order.
    """
    if not archs:
        return
    first = cast(CellStage, stages[1])
    memo = DagMemo(first.dag, first.preprocess(stages[0](x, archs[0])))
    waiting: dict[int, Tensor] = {}
    turn = 0
    for place in lexicographic_places(archs):
        y = first.finish(memo(archs[place]))
        for stage in list(stages)[2:]:
            y = stage(y, archs[place])
        waiting[place] = y
        while turn in waiting:
            yield waiting.pop(turn)
            turn += 1
