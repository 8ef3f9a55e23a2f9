"""The master network: the neurons of all tasks, of which each task uses those that its masks name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ramet.continual.networks.keeping import copied, num_trained, packed, unpacked
from ramet.continual.networks.skeletons import Skeleton, weights_of
from ramet.continual.training import Held


class Draft:
    """The network of one task while it is being made: a compact chain, and where each of its neurons comes from.

    ``origins`` has for each layer the master's neuron that each of its neurons is, -1 for one of its own; [neurons].
    """

    def __init__(self, skeleton: Skeleton, network: nn.Sequential, origins: Sequence[Tensor]) -> None:
        self.skeleton, self.network, self.origins = skeleton, network, list(origins)

    @classmethod
    def of_own(cls, skeleton: Skeleton, network: nn.Sequential) -> Draft:
        """A network of which all neurons are its own."""
        return cls(skeleton, network, [torch.full((len(weights_of(layer).weight),), -1) for layer in network][:-1])

    @property
    def widths(self) -> list[int]:
        """The neurons of each layer."""
        return [len(origin) for origin in self.origins]

    def locked_in(self, place: int) -> Tensor:
        """Which inputs of layer ``place`` come from the master: all of an image, and its neurons; [inputs]."""
        if place == 0:
            channels = self.skeleton.shape_before(0)[0]
            return torch.ones(channels * self.skeleton.spread(0), dtype=torch.bool)
        return (self.origins[place - 1] >= 0).repeat_interleave(self.skeleton.spread(place))

    def held(self) -> list[Held]:
        """What no training may change: weights between two neurons of the master, and the biases of such neurons."""
        held = []
        for place, origin in enumerate(self.origins):
            weights = weights_of(self.network[place])
            locked = origin >= 0
            pairs = locked[:, None] & self.locked_in(place)[None, :]
            held.append(Held(weights.weight, like(pairs, weights.weight)))
            held.append(Held(weights.bias, locked.to(weights.bias.device)))
        return held


class Master:
    """All neurons of all tasks, layer by layer, and for each task a mask over them, a head and batch norms of its own.

    A neuron has weights from every neuron before it; those between neurons that no task uses together are zero and
    belong to nobody: they are neither counted nor stored. Neurons are only ever added, so that what a mask takes out
    stays the same, bit for bit. While a task is learned the weights lie in dense matrices, zeros included.
    """

    def __init__(self, skeleton: Skeleton, device: str) -> None:
        self.skeleton, self.device = skeleton, device
        self.weights: list[Tensor] = []
        self.biases: list[Tensor] = []
        for place in range(len(skeleton.layers)):
            in_width = skeleton.shape_before(0)[0] if place == 0 else 0
            shape = list(weights_of(skeleton.make_layer(place)).weight.shape)
            shape[:2] = [0, in_width * skeleton.spread(place)]
            self.weights.append(torch.zeros(shape, device=device))
            self.biases.append(torch.zeros(0, device=device))
        self._used = self._unused()
        self.masks: list[list[Tensor]] = []
        self.tops: list[dict[str, Tensor]] = []

    @property
    def widths(self) -> list[int]:
        """The neurons of each layer, over all tasks."""
        return [len(bias) for bias in self.biases]

    def draft(self, chosen: Sequence[Tensor], num_classes: int) -> Draft:
        """Some neurons, ascending for each layer, as a network; its head and norms come from the global generator."""
        network = self.skeleton.make_of_widths([len(neurons) for neurons in chosen], num_classes).to(self.device)
        for place, neurons in enumerate(chosen):
            weights = weights_of(network[place])
            inputs = self._inputs(place, chosen)
            with torch.no_grad():
                weights.weight.copy_(self.weights[place][neurons[:, None], inputs[None, :]])
                weights.bias.copy_(self.biases[place][neurons])
        return Draft(self.skeleton, network, [neurons.clone() for neurons in chosen])

    def _inputs(self, place: int, numbers: Sequence[Tensor]) -> Tensor:
        """Which inputs of a layer's weights come from some neurons of each layer: of an image, all."""
        if place == 0:
            return torch.arange(self.weights[0].shape[1])
        return columns(numbers[place - 1], self.skeleton.spread(place))

    def add(self, draft: Draft) -> None:
        """Take in the neurons of a finished task that are its own, and remember which ones it uses."""
        before = self.widths
        numbers: list[Tensor] = []
        for place, origin in enumerate(draft.origins):
            weights = weights_of(draft.network[place])
            own = origin < 0
            number = origin.clone()
            number[own] = torch.arange(before[place], before[place] + int(own.sum()))
            shape = list(self.weights[place].shape)
            shape[0] = before[place] + int(own.sum())
            if place:
                shape[1] = self.widths[place - 1] * self.skeleton.spread(place)
            inputs = self._inputs(place, numbers)
            grown = torch.zeros(shape, device=self.device)
            grown[: before[place], : self.weights[place].shape[1]] = self.weights[place]
            # Locked pairs are written back as they were: the training held them, bit for bit.
            grown[number[:, None], inputs[None, :]] = weights.weight.detach()
            self.weights[place] = grown
            self.biases[place] = torch.cat([self.biases[place], weights.bias.detach()[own]])
            numbers.append(number)
        self.masks.append([_mask(number, width) for number, width in zip(numbers, self.widths, strict=True)])
        self._use(numbers)
        names = [name for name in draft.network.state_dict() if ".norm." in name or name.startswith("head.")]
        state, orders = draft.network.state_dict(), [torch.argsort(number) for number in numbers]
        self.tops.append({name: self._sorted(name, state[name], orders).clone() for name in names})

    def _unused(self) -> list[Tensor]:
        """Which neurons some task uses together, [neurons, neurons before], when there is no neuron yet."""
        channels = self.skeleton.shape_before(0)[0]
        return [torch.zeros(0, 0 if place else channels, dtype=torch.bool) for place in range(len(self.weights))]

    def _use(self, numbers: Sequence[Tensor]) -> None:
        """Note that a task uses some neurons of each layer together."""
        before = torch.arange(self.skeleton.shape_before(0)[0])
        widths = [len(before), *self.widths]
        for place, number in enumerate(numbers):
            known = self._used[place]
            used = torch.zeros(widths[place + 1], widths[place], dtype=torch.bool)
            used[: known.shape[0], : known.shape[1]] = known
            used[number[:, None], before[None, :]] = True
            self._used[place], before = used, number

    def _pairs(self, place: int) -> Tensor:
        """Which weights of a layer are in some task's network, [outputs, inputs]."""
        return self._used[place].repeat_interleave(self.skeleton.spread(place), dim=1).to(self.device)

    def _sorted(self, name: str, value: Tensor, orders: Sequence[Tensor]) -> Tensor:
        """A tensor of a batch norm or a head, in the order of the master's numbers instead of the draft's."""
        if value.ndim == 0:
            return value
        if name == "head.weights.weight":
            return value[:, columns(orders[-1], self.skeleton.spread(len(orders)))]
        if name.startswith("head."):
            return value
        layers = [layer.name for layer in self.skeleton.layers]
        return value[orders[layers.index(name.split(".")[0])]]

    def network(self, place: int, num_classes: int) -> nn.Sequential:
        """The compact network of a task, taken out by its masks."""
        chosen = [mask.nonzero()[:, 0] for mask in self.masks[place]]
        network = self.draft(chosen, num_classes).network
        network.load_state_dict(self.tops[place], strict=False)
        return network.eval()

    def uses(self, place: int) -> list[list[int]]:
        """For each layer, how many neurons a task uses of those that came with the first task, the second, ..."""
        counts = []
        for layer, mask in enumerate(self.masks[place]):
            # Neurons are only ever added, so that a mask is as long as its layer was when its task was finished.
            ends = [len(masks[layer]) for masks in self.masks[: place + 1]]
            starts = [0, *ends[:-1]]
            counts.append([int(mask[start:end].sum()) for start, end in zip(starts, ends, strict=True)])
        return counts

    def num_parameters(self) -> int:
        """The weights that are in some task's network, and those of all heads and batch norms."""
        kernels = [weights[:1, :1].numel() if weights.numel() else 0 for weights in self.weights]
        spreads = [self.skeleton.spread(place) for place in range(len(self.weights))]
        pairs = [int(used.sum()) for used in self._used]
        inside = sum(math.prod(sizes) for sizes in zip(pairs, spreads, kernels, strict=True))
        return inside + sum(self.widths) + num_trained(self.tops)

    def state(self) -> dict[str, Any]:
        """Tensors, with a bit for each neuron of a mask."""
        return {
            "weights": [weights[self._pairs(place)] for place, weights in enumerate(self.weights)],
            "biases": copied(self.biases),
            "masks": packed(self.masks),
            "lengths": [[len(mask) for mask in masks] for masks in self.masks],
            "tops": copied(self.tops),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """The inverse of ``state``."""
        self.biases, self.tops = copied(state["biases"], self.device), copied(state["tops"], self.device)
        self.masks = unpacked(state["masks"], state["lengths"])
        self._used = self._unused()
        for masks in self.masks:
            self._use([mask.nonzero()[:, 0] for mask in masks])
        for place, values in enumerate(state["weights"]):
            pairs = self._pairs(place)
            if values.ndim == self.weights[place].ndim:  # earlier versions stored weights that belong to nobody as well
                self.weights[place] = values.to(self.device)
            else:
                self.weights[place] = torch.zeros(*pairs.shape, *values.shape[1:], device=self.device)
                self.weights[place][pairs] = values.to(self.device)


def columns(neurons: Tensor, spread: int) -> Tensor:
    """The inputs that come from some neurons, each of which has ``spread`` neighbouring ones.

    >>> columns(torch.tensor([0, 2]), 2).tolist()
    [0, 1, 4, 5]
    """
    return (neurons[:, None] * spread + torch.arange(spread)).flatten()


def like(pairs: Tensor, weight: Tensor) -> Tensor:
    """A mask over [out, in] in the shape of a linear map's or a convolution's weight, kernels of size 1."""
    return pairs.reshape(*pairs.shape, *[1] * (weight.ndim - 2)).to(weight.device)


def _mask(numbers: Tensor, width: int) -> Tensor:
    mask = torch.zeros(width, dtype=torch.bool)
    mask[numbers] = True
    return mask
