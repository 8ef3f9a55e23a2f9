"""A residual network of 175 thousand weights, and its training on CIFAR-10: the trained backbone of the experiment."""

from __future__ import annotations

from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor, nn

from ramet.data import load
from ramet.training import Recipe, fit

IMAGE = 16
RECIPE = Recipe(
    epochs=20,
    batch_size=64,
    optimizer="adamw",
    learning_rate=3e-3,
    final_learning_rate=0.0,
    weight_decay=0.05,
    undecayed="vectors",
    warmup=0.05,
    augment="crop:2+flip",
)


class Block(nn.Module):
    """Two convolutions with batch norm, and a shortcut around them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.norm2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm2(self.conv2(self.norm1(self.conv1(x)).relu()))
        return (y + self.shortcut(x)).relu()


class ResNet(nn.Module):
    """Six blocks of 16, 32 and 64 channels, as He et al. have them for CIFAR-10."""

    def __init__(self, in_channels: int = 3, num_classes: int = 10, width: int = 16) -> None:
        super().__init__()
        stem = nn.Conv2d(in_channels, width, 3, 1, 1, bias=False)
        self.stem = nn.Sequential(stem, nn.BatchNorm2d(width), nn.ReLU())
        blocks, inputs = [], width
        for stage in range(3):
            outputs = width * 2**stage
            for place in range(2):
                blocks.append(Block(inputs, outputs, 2 if stage and not place else 1))
                inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(inputs, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.blocks(self.stem(x)).mean((2, 3)))
        return logits


def trained_network(seed: int, folder: Path) -> ResNet:
    """The network of a seed, trained on 8,000 images of CIFAR-10; trained once, and then read from the folder."""
    torch.manual_seed(seed)
    network, file = ResNet(), folder / f"backbone-{seed}.safetensors"
    if file.is_file():
        network.load_state_dict(safetensors.torch.load_file(file))
        return network.eval()
    data = load("cifar10", image_size=IMAGE, seed=seed)
    fit(network, data.train.x, data.train.y, RECIPE, seed=seed)
    folder.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    safetensors.torch.save_file(network.state_dict(), part)
    part.rename(file)
    return network.eval()
