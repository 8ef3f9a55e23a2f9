"""A network made wider in its own proportions: every group gains the same share of units.

That is how a plain network of another size is made, and how a growth begins with more than the network it was given.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ramet.growth.meter import Meter
from ramet.growth.surgery.widening import Widening, slot_shape
from ramet.tracing.coupling import Coupling, Group


def even_additions(
    network: nn.Module,
    coupling: Coupling,
    size: float,
    unit: str = "params",
    measured: float = 0.0,
    *,
    proportions: Mapping[str, int] | None = None,
    at_most: bool = False,
) -> dict[str, int]:
    """The units that each group gains, so that the network has as near a size as can be; no group shrinks.

    Groups that are tied gain what their tie says, so many times.

    Args:
        network: what is to become wider.
        coupling: what can grow in it.
        size: what is wanted.
        unit: what it is counted in, as in a budget.
        measured: the network's own latency, where the unit is one.
        proportions: the widths that all groups are to be the same multiple of; those that they have, if none. A network
            that was widened before has rounded ones: to widen those again would round twice.
        at_most: whether the size is a limit.

    >>> from ramet.growth.tracing.checking import find_coupling
    >>> net = nn.Sequential(nn.Linear(4, 2), nn.ReLU(), nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> even_additions(net, find_coupling(net, torch.zeros(2, 4)), 10, "neurons")
    {'0': 2, '2': 3}
    """
    sizes = {name: group.size for name, group in coupling.groups.items()}
    shape = sizes if proportions is None else {name: proportions.get(name, width) for name, width in sizes.items()}
    tied = {name for tie in coupling.ties for name in tie}
    ties = [*coupling.ties, *({name: 1} for name in sizes if name not in tied)]
    first, now = ([min(width[name] / n for name, n in tie.items()) for tie in ties] for width in (shape, sizes))

    def at(share: float) -> tuple[dict[str, int], float]:
        added = dict.fromkeys(sizes, 0)
        for tie, start, has in zip(ties, first, now, strict=True):
            times = max(0, round(start + round(share * start) - has))
            added.update({name: times * count for name, count in tie.items()})
        meter = Meter(network, coupling, [], unit, measured)
        for name, count in added.items():
            if count:
                meter.add("new", name, count)
        return added, meter.size

    if not sizes:
        return {}
    low, high = 0.0, 1.0
    while at(high)[1] < size:
        low, high = high, 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle)[1] <= size else (low, middle)
    return at(low)[0] if at_most else min((at(low), at(high)), key=lambda found: abs(found[1] - size))[0]


def drawn_units(
    network: nn.Module, coupling: Coupling, group: Group, num_new: int, generator: torch.Generator
) -> Widening:
    """New units of a group that change nothing yet, and can learn at once.

    Their incoming weights are drawn, in every tensor with the spread of the weights that are there, and their outgoing
    ones are zero; of channels that norms run over it is the other way round, because those are silent behind the norm.
    """
    widening = Widening(num_new=num_new)
    tensors = dict(network.named_parameters())
    role = "in" if group.norms else "out"
    for slot in group.slots:
        tensor = tensors.get(slot.tensor)
        if tensor is None or tensor.dim() < 2 or not (slot.role == role or slot.start == "draw"):
            continue
        drawn = widening.outgoing if slot.role == "in" else widening.incoming
        shape = slot_shape(coupling, group, slot.tensor, slot.dim, num_new)
        drawn[slot.tensor] = _spread(tensor.detach()) * torch.randn(shape, generator=generator).to(tensor)
    return widening


def _spread(weights: Tensor) -> float:
    """The standard deviation of weights; of those that are all alike, as of zeros, one over the root of a row's."""
    spread = float(weights.std()) if weights.numel() > 1 else 0.0
    return spread or (weights.shape[0] / weights.numel()) ** 0.5
