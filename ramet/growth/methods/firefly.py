"""Firefly: split, add and deepen at once, and keep what lowers the loss most.

Section 2 of Wu, Liu, Stone and Liu, *Firefly neural architecture descent* (NeurIPS 2020), in its two steps:

1. every candidate is put into the network, and the step sizes e_i and directions d_i are trained together without the
   sparsity constraint, with |e_i| <= epsilon and ||d_i|| <= 1 (Eq. 4);
2. the score s_i of a candidate is the integrated gradient of the loss in its step size (Eq. 5), the mean of dL / de_i
   at c_z e, c_z = (2 z - 1) / 2 n. -e_i s_i is what the loss falls by as candidate i goes to its trained step; the
   largest are kept, with the e_i that they were trained to.

The paper keeps the largest |s_i| instead, with e_i = -epsilon sign(s_i); ``steps="full"`` is that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import torch
from torch import Tensor

from ramet.errors import ConfigError
from ramet.growth.base import Candidate, Edit, Growth, GrowthContext, MiniBatches, Proposal
from ramet.growth.meter import Meter
from ramet.growth.methods.candidate_network import CandidateNetwork
from ramet.training import Step


class Firefly(Growth):
    """Splits neurons, adds new ones and layers at once, and keeps what lowers the loss most.

    Args:
        split: whether existing units may be split.
        num_new: brand-new candidates for each group, ``m'``; 50 in B.2 for VGG-19, while figure 3b's gain levels off
            near 5. ``None`` is as many as the group has units, at most 16: 16 beside 2 units would make step one a
            hundred times as dear as a step of the training.
        layer_width: neurons of a candidate layer at each site; 20 in B.2. Layers are made only if the budget has any.
        epsilon: the bound of the step sizes. The paper gives no value.
        num_steps: mini-batches of step one; ``None`` leaves it to ``num_epochs``.
        num_epochs: passes over the training data in step one; 1 in B.2. An eighth lets a growth step of a VGG-like
            network cost about one epoch of its training (docs/decisions/018).
        step_share: what step one may cost, as a share of the multiply-adds of the training between two growths, where
            ``num_epochs`` decides its length; it has at least one mini-batch. ``None`` for no limit, as in the paper.
        learning_rate: of step one's RMSprop, 1e-3 in the released code.
        num_points: points of the integral, 3 in the paper.
        num_score_batches: mini-batches that a score is averaged over, each at every point of the integral; ``None`` for
            as many as ``score_share`` allows, each at one of the points in turn.
        score_share: what scores may cost, as a share of the multiply-adds of the training between two growths; never
            more than an epoch of mini-batches, nor less than one for each point. One mini-batch tells the sign of a
            score hardly better than a coin does (docs/decisions/042).
        steps: ``trained`` keeps the step size that a candidate was trained to, and scores it by what the loss falls by;
            ``full`` is the paper's: all of epsilon against the sign of the score, which raises the loss where the sign
            is wrong.
        apart: whether splits are weighed against splits: scores are divided by the root of their mean square among
            splits, and among all others. The loss is even in a split's step, so that what it gains is of second order
            in epsilon, and none would ever be chosen beside new neurons, whose gain is of first order. Not so in the
            paper.
        worth: what the best candidates have most of: the gain alone, as in the paper, or the gain for each parameter,
            for each multiply-add, or for the root of both together, that a candidate costs. By gain alone the grown
            shape has a third more multiply-adds than the start's at equal parameters (docs/decisions/059).
        separate: integrate each candidate alone, the others at their trained step size, as Eq. 5 is written. That
            takes ``num_points`` passes for each candidate.
        only: the groups that may grow; all by default.
        new_scale: standard deviation of new incoming weights before training, 0.1 in B.1 and B.2.

    Departs from the paper: the bounds are kept by projection after each step rather than by a penalty, so that they
    hold exactly. By default all step sizes are moved along the path of the integral together, which gives all scores
    in ``num_points`` passes; the difference from Eq. 5 is of order epsilon^2. The batch norms of the
    over-grown network use the batch's statistics, because those of new channels are not known; splits of the
    released code change the network's function by more than its outputs' size, here by O(epsilon).
    """

    def __init__(
        self,
        *,
        split: bool = True,
        num_new: int | None = None,
        layer_width: int = 20,
        epsilon: float = 0.1,
        num_steps: int | None = None,
        num_epochs: float = 0.125,
        step_share: float | None = 0.25,
        learning_rate: float = 1e-3,
        num_points: int = 3,
        num_score_batches: int | None = None,
        score_share: float = 0.15,
        steps: Literal["trained", "full"] = "trained",
        apart: bool = True,
        worth: Literal["gain", "params", "flops", "both"] = "flops",
        separate: bool = False,
        only: Iterable[str] | None = None,
        new_scale: float = 0.1,
    ) -> None:
        if not split and num_new == 0 and layer_width < 1:
            raise ConfigError("firefly needs candidates: splits, new neurons or layers, but got none of them.")
        score_batches = 1 if num_score_batches is None else num_score_batches
        if min(num_new or 0, layer_width) < 0 or min(num_points, score_batches) < 1 or (num_steps or 0) < 0:
            raise ConfigError(
                "firefly's counts must not be negative and its points and batches at least 1, but got "
                f"num_new={num_new}, layer_width={layer_width}, num_steps={num_steps}, num_points={num_points}, "
                f"num_score_batches={num_score_batches}."
            )
        if not 0 <= num_epochs < float("inf"):
            raise ConfigError(f"firefly's num_epochs must not be negative, but got {num_epochs}.")
        if not (0 <= score_share < float("inf") and 0 <= (step_share or 0.0) < float("inf")):
            raise ConfigError(
                f"firefly's score_share and step_share must not be negative, but got {score_share} and {step_share}."
            )
        if worth not in ("gain", "params", "flops", "both"):
            raise ConfigError(f"firefly's worth is gain, params, flops or both, but got {worth!r}.")
        if steps not in ("trained", "full"):
            raise ConfigError(f"firefly's steps are trained or full, but got {steps!r}.")
        if not (0 < epsilon < float("inf") and 0 < learning_rate < float("inf")):
            raise ConfigError(f"epsilon and learning_rate must be positive, but got {epsilon} and {learning_rate}.")
        self.split, self.num_new, self.layer_width = split, num_new, layer_width
        self.epsilon, self.num_steps, self.learning_rate = epsilon, num_steps, learning_rate
        self.num_epochs, self.step_share, self.worth = num_epochs, step_share, worth
        self.num_points, self.num_score_batches, self.separate = num_points, num_score_batches, separate
        self.score_share, self.steps, self.apart = score_share, steps, apart
        self.only = None if only is None else tuple(only)
        self.new_scale = new_scale

    def propose(self, context: GrowthContext) -> Proposal:
        """Every unit split, new units in every group, a layer at every site: then step one."""
        width = self.layer_width if context.max_layers else 0
        over = CandidateNetwork(
            context, split=self.split, num_new=self.num_new, layer_width=width, only=self.only, new_scale=self.new_scale
        )
        # A symmetric split has no first derivative at zero, so the step sizes start away from it.
        epsilon = over.step_sizes(self.epsilon / 2).requires_grad_()
        num_steps = self.num_steps
        if num_steps is None:
            num_steps = math.ceil(self.num_epochs * context.steps_per_epoch)
            if self.step_share is not None:
                num_steps = min(num_steps, max(1, int(affordable_steps(context, over, self.step_share))))
        train_candidates(context, over, epsilon, self.epsilon, num_steps, self.learning_rate)
        return Proposal(over.candidates, notes={"over": over, "epsilon": epsilon.detach()})

    def score(self, context: GrowthContext, proposal: Proposal) -> Tensor:
        """What the loss falls by, or the magnitude of the integrated gradient; splits apart from the others."""
        over, epsilon = proposal.notes["over"], proposal.notes["epsilon"]
        if self.num_score_batches is None and not self.separate:
            num_passes = affordable_passes(context, over, self.num_points, self.score_share)
            signed = integrated_in_turn(context, over, epsilon, context.batches(num_passes, "score"), self.num_points)
        else:
            batches = list(context.batches(self.num_score_batches or 1, "score"))
            integrate = integrated_separately if self.separate else integrated_gradients
            signed = integrate(context, over, epsilon, batches, self.num_points)
        proposal.notes["signed"] = signed
        scores = signed.abs() if self.steps == "full" else -epsilon * signed
        if self.apart:
            scores = weighed_apart(scores, proposal.candidates)
        return scores if self.worth == "gain" else by_cost(context, scores, proposal.candidates, self.worth)

    def apply(self, context: GrowthContext, proposal: Proposal, chosen: Sequence[int]) -> Edit:
        """The chosen ones at the step size that they were trained to, or at full size against their gradients."""
        final, signed = proposal.notes["epsilon"], proposal.notes["signed"]
        if self.steps == "full":
            final = -self.epsilon * torch.where(signed < 0, -1.0, 1.0).to(signed)  # below Eq. 5; sign(0) counts as 1
        over: CandidateNetwork = proposal.notes["over"]
        return over.edit(chosen, final)


def affordable_steps(context: GrowthContext, over: CandidateNetwork, share: float) -> float:
    """How many mini-batches through the over-grown network a share of the training between two growths pays for.

    Both a step of the training and a pass of the candidates go through a network and back, so that they cost as the
    multiply-adds of the two networks do.
    """
    meter = Meter(context.network, context.coupling, context.sites, "flops")
    own = meter.size
    for part in over.parts:
        meter.add(part.kind, part.where, part.count)
    num_steps = context.round_steps or context.recipe.epochs * context.steps_per_epoch
    return share * num_steps * own / meter.size if own else 0.0


def affordable_passes(context: GrowthContext, over: CandidateNetwork, num_points: int, share: float) -> int:
    """How many mini-batches scores may take, a multiple of the points; see ``score_share``."""
    affordable = min(affordable_steps(context, over, share), context.steps_per_epoch)
    return num_points * max(1, int(affordable) // num_points)


def by_cost(context: GrowthContext, scores: Tensor, candidates: Sequence[Candidate], worth: str) -> Tensor:
    """Scores divided by what one more unit in their place costs, shape [candidates]; those below 0 stay."""
    costs: dict[tuple[str, str], float] = {}
    units = ("params", "flops") if worth == "both" else (worth,)
    for unit in units:
        meter = Meter(context.network, context.coupling, context.sites, unit)
        for place in dict.fromkeys((candidate.kind, candidate.where) for candidate in candidates):
            cost = max(meter.add(*place), 1.0)
            meter.add(*place, -1)
            costs[place] = costs.get(place, 1.0) * cost ** (1 / len(units))
    divisors = [costs[candidate.kind, candidate.where] for candidate in candidates]
    return torch.where(scores > 0, scores / torch.tensor(divisors, dtype=scores.dtype, device=scores.device), scores)


def weighed_apart(scores: Tensor, candidates: Sequence[Candidate]) -> Tensor:
    """Scores of splits and of all others, each divided by the root of their mean square, shape [candidates]."""
    is_split = torch.tensor([candidate.kind == "split" for candidate in candidates], device=scores.device)
    for kind in (is_split, ~is_split):
        size = scores[kind].square().mean().sqrt()
        if bool(kind.any()) and size > 0:
            scores = torch.where(kind, scores / size, scores)
    return scores


def train_candidates(
    context: GrowthContext, over: CandidateNetwork, epsilon: Tensor, bound: float, num_steps: int, learning_rate: float
) -> None:
    """Step one (Eq. 4): train step sizes and directions in place, the network's own weights fixed."""
    leaves = [epsilon, *over.directions()]
    optimizer = torch.optim.RMSprop(leaves, lr=learning_rate, foreach=True)
    step = Step(context.network, optimizer, params={}, where=" of the candidates")
    for number, (x, y) in enumerate(context.batches(num_steps, "step one")):
        step(number, learning_rate, lambda x, y: context.loss(over(x, epsilon), y), x, y)
        with torch.no_grad():
            epsilon.clamp_(-bound, bound)
        over.bound()


