"""Even growth: new units, the same share of every group, that change nothing at first.

Nothing is tried and nothing is scored, so that all of the work is left for training; the network keeps its proportions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from ramet.growth.base import Candidate, Edit, Growth, GrowthContext, Proposal
from ramet.growth.evenly import drawn_units, even_additions
from ramet.growth.meter import Meter
from ramet.growth.methods.net2net import uniform_scores

COARSE = 0.5
"""Of a step, what rounding may leave; heads of attention, of which there are few, would leave more."""


class Even(Growth):
    """New units in every group, by the same share; incoming weights are drawn, outgoing ones are zero.

    A unit like that has a gradient from the first step on, in the weights that read it, and is unlike every other: a
    copy of a trained unit, as ``net2net`` makes it, has to part from it first (docs/decisions/070).
    """

    def propose(self, context: GrowthContext) -> Proposal:
        """In each group as many new units as take the network to the step's size in its first proportions.

        Where rounding would leave much of the step, one more of each is there to be chosen as long as there is room.
        """
        meter = context.meter()
        wanted = meter.size + max(0.0, context.allowance)
        added = even_additions(
            context.network,
            context.coupling,
            wanted,
            meter.unit,
            meter.measured,
            proportions=context.proportions,
            at_most=True,
        )
        if _room(context.meter(), added, wanted) > COARSE * context.allowance:
            added = {name: count + 1 for name, count in added.items()}
            # Ties are coarse, so that the next of one may be out of reach while others could still fill the step.
            tied = {name: count for tie in context.coupling.ties for name, count in tie.items()}
            added |= {name: max(context.coupling.groups[name].size, count) for name, count in tied.items()}
        return Proposal([Candidate("new", name, unit) for name, count in added.items() for unit in range(count)])

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


def _room(meter: Meter, added: Mapping[str, int], size: float) -> float:
    """What is left below a size behind so many more units."""
    for name, count in added.items():
        meter.add("new", name, count)
    return size - meter.size
