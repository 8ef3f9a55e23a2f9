"""Copies of networks, quickly."""

from __future__ import annotations

import copy
from collections import OrderedDict
from typing import Any

from torch import nn


def copy_network(network: nn.Module) -> nn.Module:
    """What ``copy.deepcopy`` gives, in two thirds of the time for small networks.

    A module has some fifteen dictionaries for hooks, nearly always empty, and copying them one by one takes longer than
    copying the weights: new ones are handed to the copy instead.

    >>> network = nn.Linear(2, 1)
    >>> twin = copy_network(network)
    >>> bool((twin.weight == network.weight).all()), twin.weight is network.weight
    (True, False)
    """
    known: dict[int, Any] = {}
    for module in network.modules():
        for value in vars(module).values():
            if type(value) in (dict, OrderedDict) and not value:
                known[id(value)] = type(value)()
    return copy.deepcopy(network, known)