def integrated_gradients(
    context: GrowthContext, over: CandidateNetwork, epsilon: Tensor, batches: MiniBatches, num_points: int
) -> Tensor:
    """Scores of all candidates along one path from zero to the trained step sizes, shape [candidates]."""
    total = torch.zeros_like(epsilon)
    for point in range(1, num_points + 1):
        at = (epsilon * (2 * point - 1) / (2 * num_points)).requires_grad_()
        for x, y in batches:
            (gradient,) = torch.autograd.grad(context.loss(over(x, at), y), at)
            total += gradient
    return total / (num_points * len(batches))


def integrated_in_turn(
    context: GrowthContext,
    over: CandidateNetwork,
    epsilon: Tensor,
    batches: Iterable[tuple[Tensor, Tensor]],
    num_points: int,
) -> Tensor:
    """As ``integrated_gradients``, with each mini-batch at one of the points in turn, shape [candidates].

    What mini-batches differ in is far more than what points do, so that a pass is better spent on another mini-batch.
    There must be as many for each point.
    """
    total, count = torch.zeros_like(epsilon), 0
    for number, (x, y) in enumerate(batches):
        at = (epsilon * (2 * (number % num_points) + 1) / (2 * num_points)).requires_grad_()
        (gradient,) = torch.autograd.grad(context.loss(over(x, at), y), at)
        total, count = total + gradient, number + 1
    assert count and not count % num_points
    return total / count


def integrated_separately(
    context: GrowthContext, over: CandidateNetwork, epsilon: Tensor, batches: MiniBatches, num_points: int
) -> Tensor:
    """Eq. 5 as it is written: one candidate moves, the others stay at their trained step sizes."""
    total = torch.zeros_like(epsilon)
    for number in range(len(epsilon)):
        for point in range(1, num_points + 1):
            at = epsilon.clone()
            at[number] *= (2 * point - 1) / (2 * num_points)
            at.requires_grad_()
            for x, y in batches:
                (gradient,) = torch.autograd.grad(context.loss(over(x, at), y), at)
                total[number] += gradient[number]
    return total / (num_points * len(batches))
