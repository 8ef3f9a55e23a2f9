"""Small language models to choose from: how deep, how many heads, how wide the inner layers, which activation."""

import torch
from torch import nn

from benchmarks.language.model import Attention
from ramet.spaces import Choice


class Residual(nn.Module):
    def __init__(self, width, branch):
        super().__init__()
        self.norm, self.branch = nn.LayerNorm(width), branch

    def forward(self, x):
        return x + self.branch(self.norm(x))


class Tokens(nn.Module):
    def __init__(self, words, length, width):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(words, width), nn.Parameter(0.1 * torch.randn(length, width))
        nn.init.normal_(self.embedding.weight, std=0.1)

    def forward(self, tokens):
        return self.embedding(tokens) + self.positions


def perceptron(width, factor, activation):
    return Residual(
        width, nn.Sequential(nn.Linear(width, factor * width), activation, nn.Linear(factor * width, width))
    )


def language_models(words, length, width=48, depth=4):
    layers = []
    for _ in range(depth):
        heads = {f"heads{count}": Residual(width, Attention(width, count)) for count in (2, 6)}
        inner = {
            f"{name}{factor}": perceptron(width, factor, activation())
            for name, activation in (("relu", nn.ReLU), ("gelu", nn.GELU))
            for factor in (2, 4)
        }
        layers += [Choice({"none": nn.Identity(), **heads}), Choice({"none": nn.Identity(), **inner})]
    return nn.Sequential(Tokens(words, length, width), *layers, nn.LayerNorm(width), nn.Linear(width, words))
