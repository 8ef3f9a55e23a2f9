"""A draft with more neurons, or with fewer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ramet.continual.networks.master import Draft, columns
from ramet.continual.networks.skeletons import Skeleton, norm_of, weights_of


def with_new(draft: Draft, counts: Sequence[int]) -> Draft:
    """A draft with new neurons at the end of each layer, which at first changes nothing.

    A new neuron has torch's own first weights for all neurons before it, drawn from the global generator (see
    ``seeded_globally``); older neurons and the head read it with weights of zero.

    Args:
        draft: It is read, and never changed.
        counts: How many new neurons each layer gets.
    """
    skeleton, network = draft.skeleton, draft.network
    widths = [width + count for width, count in zip(draft.widths, counts, strict=True)]
    layers = [
        skeleton.make_layer(place, in_width=widths[place - 1] if place else None, width=width)
        for place, width in enumerate(widths)
    ]
    head = skeleton.make_head(len(weights_of(network[-1]).weight), in_width=widths[-1])
    wide = skeleton.assemble(layers, head).to(weights_of(network[0]).weight.device)
    with torch.no_grad():
        for old_layer, new_layer in zip(network, wide, strict=True):
            old, new = weights_of(old_layer), weights_of(new_layer)
            rows, inputs = old.weight.shape[:2]
            new.weight[:rows, inputs:] = 0.0
            new.weight[:rows, :inputs] = old.weight
            assert old.bias is not None and new.bias is not None
            new.bias[:rows] = old.bias
            old_norm, new_norm = norm_of(old_layer), norm_of(new_layer)
            if old_norm is not None and new_norm is not None:
                for name, tensor in new_norm.state_dict().items():
                    source = old_norm.state_dict()[name]
                    tensor[: len(source)].copy_(source) if tensor.ndim else tensor.copy_(source)
    new_origins = [torch.full((count,), -1) for count in counts]
    return Draft(skeleton, wide, [torch.cat(pair) for pair in zip(draft.origins, new_origins, strict=True)])


def with_only(draft: Draft, keep: Sequence[Tensor]) -> Draft:
    """A draft with some of its neurons.

    Args:
        draft: It is read, and never changed.
        keep: For each layer which neurons stay, booleans.
    """
    skeleton, kept = draft.skeleton, [mask.nonzero()[:, 0] for mask in keep]
    layers: list[nn.Module] = []
    for place, layer in enumerate(draft.network):
        weight = weights_of(layer).weight
        rows = kept[place] if place < len(kept) else torch.arange(len(weight))
        inputs = columns(kept[place - 1], skeleton.spread(place)) if place else torch.arange(weight.shape[1])
        layers.append(cut_layer(skeleton, place, layer, rows, inputs, len(kept[place - 1]) if place else None))
    *body, head = layers
    origins = [origin[neurons] for origin, neurons in zip(draft.origins, kept, strict=True)]
    return Draft(skeleton, skeleton.assemble(body, head), origins)


def cut_layer(
    skeleton: Skeleton, place: int, layer: nn.Module, rows: Tensor, inputs: Tensor, in_width: int | None
) -> nn.Module:
    """A layer or a head with some of its rows and inputs."""
    is_head = place == len(skeleton.layers)
    made = (
        skeleton.make_head(len(rows), in_width=in_width)
        if is_head
        else skeleton.make_layer(place, in_width=in_width, width=len(rows))
    ).to(weights_of(layer).weight.device)
    with torch.no_grad():
        old, new = weights_of(layer), weights_of(made)
        assert old.bias is not None and new.bias is not None
        new.weight.copy_(old.weight[rows][:, inputs])
        new.bias.copy_(old.bias[rows])
        old_norm, new_norm = norm_of(layer), norm_of(made)
        if old_norm is not None and new_norm is not None:
            for name, tensor in new_norm.state_dict().items():
                source = old_norm.state_dict()[name]
                tensor.copy_(source[rows] if tensor.ndim else source)
    return made
