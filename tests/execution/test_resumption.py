"""Killed at any moment and resumed, a run ends with the same bits as one that was never stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ramet.runs import Checkpoints, read_records

DRIVER = Path(__file__).parents[1].joinpath("support", "resumption_driver.py")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.slow
def test_a_killed_run_ends_like_one_that_was_never_stopped(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(DRIVER), str(tmp_path)], capture_output=True, text=True, env=environment, timeout=1800
    )
    assert done.returncode == 0, done.stderr
    num_kills = json.loads(done.stdout)
    assert num_kills["straight"] == 0 and num_kills["inline"] >= 3 and num_kills["processes"] >= 2
    expected = sorted(read_records(tmp_path / "straight"), key=lambda record: record["key"])
    assert len(expected) == 11
    names = ["driver", *(f"child/{seed}" for seed in range(6))]
    for run in ("inline", "processes"):
        assert sorted(read_records(tmp_path / run), key=lambda record: record["key"]) == expected
        for name in names:
            a, b = (Checkpoints(tmp_path / which / "checkpoints" / name).load() for which in ("straight", run))
            assert a is not None and b is not None and (a.step, a.state) == (b.step, b.state) == (4, a.state)
            assert a.tensors.keys() == b.tensors.keys()
            assert all(torch.equal(a.tensors[key], b.tensors[key]) for key in a.tensors), (run, name)
