"""Tasks on a real Ray cluster of two nodes, started and stopped here, on the loopback interface."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from ray_tasks import mark
from test_execution import report_settings

from ramet.cli import main
from ramet.errors import ConfigError, MissingExtraError, RunError
from ramet.execution import Done, Executor, Ray, WorkItem, ray_executor
from ramet.execution.executor import Attempts
from ramet.execution.ray_cluster import disconnect, import_ray
from ramet.runs import read_config, read_records
from ramet.testing.executors import WorkerSuite, is_alive, note
from ramet_papers.recorded import finish_tasks, open_recorded

try:
    import_ray(None)  # Before anybody else does, because it sets the environment that keeps Ray on this machine.
except MissingExtraError:
    pytest.skip("ray is not installed; pip install 'ramet[ray]'", allow_module_level=True)

# One cluster, not one in each process of pytest-xdist. Slow, because Ray's own processes have 15 s to start, and a
# machine that is busy with other things may need more.
pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.slow]

MEGABYTE = 2**20
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes with a CPU each; the first one is the driver's."""
    cluster = started()
    try:
        yield cluster
    finally:
        disconnect()
        cluster.shutdown()


def started() -> Any:
    """A cluster; on a busy machine Ray's own processes may be too slow for Ray at first, which gives them 15 s."""
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "object_store_memory": 80 * MEGABYTE}
    settings = {
        "health_check_initial_delay_ms": 1000,
        "health_check_period_ms": 1000,
        "health_check_failure_threshold": 5,
        "local_fs_capacity_threshold": 0.0,  # What does not fit into the store does not go to the disk either.
    }
    for is_last in (False, False, True):
        cluster = Cluster()
        try:
            cluster.add_node(**node, include_dashboard=False, _system_config=settings)
            cluster.add_node(**node)
            return cluster
        except Exception:
            cluster.shutdown()
            if is_last:
                raise
    raise AssertionError


def wait_for(condition: Callable[[], Any], seconds: float = 300.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests' / 'support'}", "OMP_NUM_THREADS": "1"}


class TestRay(WorkerSuite):
    seconds_to_end = 300.0

    @pytest.fixture(autouse=True)
    def _cluster(self, cluster: Any) -> None:
        self._address = cluster.address

    def make(self) -> Executor:
        return Ray(2, address=self._address)


def test_workers_take_over_the_caller_s_settings_and_send_pulses(cluster, monkeypatch):
    monkeypatch.setattr(ray_executor, "_is_watched", lambda: True)
    monkeypatch.setattr(ray_executor, "_SECONDS_BETWEEN_LOOKS", 0.05)
    torch.set_default_dtype(torch.float64)
    torch.set_flush_denormal(True)
    pulses: list[float] = []
    try:
        tasks = [WorkItem("report", report_settings, cost=2.0), WorkItem("mark", report_settings)]
        stream = Ray(1, address=cluster.address)._stream(tasks, None, lambda task, fraction: pulses.append(fraction))
        outcomes = [outcome for _, outcome in stream]
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_flush_denormal(False)
    assert outcomes == [Done({"dtype": "torch.float64", "flush": True, "threads": 1})] * 2
    assert pulses and set(pulses) <= {0.25, 0.5, 1.0}


def test_data_go_to_the_store_once_and_are_not_copied(cluster, monkeypatch):
    import ray

    puts = []
    put = ray.put
    monkeypatch.setattr(ray, "put", lambda value: puts.append(value) or put(value))
    tasks = [WorkItem(str(index), add_up) for index in range(6)]
    results = [result for _, result in Ray(2, address=cluster.address).run(tasks, torch.arange(2 * MEGABYTE))]
    assert len(puts) == 1 and len(results) == 6
    assert {result["sum"] for result in results} == {MEGABYTE * (2 * MEGABYTE - 1)}
    assert all(result["address"] == results[0]["address"] for result in results if result["pid"] == results[0]["pid"])


def add_up(context: torch.Tensor) -> dict[str, Any]:
    return {"sum": int(context.sum()), "address": context.data_ptr(), "pid": os.getpid()}


# --- bad input --------------------------------------------------------------------------------------------------------


def test_what_no_node_has_is_refused(cluster):
    with pytest.raises(ConfigError, match=r"\(1 CPUs and 2 GPUs\), but none does; the largest have 1 CPUs and 0 GPUs"):
        list(Ray(2, address=cluster.address, gpus=2).run([WorkItem("a", note, {"name": "a"})], ""))


def test_a_full_object_store_is_one_line(cluster):
    data = torch.zeros(100 * MEGABYTE, dtype=torch.uint8)
    with pytest.raises(RunError, match=r"room for the data, 105 MB, but is full") as caught:
        list(Ray(2, address=cluster.address).run([WorkItem("a", add_up)], data))
    assert "\n" not in str(caught.value)


def test_other_versions_of_torch_are_refused(cluster, monkeypatch):
    monkeypatch.setattr(ray_executor, "versions", lambda: {"ramet": "0", "torch": "0", "numpy": "0"})
    with pytest.raises(ConfigError, match="must have ramet 0 as the driver has"):
        list(Ray(2, address=cluster.address).run([WorkItem("a", note, {"name": "a"})], ""))


# --- what dies --------------------------------------------------------------------------------------------------------

DRIVER = """
import signal
import sys
from pathlib import Path
from ray_tasks import mark
from ramet.execution import Ray, WorkItem
from ramet_papers.recorded import finish_tasks, open_recorded

# A shell without job control starts what it puts in the background, and all that this starts, with SIGINT ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

marks, out, address = sys.argv[1:]
tasks = [WorkItem(str(index), mark, {"name": str(index), "seconds": 0.4}) for index in range(12)]
try:
    with open_recorded(Path(out), "marks", {}) as run:
        finish_tasks(run, Ray(2, address=address or None), tasks, marks)
except KeyboardInterrupt:
    sys.exit(130)
"""


@contextlib.contextmanager
def driver(tmp_path: Path, address: str) -> Iterator[subprocess.Popen[bytes]]:
    """A driver of twelve tasks in a process of its own, once three of them are recorded."""
    script, marks, out = tmp_path / "driver.py", tmp_path / "marks", tmp_path / "run"
    script.write_text(textwrap.dedent(DRIVER))
    marks.mkdir()
    command = [sys.executable, str(script), str(marks), str(out), address]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True, env=environment())
    try:
        wait_for(lambda: process.poll() is not None or num_records(out) >= 3, seconds=300)
        assert process.poll() is None, process.communicate()[1].decode()
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def num_records(out: Path) -> int:
    return len(read_records(out)) if (out / "records.jsonl").exists() else 0


