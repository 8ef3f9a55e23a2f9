"""Every built-in method keeps what the seam promises, and each baseline does what its paper says."""

from __future__ import annotations

from functools import partial

import pytest

from ramet.continual import METHODS, make_method
from ramet.testing.methods import METHOD_CHECKS

OPTIONS = {"firefly": {"goal": 1.0, "neurons": 4, "candidates": 3, "rounds": 1}, "replay": {"memory": 12}}


def maker(name):
    return partial(make_method, name, **OPTIONS.get(name, {}))


@pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", METHODS)
def test_conformance(name, check):
    check(maker(name))
