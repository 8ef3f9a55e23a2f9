"""One layer under a guard: what the tests of projections share."""

from __future__ import annotations

from functools import partial

import torch

from ramet.guards import OrthogonalProjection
from ramet.guards.layers import input_columns, products_of
from ramet.params import named_params

double = partial(torch.randn, dtype=torch.float64)


def seeded(make, *args, seed=0, **kwargs):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make(*args, **kwargs)


def remembered(layer, *inputs, **options):
    """A guard that has seen a layer's call, and the projection's columns of that call by key."""
    guard = OrthogonalProjection(**options)
    with guard.watch(layer):
        layer(*inputs)
    guard.remember(named_params(layer))
    return guard


def columns_by_key(layer, *inputs):
    found = {}
    for part, products in products_of(layer):
        found.update(input_columns(part, inputs, {}, products, mean=False))
    return found


def guarded_update(guard, layer, seed=1):
    """Give every parameter a random update through the guard; returns the raw and the projected updates."""
    params = named_params(layer)
    before = {name: param.detach().clone() for name, param in params.items()}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for param in params.values():
            param.grad = torch.randn_like(param)
    with guard.step(params, 1.0):
        torch.optim.SGD(params.values(), lr=1.0).step()
    return {n: -p.grad for n, p in params.items()}, {n: p.detach() - before[n] for n, p in params.items()}
