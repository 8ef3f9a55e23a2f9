"""Networks that growth must handle, each with a batch of inputs: every kind of layer and of tie that is supported."""

import torch
import torch.nn.functional as F
from torch import nn


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.a = nn.Conv2d(8, 6, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(6)
        self.b = nn.Conv2d(6, 8, 3, padding=1)
        self.head = nn.Linear(8 * 16, 5)

    def forward(self, x):
        x = F.relu(self.stem(x))
        x = x + self.b(F.relu(self.norm(self.a(x))))
        return self.head(F.max_pool2d(x, 2).flatten(1))


class Dense(nn.Module):
    """Concatenations, as in a DenseNet; the second layer reads two groups at an offset."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(2, 4, 1), nn.Conv2d(4, 3, 3, padding=1), nn.Conv2d(7, 5, 1)
        self.norm = nn.BatchNorm2d(7)
        self.head = nn.Linear(12 * 4, 3)

    def forward(self, x):
        a = torch.tanh(self.a(x))
        b = torch.tanh(self.b(a))
        both = F.relu(self.norm(torch.cat([a, b], 1)))
        return self.head(torch.cat([both, self.c(both)], 1).flatten(1))


class Mobile(nn.Module):
    """Depthwise convolutions and a squeeze-and-excite gate."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1, bias=False),
            nn.BatchNorm2d(4),
            nn.ReLU(inplace=True),
            nn.Conv2d(4, 4, 3, padding=1, groups=4),
            nn.BatchNorm2d(4),
            nn.ReLU6(),
            nn.Conv2d(4, 6, 1),
        )
        self.squeeze, self.excite = nn.Linear(6, 2), nn.Linear(2, 6)
        self.head = nn.Linear(6, 4)

    def forward(self, x):
        x = self.features(x)
        gate = torch.sigmoid(self.excite(F.relu(self.squeeze(x.mean((2, 3))))))
        return self.head(F.adaptive_avg_pool2d(x * gate[:, :, None, None], 1).flatten(1))


class Grouped(nn.Module):
    """A grouped convolution, a depthwise multiplier and a group norm."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 4, 1)
        self.grouped = nn.Conv2d(4, 6, 3, padding=1, groups=2)
        self.multiplied = nn.Conv2d(6, 12, 3, padding=1, groups=6)
        self.b = nn.Conv2d(12, 8, 1)
        self.norm = nn.GroupNorm(4, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        x = F.relu(self.multiplied(F.relu(self.grouped(F.relu(self.a(x))))))
        return self.head(F.relu(self.norm(self.b(x))).mean((2, 3)))


class Attention(nn.Module):
    """A transformer block of the user's own: packed projections, heads by a number in the module."""

    def __init__(self, width=8, heads=4):
        super().__init__()
        self.num_heads, self.head_width = heads, width // heads
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm2, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 10), nn.Linear(10, width)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, length, 3, self.num_heads, self.head_width).unbind(2)
        attended = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)))
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, self.num_heads * self.head_width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Language(nn.Module):
    """Embeddings, positions, a gated unit and a transformer block."""

    def __init__(self):
        super().__init__()
        self.embed, self.positions = nn.Embedding(11, 6), nn.Parameter(torch.randn(1, 5, 6))
        self.gated = nn.Linear(6, 14)
        self.mix = nn.Linear(7, 8)
        self.block = Attention()
        self.head = nn.Linear(8, 11)

    def forward(self, x):
        a, b = self.gated(self.embed(x) + self.positions).chunk(2, dim=-1)
        return self.head(self.block(self.mix(a * torch.sigmoid(b))))


class Vision(nn.Module):
    """A vision transformer: patches, a class token in front of them, positions, and the token's answer."""

    def __init__(self):
        super().__init__()
        self.patches, self.token = nn.Conv2d(3, 8, 2, 2), nn.Parameter(torch.randn(1, 1, 8))
        self.positions, self.block = nn.Parameter(torch.randn(1, 5, 8)), Attention()
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.block(x))[:, 0])


