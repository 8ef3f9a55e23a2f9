"""Two tasks on one small transformer: each asks for another word of a sentence, in words of its own or not.

``apart`` says from which word on the second task's begin: as many as a task has, and none are shared.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ramet.guards import Guard, step_sizes
from ramet.params import named_params

WORDS, LENGTH, CLASSES, SIZE = 12, 6, 3, 48


class Reader(nn.Module):
    """An encoder layer of torch between an embedding and a head for each task."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(2 * WORDS, SIZE), nn.Parameter(0.3 * torch.randn(1, LENGTH, SIZE))
        self.layer = nn.TransformerEncoderLayer(SIZE, 4, 2 * SIZE, dropout=0.0, batch_first=True)
        self.heads = nn.ModuleList([nn.Linear(SIZE, CLASSES), nn.Linear(SIZE, CLASSES)])

    def forward(self, x: Tensor, task: int) -> Tensor:
        """Logits, [batch, classes]."""
        logits: Tensor = self.heads[task](self.layer(self.words(x) + self.places).mean(1))
        return logits


def sentences(task: int, number: int, seed: int, apart: int = WORDS) -> tuple[Tensor, Tensor]:
    """Sentences in the words of a task, and the class of the first word, or of the last."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(WORDS, (number, LENGTH), generator=generator)
    return x + task * apart, x[:, 0 if task == 0 else -1] % CLASSES


def learn(
    network: Reader, guard: Guard, task: int, *, steps: int, seed: int, rate: float = 3e-3, apart: int = WORDS
) -> None:
    """Train one task by AdamW in the loop that a user would write."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=0.01)
    params = named_params(network)
    sizes = step_sizes(optimizer, params)
    for step in range(steps):
        x, y = sentences(task, 64, 1000 * seed + step, apart)
        optimizer.zero_grad()
        with guard.watch(network):
            cross_entropy(network(x, task), y).backward()
        with guard.step(params, sizes):
            optimizer.step()


def finish(network: Reader, guard: Guard, task: int) -> None:
    """A task is learned: the guard sees it once more, as it is now."""
    guard.discard()  # what it saw while the network was another
    x, y = sentences(task, 512, seed=7)
    network.zero_grad()
    with guard.watch(network):
        cross_entropy(network(x, task), y).backward()
    guard.remember(named_params(network))


def accuracy(network: Reader, task: int, apart: int = WORDS, seed: int = 999_999) -> float:
    """On sentences that no training has."""
    x, y = sentences(task, 2000, seed, apart)
    with torch.no_grad():
        return float((network(x, task).argmax(-1) == y).double().mean())
