"""A growth step of a task's network: which neurons to unlock and which new ones to add, by Firefly's two steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, pad

from ramet.continual.networks.draft_widths import with_new, with_only
from ramet.continual.networks.master import Draft
from ramet.continual.training import Held, Saves, classification, train
from ramet.data import Split
from ramet.seeding import torch_generator
from ramet.training import EVALUATION_BATCH, Settings, output_of

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

    Neurons are whatever units the network has (``wiring.py``). Step one: every locked one may move (its copy would),
    and each layer, or group of channels, has ``num_new`` new ones with small outgoing weights; all of these are trained
    for ``candidate_epochs``, and nothing else. Step two: each candidate's score is the decrease of the loss that it
    stands for to first order; the best ``num_chosen`` of all layers are kept, the others locked again, or removed.
    With an ``epsilon`` candidates stay within section 2.4's bounds (``bound_candidates``), without one they go as far
    as their training takes them.
    """
    locked = [origin >= 0 for origin in draft.origins]
    wide = widened(draft, num_new, seed)
    moving = set(wide.params(head=True))
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
        rate=lambda name: float(name in moving),
        frozen=wide.norms(),
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


def _is_old(wide: Draft, num_new: int) -> list[Tensor]:
    """Which units were there before the new ones, which come last."""
    return [torch.arange(width) < width - num_new for width in wide.widths]


@torch.no_grad()
def widened(draft: Draft, num_new: int, seed: int) -> Draft:
    """A draft with new neurons at the end of each layer: incoming weights N(0, 0.1), outgoing uniform in +-0.01."""
    wide = with_new(draft, [num_new] * len(draft.widths))
    generator, wiring, is_old = torch_generator(seed, "new neurons"), wide.wiring, _is_old(wide, num_new)
    for name, param in wide.params(head=True).items():
        if not wiring.dims(name):
            continue
        makes_new, reads_new = ~wiring.made(name, is_old), wiring.reading(name, is_old)
        if param.ndim == 1:
            param.masked_fill_(makes_new.to(param.device), 0.0)
            continue
        incoming = torch.empty(param.shape).normal_(0, 0.1, generator=generator)
        is_outgoing = (reads_new & ~makes_new).expand(param.shape)
        outgoing = torch.empty(int(is_outgoing.sum())).uniform_(-0.01, 0.01, generator=generator)
        # New neurons do not read each other yet: each is scored as if it came alone.
        incoming.masked_fill_(makes_new & reads_new, 0.0)
        drawn = incoming.masked_scatter(is_outgoing, outgoing).to(param)
        param.copy_(torch.where((makes_new | reads_new).to(param.device), drawn, param))
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
    wiring, sizes, is_old, params = wide.wiring, wide.widths, _is_old(wide, num_new), wide.params(head=True)
    old_sizes = [size - num_new for size in sizes]
    old_units = [torch.arange(size) for size in old_sizes]
    for place, lock in enumerate(locked):
        making = [(name, dim) for name, dim in wiring.holders(place, reading=False) if name in params]
        moves, incoming = [], []
        for name, dim in making:
            moved = wiring.take(name, params[name] - before[name], sizes, old_units)
            moves.append(wiring.rows(name, dim, place, moved, old_sizes).flatten(1)[lock])
            incoming.append(wiring.rows(name, dim, place, params[name], sizes).flatten(1)[~is_old[place]])
        factors = torch.ones(sizes[place], device=moves[0].device, dtype=moves[0].dtype)
        factors[: len(lock)][lock] = _shrinking(torch.cat(moves, 1), epsilon)
        factors[len(lock) :] = _shrinking(torch.cat(incoming, 1), 1.0)
        for name, dim in making:
            # New neurons do not read each other, so all that they read is their own.
            param, spread = params[name], wiring.along(name, dim, place, factors, sizes)
            is_made_old = wiring.made(name, is_old, param.device)
            start = torch.where(is_made_old, before[name], torch.zeros_like(param))
            is_new_pair = is_made_old & wiring.reading(name, is_old, param.device)
            param.copy_(torch.where(is_new_pair | (spread == 1), param, start + spread * (param - start)))
        reading, outgoing = wiring.holders(place, reading=True), []
        for name, dim in reading:
            read = wiring.take(name, params[name], sizes, old_units, made_only=True)
            outgoing.append(wiring.rows(name, dim, place, read, sizes).flatten(1)[~is_old[place]])
        factors = torch.ones_like(factors)
        factors[len(lock) :] = _shrinking(torch.cat(outgoing, 1), epsilon)
        for name, dim in reading:
            param, spread = params[name], wiring.along(name, dim, place, factors, sizes)
            param.copy_(torch.where(wiring.made(name, is_old, param.device), spread * param, param))


