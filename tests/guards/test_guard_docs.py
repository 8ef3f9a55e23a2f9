"""The page on guards runs as it is printed, and its loop is as short as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ramet.guards import ElasticConsolidation, KroneckerPlasticity, NoGuard, OrthogonalProjection

PAGE = Path(__file__).parents[2] / "docs" / "guards.md"
CODE, *_ = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_the_loop_runs(capsys):
    exec(compile(CODE, str(PAGE), "exec"), {})
    assert "guarded_values" in capsys.readouterr().out
    assert len(CODE[CODE.index("guard, params") :].splitlines()) <= 11  # ten lines, and one that prints


@pytest.mark.parametrize("guard", [ElasticConsolidation, OrthogonalProjection, KroneckerPlasticity, NoGuard])
def test_any_guard_goes_in_its_place(guard):
    assert "WeightPlasticity(strength=100.0)" in CODE
    exec(compile(CODE.replace("WeightPlasticity(strength=100.0)", "Other()"), str(PAGE), "exec"), {"Other": guard})
