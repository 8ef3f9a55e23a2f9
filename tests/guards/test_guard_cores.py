"""Gradient projection memory: the core of a layer's inputs by a threshold of energy."""

from __future__ import annotations

import pytest
import torch
from guarded_layer import double, guarded_update, seeded
from torch import nn

from ramet.errors import ConfigError
from ramet.guards import OrthogonalProjection, make_guard
from ramet.guards.core_spaces import grown_core
from ramet.params import named_params


def core_by_svd(core, x, threshold):
    """The paper's steps, one direction at a time, with the singular vectors of what is left: the slow twin."""
    inside = torch.zeros_like(x) if core is None else core @ core.T @ x
    u, s, _ = torch.linalg.svd(x - inside, full_matrices=False)
    kept = [] if core is None else [core]
    held = float(inside.square().sum())
    for k in range(len(s)):
        if held >= threshold * float(x.square().sum()):
            break
        kept.append(u[:, k : k + 1])
        held += float(s[k] ** 2)
    return torch.cat(kept, dim=1)


def span(core):
    return core @ core.mT


@pytest.mark.parametrize("threshold", [0.3, 0.9, 0.97, 0.9999])
def test_cores_of_three_tasks_are_the_papers(threshold):
    generator, core, expected = torch.Generator().manual_seed(0), None, None
    for _ in range(3):
        mixed = torch.randn(9, 4, generator=generator, dtype=torch.float64)
        x = mixed @ torch.randn(4, 30, generator=generator, dtype=torch.float64)
        core = grown_core(core, (x @ x.T).unsqueeze(0), threshold)
        expected = core_by_svd(expected, x, threshold)
        used = core[0][:, (core[0] != 0).any(0)]
        assert used.shape == expected.shape
        # The spans' distance is that of singular vectors of one matrix, found in two ways: a few roundings.
        torch.testing.assert_close(span(used), span(expected), rtol=0, atol=1e-8)
    assert (used.T @ used - torch.eye(used.shape[1])).abs().max() < 1e-8


def test_inputs_that_the_core_holds_add_nothing():
    x = seeded(double, 6, 2) @ seeded(double, 2, 20, seed=1)
    core = grown_core(None, (x @ x.T).unsqueeze(0), 1.0)
    assert core.shape[-1] == 2
    again = grown_core(core, (x @ x.T).unsqueeze(0), 1.0)
    assert int((again[0] != 0).any(0).sum()) == 2


def gpm_of(layer, *batches, **options):
    guard = OrthogonalProjection.gpm(**options)
    for x in batches:
        with guard.watch(layer):
            layer(x)
        guard.remember(named_params(layer))
    return guard


def test_groups_have_cores_of_their_own_sizes():
    """A grouped convolution: one group sees one direction, the other three."""
    layer = seeded(nn.Conv1d, 6, 4, 1, groups=2, bias=False).double()
    x = torch.zeros(5, 6, 7, dtype=torch.float64)
    x[:, 0], x[:, 3:] = seeded(double, 5, 7), seeded(double, 5, 3, 7, seed=1)
    guard = gpm_of(layer, x, threshold=1.0)
    assert guard.open_shares() == {"weight": pytest.approx(2 / 6)}
    raw, moved = guarded_update(guard, layer)
    expected = raw["weight"].clone().reshape(2, 2, 3)
    expected[0, :, 0], expected[1] = 0.0, 0.0
    torch.testing.assert_close(moved["weight"].reshape(2, 2, 3), expected, rtol=0, atol=1e-12)


def test_what_earlier_tasks_see_stays_and_the_rest_moves_freely():
    layer = seeded(nn.Linear, 8, 3).double()
    tasks = [seeded(double, 20, 2, seed=n) @ seeded(double, 2, 8, seed=10 + n) for n in range(2)]
    guard = gpm_of(layer, *tasks, threshold=1.0)
    before = [layer(x).detach() for x in tasks]
    raw, moved = guarded_update(guard, layer)
    for x, outputs in zip(tasks, before, strict=True):
        torch.testing.assert_close(layer(x).detach(), outputs, rtol=0, atol=1e-10)
    assert torch.linalg.matrix_rank(moved["weight"]) == 3
    core = guard.cores()["weight+bias"][0]
    joined = torch.cat([raw["weight"], raw["bias"].unsqueeze(1)], dim=1)
    torch.testing.assert_close(moved["weight"], (joined - joined @ core @ core.T)[:, :-1], rtol=0, atol=1e-10)


def test_a_lower_threshold_leaves_more_open():
    layer, x = seeded(nn.Linear, 10, 2, bias=False), seeded(torch.randn, 40, 10) * torch.logspace(0, -2, 10)
    shares = [gpm_of(layer, x, threshold=t).report()["open_share"] for t in (0.5, 0.9, 0.99, 1.0)]
    assert shares == sorted(shares, reverse=True) and shares[0] > 0.8 and shares[-1] == 0.0


def test_states_go_on_also_in_the_middle_of_a_model():
    layer, x, y = seeded(nn.Linear, 6, 3), seeded(torch.randn, 2, 6), seeded(torch.randn, 9, 6, seed=1)
    guard = gpm_of(layer, x, threshold=0.9)
    with guard.watch(layer):
        layer(y)
    other = OrthogonalProjection.gpm(0.9)
    other.load_state_dict(guard.state_dict())
    for one in (guard, other):
        one.remember(named_params(layer))
    assert torch.equal(*(one.cores()["weight+bias"] for one in (guard, other)))


def test_options_are_checked_and_named():
    assert make_guard("gpm:0.9:inputs=columns").threshold == 0.9
    with pytest.raises(ConfigError, match="threshold must be above 0 and at most 1, but got 0"):
        make_guard("gpm:0")
    with pytest.raises(ConfigError, match="no unit, rank or forgetting beside it"):
        OrthogonalProjection(threshold=0.9, rank=2)
    with pytest.raises(ConfigError, match="may be at most max_width=4"):
        gpm_of(nn.Linear(5, 2), torch.randn(2, 5), max_width=4)
