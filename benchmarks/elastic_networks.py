"""The networks of ``benchmarks.elastic``, and how Torch-Pruning makes them smaller."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from benchmarks.backbone_network import ResNet

IMAGE = 16


def mlp(in_channels: int, num_classes: int) -> nn.Module:
    """Two hidden layers of 128 units: 51 thousand weights for grey images."""
    hidden = [nn.Linear(IMAGE**2 * in_channels, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU()]
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(128, num_classes))


def convnet(in_channels: int, num_classes: int) -> nn.Module:
    """Three convolutions with batch norm that halve the image, and a linear layer: 97 thousand weights."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((in_channels, 32), (32, 64), (64, 128)):
        layers += [nn.Conv2d(inputs, outputs, 3, 2, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, num_classes))


def resnet(in_channels: int, num_classes: int) -> nn.Module:
    """Fourteen layers of 16 to 64 channels with shortcuts, whose stem halves the image: 175 thousand weights."""
    made = ResNet(in_channels, num_classes)
    made.stem[0] = nn.Conv2d(in_channels, 16, 3, 2, 1, bias=False)
    return made


HEADED = ("queries", "keys", "values")
"""Layers of a block whose outputs are heads."""


class Block(nn.Module):
    """Attention and a perceptron, each after a norm and beside a shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.other_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries, self.keys, self.values = (nn.Linear(width, width) for _ in HEADED)
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Shape [batch, tokens, stream] in and out; heads are as wide as they were, however wide the stream is."""
        normed = self.norm(x)
        parts = [part(normed).unflatten(-1, (self.heads, -1)) for part in (self.queries, self.keys, self.values)]
        mixed = scaled_dot_product_attention(*(part.transpose(1, 2) for part in parts))
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        after: Tensor = x + self.down(gelu(self.up(self.other_norm(x))))
        return after


class VisionTransformer(nn.Module):
    """Sixteen patches of 4 x 4, learned positions, and a head on the mean over tokens."""

    def __init__(self, in_channels: int, num_classes: int, width: int = 64, depth: int = 3) -> None:
        super().__init__()
        self.patches = nn.Conv2d(in_channels, width, 4, 4)
        self.positions = nn.Parameter(0.02 * torch.randn(1, (IMAGE // 4) ** 2, width))
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        x = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(self.norm(x).mean(1))
        return logits


def transformer(in_channels: int, num_classes: int) -> nn.Module:
    """A vision transformer of three blocks with a stream of 64 channels: 105 thousand weights for grey images."""
    return VisionTransformer(in_channels, num_classes)


def prune(network: nn.Module, example: Tensor, shares: Sequence[float]) -> None:
    """Leave the largest units by Torch-Pruning: a share of all, or of a transformer's hidden units and of its heads."""
    import torch_pruning

    importance = torch_pruning.importance.GroupMagnitudeImportance()
    blocks = [module for module in network.modules() if isinstance(module, Block)]
    *_, last = network.modules()
    if not blocks:
        torch_pruning.pruner.MagnitudePruner(
            network, example, importance=importance, pruning_ratio=1 - shares[0], ignored_layers=[last]
        ).step()
        return
    hidden, heads = shares
    headed = {getattr(block, name): block.heads for block in blocks for name in HEADED}
    stream = [module for module in network.modules() if isinstance(module, nn.Linear | nn.Conv2d | nn.LayerNorm)]
    changed = {block.up for block in blocks} | headed.keys()
    pruner = torch_pruning.pruner.MagnitudePruner(
        network,
        example,
        importance=importance,
        pruning_ratio=0.0,
        pruning_ratio_dict={block.up: 1 - hidden for block in blocks} | dict.fromkeys(headed, 1 - heads),
        ignored_layers=[module for module in stream if module not in changed],
        unwrapped_parameters=[(network.positions, 2)],
        num_heads=headed,
        prune_num_heads=True,
        prune_head_dims=False,
        head_pruning_ratio=1 - heads,
    )
    pruner.step()
    for block in blocks:
        block.heads = pruner.num_heads[block.queries]
