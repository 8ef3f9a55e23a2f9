"""A run that is killed again and again; started by test_resumption.py, as ``python resumption_driver.py FOLDER``.

One process imports torch, forks drivers, and kills them with SIGKILL at random moments until one of them comes to its
end. Only the driver is killed: its workers have to notice by themselves.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ramet.execution import WorkItem, make_executor, pulse
from ramet.runs import Checkpoints, Run, pack_state, unpack_state
from ramet.seeding import seeded_globally, torch_generator

Data = tuple[Tensor, Tensor]
NUM_EPOCHS = 5
NUM_CHILDREN = 6


def train(data: Data, seed: int, checkpoints: Checkpoints, after: Callable[[int, float], object]) -> list[float]:
    """Train a small network with batch norm, dropout and momentum, from its last checkpoint on."""
    x, y = data
    with seeded_globally(seed, "weights"):
        network = nn.Sequential(
            nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(), nn.Flatten(), nn.Linear(288, 4)
        ).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    batches = torch_generator(seed, "batches")
    losses: list[float] = []
    checkpoint = checkpoints.load()
    if checkpoint is not None:
        state = unpack_state(checkpoint.tensors, checkpoint.state)
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])
        batches, losses = state["batches"], state["losses"]
        torch.set_rng_state(state["dropout"])
    for epoch in range(len(losses), NUM_EPOCHS):
        loss = torch.tensor(0.0)
        for batch in torch.randperm(len(x), generator=batches).split(16):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(x[batch]), y[batch])
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
        after(epoch, loss.item())
        state = {"network": network.state_dict(), "optimizer": optimizer.state_dict(), "batches": batches}
        checkpoints.save(epoch, *pack_state({**state, "losses": losses, "dropout": torch.get_rng_state()}))
    return losses


def train_child(data: Data, seed: int, folder: str) -> dict[str, Any]:
    """The task: it keeps checkpoints of its own, and the driver records its result."""
    return {"losses": train(data, seed, Checkpoints(folder), lambda epoch, loss: pulse(epoch / NUM_EPOCHS))}


def drive(folder: Path, workers: int) -> None:
    """The whole run: a training in the driver, a record an epoch, and then the children as tasks."""
    generator = torch.Generator().manual_seed(0)
    data = (torch.randn(64, 1, 8, 8, generator=generator), torch.arange(64) % 4)
    is_new = not (folder / "config.json").exists()
    with Run.create(folder, "test", {}) if is_new else Run.open(folder) as run:
        torch.manual_seed(0)
        # After the record and before the checkpoint a kill makes the next life write the same record again.
        train(
            data,
            100,
            run.checkpoints("driver"),
            lambda epoch, loss: run.records.append(f"epoch/{epoch}", loss=loss) and None,
        )
        tasks = [
            WorkItem(
                f"child/{seed}", train_child, {"seed": seed, "folder": str(run.checkpoints(f"child/{seed}").folder)}
            )
            for seed in range(NUM_CHILDREN)
        ]
        left = [task for task in tasks if task.key not in run.records]
        for task, result in make_executor(workers).run(left, data, label=""):
            run.records.append(task.key, **result)


def start(folder: Path, workers: int) -> int:
    """Fork a driver, in a session of its own."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        try:
            drive(folder, workers)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return pid


def steps_done(folder: Path) -> int:
    """How far the run is, from its files: a line of records and a step of a checkpoint count one each."""
    records = folder / "records.jsonl"
    done = records.read_bytes().count(b"\n") if records.exists() else 0
    for checkpoints in (folder / "checkpoints").glob("**/"):
        with contextlib.suppress(FileNotFoundError):
            done += max((int(path.stem[5:]) + 1 for path in checkpoints.glob("step-*.json")), default=0)
    return done


def live_and_die(folder: Path, workers: int, max_kills: int, longest: int, rng: random.Random) -> list[int]:
    """Start drivers until one ends by itself; the process ids of all of them."""
    drivers = [start(folder, workers)]
    while True:
        target = steps_done(folder) + rng.randint(0, longest) if len(drivers) <= max_kills else 10**9
        while steps_done(folder) < target:
            pid, status = os.waitpid(drivers[-1], os.WNOHANG)
            if pid:
                if status:
                    sys.exit(f"driver {len(drivers)} failed with {status}")
                return drivers
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.02))
        os.kill(drivers[-1], signal.SIGKILL)
        os.waitpid(drivers[-1], 0)
        drivers.append(start(folder, workers))  # At once, while the workers of the dead driver may still be ending.


def die_often(least: int, folder: Path, workers: int, max_kills: int, longest: int, rng: random.Random) -> list[int]:
    """``live_and_die`` with so many kills: on a busy machine looks come late, and a run may end after a few of them."""
    while True:
        drivers = live_and_die(folder, workers, max_kills, longest, rng)
        if len(drivers) > least:
            return drivers
        while alive(set(drivers)):  # a worker that has not noticed yet may still write there
            time.sleep(0.01)
        shutil.rmtree(folder)


def alive(sessions: set[int]) -> list[str]:
    """The command lines of all processes of some sessions that are not zombies."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        if fields[0] != "Z" and int(fields[3]) in sessions:
            found.append(command)
    return found


def main(folder: Path) -> None:
    """One run without a kill and two with many."""
    torch.set_num_threads(1)
    torch.optim.SGD([nn.Parameter(torch.empty(1))], lr=0.1)  # Brings in what torch imports late, before the forks.
    rng = random.Random(0)
    drivers = {
        "straight": live_and_die(folder / "straight", 1, 0, 0, rng),
        "inline": die_often(3, folder / "inline", 1, 6, 12, rng),
        "processes": die_often(2, folder / "processes", 2, 3, 16, rng),
    }
    # Long, because on a busy machine a server may still be importing torch when its driver is killed.
    deadline = time.monotonic() + 300
    while left := alive({pid for pids in drivers.values() for pid in pids}):
        if time.monotonic() > deadline:
            sys.exit(f"these have outlived their driver: {left}")
        time.sleep(0.01)
    print(json.dumps({name: len(pids) - 1 for name, pids in drivers.items()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
