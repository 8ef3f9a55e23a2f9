"""What of a proposal is taken within a budget, and whether its shapes keep the outputs: for every loop."""

from __future__ import annotations

import torch
from torch import Tensor

from ramet.errors import RunError
from ramet.growth.base import Edit, GrowthContext, Proposal
from ramet.growth.budget import Budget
from ramet.growth.history import silent
from ramet.growth.meter import select
from ramet.tracing.probing import SINGLE_TOLERANCE, largest_change, outputs


def choose_within(context: GrowthContext, proposal: Proposal, scores: Tensor, budget: Budget, size: float) -> list[int]:
    """The best candidates that fit the step of a network of this size, best first; nothing if none is worth anything.

    Where the step is smaller than one unit and the whole budget is not, it is the single best unit, with those that it
    is tied to.
    """
    scores = scores.cpu()  # choosing is arithmetic over thousands of single numbers
    if proposal.exclusive:
        best = int(scores.argmax())
        return [best] if bool(torch.isfinite(scores[best])) else []
    if chosen := context.choose(proposal.candidates, scores):
        return chosen
    places = [(candidate.kind, candidate.where) for candidate in proposal.candidates]
    return select(context.meter(), places, scores, budget.total - size, 0, most=1)


def check_edit(context: GrowthContext, edit: Edit, probe: Tensor) -> None:
    """Try an edit's shapes on a copy, without effect.

    Raises:
        RunError: the outputs would change.
    """
    grown = context.grown(silent(edit))
    change = largest_change(outputs(context.network, probe), outputs(grown, probe))
    if change > SINGLE_TOLERANCE:
        raise RunError(f"a growth must keep the outputs, but it would change them by {change:.1e}; nothing was done.")
