"""A search like DARTS on the cells that Firefly grows: the baseline of Table 1.

Liu, Simonyan and Yang, *DARTS: differentiable architecture search* (2019), in its first-order form. Every edge sums all
operations, weighed by a softmax over alpha; a step on training images for the weights follows a step on
validation images for alpha; in the end each edge keeps its heaviest operation.

Departs from DARTS so that only the search differs from Firefly's: the operations are those of
``cell_growth.py`` with the identity, every cell has its own alpha, and all edges are kept.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ramet.data import DataSet
from ramet.seeding import derive_seed, seeded_globally
from ramet.training import Batches, Settings, Step, make_optimizer
from ramet_papers.firefly.cell_growth import OPERATIONS, CellNetwork, CellSearch, Genotype, edges_of

CHOICES = (*OPERATIONS, "identity")
"""What DARTS weighs on each edge."""

ALPHA_RATE, ALPHA_DECAY = 3e-4, 1e-3
"""Of DARTS's Adam for alpha, whose first moment is 0.5."""


class Weighed(nn.Module):
    """One operation times its share of an edge; ``alphas`` are of all edges of the cell, shape [edges, choices]."""

    def __init__(self, operation: nn.Module, alphas: Tensor, edge: int, choice: int) -> None:
        super().__init__()
        self.operation, self.edge, self.choice = operation, edge, choice
        self._held = [alphas]  # in a list, so that it does not become a parameter of the network

    def forward(self, x: Tensor) -> Tensor:
        """What the edge gets from the operation."""
        result: Tensor = self._held[0][self.edge].softmax(0)[self.choice] * self.operation(x)
        return result


def search_darts(
    data: DataSet, search: CellSearch, settings: Settings, *, seed: int, alpha_rate: float = ALPHA_RATE
) -> list[Genotype]:
    """Search cells as DARTS does, the weights on training images and alpha on validation images.

    Operations are as wide as their cell, as in DARTS. The ``epochs`` of the settings are those of the whole search.
    Gives for each cell the operation of each edge.

    Raises:
        RunError: the loss is not finite.
    """
    num_edges = len(edges_of(search.num_nodes))
    device = data.train.x.device
    with seeded_globally(seed, "weights"):
        names = [[CHOICES] * num_edges] * len(search.widths)
        sizes = search.channels
        network = CellNetwork(
            names, sizes, sizes, search.reductions, data.in_channels, data.num_classes, search.num_nodes
        ).to(device)
        alphas = [(1e-3 * torch.randn(num_edges, len(CHOICES))).to(device).requires_grad_() for _ in search.widths]
    for cell, alpha in zip(network.cells, alphas, strict=True):
        for edge, operations in enumerate(cell.edges):  # type: ignore[arg-type]
            for choice, operation in enumerate(list(operations)):
                operations[choice] = Weighed(operation, alpha, edge, choice)
    batches = Batches(len(data.train), min(settings.batch_size, len(data.train)), derive_seed(seed, "train"))
    held = Batches(len(data.validation), min(settings.batch_size, len(data.validation)), derive_seed(seed, "alpha"))
    optimizer = make_optimizer(network, settings)
    architect = torch.optim.Adam(alphas, lr=alpha_rate, betas=(0.5, 0.999), weight_decay=ALPHA_DECAY)
    step_weights = Step(network, optimizer, only=list(network.parameters()), where=" of a search")
    step_alphas = Step(network, architect, params={}, only=alphas, where=" of a search")
    num_steps = settings.epochs * batches.steps_per_epoch
    network.train()

    def loss(x: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(network(x), y)

    for number in range(num_steps):
        own, rows = held[number], batches[number]
        step_alphas(number, alpha_rate, loss, data.validation.x[own], data.validation.y[own])
        rate = settings.learning_rate_at(number, num_steps)
        step_weights(number, rate, loss, data.train.x[rows], data.train.y[rows])
    return [tuple(CHOICES[choice] for choice in alpha.argmax(1).tolist()) for alpha in alphas]
