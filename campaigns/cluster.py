"""A Ray cluster over two network namespaces: a network that is cut, a node that sleeps, a store that is full."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from campaigns.drivers import alive, command, own_folder, preload, wait_until_gone
from campaigns.findings import Finding, Wants
from campaigns.kills import MODES, undisturbed
from campaigns.namespaces import Network, network, why_not
from campaigns.tiny_jobs import beginning, differences, left_behind, outcome

_PORT = 6399
_SECONDS = 900.0
_SECONDS_TO_START = 180.0
# A node that does not answer for five seconds counts as lost.
_SETTINGS = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "5",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1",
}
_ROOT = Path(__file__).parents[1]
_FULL = "the object store is full"
_STORE = 80 << 20
_WITHOUT_SPILLING = '{"automatic_object_spilling_enabled": false}'
_WITHOUT_DISK = {"RAY_local_fs_capacity_threshold": "0.0001", "RAY_oom_grace_period_s": "0"}
"""Without both Ray puts on the disk what does not fit, after some seconds each, and no store is ever full. A disk that
counts as full from a ten-thousandth on is never used."""
_FILLING = """
import sys, time
import numpy as np
import ray

ray.init(address=sys.argv[1], logging_level="CRITICAL", log_to_driver=False)
held, size = [], 16 << 20
while size > 120_000:  # what is smaller than that lies in the process itself
    try:
        held.append(ray.put(np.zeros(size, np.uint8)))
    except (ray.exceptions.ObjectStoreFullError, ray.exceptions.OutOfDiskError):
        size //= 2
