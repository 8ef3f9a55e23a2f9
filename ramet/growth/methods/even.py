"""Even growth: new units, the same share of every group, that change nothing at first.

Nothing is tried and nothing is scored, so that all of the work is left for training; the network keeps its proportions.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ramet.growth.base import Candidate, Edit, Growth, GrowthContext, Proposal
from ramet.growth.evenly import drawn_units, even_additions
from ramet.growth.methods.net2net import uniform_scores


class Even(Growth):
    """New units in every group, by the same share; incoming weights are drawn, outgoing ones are zero.

    A unit like that has a gradient from the first step on, in the weights that read it, and is unlike every other: a
    copy of a trained unit, as ``net2net`` makes it, has to part from it first (docs/decisions/070).
    """

    def propose(self, context: GrowthContext) -> Proposal:
        """In each group as many new units as its share of the step, and one more, where others leave room."""
        meter = context.meter()
        wanted = meter.size + max(0.0, context.allowance)
        added = even_additions(context.network, context.coupling, wanted, meter.unit, meter.measured)
        return Proposal([Candidate("new", name, unit) for name, count in added.items() for unit in range(count + 1)])

    def score(self, context: GrowthContext, proposal: Proposal) -> Tensor:
        """The same share of every group first."""
        return uniform_scores(context, proposal.candidates)

    def apply(self, context: GrowthContext, proposal: Proposal, chosen: Sequence[int]) -> Edit:
        """The chosen ones as silent units."""
        counts: dict[str, int] = {}
        for number in chosen:
            where = proposal.candidates[number].where
            counts[where] = counts.get(where, 0) + 1
        groups, generator = context.coupling.groups, context.generator("units")
        return Edit(
            {
                name: drawn_units(context.network, context.coupling, groups[name], count, generator)
                for name, count in counts.items()
            }
        )