def _shrinking(rows: Tensor, most: float) -> Tensor:
    """What brings each row to a norm of at most ``most``, [rows]."""
    norms: Tensor = torch.linalg.vector_norm(rows, dim=1)
    return most * norms.clamp(min=most).reciprocal()


def _all_but_candidates(wide: Draft, locked: list[Tensor], num_new: int) -> list[Held]:
    """In step one only candidates move: the incoming weights of locked neurons, and all weights of new ones."""
    held, wiring, is_old = [], wide.wiring, _is_old(wide, num_new)
    stays = [pad(~lock, (0, num_new)) for lock in locked]
    for name, param in wide.params(head=True).items():
        reads_new = wiring.reading(name, is_old)
        moves = ~wiring.made(name, stays) | reads_new
        moves = moves & ~(~wiring.made(name, is_old) & reads_new)
        held.append(Held(param, ~moves.to(param.device)))
    return held


def _scores(wide: Draft, before: dict[str, Tensor], locked: list[Tensor], num_new: int, data: Split) -> list[Tensor]:
    """Each neuron's score by Eq. 5, the mean over n points j of grad L(theta + (2j - 1) / 2n delta) . delta_i.

    For a locked neuron delta_i is how far its incoming weights moved; for a new one it is its outgoing weights, which
    are scaled from nothing. The sign is dropped. Other neurons have the score -1.
    """
    network, moving = wide.network.eval(), wide.params(head=True)
    after = {name: param.detach().clone() for name, param in network.named_parameters()}
    wiring, sizes, is_old, start = wide.wiring, wide.widths, _is_old(wide, num_new), dict(before)
    for name in wide.params(head=True):
        # A new neuron's incoming weights are its delta, not scaled: only its outgoing ones begin at nothing.
        is_made_old = wiring.made(name, is_old, before[name].device)
        begun = torch.where(is_made_old, before[name], after[name])
        start[name] = begun.masked_fill(wiring.reading(name, is_old, begun.device), 0.0)
    total = {name: torch.zeros_like(value) for name, value in after.items()}
    params = dict(network.named_parameters())
    for point in range(NUM_POINTS):
        share = (2 * point + 1) / (2 * NUM_POINTS)
        with torch.no_grad():
            for name, param in params.items():
                param.copy_(start[name] + share * (after[name] - start[name]))
        for x, y in zip(torch.split(data.x, EVALUATION_BATCH), torch.split(data.y, EVALUATION_BATCH), strict=True):
            network.zero_grad()
            (cross_entropy(output_of(network(x)), y, reduction="sum") / len(data)).backward()  # type: ignore[no-untyped-call]
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
        incoming, outgoing = (
            torch.stack(
                [wiring.sums(name, dim, place, products[name], sizes) for name, dim in holders if name in moving]
            ).sum(0)
            for holders in (wiring.holders(place, reading=False), wiring.holders(place, reading=True))
        )
        score = torch.full((len(lock) + num_new,), -1.0)
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
    wiring, is_old = wide.wiring, _is_old(wide, num_new)
    goes_on = [pad(~lock, (0, num_new), value=True) | pick for lock, pick in zip(locked, chosen, strict=True)]
    for name, param in wide.params().items():
        # What comes from new neurons is theirs, and stays as it was trained.
        back = ~wiring.made(name, goes_on) & ~wiring.reading(name, is_old)
        param.copy_(torch.where(back.to(param.device), before[name], param))
    keep = [old | pick for old, pick in zip(is_old, chosen, strict=True)]
    origins = [torch.where(pick, -1, origin) for origin, pick in zip(wide.origins, chosen, strict=True)]
    return with_only(Draft(wide.skeleton, wide.network, origins), keep)
