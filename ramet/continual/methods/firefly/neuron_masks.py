"""Which of the master's neurons a new task can use: a binary mask, trained with real scores behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ramet.continual.networks.master import Draft
from ramet.continual.networks.skeletons import Skeleton
from ramet.continual.training import Saves, classification, train
from ramet.data import Split
from ramet.training import Settings, output_of

START, THRESHOLD = 0.01, 0.005


def binary(scores: Tensor, threshold: float = THRESHOLD) -> Tensor:
    """1 where a score is above the threshold, or for the best if none is, as a layer must have a neuron; else 0."""
    hard = (scores > threshold).to(scores.dtype)
    if not bool(hard.any()):
        hard = torch.zeros_like(scores)
        hard[scores.argmax()] = 1.0
    return hard + scores - scores.detach()


class MaskedNetwork(nn.Module):
    """A chain of layers, whose outputs are multiplied by binary masks over their neurons, and a head."""

    def __init__(self, network: nn.Sequential, widths: list[int]) -> None:
        super().__init__()
        self.network = network
        self.scores = nn.ParameterList([nn.Parameter(torch.full((width,), START)) for width in widths])

    def forward(self, x: Tensor) -> Tensor:
        """Logits, [batch, classes]."""
        *layers, head = self.network
        for layer, scores in zip(layers, self.scores, strict=True):
            x = layer(x)
            mask = binary(scores)
            x = x * mask.reshape(1, -1, *[1] * (x.ndim - 2))
        logits: Tensor = head(x)
        return logits


class MaskedReaders(nn.Module):
    """A module of which the weights that read units are multiplied by binary masks over these.

    What nobody reads might as well not be there: the same as masks over what the units give, wherever a module adds up,
    normalises and reshapes that.
    """

    def __init__(self, draft: Draft) -> None:
        super().__init__()
        self.network = draft.network
        self._draft = (draft,)  # which is no module, and holds the network a second time
        self.scores = nn.ParameterList([nn.Parameter(torch.full((width,), START)) for width in draft.widths])

    def forward(self, x: Tensor) -> Tensor:
        """Logits, [batch, classes]."""
        (draft,) = self._draft
        wiring, masked = draft.wiring, dict[str, Tensor]()
        for place, scores in enumerate(self.scores):
            mask = binary(scores)
            for name, dim in wiring.holders(place, reading=True):
                weight = masked.get(name, self.network.get_parameter(name))
                masked[name] = weight * wiring.along(name, dim, place, mask, draft.widths)
        return output_of(functional_call(self.network, masked, (x,)))


def train_masks(
    draft: Draft,
    data: Split,
    settings: Settings,
    *,
    seed: int,
    mask_rate: float,
    saves: Saves,
    most: Sequence[int] | None = None,
) -> list[Tensor]:
    """Train masks over all neurons of a draft, its head and batch norms, in place; gives those ``kept`` of each layer.

    The head learns at a tenth of the settings' learning rate: Adam takes larger steps than SGD.
    """
    masked: MaskedNetwork | MaskedReaders = MaskedReaders(draft)
    if isinstance(draft.network, nn.Sequential) and isinstance(draft.skeleton, Skeleton):
        masked = MaskedNetwork(draft.network, draft.widths)
    masked.to(data.x.device)
    shared = {f"network.{name}" for name in draft.wiring.shared}
    flags = {name: param.requires_grad for name, param in draft.network.named_parameters()}

    def rate(name: str) -> float:
        if name.startswith("scores."):
            return mask_rate / settings.learning_rate
        return 0.0 if name in shared or not flags[name.removeprefix("network.")] else 0.1

    for name, param in masked.named_parameters():
        param.requires_grad_(rate(name) > 0)
    train(
        masked,
        *classification(masked, data, settings),
        replace(settings, weight_decay=0.0),
        seed=seed,
        rate=rate,
        optimizer=lambda groups: torch.optim.Adam(groups, foreach=True),
        saves=saves,
        phase="masks",
    )
    for name, param in draft.network.named_parameters():
        param.requires_grad_(flags[name])
    limits = [len(scores) for scores in masked.scores] if most is None else most
    return [kept(scores.detach().cpu(), limit) for scores, limit in zip(masked.scores, limits, strict=True)]


def kept(scores: Tensor, most: int) -> Tensor:
    """The neurons that a mask keeps, ascending; of more than ``most`` those with the highest scores.

    >>> kept(torch.tensor([0.02, 0.0, 0.01, 0.03]), 2).tolist()
    [0, 3]
    """
    chosen = binary(scores).nonzero()[:, 0]
    best = scores[chosen].sort(descending=True, stable=True).indices[:most]
    return chosen[best.sort().values]
