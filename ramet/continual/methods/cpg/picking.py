"""Which weights of earlier tasks a new one uses: a binary mask over single weights, with real scores behind it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ramet.continual.networks.skeletons import weights_of

START, THRESHOLD = 0.01, 0.005
"""Where scores begin and above which a weight is picked, as in Piggyback, which the paper takes its masks from."""


def picked(scores: Tensor) -> Tensor:
    """1 where a score is above the threshold and 0 elsewhere; its gradient passes straight through to the scores.

    >>> picked(torch.tensor([0.01, 0.004])).tolist()
    [1.0, 0.0]
    """
    return (scores > THRESHOLD).to(scores.dtype) + scores - scores.detach()


class PickedNetwork(nn.Module):
    """A network of which some weights are multiplied by a learned binary mask; all other weights are used as they are.

    Args:
        network: A chain of layers and a head.
        maskable: For each layer which weights are picked from, booleans of the weights' shape.
    """

    def __init__(self, network: nn.Sequential, maskable: Sequence[Tensor]) -> None:
        super().__init__()
        self.network = network
        self._maskable = list(maskable)
        # Scores of the weights that are picked from, and of no others: [number of such weights].
        self.scores = nn.ParameterList(
            [nn.Parameter(torch.full((int(mask.sum()),), START, device=mask.device)) for mask in maskable]
        )

    def effective(self, place: int) -> Tensor:
        """The weights of a layer as this task sees them."""
        weight, mask = weights_of(self.network[place]).weight, self._maskable[place]
        return weight * torch.ones_like(weight).masked_scatter(mask, picked(self.scores[place]))

    def forward(self, x: Tensor) -> Tensor:
        """Logits, [batch, classes]."""
        *layers, head = self.network
        for place, layer in enumerate(layers):
            x = functional_call(layer, {"weights.weight": self.effective(place)}, (x,))
        logits: Tensor = head(x)
        return logits

    @torch.no_grad()
    def picks(self) -> list[Tensor]:
        """For each layer whether each weight that is picked from is used, [number of such weights]."""
        return [scores > THRESHOLD for scores in self.scores]
