"""The recurrent space of ENAS: a cell for language models, a tree of highway nodes, and the models around it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, linear

from ramet.errors import ConfigError
from ramet.spaces.base import Arch, CellGraph, Space, Supernet
from ramet.spaces.layers import check_counts
from ramet.spaces.recurrent.unrolled import can_unroll, unrolled

ACTIVATIONS = ("tanh", "relu", "identity", "sigmoid")
_INIT = 0.025  # ENAS' range of initial weights


class Recurrent(Space):
    """A recurrent cell of highway nodes, each with an activation and, but for the first, an earlier node as parent.

    With the word's embedding x and the hidden state h before, the first node is h_1 = c_1 f_1(W_x x + W_h h) +
    (1 - c_1) h with c_1 = sigmoid(V_x x + V_h h); node j with parent i is h_j = c_j f_j(W_ji h_i) + (1 - c_j) h_i with
    c_j = sigmoid(V_ji h_i). The new hidden state is the mean of the nodes that are nobody's parent. Activations are
    tanh, ReLU, identity and sigmoid. The decoder's weights are the embedding's. An architecture reads
    ``tanh 0:relu 1:identity``: the first activation, then ``parent:activation`` for each further node.

    Inputs are words by number, shape [batch, time]; logits have the shape [batch, words, time], as
    ``torch.nn.functional.cross_entropy`` wants them. Each dropout is variational: one mask for a sequence (for weights:
    for a mini-batch), the same at all times.

    Departs from ENAS' training: every window of words begins with a hidden state of zeros, where ENAS hands it on from
    one window to the next, so that a mini-batch depends on nothing but its number.

    Args:
        hidden_size: width of embedding and hidden state, 1000 in ENAS.
        num_nodes: nodes of the cell, 12 in ENAS.
        input_dropout: share of the embedding's channels that a sequence does without, 0.65 in ENAS.
        output_dropout: share of the hidden state's channels that the decoder does without for a sequence, 0.4 in ENAS.
        word_dropout: share of the words whose embedding is left out in a mini-batch, 0.1 in ENAS.
        weight_drop: share of the recurrent matrices' weights (state to state and node to node) that a mini-batch does
            without, the same ones at all times; 0.5 in ENAS, 0 here, because small cells have no weights to spare.
        path_dropout: how probably a node of a sequence computes nothing and hands its parent's value on, at all times:
            the path dropping of Bender et al. that *multi-model forgetting*, section 4.3, compares with.
        max_norm: the largest norm of a hidden state, 25 in ENAS.

    >>> space = Recurrent(hidden_size=8, num_nodes=3)
    >>> space.num_archs, space.name((0, 0, 1, 1, 2))
    (128, 'tanh 0:relu 1:identity')

    Reference: Pham et al., Efficient Neural Architecture Search via Parameter Sharing, 2018.
    """

    takes_text = True
    size_names: ClassVar = {"channels": "hidden_size", "nodes": "num_nodes"}
    small_sizes: ClassVar = {"channels": 64}
    calls_its_weights = True

    def __init__(
        self,
        hidden_size: int = 1000,
        num_nodes: int = 12,
        *,
        input_dropout: float = 0.65,
        output_dropout: float = 0.4,
        word_dropout: float = 0.1,
        weight_drop: float = 0.0,
        path_dropout: float = 0.0,
        max_norm: float = 25.0,
    ) -> None:
        check_counts(hidden_size=hidden_size, num_nodes=num_nodes)
        rates = (input_dropout, output_dropout, word_dropout, weight_drop, path_dropout)
        if not all(0 <= rate < 1 for rate in rates) or not max_norm > 0:
            raise ConfigError(f"dropouts must lie in [0, 1) and max_norm be positive, but got {(*rates, max_norm)}.")
        super().__init__([len(ACTIVATIONS)] + [n for node in range(1, num_nodes) for n in (node, len(ACTIVATIONS))])
        self.hidden_size, self.num_nodes, self.max_norm = hidden_size, num_nodes, max_norm
        self.input_dropout, self.output_dropout, self.word_dropout = input_dropout, output_dropout, word_dropout
        self.weight_drop, self.path_dropout = weight_drop, path_dropout

    def supernet(self, in_channels: int, num_classes: int) -> RecurrentSupernet:
        """A freshly initialised supernet for a vocabulary of ``num_classes`` words; ``in_channels`` plays no part."""
        check_counts(num_classes=num_classes)
        return RecurrentSupernet(self, num_classes)

    def name(self, arch: Arch) -> str:
        """The architecture as ``tanh 0:relu 1:identity``."""
        self.check(arch)
        nodes = [f"{parent}:{ACTIVATIONS[choice]}" for parent, choice in zip(arch[1::2], arch[2::2], strict=True)]
        return " ".join([ACTIVATIONS[arch[0]], *nodes])

    def parse(self, text: str) -> Arch:
        """The architecture of a notation."""
        first, *rest = text.split(" ")
        arch = [_activation(first)]
        for part in rest:
            parent, _, activation = part.partition(":")
            arch += [int(parent) if parent.isdecimal() and parent.isascii() else -1, _activation(activation)]
        if tuple(arch) not in self or self.name(tuple(arch)) != text:
            raise ConfigError(
                f"a cell of {self.num_nodes} nodes reads 'tanh 0:relu ...', parent:activation for all but the first, "
                f"with activations from {', '.join(ACTIVATIONS)}, but got {text!r}."
            )
        return tuple(arch)

    def example(self, num_samples: int, input_shape: Sequence[int], num_classes: int) -> Tensor:
        """Random words."""
        return torch.randint(num_classes, (num_samples, *input_shape))

    def graph(self, arch: Arch) -> list[CellGraph]:
        """The cell as a tree of activations."""
        self.check(arch)
        nodes = (("x", "word and state"), *((str(node), f"node {node}") for node in range(self.num_nodes)))
        rest = zip(arch[1::2], arch[2::2], strict=True)
        edges = (
            ("x", "0", ACTIVATIONS[arch[0]]),
            *((str(parent), str(node), ACTIVATIONS[choice]) for node, (parent, choice) in enumerate(rest, start=1)),
        )
        return [CellGraph("The cell", nodes, edges)]

    def describe(self) -> dict[str, Any]:
        """The arguments that make this space again."""
        # Left out where they are 0, so that a run from before they were there is still the same one.
        later = ("weight_drop", "path_dropout")
        described = self.described_as("recurrent")
        return {name: value for name, value in described.items() if name not in later or value > 0}


def _activation(text: str) -> int:
    return ACTIVATIONS.index(text) if text in ACTIVATIONS else -1


class Embedder(nn.Module):
    """From words to their embeddings, with variational dropout: one mask for a sequence, and words left out whole."""

    def __init__(self, num_words: int, hidden_size: int, word_dropout: float, input_dropout: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_words, hidden_size).uniform_(-_INIT, _INIT))
        self.word_dropout, self.input_dropout = word_dropout, input_dropout

    def forward(self, x: Tensor, arch: Arch) -> tuple[Tensor, Tensor]:
        """Embeddings, shape [batch, time, hidden], and the weights, which the decoder needs again."""
        weight: Tensor = self.weight
        if self.training and self.word_dropout > 0:
            kept = torch.rand(len(weight), 1, device=weight.device) >= self.word_dropout
            weight = weight * (kept / (1 - self.word_dropout))
        embedded = embedding(x.long(), weight)  # what counts costs gives zeros as floats
        return keep_channels(embedded, self.input_dropout if self.training else 0.0), self.weight


class RecurrentLinear(nn.Linear):
    """A matrix that is applied at every time, and does without some of its weights where it has a mask.

    It is a layer, and not a function of masked weights, so that guards that listen to layers hear it.
    """

    mask: Tensor | None = None

    def forward(self, input: Tensor) -> Tensor:
        """From [..., in] to [..., out]."""
        return linear(input, self.weight if self.mask is None else self.weight * self.mask)

    def draw_mask(self, rate: float) -> None:
        """Leave out a share of the weights until ``mask`` is set anew; what stays makes up for it."""
        self.mask = (torch.rand_like(self.weight) >= rate) / (1 - rate)


class RecurrentCell(nn.Module):
    """The recurrent cell: all node-to-node matrices, or those of one architecture, which uses one for each node."""

    def __init__(self, space: Recurrent, only: Arch | None = None) -> None:
        super().__init__()
        size = space.hidden_size
        self.max_norm = space.max_norm
        self.weight_drop, self.path_dropout = space.weight_drop, space.path_dropout
        self.from_input = nn.Linear(size, 2 * size, bias=False)
        self.from_hidden = RecurrentLinear(size, 2 * size, bias=False)
        self.nodes = nn.ModuleDict()
        parents = None if only is None else only[1::2]
        for node in range(1, space.num_nodes):
            for parent in range(node):
                if parents is None or parents[node - 1] == parent:
                    self.nodes[f"{parent}to{node}"] = RecurrentLinear(size, 2 * size, bias=False)
        for param in self.parameters():
            nn.init.uniform_(param, -_INIT, _INIT)

    def forward(self, inputs: tuple[Tensor, Tensor], arch: Arch) -> tuple[Tensor, Tensor]:
        """Hidden states, shape [batch, time, hidden], and the embedding's weights."""
        embedded, weight = inputs
        driven = self.from_input(embedded)  # [batch, time, 2 * hidden], for all times at once
        hidden = torch.zeros_like(embedded[:, 0])
        kept = self._draw_paths(hidden, len(arch) // 2)
        layers = self._path(arch)
        is_dropped = self.training and self.weight_drop > 0
        if kept is None and not is_dropped and can_unroll(layers, driven):
            return unrolled(driven, arch, self.max_norm, [layer.weight for layer in layers]), weight
        if is_dropped:
            for layer in layers:
                layer.draw_mask(self.weight_drop)
        states = []
        try:
            for time in range(embedded.shape[1]):
                hidden = self._step(driven[:, time], hidden, arch, kept)
                states.append(hidden)
        finally:
            for layer in layers:
                layer.mask = None
        return torch.stack(states, dim=1), weight

    def _path(self, arch: Arch) -> list[RecurrentLinear]:
        """The recurrent matrices that an architecture uses."""
        names = [f"{parent}to{node}" for node, parent in enumerate(arch[1::2], start=1)]
        return [self.from_hidden, *(self.nodes[name] for name in names)]  # type: ignore[list-item]

    def _draw_paths(self, hidden: Tensor, count: int) -> Tensor | None:
        """Which nodes but the first compute anything, for each sequence, [nodes - 1, batch, 1]; none if all do."""
        if not self.training or self.path_dropout == 0 or count == 0:
            return None
        return torch.rand(count, len(hidden), 1, device=hidden.device) >= self.path_dropout

    def _step(self, driven: Tensor, hidden: Tensor, arch: Arch, kept: Tensor | None) -> Tensor:
        nodes = [_highway(driven + self.from_hidden(hidden), hidden, arch[0])]
        for parent, activation in zip(arch[1::2], arch[2::2], strict=True):
            layer = self.nodes[f"{parent}to{len(nodes)}"]
            value = _highway(layer(nodes[parent]), nodes[parent], activation)
            nodes.append(value if kept is None else torch.where(kept[len(nodes) - 1], value, nodes[parent]))
        leaves = [value for place, value in enumerate(nodes) if place not in arch[1::2]]
        mean = torch.stack(leaves).mean(dim=0)  # [batch, hidden]
        norm = torch.linalg.vector_norm(mean, dim=1, keepdim=True)
        clipped: Tensor = mean * (self.max_norm / norm.clamp_min(self.max_norm))
        return clipped


class Decoder(nn.Module):
    """From hidden states to words, with the embedding's weights and a bias."""

    def __init__(self, num_words: int, output_dropout: float) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(num_words))
        self.output_dropout = output_dropout

    def forward(self, inputs: tuple[Tensor, Tensor], arch: Arch) -> Tensor:
        """Logits, shape [batch, words, time]."""
        states, weight = inputs
        states = keep_channels(states, self.output_dropout if self.training else 0.0)
        return linear(states, weight, self.bias).transpose(1, 2)


