"""The order of units by their importance, without a change of what the network computes.

A size keeps the first units of each group, so the least important ones come last (Cai et al., *Once-for-all*, 2020,
section 3.3: channels are sorted before the network shrinks). All tensors that hold a unit are put in the same order,
and only the order of sums changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from ramet.tracing.coupling import Coupling, Group, evaluating
from ramet.tracing.expansions import Expansion, expand_layout
from ramet.training.outputs import output_of

NUM_PARTS = 8
"""Parts of the labelled inputs whose estimates are squared and added up."""


def units_of(coupling: Coupling, group: Group, tensor: str, dim: int) -> Tensor:
    """For each entry of a dimension the unit that it belongs to, or -1, shape [entries]."""
    parts = []
    for term in coupling.layouts[tensor][dim]:
        shape = [axis.size for axis in term]
        if group.axis in term:
            place = term.index(group.axis)
            view = [-1 if i == place else 1 for i in range(len(shape))]
            parts.append(torch.arange(group.size).view(view).expand(shape).flatten())
        else:
            parts.append(torch.full((int(torch.tensor(shape).prod()),), -1))
    return torch.cat(parts)


def magnitudes(network: nn.Module, coupling: Coupling, group: Group) -> Tensor:
    """The importance of units by their weights alone, shape [units].

    For each parameter that holds the units, the norm of each unit's entries by the mean over units; the sum of all. A
    convolution before a batch norm may have any scale, which is why the norm's own weights count as much.
    """
    tensors = dict(network.named_parameters())
    total = torch.zeros(group.size, dtype=torch.float64)
    for slot in group.slots:
        if slot.tensor not in tensors:
            continue
        squares = _by_unit(tensors[slot.tensor].detach().double().square(), coupling, group, slot.tensor, slot.dim)
        norms = squares.sqrt()
        total += norms / norms.mean().clamp_min(1e-30)
    return total


def taylor(
    network: nn.Module,
    coupling: Coupling,
    groups: Sequence[Group],
    x: Tensor,
    y: Tensor,
    loss: Callable[[Tensor, Tensor], Tensor],
) -> dict[str, Tensor]:
    """How much the loss would change, to first order, without each unit: the squares of sums of ``w dL/dw``.

    The sum runs over the weights that read the unit, and the squares over ``NUM_PARTS`` parts of the inputs (Molchanov
    et al., *Importance estimation for neural network pruning*, 2019, Eq. 8, for whole units). Where norms run over the
    units, all weights that hold a unit count.
    """
    tensors = dict(network.named_parameters())
    totals = {group.name: torch.zeros(group.size, dtype=torch.float64) for group in groups}
    for inputs, targets in zip(x.tensor_split(NUM_PARTS), y.tensor_split(NUM_PARTS), strict=True):
        if not len(inputs):
            continue
        with evaluating(network), torch.enable_grad():
            value = loss(output_of(network(inputs)), targets)
        gradients = torch.autograd.grad(value, list(tensors.values()), allow_unused=True)
        products = {
            name: (tensor.detach() * gradient).double()
            for (name, tensor), gradient in zip(tensors.items(), gradients, strict=True)
            if gradient is not None
        }
        for group in groups:
            change = torch.zeros(group.size, dtype=torch.float64)
            for slot in group.slots:
                if slot.tensor in products and (group.norms or slot.role == "in"):
                    change += _by_unit(products[slot.tensor], coupling, group, slot.tensor, slot.dim)
            totals[group.name] += change.square()
    return totals


def reorder(network: nn.Module, coupling: Coupling, orders: Mapping[str, Tensor]) -> None:
    """Put the units of groups in other orders, in place: unit ``order[i]`` becomes unit i."""
    moves = {coupling.groups[name].axis: Expansion(order.cpu()) for name, order in orders.items()}
    tensors = dict([*network.named_parameters(), *network.named_buffers()])
    with torch.no_grad():
        for name, layouts in coupling.layouts.items():
            for dim, layout in enumerate(layouts):
                if any(axis in moves for term in layout for axis in term):
                    index = expand_layout(layout, moves).index.to(tensors[name].device)
                    tensors[name].copy_(tensors[name].index_select(dim, index))


def by_importance(scores: Tensor) -> Tensor:
    """The places of units, the most important first; equal ones stay in their order."""
    return torch.argsort(scores, descending=True, stable=True)


def _by_unit(values: Tensor, coupling: Coupling, group: Group, tensor: str, dim: int) -> Tensor:
    """The sum of the values of each unit, shape [units]."""
    sums = values.movedim(dim, 0).reshape(values.shape[dim], -1).sum(1).cpu()
    units = units_of(coupling, group, tensor, dim)
    return torch.zeros(group.size + 1, dtype=torch.float64).index_add(0, units % (group.size + 1), sums)[:-1]