class RootMeanSquare(nn.Module):
    """A norm that its author has written out."""

    def __init__(self, width, epsilon=1e-2):
        super().__init__()
        self.weight, self.epsilon = nn.Parameter(torch.rand(width) + 0.5), epsilon

    def forward(self, x):
        wide = x.to(torch.float64)
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.epsilon)).to(x.dtype)


def rotated(x):
    """Rotary positions, of queries or keys [batch, heads, length, width]."""
    half = x.shape[-1] // 2
    angles = torch.arange(x.shape[-2])[:, None] / 10.0 ** torch.arange(half)
    angles = torch.cat([angles, angles], -1).to(x)
    return x * angles.cos() + torch.cat([-x[..., half:], x[..., :half]], -1) * angles.sin()


class Rotary(nn.Module):
    """A decoder of today: queries that share keys, rotary positions, a gated unit, norms without a mean, tied words."""

    def __init__(self, head_width=4):
        super().__init__()
        self.head_width = head_width
        self.words, self.norm, self.last = nn.Embedding(11, 8), nn.RMSNorm(8), nn.RMSNorm(8, eps=0.1)
        self.q, self.k = nn.Linear(8, 4 * head_width, bias=False), nn.Linear(8, 2 * head_width)
        self.v, self.o = nn.Linear(8, 2 * head_width), nn.Linear(4 * head_width, 8, bias=False)
        self.norm2, self.gate, self.up = RootMeanSquare(8), nn.Linear(8, 6), nn.Linear(8, 6)
        self.down, self.head = nn.Linear(6, 8), nn.Linear(8, 11, bias=False)
        self.head.weight = self.words.weight
        for norm in (self.norm, self.last):
            norm.weight.data.uniform_(0.5, 1.5)

    def _heads(self, x):
        return x.view(*x.shape[:2], -1, self.head_width).transpose(1, 2)

    def forward(self, x):
        x = self.words(x)
        h = self.norm(x)
        q, k, v = rotated(self._heads(self.q(h))), rotated(self._heads(self.k(h))), self._heads(self.v(h))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(mixed.transpose(1, 2).flatten(2))
        h = self.norm2(x)
        return self.head(self.last(x + self.down(F.silu(self.gate(h)) * self.up(h))))


class Shared(nn.Module):
    """One layer that is used twice."""

    def __init__(self):
        super().__init__()
        self.first, self.again, self.head = nn.Linear(4, 5), nn.Linear(5, 5), nn.Linear(5, 2)

    def forward(self, x):
        x = torch.tanh(self.first(x))
        return self.head(torch.tanh(self.again(torch.tanh(self.again(x)))))