print("full", flush=True)
time.sleep(900)
"""


def run(wants: Wants, *, is_long: bool = False, seed: int = 0) -> Iterator[Finding]:
    """Each disturbance once, with a cluster of its own; in the long campaign only, because it takes minutes."""
    reason = why_not() or ("" if is_long else "only in the long campaign, because it takes minutes")
    disturbances: dict[str, Callable[[Network, list[subprocess.Popen[bytes]]], None]] = {
        "the network is cut, and stays so": lambda net, nodes: net.cut(),
        "the network is cut for 3 seconds": _cut_shortly,
        "a node sleeps for 3 seconds": _sleep,
        "a node is killed": lambda net, nodes: os.killpg(nodes[1].pid, signal.SIGKILL),
    }
    if reason:
        for name in (*disturbances, _FULL):
            yield Finding(what=f"cluster: {name}", skipped=reason)
        return
    preload()
    with own_folder() as place:
        expected, _ = undisturbed("rank", MODES["inline, 1 worker"], place / "whole")
        for number, (name, disturb) in enumerate(disturbances.items()):
            if not wants(f"cluster: {name}"):
                continue
            with network() as net, nodes(net, place / f"n{number}") as started:
                lost = disturbed(net, started, place / f"r{number}", disturb, expected)
            yield Finding(what=f"cluster: {name}", tried=1, lost=lost, detail="2 nodes, results as inline")
        if wants(f"cluster: {_FULL}"):
            head = ["--system-config", _WITHOUT_SPILLING]
            with network() as net, nodes(net, place / "nf", head, _WITHOUT_DISK):
                lost = full_store(net, place / "full")
            yield Finding(what=f"cluster: {_FULL}", tried=1, lost=lost, detail="one line, then resumed, as inline")


@contextlib.contextmanager
def nodes(
    net: Network, folder: Path, head: Sequence[str] = (), settings: Mapping[str, str] | None = None
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """A node of Ray in each namespace, the first of them the head, which may have further options; with settings."""
    folder.mkdir()
    ray, environment = str(Path(sys.executable).with_name("ray")), _environment(folder.parent) | dict(settings or {})
    started: list[subprocess.Popen[bytes]] = []
    try:
        for place, address in enumerate(net.addresses):
            joined = ["--head", f"--port={_PORT}", *head] if place == 0 else [f"--address={net.addresses[0]}:{_PORT}"]
            options = [f"--node-ip-address={address}", "--num-cpus=1", f"--object-store-memory={_STORE}", "--block"]
            options += [
                "--disable-usage-stats",
                *(["--include-dashboard=false", f"--temp-dir={folder}"] if place == 0 else []),
            ]
            starting = net.inside(place, [ray, "start", *joined, *options])
            said = folder / f"node-{place}.log"
            with said.open("wb") as log:
                node = subprocess.Popen(
                    starting, env=environment, cwd=folder, stdout=log, stderr=log, start_new_session=True
                )
            started.append(node)
            _wait_for(node, said)
        yield started
    finally:
        sessions = {process.pid for process in started}
        for pid in alive(sessions):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in started:
            process.wait(timeout=60)
        wait_until_gone(sessions)


def _wait_for(node: subprocess.Popen[bytes], said: Path) -> None:
    """Wait until a node says that it runs.

    Raises:
        RuntimeError: It ended, or has said nothing for too long.
    """
    deadline = time.monotonic() + _SECONDS_TO_START
    while b"Ray runtime started" not in said.read_bytes():
        if node.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"a node of Ray must start, but: {said.read_text(errors='replace')[-300:]}")
        time.sleep(0.1)


def disturbed(
    net: Network,
    started: list[subprocess.Popen[bytes]],
    folder: Path,
    disturb: Callable[[Network, list[subprocess.Popen[bytes]]], None],
    expected: dict[str, str],
) -> list[str]:
    """A ranking on the cluster, disturbed once it has its first result; what was lost."""
    process = _start(net, beginning("rank", folder / "run"), folder)
    deadline = time.monotonic() + _SECONDS
    records = folder / "run" / "records.jsonl"
    while process.poll() is None and time.monotonic() < deadline:
        if records.exists() and records.read_bytes().count(b"\n") >= 2:
            disturb(net, started)
            break
        time.sleep(0.05)
    errors = _finished(process)
    if process.returncode:
        resumed = _start(net, ["resume", str(folder / "run")], folder)  # one line, and it can be gone on with
        more = _finished(resumed)
        if resumed.returncode or len(errors) != 1:
            return [f"exit code {process.returncode}: {' / '.join(errors[-2:])}; resumed: {' / '.join(more[-1:])}"]
    return differences(expected, outcome(folder / "run")) + left_behind(folder / "run")


def full_store(net: Network, folder: Path) -> list[str]:
    """Another driver has filled the store of the driver's node: one line, and once there is room the run goes on."""
    import numpy as np

    folder.mkdir()
    images = np.random.default_rng(0).integers(0, 256, (480, 32, 32), np.uint8)
    np.savez(folder / "own.npz", x=images, y=np.arange(480) % 4)
    arguments = [*beginning("rank", folder / "run"), "--data", str(folder / "own.npz")]
    filling = subprocess.Popen(
        net.inside(0, [sys.executable, "-c", _FILLING, f"{net.addresses[0]}:{_PORT}"]),
        env=_environment(folder.parent), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert filling.stdout is not None
    try:
        if filling.stdout.readline().strip() != b"full":
            return ["the store could not be filled"]
        process = _start(net, arguments, folder)
        errors = _finished(process)
    finally:
        filling.kill()
        filling.wait()
    lost = []
    if process.returncode != 1 or len(errors) != 1:
        lost.append(f"exit code {process.returncode}, and {len(errors)} lines: {' / '.join(errors[-2:])}")
    resumed = _start(net, ["resume", str(folder / "run")], folder)
    more = _finished(resumed)
    if resumed.returncode:
        return [*lost, f"resumed: exit code {resumed.returncode}: {' / '.join(more[-2:])}"]
    alone = command(
        [*beginning("rank", folder / "alone"), "--data", str(folder / "own.npz"), "--executor", "inline"],
        folder / "errors", folder,
    )  # fmt: skip
    if alone.wait():
        return [*lost, f"inline: {' / '.join(alone.errors()[-2:])}"]
    return [*lost, *differences(outcome(folder / "alone"), outcome(folder / "run")), *left_behind(folder / "run")]


def _start(net: Network, arguments: list[str], folder: Path) -> subprocess.Popen[bytes]:
    folder.mkdir(exist_ok=True)
    options = ["--executor", "ray", "--ray-address", f"{net.addresses[0]}:{_PORT}", "--workers", "2"]
    return subprocess.Popen(
        net.inside(0, [sys.executable, "-m", "ramet", *arguments, *options]),
        env=_environment(folder.parent), cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )  # fmt: skip


def _finished(process: subprocess.Popen[bytes]) -> list[str]:
    try:
        return process.communicate(timeout=_SECONDS)[1].decode(errors="replace").splitlines()
    except subprocess.TimeoutExpired:
        process.kill()
        return [*process.communicate()[1].decode(errors="replace").splitlines(), "it hung"]


def _cut_shortly(net: Network, started: list[subprocess.Popen[bytes]]) -> None:
    net.cut()
    time.sleep(3)
    net.mend()


def _sleep(net: Network, started: list[subprocess.Popen[bytes]]) -> None:
    sleeping = list(alive({started[1].pid}))
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in sleeping:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        time.sleep(3 if number == signal.SIGSTOP else 0)


def _environment(home: Path) -> dict[str, str]:
    """Nodes and drivers have one home: in it lies the token by which Ray knows its own, if there is one."""
    own = {"HOME": str(home), "PYTHONPATH": str(_ROOT), "OMP_NUM_THREADS": "1", "RAMET_PROGRESS": "0"}
    return os.environ | _SETTINGS | own
