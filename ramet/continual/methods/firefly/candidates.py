"""A growth step of a task's network: which neurons to unlock and which new ones to add, by Firefly's two steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ramet.continual.networks.draft_widths import with_new, with_only
from ramet.continual.networks.master import Draft, like
from ramet.continual.networks.skeletons import norm_of, weights_of
from ramet.continual.training import Held, Saves, classification, train
from ramet.data import Split
from ramet.seeding import torch_generator
from ramet.training import EVALUATION_BATCH, Settings

NUM_POINTS = 3  # Eq. 5: how many points of the way to the candidates the gradient is taken at


def grow_draft(
    draft: Draft,
    data: Split,
    settings: Settings,
    *,
    seed: int,
    num_new: int,
    num_chosen: int,
    candidate_epochs: int,
    saves: Saves,
    phase: str,
    epsilon: float = 0.0,
) -> tuple[Draft, dict[str, int]]:
    """Unlock and add the neurons that lower the loss most; how many of each were.

    Step one: every locked neuron may move (its copy would), every layer has ``num_new`` new neurons with small outgoing
    weights; all of these are trained for ``candidate_epochs``, and nothing else. Step two: each candidate's score is
    the decrease of the loss that it stands for to first order, and the best ``num_chosen`` of all layers are kept. The
    others are locked again, or removed. With an ``epsilon`` candidates stay within section 2.4's bounds
    (``bound_candidates``), without one they go as far as their training takes them.
    """
    locked = [origin >= 0 for origin in draft.origins]
    wide = widened(draft, num_new, seed)
    before = {name: param.detach().clone() for name, param in wide.network.named_parameters()}

    def rmsprop(groups: Sequence[dict[str, Any]]) -> torch.optim.Optimizer:
        made = torch.optim.RMSprop(list(groups), foreach=True)
        if epsilon:
            made.register_step_post_hook(lambda *_: bound_candidates(wide, before, locked, num_new, epsilon))
        return made

    if epsilon:
        bound_candidates(wide, before, locked, num_new, epsilon)  # drawn weights may lie outside already
    train(
        wide.network,
        *classification(wide.network, data, settings),
        # The released code: one epoch of RMSprop at 1e-3.
        replace(settings, epochs=candidate_epochs, learning_rate=1e-3, final_learning_rate=1e-3, weight_decay=0.0),
        seed=seed,
        rate=lambda name: float(name.endswith(("weights.weight", "weights.bias"))),
        frozen=[norm for layer in wide.network if (norm := norm_of(layer)) is not None],
        held=_all_but_candidates(wide, locked, num_new),
        optimizer=rmsprop,
        saves=saves,
        phase=phase,
    )
    scores = _scores(wide, before, locked, num_new, data)
    chosen = _best(scores, num_chosen)
    grown = _kept(wide, before, locked, num_new, chosen)
    unlocked = sum(int((pick[: len(lock)] & lock).sum()) for pick, lock in zip(chosen, locked, strict=True))
    return grown, {"unlocked": unlocked, "new": sum(int(pick.sum()) for pick in chosen) - unlocked}


@torch.no_grad()
def widened(draft: Draft, num_new: int, seed: int) -> Draft:
    """A draft with new neurons at the end of each layer: incoming weights N(0, 0.1), outgoing uniform in +-0.01."""
    wide = with_new(draft, [num_new] * len(draft.widths))
    generator = torch_generator(seed, "new neurons")
    for place, (old_layer, new_layer) in enumerate(zip(draft.network, wide.network, strict=True)):
        weights = weights_of(new_layer)
        rows, inputs = weights_of(old_layer).weight.shape[:2]
        incoming = torch.empty(weights.weight.shape).normal_(0, 0.1, generator=generator)
        outgoing = torch.empty(incoming[:rows, inputs:].shape).uniform_(-0.01, 0.01, generator=generator)
        # New neurons do not read each other yet: each is scored as if it came alone.
        if place:
            incoming[rows:, inputs:] = 0.0
        weights.weight[rows:] = incoming[rows:].to(weights.weight.device)
        weights.weight[:rows, inputs:] = outgoing.to(weights.weight.device)
        weights.bias[rows:] = 0.0
    return wide


@torch.no_grad()
def bound_candidates(
    wide: Draft, before: dict[str, Tensor], locked: list[Tensor], num_new: int, epsilon: float
) -> None:
    """Bring every candidate back into ``|e_i| <= epsilon`` and ``||d_i|| <= 1`` (section 2.4), in place.

    A locked neuron is theta_i + e_i d_i: its incoming weights are at most ``epsilon`` away from what they were
    ``before``. A new one is e_i sigma(x; d_i): its incoming weights have a norm of at most 1, its outgoing ones of at
    most ``epsilon``.
    """
    network = wide.network
    for place, layer in enumerate(network):
        weights, name = weights_of(layer), f"{_name(network, place)}.weights"
        weight, bias = weights.weight, weights.bias
        first_new = weight.shape[1] - (num_new * wide.skeleton.spread(place) if place else 0)
        if place < len(locked):
            rows = locked[place].nonzero()[:, 0].to(weight.device)
            start, start_bias = before[f"{name}.weight"][rows, :first_new], before[f"{name}.bias"][rows]
            moved, moved_bias = weight[rows, :first_new] - start, bias[rows] - start_bias
            factor = _shrinking(torch.cat([moved.flatten(1), moved_bias[:, None]], 1), epsilon)
            weight[rows, :first_new] = start + like(factor[:, None], weight) * moved
            bias[rows] = start_bias + factor * moved_bias
            # New neurons do not read each other, so all that they read is their own.
            new = slice(len(locked[place]), None)
            factor = _shrinking(torch.cat([weight[new].flatten(1), bias[new, None]], 1), 1.0)
            weight[new] *= like(factor[:, None], weight)
            bias[new] *= factor
        if place:
            old_rows = len(locked[place]) if place < len(locked) else len(weight)
            outgoing = weight[:old_rows, first_new:]
            units = outgoing.transpose(0, 1).reshape(num_new, -1)
            factor = _shrinking(units, epsilon).repeat_interleave(wide.skeleton.spread(place))
            outgoing *= like(factor[None, :], weight)


def _shrinking(rows: Tensor, most: float) -> Tensor:
    """What brings each row to a norm of at most ``most``, [rows]."""
    norms: Tensor = torch.linalg.vector_norm(rows, dim=1)
    return most * norms.clamp(min=most).reciprocal()


def _all_but_candidates(wide: Draft, locked: list[Tensor], num_new: int) -> list[Held]:
    """In step one only candidates move: the incoming weights of locked neurons, and all weights of new ones."""
    held = []
    for place, layer in enumerate(wide.network):
        weights = weights_of(layer)
        rows, inputs = weights.weight.shape[:2]
        from_new = torch.zeros(inputs, dtype=torch.bool)
        if place:
            from_new[inputs - num_new * wide.skeleton.spread(place) :] = True
        may_move = torch.zeros(rows, dtype=torch.bool)
        if place < len(locked):
            may_move[: len(locked[place])] = locked[place]
            may_move[rows - num_new :] = True
        moves = may_move[:, None] | from_new[None, :]
        if place < len(locked) and place:
            moves[rows - num_new :, inputs - num_new * wide.skeleton.spread(place) :] = False
        held += [
            Held(weights.weight, like(~moves, weights.weight)),
            Held(weights.bias, ~may_move.to(weights.bias.device)),
        ]
    return held


def _scores(wide: Draft, before: dict[str, Tensor], locked: list[Tensor], num_new: int, data: Split) -> list[Tensor]:
    """Each neuron's score by Eq. 5, the mean over n points j of grad L(theta + (2j - 1) / 2n delta) . delta_i.

    For a locked neuron delta_i is how far its incoming weights moved; for a new one it is its outgoing weights, which
    are scaled from nothing. The sign is dropped. Other neurons have the score -1.
    """
    network = wide.network.eval()
    after = {name: param.detach().clone() for name, param in network.named_parameters()}
    start = {name: value.clone() for name, value in before.items()}
    for place in range(len(network)):
        name = f"{_name(network, place)}.weights"
        if place < len(locked):
            # A new neuron's incoming weights are its delta, not scaled: only its outgoing ones begin at nothing.
            for kind in (f"{name}.weight", f"{name}.bias"):
                start[kind][-num_new:] = after[kind][-num_new:]
        if place:
            start[f"{name}.weight"][:, -num_new * wide.skeleton.spread(place) :] = 0.0
    total = {name: torch.zeros_like(value) for name, value in after.items()}
    params = dict(network.named_parameters())
    for point in range(NUM_POINTS):
        share = (2 * point + 1) / (2 * NUM_POINTS)
        with torch.no_grad():
            for name, param in params.items():
                param.copy_(start[name] + share * (after[name] - start[name]))
        for x, y in zip(torch.split(data.x, EVALUATION_BATCH), torch.split(data.y, EVALUATION_BATCH), strict=True):
            network.zero_grad()
            (cross_entropy(network(x), y, reduction="sum") / len(data)).backward()  # type: ignore[no-untyped-call]
            for name, param in params.items():
                if param.grad is not None:
                    total[name] += param.grad / NUM_POINTS
    network.zero_grad()
    with torch.no_grad():
        for name, param in params.items():
            param.copy_(after[name])
    products = {name: total[name] * (after[name] - start[name]) for name in after}
    scores = []
    for place, lock in enumerate(locked):
        name, following = _name(network, place), _name(network, place + 1)
        incoming = products[f"{name}.weights.weight"].flatten(1).sum(1) + products[f"{name}.weights.bias"]
        width = len(lock) + num_new
        outgoing = products[f"{following}.weights.weight"].transpose(0, 1).flatten(1).sum(1).reshape(width, -1).sum(1)
        score = torch.full((width,), -1.0)
        score[: len(lock)][lock] = incoming[: len(lock)].cpu()[lock].abs()
        score[len(lock) :] = outgoing[len(lock) :].cpu().abs()
        scores.append(score)
    return scores


def _best(scores: list[Tensor], count: int) -> list[Tensor]:
    """Which candidates are kept: the best of all layers together."""
    flat = torch.cat(scores)
    order = flat.sort(descending=True, stable=True).indices[:count]
    picked = torch.zeros(len(flat), dtype=torch.bool)
    picked[order] = flat[order] > 0
    return list(torch.split(picked, [len(score) for score in scores]))


@torch.no_grad()
def _kept(wide: Draft, before: dict[str, Tensor], locked: list[Tensor], num_new: int, chosen: list[Tensor]) -> Draft:
    """The draft with the chosen candidates: others are locked again, or removed."""
    skeleton, network = wide.skeleton, wide.network
    keep = []
    for place, (lock, pick) in enumerate(zip(locked, chosen, strict=True)):
        back = (lock & ~pick[: len(lock)]).nonzero()[:, 0]
        weights, name = weights_of(network[place]), f"{_name(network, place)}.weights"
        # What comes from new neurons is theirs, and stays as it was trained.
        num_old = weights.weight.shape[1] - (num_new * skeleton.spread(place) if place else 0)
        weights.weight[back, :num_old] = before[f"{name}.weight"][back, :num_old]
        weights.bias[back] = before[f"{name}.bias"][back]
        keep.append(torch.cat([torch.ones(len(lock), dtype=torch.bool), pick[len(lock) :]]))
    origins = [torch.where(pick, -1, origin) for origin, pick in zip(wide.origins, chosen, strict=True)]
    return with_only(Draft(skeleton, network, origins), keep)


def _name(network: nn.Sequential, place: int) -> str:
    return list(dict(network.named_children()))[place]
