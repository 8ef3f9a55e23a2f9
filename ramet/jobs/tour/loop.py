"""The tour's last part: a training loop as everybody writes it, with three lines for a guard. The report shows it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ramet.guards import Guard
from ramet.params import named_params


def train(
    network: nn.Module,
    tasks: list[tuple[Tensor, Tensor]],
    guard: Guard,
    epochs: int,
) -> list[list[Tensor]]:
    """Learn tasks one after the other; gives the weights after each epoch."""
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    params, kept = named_params(network), []
    for x, y in tasks:
        for _ in range(epochs):
            for batch in torch.randperm(len(x)).split(32):  # type: ignore[no-untyped-call]
                optimizer.zero_grad()
                with guard.watch(network):  # 1
                    loss = nn.functional.cross_entropy(network(x[batch]), y[batch])
                    loss.backward()  # type: ignore[no-untyped-call]
                with guard.step(params, 0.1):  # 2: the learning rate
                    optimizer.step()
            kept.append([weight.detach().clone() for weight in network.parameters()])
        guard.remember(params)  # 3: a task is finished
    return kept
