"""Packing: any nested state comes back as it was, and training goes on from it bit for bit."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from exactness import same_bits
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from ramet.runs import Checkpoints, pack_state, unpack_state
from ramet.runs.encoding import decode, encode


def equal(a: object, b: object) -> bool:
    """Equality that tells bool from int from float, tuple from list, and knows tensors and NaN."""
    if type(a) is not type(b):
        return False
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return same_bits(a, b)
    if isinstance(a, dict) and isinstance(b, dict):
        keys = [(type(key), key) for key in a] == [(type(key), key) for key in b]
        return keys and all(equal(x, y) for x, y in zip(a.values(), b.values(), strict=True))
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    return repr(a) == repr(b)


def through_disk(value: object, folder: Path) -> object:
    tensors, packed = pack_state(value)
    Checkpoints(folder).save(0, tensors, packed)
    checkpoint = Checkpoints(folder).load()
    assert checkpoint is not None
    return unpack_state(checkpoint.tensors, checkpoint.state)


KEYS = st.none() | st.booleans() | st.integers() | st.text() | st.tuples(st.integers(), st.text())
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.integers().map(lambda i: torch.tensor(i % 9))
)
STATES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(KEYS, inner),
    max_leaves=15,
)


@settings(deadline=None, max_examples=60)
@given(STATES)
def test_any_structure_comes_back(value):
    tensors, packed = pack_state(value)
    assert equal(unpack_state(tensors, decode(encode(packed))), value)


def test_awkward_structures_come_back(tmp_path):
    one, two = torch.ones(1), torch.zeros(1)
    value = {
        "a/b": one,
        "a": {"b": two},
        1: one,
        "1": two,
        "$tensor": "a/b",
        "$float": "nan",
        "inner": {"$tuple": [1], "": (), "none": {None: [], True: {}, 0: math.nan}},
        "tuple": (1, (True, [1.0]), -0.0),
    }
    # True and 1 are one key to Python, so they cannot be told apart in one dict.
    assert equal(through_disk(value, tmp_path), value)


@pytest.mark.parametrize("value", [{1, 2}, object(), 1j, torch.float32, {"x": {frozenset(): 1}}])
def test_what_is_not_a_state_is_refused(value):
    with pytest.raises(TypeError, match="a state is made of"):
        pack_state(value)


@pytest.mark.parametrize(
    ("make", "memory_format"),
    [
        (lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9), torch.channels_last),
        (lambda params: torch.optim.Adam(params, lr=0.01, betas=(0.8, 0.9), amsgrad=True), torch.channels_last),
        (lambda params: torch.optim.LBFGS(params, lr=0.1), torch.contiguous_format),  # It cannot do channels_last.
    ],
    ids=["SGD", "Adam", "LBFGS"],
)
def test_training_goes_on_bit_for_bit(tmp_path, make, memory_format):
    """Four steps with a checkpoint in the middle equal four steps without, dropout and memory format included."""

    def build() -> tuple[nn.Module, torch.optim.Optimizer, torch.Generator]:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            tied = nn.Linear(8, 8)
            conv = nn.Conv2d(2, 8, 3).to(memory_format=memory_format)
            layers = [conv, nn.BatchNorm2d(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), tied, nn.ReLU(), tied]
        network = nn.Sequential(*layers)
        return network, make(network.parameters()), torch.Generator().manual_seed(1)

    def advance(network: nn.Module, optimizer: torch.optim.Optimizer, generator: torch.Generator) -> None:
        x = torch.randn(4, 2, 6, 6, generator=generator).to(memory_format=memory_format)

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = nn.functional.dropout(network(x)).square().mean()
            loss.backward()
            return loss

        optimizer.step(closure)  # type: ignore[arg-type]

    with torch.random.fork_rng():
        torch.manual_seed(2)
        straight = build()
        for _ in range(4):
            advance(*straight)
        torch.manual_seed(2)
        first = build()
        for _ in range(2):
            advance(*first)
        network, optimizer, generator = first
        state = {
            "network": network.state_dict(),
            "optimizer": optimizer.state_dict(),
            "batches": generator,
            "dropout": torch.get_rng_state(),
        }
        found = through_disk(state, tmp_path)
        assert isinstance(found, dict)
        torch.manual_seed(99)
        network, optimizer, _ = build()
        network.load_state_dict(found["network"])
        optimizer.load_state_dict(found["optimizer"])
        torch.set_rng_state(found["dropout"])
        for _ in range(2):
            advance(network, optimizer, found["batches"])
    assert network[4].weight is network[6].weight  # type: ignore[index]
    for (name, a), b in zip(straight[0].state_dict().items(), network.state_dict().values(), strict=True):
        assert same_bits(a, b), name
    assert equal(straight[1].state_dict()["state"], optimizer.state_dict()["state"])
