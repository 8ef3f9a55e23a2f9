"""On two processes a guard in the loops of others does what it does in DDP by hand, bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from guarded_loops import assert_same
from safetensors.torch import load_file

TESTS = Path(__file__).parents[1]
PLACES = [TESTS.parent, TESTS / "support", TESTS / "integrations"]


def ranks(kind, folder):
    """The parameters that two processes end with."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d"]
    # Port 0: the agent finds a free one, and the ranks meet at the agent's store.
    command += ["--rdzv-endpoint", "127.0.0.1:0", "--local-addr", "127.0.0.1"]
    command += [str(TESTS / "support" / "guarded_ranks.py"), kind, str(folder)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, PLACES)), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, text=True, capture_output=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return [load_file(folder / f"{kind}-{rank}.safetensors") for rank in range(2)]


@pytest.mark.slow
def test_the_loops_of_others_equal_ddp_by_hand(tmp_path):
    wanted, other = ranks("hand", tmp_path)
    assert_same(other, wanted)
    for kind, library in {"trainer": "transformers", "accelerate": "accelerate", "lightning": "lightning"}.items():
        pytest.importorskip(library, reason="the extras of the loops are not installed")
        for found in ranks(kind, tmp_path):
            assert_same(found, wanted)  # and so both processes stay alike
