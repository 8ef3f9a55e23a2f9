"""The master network: the units of all tasks, of which each task uses those that its masks name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from ramet.continual.networks.keeping import copied, num_trained, packed, unpacked
from ramet.continual.networks.matrices import matrices
from ramet.continual.networks.template import Template
from ramet.continual.networks.wiring import Wiring
from ramet.continual.training import Held
from ramet.growth.surgery.writing import read_tensor


class Draft:
    """The network of one task while it is being made: a compact one, and where each of its units comes from.

    Units are the neurons of a chain's layers, or a module's channels, hidden units and heads (``wiring.py``).
    ``origins`` has for each place the master's unit that each of its units is, -1 for one of its own; [units]. Tensors
    that hold no unit are the ``is_first`` task's, and stay as they are in later ones.
    """

    def __init__(
        self, skeleton: Template, network: nn.Module, origins: Sequence[Tensor], *, is_first: bool = False
    ) -> None:
        self.skeleton, self.network, self.origins, self.is_first = skeleton, network, list(origins), is_first

    @classmethod
    def of_own(cls, skeleton: Template, network: nn.Module) -> Draft:
        """A network of which all units are its own."""
        widths = skeleton.wiring.widths({name: tensor.shape for name, tensor in network.state_dict().items()})
        return cls(skeleton, network, [torch.full((width,), -1) for width in widths], is_first=True)

    @property
    def wiring(self) -> Wiring:
        """Which units the tensors of the network hold."""
        return self.skeleton.wiring

    @property
    def widths(self) -> list[int]:
        """The units of each place."""
        return [len(origin) for origin in self.origins]

    @property
    def head_weight(self) -> Tensor:
        """The matrix of the head, [classes, features]."""
        return read_tensor(self.network, self.wiring.head_weight)

    def made_of_widths(self, widths: Sequence[int]) -> nn.Module:
        """A network like this one of other widths, drawn from the global generator."""
        head = self.head_weight
        return self.skeleton.make_of_widths(widths, len(head)).to(head.device)

    def params(self, *, head: bool = False) -> dict[str, nn.Parameter]:
        """The parameters that a master shares between tasks, in order; and the matrix of the head, if wanted."""
        names = (*self.wiring.shared, *([self.wiring.head_weight] if head else []))
        found = {name: read_tensor(self.network, name) for name in names}
        return {name: tensor for name, tensor in found.items() if isinstance(tensor, nn.Parameter)}

    def matrices(self, *, head: bool = False) -> dict[str, nn.Parameter]:
        """Those of the parameters that are matrices of layers and hold units."""
        found = matrices(self.network)
        return {n: param for n, param in self.params(head=head).items() if n in found and self.wiring.dims(n)}

    def norms(self) -> list[nn.Module]:
        """The modules that have statistics of the task's own."""
        own = [name for name, _ in self.network.named_buffers() if name not in self.wiring.shared]
        return [self.network.get_submodule(name) for name in dict.fromkeys(name.rpartition(".")[0] for name in own)]

    def locked_in(self, place: int) -> Tensor:
        """Which inputs of a chain's layer come from the master: all of an image, and its neurons; [inputs]."""
        name = f"{self.wiring.names[place]}.weights.weight"
        locked = self.wiring.marked(name, 1, self.locked())
        return locked.expand(read_tensor(self.network, name).shape[1])

    def locked(self) -> list[Tensor]:
        """For each place, which units are the master's."""
        return [origin >= 0 for origin in self.origins]

    def old(self, name: str) -> Tensor:
        """Which values of a shared tensor are the master's, those between its units; broadcast."""
        param = read_tensor(self.network, name)
        mask = self.wiring.mask(name, self.locked(), param.device)
        return mask & (not self.is_first)

    def held(self) -> list[Held]:
        """What no training may change: weights between two units of the master, and the biases of such units."""
        return [Held(param, self.old(name)) for name, param in self.params().items()]


