"""Evaluating many architectures on one batch by walking the tree of their common prefixes once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, cast

from torch import Tensor, nn

from ramet.spaces.base import Arch
from ramet.spaces.cells.dag import DagMemo, DenseDag


class CellStage(Protocol):
    """A stage made of a preparation that all architectures share, a dag, and what makes the output from its nodes."""

    preprocess: nn.Module
    dag: DenseDag

    def finish(self, nodes: list[Tensor]) -> Tensor:
        """The stage's output from the values of nodes 1 to n."""


def walk_prefixes(stages: nn.ModuleList, x: Tensor, archs: Sequence[Arch]) -> Iterator[Tensor]:
    """Logits of each architecture, in the order given, bitwise those of one by one in evaluation mode.

    The stem does not depend on the architecture and is computed once. The first cell, a ``CellStage``, has the same
    input for all, so each of its edges is computed once for each choice that leads to it. Further on, no two children
    have the same input. Architectures are evaluated in lexicographic order, in which little has to be held at a time.
    """
    if not archs:
        return
    first = cast(CellStage, stages[1])
    memo = DagMemo(first.dag, first.preprocess(stages[0](x, archs[0])))

    def evaluate(arch: Arch) -> Tensor:
        y = first.finish(memo(arch))
        for stage in list(stages)[2:]:
            y = stage(y, arch)
        return y

    yield from in_order(archs, evaluate)


def walk_stages(
    stages: nn.ModuleList, used: Sequence[Sequence[int]], x: Tensor, archs: Sequence[Arch]
) -> Iterator[Tensor]:
    """Logits of each architecture, in the order given, for stages that may be any module.

    The output of a stage is held until an architecture comes that differs in a decision made up to it: ``used`` has for
    each stage the decisions that its output depends on, including those of earlier stages. Under
    ``torch.inference_mode`` nothing is held, because torch does not tell there whether a tensor was changed in place.
    """
    held: list[tuple[Arch, Tensor, int]] = []  # for each stage: the choices made up to it, its output, its version

    def evaluate(arch: Arch) -> Tensor:
        keys = [tuple(arch[decision] for decision in decisions) for decisions in used]
        y, depth = x, 0
        for stage, (key, output, version) in enumerate(held):
            # A layer that works in place may have changed what an earlier stage gave: that cannot serve again.
            if key == keys[stage] and not output.is_inference() and version == output._version:
                y, depth = output, stage + 1
        del held[depth:]
        for stage in range(depth, len(stages)):
            y = stages[stage](y, arch)
            held.append((keys[stage], y, -1 if y.is_inference() else y._version))
        return y

    return in_order(archs, evaluate)


def in_order(archs: Sequence[Arch], evaluate: Callable[[Arch], Tensor]) -> Iterator[Tensor]:
    """Evaluate in lexicographic order, in which neighbours have most in common, and give results in the order given.

    Results that are ready before their turn wait, a batch of logits each; nothing waits if ``archs`` is sorted.
    """
    waiting: dict[int, Tensor] = {}
    turn = 0
    for place in sorted(range(len(archs)), key=lambda place: archs[place]):
        waiting[place] = evaluate(archs[place])
        while turn in waiting:
            yield waiting.pop(turn)
            turn += 1
