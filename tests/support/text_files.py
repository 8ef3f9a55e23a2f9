"""Small files of data that are no images, and networks for them: a table, a text, a causal transformer."""

from __future__ import annotations

import random
import zlib
from pathlib import Path

import numpy as np

NETWORKS = """
import torch
from torch import nn
from torch.nn import functional as F

class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.num_heads, self.head_width = heads, width // heads
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm2, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, length, 3, self.num_heads, self.head_width).unbind(2)
        mixed = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, self.num_heads * self.head_width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))

class Transformer(nn.Module):
    def __init__(self, words, length, width=8, heads=2, depth=1):
        super().__init__()
        self.embed, self.positions = nn.Embedding(words, width), nn.Parameter(torch.zeros(1, length, width))
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.embed(x) + self.positions[:, : x.shape[1]])))

def transformer(words, length, width=8, depth=1):
    return Transformer(words, length, width, depth=depth)

def perceptron(num_features, num_outputs, width=4):
    return nn.Sequential(nn.Linear(num_features, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
                         nn.Linear(width, num_outputs))
"""


def networks(folder: Path) -> Path:
    """A file of networks; its name is another in each folder, because it becomes a module."""
    path = folder / f"networks_of_texts_{zlib.crc32(str(folder).encode())}.py"
    path.write_text(NETWORKS)
    return path


def table(folder: Path, rows: int = 200, name: str = "houses.csv", shift: float = 0.0) -> Path:
    """A table whose price is a smooth function of three features, and some noise."""
    random_rows = np.random.default_rng(0)
    x = random_rows.normal(size=(rows, 3))
    y = 300 + 40 * np.sin(x[:, 0] + shift) + 25 * x[:, 1] * x[:, 2] + random_rows.normal(size=rows)
    lines = [",".join(f"{value:.9g}" for value in (*row, target)) for row, target in zip(x, y, strict=True)]
    (folder / name).write_text("size,age,rooms,price\n" + "\n".join(lines) + "\n")
    return folder / name


def text(folder: Path, lines: int = 200, name: str = "story.txt", words: str = "abcd") -> Path:
    """A text in which each word follows from the one before, most of the time."""
    draw = random.Random(0)
    written = []
    for _ in range(lines):
        place, line = draw.randrange(len(words)), []
        for _ in range(8):
            place = (place + 1) % len(words) if draw.random() < 0.9 else draw.randrange(len(words))
            line.append(words[place])
        written.append(" ".join(line))
    (folder / name).write_text("\n".join(written) + "\n")
    return folder / name