class Master:
    """All units of all tasks, place by place, and for each task a mask over them, and what is the task's own.

    A unit has weights from every unit that it can read; those between units that no task uses together are zero and
    belong to nobody: they are neither counted nor stored. Units are only ever added, so that what a mask takes out
    stays the same, bit for bit. While a task is learned the weights lie in dense tensors, zeros included.
    """

    def __init__(self, skeleton: Template, device: str) -> None:
        self.skeleton, self.device = skeleton, device
        self.widths: list[int] = [0] * len(skeleton.wiring.names)
        self.tensors: dict[str, Tensor] = {}
        self.masks: list[list[Tensor]] = []
        self.tops: list[dict[str, Tensor]] = []

    @property
    def wiring(self) -> Wiring:
        """Which units the tensors hold."""
        return self.skeleton.wiring

    @property
    def weights(self) -> list[Tensor]:
        """The shared tensors that are no biases of units, in order."""
        return [tensor for name, tensor in self.tensors.items() if not self._is_bias(name)]

    def _is_bias(self, name: str) -> bool:
        return len(self.wiring.layouts[name]) == 1 and self.wiring.dims(name) == [0]

    def draft(self, chosen: Sequence[Tensor], num_classes: int) -> Draft:
        """Some units, ascending for each place, as a network; what is its own comes from the global generator."""
        network = self.skeleton.make_of_widths([len(units) for units in chosen], num_classes).to(self.device)
        with torch.no_grad():
            for name, tensor in self.tensors.items():
                read_tensor(network, name).copy_(self.wiring.take(name, tensor, self.widths, chosen))
        return Draft(self.skeleton, network, [units.clone() for units in chosen])

    def add(self, draft: Draft) -> None:
        """Take in the units of a finished task that are its own, and remember which ones it uses."""
        wiring, before, numbers, widths = self.wiring, self.widths, [], []
        for width, origin in zip(before, draft.origins, strict=True):
            own, number = origin < 0, origin.clone()
            number[own] = torch.arange(width, width + int(own.sum()))
            numbers.append(number)
            widths.append(width + int(own.sum()))
        for name in wiring.shared:
            value = read_tensor(draft.network, name).detach()
            grown = torch.zeros(wiring.shape(name, widths), dtype=value.dtype, device=self.device)
            if name in self.tensors:
                wiring.put(name, grown, widths, [torch.arange(width) for width in before], self.tensors[name])
            # What is locked is written back as it was: the training held it, bit for bit.
            wiring.put(name, grown, widths, numbers, value)
            self.tensors[name] = grown
        self.widths = widths
        self.masks.append([_mask(number, width) for number, width in zip(numbers, widths, strict=True)])
        orders = [torch.argsort(number) for number in numbers]
        own_tensors = {
            name: wiring.take(name, value, draft.widths, orders).clone()
            for name, value in draft.network.state_dict().items()
            if name in wiring.layouts and name not in wiring.shared
        }
        self.tops.append(own_tensors)

    def _used(self, name: str) -> Tensor:
        """Which values of a shared tensor are in some task's network; broadcast over dimensions that have no units."""
        wiring = self.wiring
        used = torch.zeros([1] * len(wiring.layouts[name]), dtype=torch.bool)
        for masks in self.masks:
            flags = [pad(mask, (0, width - len(mask))) for mask, width in zip(masks, self.widths, strict=True)]
            used = used | wiring.mask(name, flags)
        return used

    def network(self, place: int, num_classes: int) -> nn.Module:
        """The compact network of a task, taken out by its masks."""
        chosen = [mask.nonzero()[:, 0] for mask in self.masks[place]]
        network = self.draft(chosen, num_classes).network
        network.load_state_dict(self.tops[place], strict=False)
        return network.eval()

    def uses(self, place: int) -> list[list[int]]:
        """For each place, how many units a task uses of those that came with the first task, the second, ..."""
        counts = []
        for layer, mask in enumerate(self.masks[place]):
            # Units are only ever added, so that a mask is as long as its place was when its task was finished.
            ends = [len(masks[layer]) for masks in self.masks[: place + 1]]
            starts = [0, *ends[:-1]]
            counts.append([int(mask[start:end].sum()) for start, end in zip(starts, ends, strict=True)])
        return counts

    def num_parameters(self) -> int:
        """The weights that are in some task's network, and those that are each task's own."""
        inside = 0
        for name, tensor in self.tensors.items():
            if name not in self.skeleton.untrained and tensor.numel():
                used = self._used(name)
                inside += int(used.sum()) * (tensor.numel() // used.numel())
        return inside + num_trained(self.tops, self.skeleton.untrained)

    def state(self) -> dict[str, Any]:
        """Tensors, with a bit for each unit of a mask."""
        stored = {name: tensor[self._used(name).expand_as(tensor)] for name, tensor in self.tensors.items()}
        return {
            "weights": [values for name, values in stored.items() if not self._is_bias(name)],
            "biases": copied([self.tensors[name] for name in stored if self._is_bias(name)]),
            "masks": packed(self.masks),
            "lengths": [[len(mask) for mask in masks] for masks in self.masks],
            "tops": copied(self.tops),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """The inverse of ``state``."""
        self.tops, self.tensors = copied(state["tops"], self.device), {}
        self.masks = unpacked(state["masks"], state["lengths"])
        if not self.masks:
            return
        self.widths = list(state["lengths"][-1])
        weights, biases = iter(state["weights"]), iter(state["biases"])
        for name in self.wiring.shared:
            values = next(biases if self._is_bias(name) else weights).to(self.device)
            tensor = torch.zeros(self.wiring.shape(name, self.widths), dtype=values.dtype, device=self.device)
            if values.shape == tensor.shape:  # earlier versions stored weights that belong to nobody as well
                tensor.copy_(values)
            else:
                tensor[self._used(name).expand_as(tensor).to(self.device)] = values.flatten()
            self.tensors[name] = tensor


def columns(neurons: Tensor, spread: int) -> Tensor:
    """The inputs that come from some neurons, each of which has ``spread`` neighbouring ones.

    >>> columns(torch.tensor([0, 2]), 2).tolist()
    [0, 1, 4, 5]
    """
    return (neurons[:, None] * spread + torch.arange(spread)).flatten()


def _mask(numbers: Tensor, width: int) -> Tensor:
    mask = torch.zeros(width, dtype=torch.bool)
    mask[numbers] = True
    return mask
