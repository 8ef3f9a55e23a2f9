"""Which child a mini-batch trains: a fixed cycle, a cycle reshuffled each round, or a uniform draw."""

from __future__ import annotations

from typing import Literal, get_args

import torch

from ramet.errors import ConfigError
from ramet.seeding import derive_seed, torch_generator
from ramet.sharing.permuting import drawn, permuted

OrderKind = Literal["cyclic", "shuffled", "uniform"]
"""In which order children take turns: always the same, another one in each round, or drawn at random."""

MOST_LISTED = 1_000_000
"""Up to so many children a round is a list; of more, each place is asked for on its own."""


class Order:
    """The child that each step of a supernet's training trains, as a place in the list of children.

    ``cyclic`` repeats one random order, ``shuffled`` draws a new order for each round of all children, ``uniform``
    draws each step's child on its own. As with batches, the answer follows from the seed and the step alone.

    >>> order = Order("shuffled", num_children=4, seed=0)
    >>> sorted(order[step] for step in range(4, 8))
    [0, 1, 2, 3]
    """

    def __init__(self, kind: OrderKind, num_children: int, seed: int) -> None:
        if kind not in get_args(OrderKind):
            raise ConfigError(f"order must be one of {', '.join(get_args(OrderKind))}, but got {kind!r}.")
        if num_children < 1:
            raise ConfigError(f"num_children must be at least 1, but got {num_children}.")
        self._kind = kind
        self._num_children = num_children
        self._seed = seed
        self._round = -1
        self._children: list[int] = []

    def __getitem__(self, step: int) -> int:
        this_round, within = divmod(step, self._num_children)
        if self._kind == "cyclic":
            this_round = 0
        if self._num_children > MOST_LISTED:
            if self._kind == "uniform":
                return drawn(step, self._num_children, self._seed)
            return permuted(within, self._num_children, derive_seed(self._seed, "round", this_round))
        if this_round != self._round:
            generator = torch_generator(self._seed, "round", this_round)
            if self._kind == "uniform":
                order = torch.randint(self._num_children, (self._num_children,), generator=generator)
            else:
                order = torch.randperm(self._num_children, generator=generator)
            self._children = order.tolist()
            self._round = this_round
        return self._children[within]
