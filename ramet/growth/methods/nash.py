"""NASH: hill climbing over network morphisms; every step tries a few grown networks and keeps the best.

Elsken, Metzen and Hutter, *Simple and efficient architecture search for convolutional neural networks* (2017). The
neighbours of a network come from morphisms that keep its function: type II copies random units, type I adds layers
without effect. Each neighbour is trained for a while, and the best on validation data becomes the network.

The Firefly paper's released baseline keeps the last neighbour instead; here it is the best, as the paper says.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ramet.errors import ConfigError
from ramet.growth.base import Candidate, Edit, Growth, GrowthContext, Proposal, widenings_of
from ramet.growth.methods.net2net import add_noise, silent_blocks, silent_layers
from ramet.growth.methods.random_choice import score_by_training


class Nash(Growth):
    """Hill climbing: every step tries a few grown networks and keeps the best.

    Args:
        num_neighbours: networks that are tried in a step, 8 in the paper.
        epochs: passes over the training data for each; 17 in the paper.
        num_steps: mini-batches for each instead of epochs.
        noise: as in ``Net2Net``.
    """

    def __init__(
        self, *, num_neighbours: int = 8, epochs: float = 17, num_steps: int | None = None, noise: float = 0.01
    ) -> None:
        if num_neighbours < 1 or epochs < 0 or (num_steps or 0) < 0 or noise < 0:
            raise ConfigError(
                "num_neighbours must be at least 1, epochs, num_steps and noise not negative, but got "
                f"{num_neighbours}, {epochs}, {num_steps} and {noise}."
            )
        self.num_neighbours, self.epochs, self.num_steps, self.noise = num_neighbours, epochs, num_steps, noise

    def propose(self, context: GrowthContext) -> Proposal:
        """Networks within the step's budget, each by its own random morphisms."""
        everything = [
            Candidate("new" if group.norms else "split", name, unit)
            for name, group in context.coupling.groups.items()
            for unit in range(group.size)
        ]
        if context.max_layers:
            for site in context.sites:
                everything += [Candidate("layer", site.name, unit) for unit in range(site.channels)]
            everything += [Candidate("block", block.name, 0) for block in context.blocks]
        edits = []
        for number in range(self.num_neighbours):
            generator = context.generator("neighbour", number)
            scores = torch.rand(len(everything), generator=generator, dtype=torch.float64)
            chosen = [everything[i] for i in context.choose(everything, scores)]
            widenings = widenings_of(context.coupling, chosen)
            for name, widening in widenings.items():
                add_noise(context, name, widening, self.noise, generator)
            edits.append(Edit(widenings, silent_layers(chosen), blocks=silent_blocks(context, chosen)))
        return Proposal([Candidate("morph", "", i) for i in range(self.num_neighbours)], True, {"edits": edits})

    def score(self, context: GrowthContext, proposal: Proposal) -> Tensor:
        """Minus the validation loss after a short training."""
        steps = round(self.epochs * context.steps_per_epoch) if self.num_steps is None else self.num_steps
        return score_by_training(context, proposal, steps)

    def apply(self, context: GrowthContext, proposal: Proposal, chosen: Sequence[int]) -> Edit:
        """The best neighbour, with the weights that it was trained to."""
        edit: Edit = proposal.notes["edits"][chosen[0]]
        return edit
