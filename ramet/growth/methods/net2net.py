"""Net2Net: wider by copying random neurons of each layer, deeper by identity layers; the function stays.

Chen, Goodfellow and Shlens, *Net2Net: accelerating learning via knowledge transfer* (ICLR 2016). Every layer grows by
the same share, which is how the Firefly paper compares with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ramet.errors import ConfigError
from ramet.growth.base import Candidate, Edit, Growth, GrowthContext, Proposal, widenings_of
from ramet.growth.surgery.blocks import BlockCopy
from ramet.growth.surgery.layers import Deepening
from ramet.growth.surgery.widening import Widening, slot_shape


class Net2Net(Growth):
    """Wider by copying random neurons of each layer, deeper by identity layers; the function stays.

    Args:
        noise: standard deviation of what is added to one copy and taken from the other, relative to that of the
            tensor, so that the two can part; 0 keeps the function exactly.
        depth: whether layers are added where the budget has any. They are residual layers without effect, as wide as
            the place that they stand in, and copies of residual blocks whose branch ends in zeros.

    Departs from the paper: channels that a layer norm or a root-mean-square norm runs over are not copied but new, as
    in LEMON (Wang et al. 2023): copies of some of them would change the norm's statistics. Net2DeeperNet adds a layer
    whose matrix is the identity, which keeps the function for ReLU only; the silent residual layer keeps it for every
    activation, and can be told from the identity just as little.
    """

    def __init__(self, *, noise: float = 0.01, depth: bool = True) -> None:
        if noise < 0:
            raise ConfigError(f"noise must not be negative, but got {noise}.")
        self.noise, self.depth = noise, depth

    def propose(self, context: GrowthContext) -> Proposal:
        """For each group as many copies of random units as it has units, drawn with replacement; layers."""
        generator = context.generator("units")
        candidates = []
        for name, group in context.coupling.groups.items():
            if group.norms:
                candidates += [Candidate("new", name, unit) for unit in range(group.size)]
                continue
            for unit in torch.randint(group.size, (group.size,), generator=generator).tolist():
                candidates.append(Candidate("split", name, unit))
        if self.depth and context.max_layers:
            deeper = [[Candidate("layer", site.name, unit) for unit in range(site.channels)] for site in context.sites]
            if context.blocks:  # layers and copies in random order, because the first ones fill what a step may have
                deeper += [[Candidate("block", block.name, 0)] for block in context.blocks]
                deeper = [deeper[place] for place in torch.randperm(len(deeper), generator=generator).tolist()]
            candidates += [candidate for place in deeper for candidate in place]
        return Proposal(candidates)

    def score(self, context: GrowthContext, proposal: Proposal) -> Tensor:
        """The same share of every group first: the candidates of a group count down from 0."""
        return uniform_scores(context, proposal.candidates)

    def apply(self, context: GrowthContext, proposal: Proposal, chosen: Sequence[int]) -> Edit:
        """Plain copies with a little noise, and silent layers."""
        candidates = [proposal.candidates[number] for number in chosen]
        widenings = widenings_of(context.coupling, candidates)
        generator = context.generator("noise")
        for name, widening in widenings.items():
            add_noise(context, name, widening, self.noise, generator)
        return Edit(widenings, silent_layers(candidates), blocks=silent_blocks(context, candidates))


def uniform_scores(context: GrowthContext, candidates: Sequence[Candidate]) -> Tensor:
    """Scores that make every group grow by the same share: minus a candidate's rank over its group's size."""
    seen: dict[tuple[str, str], int] = {}
    scores = torch.zeros(len(candidates), dtype=torch.float64)
    sizes = {name: group.size for name, group in context.coupling.groups.items()}
    sizes.update({site.name: site.channels for site in context.sites if site.name not in sizes})
    sizes.update({block.name: 1 for block in context.blocks})
    for number, candidate in enumerate(candidates):
        key = (candidate.kind, candidate.where)
        scores[number] = -seen.get(key, 0) / sizes[candidate.where]
        seen[key] = seen.get(key, 0) + 1
    return scores


def add_noise(context: GrowthContext, name: str, widening: Widening, noise: float, generator: torch.Generator) -> None:
    """Let the copies of a widening part by random steps, and new units behind norms be read by random weights.

    What reads a new unit behind its norm is drawn at the size of its other weights, whatever the noise: it has no
    effect yet, and without it the unit would never be written to either.
    """
    group = context.coupling.groups[name]
    tensors = dict(context.network.named_parameters())
    role, count = ("in", widening.num_new) if group.norms else ("out", len(widening.sources))
    scale, drawn = (1.0, widening.outgoing) if group.norms else (noise, widening.steps)
    for slot in group.slots:
        if slot.role == role and slot.tensor in tensors and scale > 0 and count:
            tensor = tensors[slot.tensor].detach()
            shape = slot_shape(context.coupling, group, slot.tensor, slot.dim, count)
            spread = tensor.std() if tensor.numel() > 1 else tensor.abs().sum()
            drawn[slot.tensor] = (scale * spread * torch.randn(shape, generator=generator)).to(tensor)


def silent_blocks(context: GrowthContext, candidates: Sequence[Candidate]) -> list[BlockCopy]:
    """Copies of blocks without effect, each behind the block that it is a copy of."""
    wanted = [candidate.where for candidate in candidates if candidate.kind == "block"]
    return [block.copied() for block in context.blocks for _ in range(wanted.count(block.name))]


def silent_layers(candidates: Sequence[Candidate]) -> list[Deepening]:
    """New layers without effect, as wide as they have candidates."""
    widths: dict[str, int] = {}
    for candidate in candidates:
        if candidate.kind == "layer":
            widths[candidate.where] = widths.get(candidate.where, 0) + 1
    return [Deepening(site, width) for site, width in widths.items()]