class RecurrentNetwork(nn.Module):
    """One cell by itself, with its own copy of the weights.

    It is ramet's class, because a loop over time has no trace; ``torch.export`` at a length of time needs no ramet.
    """

    def __init__(self, space: Recurrent, arch: Arch, num_words: int) -> None:
        super().__init__()
        self.arch = arch
        self.stages = nn.ModuleList(_stages(space, num_words, arch))

    def forward(self, x: Tensor) -> Tensor:
        """Logits, shape [batch, words, time]."""
        for stage in self.stages:
            x = stage(x, self.arch)
        return x


class RecurrentSupernet(Supernet):
    """All cells of the space on one set of matrices, one for each pair of nodes."""

    def __init__(self, space: Recurrent, num_words: int) -> None:
        super().__init__()
        self.space, self.num_words = space, num_words
        self.stages = nn.ModuleList(_stages(space, num_words, None))

    def forward(self, x: Tensor, arch: Arch) -> Tensor:
        """Logits of one architecture, shape [batch, words, time]."""
        return super().forward(x, self.space.check(arch))

    def child(self, arch: Arch) -> nn.Module:
        """One cell as a ``RecurrentNetwork``."""
        self.space.check(arch)
        with torch.random.fork_rng(devices=[]):  # its first weights are drawn for nothing
            child = RecurrentNetwork(self.space, arch, self.num_words)
        names = child.state_dict().keys()
        child.load_state_dict({name: value for name, value in self.state_dict().items() if name in names})
        child.to(self.stages[0].weight.device)  # type: ignore[arg-type]
        return copy.deepcopy(child.train(self.training))

    def forward_all(self, x: Tensor, archs: Sequence[Arch]) -> Iterator[Tensor]:
        """Logits of many architectures, in order."""
        return super().forward_all(x, [self.space.check(arch) for arch in archs])


def keep_channels(x: Tensor, rate: float) -> Tensor:
    """Variational dropout of [batch, time, channels]: each sequence does without a share of its channels."""
    if rate == 0:
        return x
    kept = torch.rand(x.shape[0], 1, x.shape[2], device=x.device) >= rate
    return x * (kept / (1 - rate))


def _stages(space: Recurrent, num_words: int, only: Arch | None) -> list[nn.Module]:
    embedder = Embedder(num_words, space.hidden_size, space.word_dropout, space.input_dropout)
    return [embedder, RecurrentCell(space, only), Decoder(num_words, space.output_dropout)]


def _highway(both: Tensor, before: Tensor, activation: int) -> Tensor:
    """The node's value: a gate between what it computes and what came before."""
    value, gate = both.chunk(2, dim=-1)
    gate = torch.sigmoid(gate)
    if activation != 2:
        value = (torch.tanh, torch.relu, None, torch.sigmoid)[activation](value)  # type: ignore[misc]
    return gate * value + (1 - gate) * before
