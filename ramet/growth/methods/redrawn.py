"""Drawn anew in every round: another method chooses what grows, and all weights are drawn anew after each growth.

What sizes alone give, round by round, each trained for as long as the grown network was in its last round. It is no
reference for a growth, which has been trained for longer: ``ramet grow --against scratch`` trains the grown shape from
scratch with all of the work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ramet.growth.base import Edit, Growth, GrowthContext, Proposal
from ramet.growth.methods import GROWTHS


class Redrawn(Growth):
    """Drawn anew in every round: another method chooses what grows, and all weights are drawn anew.

    Args:
        method: what chooses: a growth method, or the name of one, which has its defaults.
    """

    def __init__(self, method: Growth | str = "net2net") -> None:
        # A name only: what is named inside an option is not shown to the user before it runs.
        self.method = GROWTHS.make(method, trusted=False)

    @property
    def needs_layers(self) -> bool:
        """As the other method."""
        return self.method.needs_layers

    @property
    def needs_sites(self) -> bool:
        """As the other method."""
        return self.method.needs_sites

    def propose(self, context: GrowthContext) -> Proposal:
        """The other method's candidates."""
        return self.method.propose(context)

    def score(self, context: GrowthContext, proposal: Proposal) -> Tensor:
        """The other method's scores."""
        return self.method.score(context, proposal)

    def apply(self, context: GrowthContext, proposal: Proposal, chosen: Sequence[int]) -> Edit:
        """The other method's edit, and all weights drawn anew."""
        edit = self.method.apply(context, proposal, chosen)
        return Edit(edit.widenings, edit.layers, blocks=edit.blocks, reset=True)

    def observe(self, score: float) -> bool:
        """As the other method."""
        return self.method.observe(score)

    def state_dict(self) -> dict[str, Any]:
        """As the other method."""
        return self.method.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """As the other method."""
        self.method.load_state_dict(state)