class Shuffled(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = nn.Conv2d(3, 8, 1), nn.Conv2d(8, 5, 1), nn.Linear(5, 3)

    def forward(self, x):
        x = self.a(x)
        b, c, h, w = x.shape
        x = x.view(b, 2, c // 2, h, w).transpose(1, 2).reshape(b, c, h, w)
        return self.head(F.relu(self.b(x)).mean((2, 3)))


class Decoder(nn.Module):
    """Transposed convolutions, one dimension, upsampling, PReLU."""

    def __init__(self):
        super().__init__()
        self.a, self.act = nn.Conv1d(2, 4, 3, padding=1), nn.PReLU(4)
        self.up, self.out = nn.ConvTranspose1d(4, 3, 2, stride=2), nn.Conv1d(3, 2, 1)

    def forward(self, x):
        return self.out(F.interpolate(F.gelu(self.up(self.act(self.a(x)))), scale_factor=2.0))


class Recurrent(nn.Module):
    """Two layers in both directions over embedded words, another kind of layer behind them, and its last state."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(11, 4)
        self.both = nn.LSTM(4, 3, num_layers=2, bidirectional=True, batch_first=True)
        self.projected = nn.LSTM(6, 5, proj_size=2, batch_first=True)
        self.last, self.head = nn.GRU(2, 4, batch_first=True), nn.Linear(4, 3)

    def forward(self, x):
        _, state = self.last(self.projected(self.both(self.words(x))[0])[0])
        return self.head(state[-1])


class Pictures(nn.Module):
    """Pixels made of channels and channels of pixels, channels by turns, and norms over each image's own positions."""

    def __init__(self):
        super().__init__()
        self.a, self.fold = nn.Conv2d(3, 4, 1), nn.PixelUnshuffle(2)
        self.b, self.own = nn.Conv2d(16, 8, 1), nn.InstanceNorm2d(8, affine=True, track_running_stats=True)
        self.unfold, self.c, self.plain = nn.PixelShuffle(2), nn.Conv2d(2, 6, 1), nn.InstanceNorm2d(6)
        self.turns, self.d, self.head = nn.ChannelShuffle(3), nn.Conv2d(6, 5, 1), nn.Linear(5, 3)

    def forward(self, x):
        x = torch.tanh(self.own(self.b(self.fold(self.a(x)))))
        x = self.turns(torch.tanh(self.plain(self.c(self.unfold(x)))))
        return self.head(torch.tanh(self.d(x)).mean((2, 3)))


def build():
    """Name -> (network, inputs), with batch statistics that are not the defaults."""
    torch.manual_seed(3)
    networks = {
        "mlp": (nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)), (6,)),
        "one": (nn.Sequential(nn.Linear(2, 1), nn.Tanh(), nn.Linear(1, 1)), (2,)),
        "onemap": (nn.Sequential(nn.Conv2d(2, 1, 3), nn.Tanh(), nn.Flatten(), nn.Linear(16, 3)), (2, 6, 6)),
        "residual": (Residual(), (3, 8, 8)),
        "dense": (Dense(), (2, 2, 2)),
        "mobile": (Mobile(), (3, 6, 6)),
        "grouped": (Grouped(), (3, 5, 5)),
        "encoder": (nn.TransformerEncoderLayer(8, 2, 12, batch_first=True), (5, 8)),
        "vision": (Vision(), (3, 4, 4)),
        "shared": (Shared(), (4,)),
        "shuffled": (Shuffled(), (3, 4, 4)),
        "decoder": (Decoder(), (2, 6)),
        "pictures": (Pictures(), (3, 4, 4)),
    }
    result = {}
    for name, (network, shape) in networks.items():
        inputs = torch.randn(4, *shape)
        network.train()
        network(torch.randn(16, *shape))
        result[name] = (network, inputs)
    result["language"] = (Language(), torch.randint(0, 11, (4, 5)))
    result["recurrent"] = (Recurrent(), torch.randint(0, 11, (4, 5)))
    result["rotary"] = (Rotary(), torch.randint(0, 11, (4, 5)))
    for module in result["vision"][0].modules():
        if isinstance(module, nn.LayerNorm):
            nn.init.uniform_(module.weight, 0.5, 1.5), nn.init.normal_(module.bias)
    return {name: (network.double(), _double(inputs)) for name, (network, inputs) in result.items()}


def _double(inputs):
    return inputs.double() if inputs.is_floating_point() else inputs


GROUPS = {
    "mlp": {"0": 5, "2": 4},
    "one": {"0": 1},
    "onemap": {"0": 1},
    "residual": {"stem": 8, "a": 6},
    "dense": {"a": 4, "b": 3, "c": 5},
    "mobile": {"features.0": 4, "features.6": 6, "squeeze": 2},
    "grouped": {"a#2": 2, "grouped#2": 3, "b": 4},
    "encoder": {"linear1": 12},
    "vision": {"patches": 8, "block.qkv#2": 4, "block.up": 10},
    "rotary": {"words#2": 8, "q": 2, "q#2": 2, "gate": 6},
    "shared": {"first": 5},
    "shuffled": {"a#2": 4, "b": 5},
    "decoder": {"a": 4, "up": 3},
    "recurrent": {"words": 4, "both": 3, "projected": 5, "projected#2": 2, "last": 4},
    "pictures": {"a": 4, "b": 2, "c#2": 2, "d": 5},
    "language": {"embed": 6, "gated": 7, "block.qkv#2": 4, "block.up": 10},
}
"""What can grow in each, and its number of units, worked out by hand."""
