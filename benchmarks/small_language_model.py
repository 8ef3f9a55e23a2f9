"""A small language model and two texts for it: what `fine_tuning` fine-tunes."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, gelu, scaled_dot_product_attention

WORDS, WINDOW, WIDTH, HEADS, BLOCKS = 1000, 32, 64, 4, 2


class Block(nn.Module):
    """Causal attention and a perceptron, each after a norm and beside a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.other_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """Shape [batch, places, width] in and out."""
        batch, places, _ = x.shape
        parts = self.qkv(self.norm(x)).view(batch, places, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        mixed = scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, places, WIDTH))
        return x + self.down(gelu(self.up(self.other_norm(x))))


class LanguageModel(nn.Module):
    """A transformer that gives the next word's logits at every place."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Parameter(0.1 * torch.randn(WINDOW, WIDTH))
        self.blocks = nn.Sequential(*(Block() for _ in range(BLOCKS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, words: Tensor) -> Tensor:
        """Logits, [batch, places, words]."""
        logits: Tensor = self.head(self.norm(self.blocks(self.words(words) + self.places)))
        return logits

    def loss(self, windows: Tensor) -> Tensor:
        """The mean over all places but the first of -ln p(word); windows are [batch, 1 + places]."""
        return cross_entropy(self(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())


class LowRank(nn.Module):
    """A linear layer that stands still, and a product of two thin matrices beside it that learns."""

    def __init__(self, layer: nn.Linear, rank: int) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.into, self.out = (
            nn.Linear(layer.in_features, rank, bias=False),
            nn.Linear(rank, layer.out_features, bias=False),
        )
        nn.init.zeros_(self.out.weight)

    def forward(self, x: Tensor) -> Tensor:
        """The layer's output and the adapter's."""
        out: Tensor = self.layer(x) + 2.0 * self.out(self.into(x))
        return out


def with_adapters(network: LanguageModel, rank: int = 8) -> LanguageModel:
    """The network with an adapter beside every linear layer, and nothing else that learns; changed in place."""
    network.requires_grad_(False)
    for module in list(network.modules()):
        if not isinstance(module, LowRank):
            for name, layer in list(module.named_children()):
                if isinstance(layer, nn.Linear):
                    setattr(module, name, LowRank(layer, rank))
    return network


@dataclass(frozen=True)
class Halves:
    """Windows of words of two texts, [n, 1 + places]: to train on, and to measure on."""

    train: tuple[Tensor, Tensor]
    held_out: tuple[Tensor, Tensor]


def halves(how: str, folder: Path | None = None) -> Halves:
    """Penn Treebank in two: by ``place``, the first half of the lines and the second, or by ``numbers``.

    By numbers, the first text has the sentences without a number and the second those with one: reports of what was
    said, and reports of prices and results.
    """
    folder = Path(os.environ["RAMET_DATA"]) / "ptb" if folder is None else folder
    train = (folder / "ptb.train.txt").read_text().splitlines()
    held_out = (folder / "ptb.valid.txt").read_text().splitlines() + (folder / "ptb.test.txt").read_text().splitlines()
    common = Counter(word for line in train for word in line.split()).most_common(WORDS - 2)
    numbers = {word: number for number, (word, _) in enumerate(common)}

    def split(lines: list[str], middle: int) -> tuple[list[str], list[str]]:
        if how == "place":
            return lines[:middle], lines[middle:]
        return [s for s in lines if "N" not in s.split()], [s for s in lines if "N" in s.split()]

    def windows(lines: list[str]) -> Tensor:
        ids = [numbers.get(word, numbers["<unk>"]) for line in lines for word in (*line.split(), "<eos>")]
        numbers.setdefault("<eos>", WORDS - 1)
        count = len(ids) // (WINDOW + 1)
        return torch.tensor(ids[: count * (WINDOW + 1)]).view(count, WINDOW + 1)

    numbers["<eos>"] = WORDS - 1
    a, b = split(train, len(train) // 2)
    c, d = split(held_out, len(held_out) // 2)
    return Halves((windows(a), windows(b)), (windows(c), windows(d)))
