"""What all parts have in common: the text, the recipe, a training in a loop written by hand, and the figures."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from benchmarks.language.model import LanguageModel
from benchmarks.language.records import Record
from benchmarks.language.scale import Scale, Shape
from ramet.costs import count_flops, count_parameters
from ramet.data import DataSet
from ramet.data.text import load_text
from ramet.seeding import seeded_globally, torch_generator
from ramet.training import Recipe, measure
from ramet.training.metrics import bits

RECIPE = {
    "optimizer": "adamw",
    "final_learning_rate": 0.0,
    "weight_decay": 0.01,
    "undecayed": "vectors",
    "warmup": 0.05,
    "clip_norm": 1.0,
    "metric": "bits",
}
"""AdamW with warm-up and a cosine, the same for every arm."""


def read_treebank(scale: Scale) -> DataSet:
    """Penn Treebank by characters."""
    return load_text(
        "ptb", tokens="characters", window=scale.length, train_size=scale.windows, eval_size=scale.held_out
    )


def new_network(data: DataSet, shape: Shape, seed: int) -> nn.Module:
    """A language model whose weights follow from the seed."""
    width, depth, heads = shape
    with seeded_globally(seed, "language model"):
        return LanguageModel(data.form.words, data.form.shape[0], width, depth, heads)


def work_a_window(network: nn.Module, data: DataSet) -> int:
    """Multiply-adds of training on one window: forward, and backward to inputs and to weights."""
    return 3 * count_flops(network, data.form.shape, dtype=data.form.dtype)


def figures(network: nn.Module, data: DataSet) -> Record:
    """Bits a character on the validation and on the test split."""
    splits = {"validation": data.validation, "test": data.test}
    found = {name: measure(network, split.x, split.y, bits()) for name, split in splits.items()}
    return {**found, "parameters": count_parameters(network)}


def train_by_hand(network: nn.Module, data: DataSet, scale: Scale, rate: float, seed: int, num_steps: int) -> nn.Module:
    """The recipe as a loop of one's own, for so many steps; windows come in random order, all before any again."""
    schedule = Recipe(learning_rate=rate, final_learning_rate=0.0, warmup=0.05)
    matrices = [value for value in network.parameters() if value.ndim > 1]
    vectors = [value for value in network.parameters() if value.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=rate)
    generator, order = torch_generator(seed, "windows"), torch.zeros(0, dtype=torch.long)
    network.train()
    for number in range(num_steps):
        if len(order) < scale.batch_size:
            order = torch.randperm(len(data.train.x), generator=generator)
        batch, order = order[: scale.batch_size], order[scale.batch_size :]
        for group in optimizer.param_groups:
            group["lr"] = schedule.learning_rate_at(number, num_steps)
        loss = cross_entropy(network(data.train.x[batch]).flatten(0, 1), data.train.y[batch].flatten())
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
    return network.eval()
