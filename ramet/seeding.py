"""Randomness by role: each consumer has a generator made from the run's seed and the name of its role.

A consumer that is added later changes no other, and the order in which consumers are made does not matter, so that
the same seed gives the same numbers inline, in worker processes and on a cluster.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import torch


def derive_seed(seed: int, *role: str | int) -> int:
    """A 63-bit seed for one role of a run.

    >>> derive_seed(0, "batches", 1) == derive_seed(0, "batches", 1)
    True
    >>> derive_seed(0, "batches", 1) == derive_seed(0, "batches", 2)
    False
    """
    text = "\x1f".join([str(seed), *map(str, role)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def torch_generator(seed: int, *role: str | int) -> torch.Generator:
    """A CPU generator for one role of a run; draws are moved to the device, so that devices agree."""
    import torch

    return torch.Generator().manual_seed(derive_seed(seed, *role))


def numpy_generator(seed: int, *role: str | int) -> np.random.Generator:
    """A NumPy generator for one role of a run."""
    import numpy as np

    return np.random.default_rng(derive_seed(seed, *role))


@contextmanager
def seeded_globally(seed: int, *role: str | int) -> Iterator[None]:
    """Run a block under torch's global generator seeded for a role, and put the global state back afterwards.

    ``nn.Module`` constructors draw from the global generator and offer no argument for another; this is the one
    place where it is touched.
    """
    import torch

    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        # Without an accelerator torch.manual_seed would still format the stack for each kind of one: 0.3 ms.
        seed_generators = torch.manual_seed if torch.accelerator.is_available() else torch.default_generator.manual_seed
        seed_generators(derive_seed(seed, *role))
        yield


def generator_states(tensors: Iterable[torch.Tensor]) -> dict[str, torch.Tensor]:
    """The states of torch's global generators, on the CPU and on every GPU that one of the tensors is on."""
    import torch

    states = {"cpu": torch.get_rng_state()}
    for device in {tensor.device for tensor in tensors if tensor.device.type == "cuda"}:
        states[str(device)] = torch.cuda.get_rng_state(device)
    return states


def restore_generators(states: dict[str, torch.Tensor]) -> None:
    """Put torch's global generators back to what ``generator_states`` gave."""
    import torch

    for device, state in states.items():
        torch.set_rng_state(state) if device == "cpu" else torch.cuda.set_rng_state(state, device)
