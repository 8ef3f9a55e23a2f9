"""The tour's last part: a training loop as everybody writes it, with three lines for a guard. The report shows it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ramet.guards import Guard
from ramet.params import named_params


def train(network: nn.Module, tasks: list[tuple[Tensor, Tensor]], guard: Guard, epochs: int) -> list[list[Tensor]]:
    """Learn tasks one after the other; gives the network's weights after each epoch of each task."""
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    params, kept = named_params(network), []
    for x, y in tasks:
        for _ in range(epochs):
            for batch in torch.randperm(len(x)).split(32):
                optimizer.zero_grad()
                with guard.watch(network):  # 1: what the layers see
                    nn.functional.cross_entropy(network(x[batch]), y[batch]).backward()
                with guard.step(params, 0.1):  # 2: around the step, with its learning rate
                    optimizer.step()
            kept.append([weight.detach().clone() for weight in network.parameters()])
        guard.remember(params)  # 3: this task is learned
    return kept
