"""Stacking: deeper by plain copies of trained blocks, which change the function.

Gong, He, Li, Qin, Wang and Liu, *Efficient training of BERT by progressively stacking* (ICML 2019): a trained network's
blocks are stacked on themselves, x -> f(f(x)). Du et al., *Stacking your transformers* (NeurIPS 2024), compare the
ways to enlarge a language model in depth and width and find this one, ``G_stack``, the best at large scale, though the
loss jumps when it is done. It is here to be compared with growth that keeps the function.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ramet.errors import ConfigError
from ramet.growth.base import Candidate, Edit, Growth, GrowthContext, Proposal

ORDERS = ("stack", "beside")
"""Copies of all blocks behind the last one, or each behind the block that it is a copy of."""


class Stacking(Growth):
    """Deeper by copies of trained blocks; the budget must allow layers, one for each copy.

    Args:
        order: ``stack`` puts the copies behind the last block in the order of their sources, as both papers do;
            ``beside`` puts each behind its own.
        silent: whether the copies start without effect, which keeps the function; not so in the papers.

    Both papers copy all blocks at once. Here as many are copied as the step's budget allows, the first ones first.
    """

    def __init__(self, *, order: str = "stack", silent: bool = False) -> None:
        if order not in ORDERS:
            raise ConfigError(f"order must be among {', '.join(ORDERS)}, but got {order!r}.")
        self.order, self.silent = order, silent

    @property
    def needs_layers(self) -> bool:
        """It adds layers and nothing else."""
        return True

    def propose(self, context: GrowthContext) -> Proposal:
        """Every block."""
        wanted = context.blocks if context.max_layers else []
        return Proposal([Candidate("block", block.name, 0) for block in wanted])

    def score(self, context: GrowthContext, proposal: Proposal) -> Tensor:
        """The first ones first."""
        return -torch.arange(len(proposal.candidates), dtype=torch.float64)

    def apply(self, context: GrowthContext, proposal: Proposal, chosen: Sequence[int]) -> Edit:
        """The copies, in the order of their sources."""
        known = {block.name: block for block in context.blocks}
        last = {block.copied().holder: block.name for block in context.blocks}
        copies = []
        for number in sorted(chosen):
            block = known[proposal.candidates[number].where]
            behind = last[block.copied().holder] if self.order == "stack" else block.name
            copies.append(block.copied(behind, self.silent))
        return Edit(blocks=copies)
