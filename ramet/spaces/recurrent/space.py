"""The recurrent space of ENAS: a cell for language models, a tree of highway nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from ramet.errors import ConfigError
from ramet.spaces.base import Arch, CellGraph, Space
from ramet.spaces.layers import check_counts
from ramet.spaces.recurrent.network import ACTIVATIONS, RecurrentSupernet


class Recurrent(Space):
    r"""A recurrent cell of highway nodes, each with an activation and, but for the first, an earlier node as parent.

    With the word's embedding x and the hidden state h before, the first node is :math:`h_1 = c_1 \odot f_1(W_x x + W_h
    h) + (1 - c_1) \odot h`, :math:`c_1 = \sigma(V_x x + V_h h)`; node j with parent i is :math:`h_j = c_j \odot
    f_j(W_{ji} h_i) + (1 - c_j) \odot h_i`, :math:`c_j = \sigma(V_{ji} h_i)`. The new hidden state is the mean of the
    nodes that are nobody's parent. Activations are tanh, ReLU, identity and sigmoid. The decoder's weights are the
    embedding's. An architecture reads ``tanh 0:relu 1:identity``: the first activation, then ``parent:activation`` for
    each further node.

    Inputs are words by number, shape [batch, time]; logits have the shape [batch, words, time], as
    ``torch.nn.functional.cross_entropy`` wants them.

    Each dropout is variational: one mask for a sequence (for weights: for a mini-batch), the same at all times.

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

    Raises:
        ConfigError: if an argument is out of range.

    Example:
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
        self.hidden_size = hidden_size
        self.num_nodes = num_nodes
        self.input_dropout = input_dropout
        self.output_dropout = output_dropout
        self.word_dropout = word_dropout
        self.weight_drop = weight_drop
        self.path_dropout = path_dropout
        self.max_norm = max_norm

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

    def example(self, num_samples: int, input_shape: Sequence[int], num_classes: int) -> torch.Tensor:
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
        later = {"weight_drop": self.weight_drop, "path_dropout": self.path_dropout}
        return {
            "kind": "recurrent",
            "hidden_size": self.hidden_size,
            "num_nodes": self.num_nodes,
            "input_dropout": self.input_dropout,
            "output_dropout": self.output_dropout,
            "word_dropout": self.word_dropout,
            "max_norm": self.max_norm,
            **{name: rate for name, rate in later.items() if rate > 0},
        }


def _activation(text: str) -> int:
    return ACTIVATIONS.index(text) if text in ACTIVATIONS else -1