def pids_of(marks: Path) -> set[int]:
    return {int(path.name.split(".")[1]) for path in marks.iterdir()}


def test_a_killed_driver_is_resumed_without_training_anything_twice(cluster, tmp_path):
    out, marks = tmp_path / "run", tmp_path / "marks"
    with driver(tmp_path, cluster.address) as process:
        process.kill()
        process.wait()
        wait_for(lambda: not any(is_alive(pid) for pid in pids_of(marks)))
    finished = {record["key"] for record in read_records(out)}
    assert 3 <= len(finished) < 12
    tasks = [WorkItem(str(index), mark, {"name": str(index), "seconds": 0.0}) for index in range(12)]
    with open_recorded(out, "marks", {}) as run:
        found = finish_tasks(run, Ray(2, address=cluster.address), tasks, str(marks))
    assert {key: result["name"] for key, result in found.items()} == {task.key: task.key for task in tasks}
    begun = [path.name.split(".")[0] for path in marks.iterdir()]
    assert all(begun.count(key) == 1 for key in finished) and len(begun) <= 12 + 2


def is_left(session: int) -> bool:
    """Whether a process is left that a driver, or anybody it has started, has started."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            return True
    return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_cluster_of_our_own_ends_with_the_driver(tmp_path, how):
    """Ctrl-C reaches the whole group, as from a terminal; SIGKILL the driver alone."""
    with driver(tmp_path, "") as process:
        assert is_left(process.pid)
        if how == signal.SIGINT:
            os.killpg(process.pid, how)
        else:
            process.kill()
        _, errors = process.communicate(timeout=300)
        assert process.returncode == (130 if how == signal.SIGINT else -signal.SIGKILL) and errors == b""
        wait_for(lambda: not is_left(process.pid) and not any(map(is_alive, pids_of(tmp_path / "marks"))))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_worker_that_dies_while_it_starts_is_replaced(tmp_path, monkeypatch):
    """Ray misses it after the time that it gives workers to come, and the driver must not wait for longer."""
    monkeypatch.setenv("RAY_worker_register_timeout_seconds", "20")
    killed: list[int] = []

    def kill_first() -> None:
        while not killed:
            for pid, name in processes_of(process.pid).items():
                if name.startswith("ray::") and "Agent" not in name:
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
                    return
            time.sleep(0.001)

    script, marks = tmp_path / "driver.py", tmp_path / "marks"
    script.write_text(textwrap.dedent(DRIVER))
    marks.mkdir()
    command = [sys.executable, str(script), str(marks), str(tmp_path / "run"), ""]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True, env=environment())
    threading.Thread(target=kill_first, daemon=True).start()
    try:
        _, errors = process.communicate(timeout=900)
    finally:
        killed.append(0)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert (process.returncode, errors) == (0, b"") and killed[0]
    assert num_records(tmp_path / "run") == 12


def processes_of(session: int) -> dict[int, str]:
    """The processes of a session, and what they are called."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            if int((folder / "stat").read_text().rpartition(")")[2].split()[3]) == session:
                found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
    return found


