"""``python -m benchmarks.scaling_constants``: the constants of the cost model in docs/scaling.md, one a line.

CPU time where it can be, so that a busy machine disturbs little. There are no limits here: these describe.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import torch

from benchmarks.bench_memory import resident_bytes
from ramet.costs import count_parameters
from ramet.data import load
from ramet.execution import Processes, WorkItem
from ramet.execution.executor import Done
from ramet.ranking.alone import train_alone
from ramet.ranking.setup import SupernetSetup
from ramet.runs import Checkpoints, pack_state
from ramet.spaces import NasBench201
from ramet.training import Settings, make_optimizer

RESULT = {"test": 0.5123456789012345, "validation": 0.5123456789012345, "loss": 1.123456789012345}


def main() -> None:
    torch.set_num_threads(1)
    for name, value in [*_messages(), *_checkpoint(), *_worker()]:
        print(f"{name}: {value}", flush=True)


def _messages() -> list[tuple[str, str]]:
    key = "truth/child-12345/seed-0"
    task = bytes(ForkingPickler.dumps(WorkItem(key, train_alone, {"index": 12345, "seed": 0})))
    result = bytes(ForkingPickler.dumps(Done(RESULT)))
    record = json.dumps({"key": key, **RESULT}) + "\n"
    return [
        ("a task to a worker", f"{len(task)} bytes"),
        ("a result back", f"{len(result)} bytes"),
        ("its record", f"{len(record)} bytes"),
    ]


def _checkpoint() -> list[tuple[str, str]]:
    """A checkpoint of NAS-Bench-201's supernet in full size, with momenta of all weights."""
    network = NasBench201().supernet(3, 10)
    optimizer = make_optimizer(network, Settings())
    for param in network.parameters():
        param.grad = torch.zeros_like(param)
    optimizer.step()
    state = pack_state({"network": dict(network.state_dict()), "optimizer": optimizer.state_dict()})
    with tempfile.TemporaryDirectory() as folder:
        checkpoints = Checkpoints(folder, keep=1)
        cpu, wall = [], []
        for step in range(5):
            start = time.process_time(), time.perf_counter()
            checkpoints.save(step, *state)
            cpu.append(time.process_time() - start[0])
            wall.append(time.perf_counter() - start[1])
        size = sum(file.stat().st_size for file in Path(folder).iterdir() if not file.is_dir())
    parameters = count_parameters(network)
    return [
        (f"a checkpoint of {parameters:,} parameters", f"{size:,} bytes, {size / parameters:.2f} a parameter"),
        (
            "its saving",
            f"{1e9 * min(cpu) / parameters:.0f} ns of CPU a parameter; {1000 * min(wall):.0f} ms with the disk",
        ),
    ]


def _worker() -> list[tuple[str, str]]:
    code = "import time, torch; t = time.process_time(); import ramet.ranking.alone; print(time.process_time() - t)"
    seconds = min(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(2))
    settings = Settings(epochs=1, batch_size=64, learning_rate=0.05)
    setup = SupernetSetup(NasBench201(4, 1), load("digits", train_size=128, eval_size=100), settings)
    tasks = [WorkItem(str(index), memory_after, {"index": index}) for index in (7000, 7001)]
    sizes = [size for _, size in Processes(2).run(tasks, setup, label="")]
    return [
        ("a worker's imports besides torch", f"{seconds:.1f} s of CPU"),
        ("a worker's memory after a small training (PSS)", f"{max(sizes) / 1e6:.0f} MB"),
    ]


def memory_after(setup: SupernetSetup, index: int) -> int:
    """Train a child, and say what this process holds."""
    train_alone(setup, index=index, seed=0)
    return resident_bytes(os.getpid())


if __name__ == "__main__":  # worker processes import this file again
    main()
