"""A small transformer of torch's own layers under AdamW learns a second task and keeps the first."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch

from benchmarks.two_tasks import Reader, accuracy, finish, learn, sentences
from ramet.guards import NoGuard, OrthogonalProjection


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_projection_keeps_the_first_task_and_learns_the_second(seed):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = Reader()
    learn(network, NoGuard(), 0, steps=300, seed=seed + 1)
    before, found = accuracy(network, 0), {}
    for name, guard in {"plain": NoGuard(), "guarded": OrthogonalProjection(0.01, unit="energy")}.items():
        copied = copy.deepcopy(network)
        finish(copied, guard, 0)
        learn(copied, guard, 1, steps=300, seed=seed + 50)
        found[name] = accuracy(copied, 0), accuracy(copied, 1)
    assert found["guarded"][0] >= 0.99 * before
    assert found["guarded"][0] >= found["plain"][0], "never below unguarded"
    assert found["guarded"][1] >= found["plain"][1] - 0.05, "at most five points of the second"


def test_a_whole_network_keeps_its_outputs_through_many_steps_of_adam():
    """With lambda 0 every product stays on what it has seen, and so does their composition if all are covered."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = Reader().double()
    guard, x = OrthogonalProjection(0.0), sentences(0, 4, seed=1)[0]
    with warnings.catch_warnings(), guard.watch(network):
        warnings.simplefilter("error")  # nothing is left uncovered
        network(x, 0).sum().backward()
        guard.remember(dict(network.named_parameters()))
    before, other = network(x, 0).detach(), network(x + 12, 1).detach()
    learn(network, guard, 1, steps=15, seed=2)
    assert float((network(x, 0).detach() - before).abs().max()) < 1e-6
    assert float((network(x + 12, 1).detach() - other).abs().max()) > 0.1