TINY = "--space cells64 --channels 2 --cells 1 --train-size 60 --eval-size 60 --batch-size 20 --epochs 60 --instances 1"
TINY += " --children 16 --truth-seeds 1 --fine-tune-steps 0 --last-steps 1 --last-epochs 1 --json"


HELD = """
    import os
    import time
    from pathlib import Path

    FOLDER = Path(__file__).parent


    def held(x, y, generator):
        'Changes nothing. Once a run on Ray has four records its trainings wait until a node is known to be dead.'
        records = FOLDER / "ray" / "records.jsonl"
        if not (FOLDER / "died").exists() and records.exists() and records.read_bytes().count(b"\\n") >= 4:
            (FOLDER / f"held-{os.getpid()}").touch()
            end = time.monotonic() + 300
            while not (FOLDER / "died").exists() and time.monotonic() < end:
                time.sleep(0.02)
        return x, y
"""


def test_a_node_dies_in_the_middle_of_a_truth(cluster, tmp_path, monkeypatch, capsys):
    """Sixteen children: none lost, none doubled, the same numbers as inline. Near the end, because it costs a node."""
    deaths: list[str] = []
    died = Attempts.died
    monkeypatch.setattr(Attempts, "died", lambda *all: deaths.append(all[1].key) or died(*all))
    held = tmp_path / "held.py"
    held.write_text(textwrap.dedent(HELD), encoding="utf-8")

    def rank(name: str, *options: str) -> dict[str, dict[str, Any]]:
        where = ["--out", str(tmp_path / name), "--truth-cache", str(tmp_path / f"truth-{name}")]
        main(["rank", *where, "--augment", f"{held}:held", *options])
        records = read_records(tmp_path / name)
        assert len({record["key"] for record in records}) == len(records)
        return {record["key"]: record for record in records}

    expected = rank("inline", *TINY.split())
    # Both nodes have a worker that is ready before the first child: a node without one would lose no task with it.
    (tmp_path / "marks").mkdir()
    naps = [WorkItem(f"nap/{place}", mark, {"name": str(place), "seconds": 5.0}) for place in range(2)]
    assert len(list(Ray(2, address=cluster.address).run(naps, str(tmp_path / "marks")))) == 2

    def kill() -> None:
        wait_for(lambda: len(list(tmp_path.glob("held-*"))) == 2)  # Each node trains a child.
        cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
        wait_for(lambda: deaths)
        (tmp_path / "died").touch()

    killer = threading.Thread(target=kill)
    killer.start()
    address = ["--executor", "ray", "--ray-address", cluster.address, "--workers", "2"]
    found = rank("ray", *TINY.split(), *address)
    killer.join()
    assert 1 <= len(deaths) <= 2 and len(cluster.worker_nodes) == 0
    assert sum(key.startswith("truth/") for key in found) == 16
    assert found == expected
    jobs = [read_config(tmp_path / name)["config"] | {"truth_cache": ""} for name in ("inline", "ray")]
    assert jobs[0] == jobs[1]  # So a run that began with one executor goes on with another.
    assert capsys.readouterr().err == ""


def test_other_versions_of_ray_are_refused(cluster, monkeypatch):
    """The very last test, because it needs a new connection."""
    import ray

    disconnect()
    monkeypatch.setattr(ray, "__version__", "1.0.0")
    with pytest.raises(ConfigError, match=r"driver's versions of Ray and Python, but .* others.*1\.0\.0") as caught:
        Ray(2, address=cluster.address)
    assert "\n" not in str(caught.value)
