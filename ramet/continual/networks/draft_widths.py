"""A draft with more neurons, or with fewer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ramet.continual.networks.master import Draft, columns
from ramet.continual.networks.skeletons import norm_of, weights_of


@torch.no_grad()
def with_new(draft: Draft, counts: Sequence[int]) -> Draft:
    """A draft with new neurons at the end of each layer, which at first changes nothing; the old one stays as it is.

    A new neuron has torch's own first weights for all neurons before it, drawn from the global generator (see
    ``seeded_globally``); older neurons and the head read it with weights of zero.
    """
    skeleton, network = draft.skeleton, draft.network
    widths = [width + count for width, count in zip(draft.widths, counts, strict=True)]
    wide = skeleton.make_of_widths(widths, len(weights_of(network[-1]).weight))
    wide = wide.to(weights_of(network[0]).weight.device)
    for old_layer, new_layer in zip(network, wide, strict=True):
        old, new = weights_of(old_layer), weights_of(new_layer)
        rows, inputs = old.weight.shape[:2]
        new.weight[:rows, inputs:] = 0.0
        new.weight[:rows, :inputs] = old.weight
        new.bias[:rows] = old.bias
        for source, tensor in _norms(old_layer, new_layer):
            tensor[: len(source)].copy_(source) if tensor.ndim else tensor.copy_(source)
    new_origins = [torch.full((count,), -1) for count in counts]
    return Draft(skeleton, wide, [torch.cat(pair) for pair in zip(draft.origins, new_origins, strict=True)])


@torch.no_grad()
def with_only(draft: Draft, keep: Sequence[Tensor]) -> Draft:
    """A draft with some of its neurons, given by booleans for each layer; the old one stays as it is."""
    skeleton, kept = draft.skeleton, [mask.nonzero()[:, 0] for mask in keep]
    network, head = draft.network, weights_of(draft.network[-1]).weight
    less = skeleton.make_of_widths([len(neurons) for neurons in kept], len(head)).to(head.device)
    for place, (old_layer, new_layer) in enumerate(zip(network, less, strict=True)):
        old, new = weights_of(old_layer), weights_of(new_layer)
        rows = kept[place] if place < len(kept) else torch.arange(len(head))
        inputs = columns(kept[place - 1], skeleton.spread(place)) if place else torch.arange(old.weight.shape[1])
        new.weight.copy_(old.weight[rows][:, inputs])
        new.bias.copy_(old.bias[rows])
        for source, tensor in _norms(old_layer, new_layer):
            tensor.copy_(source[rows] if tensor.ndim else source)
    return Draft(skeleton, less, [origin[neurons] for origin, neurons in zip(draft.origins, kept, strict=True)])


def _norms(old_layer: nn.Module, new_layer: nn.Module) -> list[tuple[Tensor, Tensor]]:
    """The tensors of two layers' batch norms, in pairs; none if they have no batch norm."""
    old, new = norm_of(old_layer), norm_of(new_layer)
    if old is None or new is None:
        return []
    return [(old.state_dict()[name], tensor) for name, tensor in new.state_dict().items()]
