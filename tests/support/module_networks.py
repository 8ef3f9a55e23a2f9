"""Networks as users bring them, small enough for images of 8 x 8: residual, transformers, a mixer, plain chains."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class Residual(nn.Module):
    def __init__(self, before, after, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.shortcut = nn.Sequential()
        if stride > 1 or before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(out)) + self.shortcut(x))


class ResNet(nn.Module):
    """A ResNet in small: a stem, stages of two residual blocks, pooling, a head."""

    def __init__(self, in_channels=1, num_classes=10, width=6):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.layer1 = nn.Sequential(Residual(width, width), Residual(width, width))
        self.layer2 = nn.Sequential(Residual(width, 2 * width, 2), Residual(2 * width, 2 * width))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(2 * width, num_classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        return self.fc(self.avgpool(self.layer2(self.layer1(x))).flatten(1))


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, tokens, width))


class EncoderLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(width), Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    """A vision transformer with a class token, learned positions, and a norm before its head."""

    def __init__(self, in_channels=1, image_size=(8, 8), num_classes=10, width=12, depth=3):
        super().__init__()
        self.patch = nn.Conv2d(in_channels, width, 4, 4)
        tokens = (image_size[0] // 4) * (image_size[1] // 4) + 1
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, tokens, width))
        self.blocks = nn.ModuleList(EncoderLayer(width, 3) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, num_classes)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class OpenAttention(Attention):
    """One whose code says nowhere how many channels all heads have together, so that heads may come and go."""

    def forward(self, x):
        batch, tokens, _ = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class TinyViT(nn.Module):
    """A vision transformer for images of 5 x 5 that learns within few steps, because its head reads all tokens."""

    def __init__(self, in_channels=1, num_classes=10, width=8, depth=1):
        super().__init__()
        self.patch = nn.Conv2d(in_channels, width, 2, 2)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, 5, width))
        self.blocks = nn.Sequential(*(EncoderLayer(width, 2) for _ in range(depth)))
        for block in self.blocks:
            block.attn = OpenAttention(width, 2)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, num_classes)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.blocks(x)).mean(1))


class TorchViT(nn.Module):
    """The same idea with torch's own encoder layers."""

    def __init__(self, in_channels=1, num_classes=10, width=12):
        super().__init__()
        self.patch = nn.Conv2d(in_channels, width, 4, 4)
        layer = nn.TransformerEncoderLayer(width, 3, 24, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, num_classes)

    def forward(self, x):
        return self.head(self.encoder(self.patch(x).flatten(2).transpose(1, 2)).mean(1))


class MixerLayer(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.norm1, self.tokens = nn.LayerNorm(width), nn.Linear(tokens, tokens)
        self.norm2, self.channels = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2).relu()
        return x + self.channels(self.norm2(x)).relu()


class Mixer(nn.Module):
    """An MLP-mixer whose layers are a Sequential."""

    def __init__(self, in_channels=1, num_classes=10, width=10):
        super().__init__()
        self.stem = nn.Conv2d(in_channels, width, 2, 2)
        self.layers = nn.Sequential(MixerLayer(16, width), MixerLayer(16, width))
        self.norm = nn.LayerNorm(width)
        self.classifier = nn.Sequential(nn.Dropout(0.1), nn.Linear(width, num_classes))

    def forward(self, x):
        x = self.layers(self.stem(x).flatten(2).transpose(1, 2))
        return self.classifier(self.norm(x).mean(1))


def plain(in_channels=1, num_classes=10, width=6):
    """Convolutions in a row, with batch norm, and a linear layer before the head."""
    return nn.Sequential(
        nn.Conv2d(in_channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(8 * width, 3 * width), nn.ReLU(), nn.Linear(3 * width, num_classes),
    )  # fmt: skip


class ResidualLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        return x + self.linear(self.norm(x)).relu()


class Layered(nn.Module):
    """The smallest residual network without batch norm: a linear stem and two residual layers."""

    def __init__(self, in_channels=1, image_size=(5, 5), num_classes=10, width=14):
        super().__init__()
        self.stem = nn.Linear(in_channels * image_size[0] * image_size[1], width)
        self.layers = nn.Sequential(ResidualLayer(width), ResidualLayer(width))
        self.head = nn.Linear(width, num_classes)

    def forward(self, x):
        return self.head(self.layers(self.stem(x.flatten(1))))


class Small(nn.Module):
    """The smallest residual network with batch norm: a stem and one residual block."""

    def __init__(self, in_channels=1, num_classes=10, width=8):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(in_channels, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.block = Residual(width, width)
        self.fc = nn.Linear(width * 4, num_classes)

    def forward(self, x):
        return self.fc(F.adaptive_avg_pool2d(self.block(self.stem(x)), 2).flatten(1))
