"""`ramet rank`, killed and resumed, refused and starved: it ends with the same bits, or in one line."""

from __future__ import annotations

import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from caught import caught
from exactness import bits

from ramet.cli import main
from ramet.runs import read_records

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.xdist_group("rank_resume")  # the runs that they share are made once

# Dropout, because a resumed training has to go on with the same draws.
SPACE = """
from torch import nn
from ramet.spaces import Choice

def network(in_channels, num_classes):
    return nn.Sequential(
        nn.Conv2d(in_channels, 6, 3),
        nn.BatchNorm2d(6),
        Choice({"relu": nn.ReLU(), "tanh": nn.Tanh(), "conv": nn.Conv2d(6, 6, 3, padding=1)}),
        nn.Dropout(0.2),
        nn.Flatten(),
        nn.Linear(6 * 36, num_classes),
    )
"""
NUM_STEPS = 15


class Case:
    """One diagnosis that may be run many times over in folders of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "space_to_resume.py").write_text(SPACE)
        self.expected: object = None

    def arguments(self, name: str, **folders: str) -> list[str]:
        """The command; the run directory and the cache are under the case's folder, or where ``folders`` says."""
        truth, out = (
            folders.get("truth", str(self.folder / f"truth-{name}")),
            folders.get("out", str(self.folder / name)),
        )
        return [
            "rank", "--space", f"{self.folder / 'space_to_resume.py'}:network", "--train-size", "100", "--eval-size",
            "30", "--batch-size", "20", "--epochs", "3", "--instances", "2", "--last-steps", "3", "--last-epochs", "2",
            "--truth-seeds", "1", "--fine-tune-steps", "2", "--also", "momentum=0", "--checkpoint-every", "0",
            "--truth-cache", truth, "--out", out,
        ]  # fmt: skip

    def content(self, name: str) -> object:
        """The records by key, to the last bit; attempts that failed are no part of the result."""
        records = {record["key"]: record for record in read_records(self.folder / name)}
        return bits({key: record for key, record in records.items() if not key.startswith("failed/")})


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """The diagnosis, with what a run that was never disturbed gives."""
    made = Case(tmp_path_factory.mktemp("rank"))
    main(made.arguments("undisturbed"))
    made.expected = made.content("undisturbed")
    return made


def start(*arguments: str) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "ramet", *arguments],
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def wait_until(happens: Callable[[], bool], process: subprocess.Popen[str]) -> bool:
    """Whether something happened before the process ended."""
    while process.poll() is None:
        if happens():
            return True
        time.sleep(0.01)
    return False


def events(run: Path) -> int:
    """How much a run has done: its records, and the steps of its checkpoints."""
    records = run / "records.jsonl"
    num_records = records.read_bytes().count(b"\n") if records.exists() else 0
    newest: dict[Path, int] = {}
    for path in run.glob("checkpoints/**/step-*.json"):
        newest[path.parent] = max(newest.get(path.parent, 0), int(path.stem.removeprefix("step-")))
    return 20 * num_records + sum(newest.values())


def finish(process: subprocess.Popen[str]) -> None:
    _, stderr = process.communicate()
    assert process.returncode == 0, stderr


def kill_and_resume(case: Case, name: str, workers: str, num_kills: int, seed: int) -> int:
    """Run a diagnosis to its end through several kills; gives the number of kills that hit a running process."""
    draw = random.Random(seed)
    run, hits = case.folder / name, 0
    process = start(*case.arguments(name), "--workers", workers)
    for _ in range(num_kills):
        target = events(run) + draw.randint(1, 150)
        if not wait_until(lambda target=target: events(run) >= target, process):
            break
        time.sleep(draw.random() * 0.02)
        process.kill()  # the driver alone: its workers have to notice by themselves
        process.communicate()
        hits += process.returncode == -signal.SIGKILL
        process = start("resume", str(run), "--trust", "--workers", workers, "--checkpoint-every", "0")
    finish(process)
    return hits


def check_kills(case: Case, name: str, workers: str, num_kills: int, least: int, seed: int) -> None:
    """Whatever was killed, and however often, it ends the same; on a busy machine many kills may come too late."""
    for attempt in range(20):
        hits = kill_and_resume(case, f"{name}-{attempt}", workers, num_kills, seed + 100 * attempt)
        assert case.content(f"{name}-{attempt}") == case.expected
        if hits >= least:
            return
    raise AssertionError(f"at least {least} kills must hit a running process, but {hits} did")


@pytest.mark.parametrize(("workers", "num_kills"), [("1", 2), pytest.param("2", 2, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_a_killed_diagnosis_ends_as_if_it_had_never_stopped(case: Case, workers: str, num_kills: int) -> None:
    check_kills(case, f"killed-{workers}", workers, num_kills, 1, seed=int(workers))


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("seed", range(3))
def test_a_diagnosis_survives_many_kills(case: Case, workers: str, seed: int) -> None:
    check_kills(case, f"killed-often-{workers}-{seed}", workers, 12, 3, seed)


@pytest.fixture(scope="module")
def half_trained(case: Case) -> Path:
    """A run that was killed in the middle of its first instance; while it lived, no other process could have it."""
    run = case.folder / "half"

    def is_in_the_middle() -> bool:
        steps = steps_of(run, "instance-0/group-0")
        return bool(steps) and 4 <= steps[-1] < NUM_STEPS

    process = caught(lambda folder: start(*case.arguments("half")), run, lambda folder: is_in_the_middle())
    try:
        for arguments in (["resume", str(run), "--trust"], [*case.arguments("half"), "--overwrite"]):
            refused = subprocess.run(
                [sys.executable, "-m", "ramet", *arguments],
                env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
            )  # fmt: skip
            assert refused.returncode == 1
            assert re.fullmatch(
                rf"ramet: a run directory has one writer at a time, but \S+ is in use by process {process.pid}\.\n",
                refused.stderr,
            )
            assert refused.stdout == ""
    finally:
        process.kill()
        process.communicate()
    assert not any(record["key"].startswith("instance-") for record in read_records(run))
    return run


def resumed_copy(case: Case, run: Path, name: str, change: Callable[[Path], None]) -> object:
    """What a copy of a run gives that is resumed after a change."""
    copied = case.folder / name
    shutil.copytree(run, copied)
    change(copied)
    main(["resume", str(copied), "--trust", "--checkpoint-every", "0"])
    return case.content(name)


def steps_of(run: Path, name: str) -> list[int]:
    return sorted(int(path.stem.removeprefix("step-")) for path in (run / "checkpoints" / name).glob("step-*.json"))


@pytest.mark.slow
def test_a_diagnosis_goes_on_in_the_middle_of_an_instance(case: Case, half_trained: Path) -> None:
    before = steps_of(half_trained, "instance-0/group-0")
    assert 0 < before[-1] < NUM_STEPS
    assert resumed_copy(case, half_trained, "whole-again", lambda run: None) == case.expected
    assert steps_of(case.folder / "whole-again", "instance-0/group-0")[-1] == NUM_STEPS


@pytest.mark.slow
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(
    case: Case, half_trained: Path, caplog: pytest.LogCaptureFixture
) -> None:
    newest = steps_of(half_trained, "instance-0/group-0")[-1]

    def damage(run: Path) -> None:
        (path,) = (run / "checkpoints/instance-0/group-0").glob(f"step-{newest:012d}-*.safetensors")
        path.write_bytes(path.read_bytes()[:-10])

    assert resumed_copy(case, half_trained, "damaged", damage) == case.expected
    (warning,) = [r.getMessage() for r in caplog.records if "is not used" in r.getMessage()]
    assert f"instance-0/group-0/step-{newest:012d}.json is not used: its tensors have" in warning


@pytest.mark.slow
def test_without_a_whole_checkpoint_an_instance_starts_anew(case: Case, half_trained: Path) -> None:
    def damage(run: Path) -> None:
        for path in (run / "checkpoints/instance-0/group-0").glob("step-*.json"):
            path.write_text("{")

    assert resumed_copy(case, half_trained, "damaged-all", damage) == case.expected


@pytest.mark.parametrize("fault", ["damaged", "gone"])
def test_fine_tuning_starts_from_the_trained_network_even_if_its_checkpoint_is_lost(case: Case, fault: str) -> None:
    """The one before it is of an earlier step: fine-tuning from there would give other numbers."""

    def change(run: Path) -> None:
        lines = (run / "records.jsonl").read_bytes().splitlines(keepends=True)
        kept = [line for line in lines if b'"key":"fine-tuning' not in line and b'"key":"result"' not in line]
        assert len(kept) < len(lines)
        (run / "records.jsonl").write_bytes(b"".join(kept))
        if fault == "gone":
            shutil.rmtree(run / "checkpoints")
        else:
            (run / f"checkpoints/instance-0/group-0/step-{NUM_STEPS:012d}.json").write_text("{")

    undisturbed = case.folder / "undisturbed"
    assert steps_of(undisturbed, "instance-0/group-0") == [NUM_STEPS - 1, NUM_STEPS]
    assert resumed_copy(case, undisturbed, f"snapshot-{fault}", change) == case.expected


def test_a_finished_run_gives_its_result_again(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    main(["report", str(case.folder / "undisturbed"), "--json"])
    reported = capsys.readouterr().out
    main(["resume", str(case.folder / "undisturbed"), "--trust", "--json"])
    assert capsys.readouterr().out == reported
    assert case.content("undisturbed") == case.expected


def test_a_truth_that_was_recorded_but_not_kept_is_kept_on_resuming(case: Case) -> None:
    """A kill may come between the record and the cache."""
    cache = case.folder / "truth-undisturbed"
    (path,) = cache.glob("*.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rstrip(b"\n").rfind(b"\n") + 1])
    main(["resume", str(case.folder / "undisturbed"), "--trust"])
    assert sorted(path.read_bytes().splitlines()) == sorted(whole.splitlines())


# A world that refuses


def one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    out, err = capsys.readouterr()
    assert caught.value.code == 1, err
    assert out == ""
    assert err.startswith("ramet: ") and err.count("\n") == 1
    return err


@contextmanager
def files_of_at_most(num_bytes: int) -> Iterator[None]:
    """The kernel refuses to let a file grow further, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("num_bytes", [1, 300, 3000])
def test_a_full_disk_ends_in_one_line(case: Case, num_bytes: int, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"full-{num_bytes}"
    arguments = case.arguments(name)
    with files_of_at_most(num_bytes):
        message = one_line(arguments, capsys)
    assert re.search(r"cannot write \S+: File too large\.", message)
    if (case.folder / name / "config.json").exists():
        main(["resume", str(case.folder / name), "--trust", "--checkpoint-every", "0"])
        assert case.content(name) == case.expected
    else:
        assert not (case.folder / name).exists(), "nothing is left of a run that could not begin"


@pytest.mark.skipif(not Path("/sys/kernel").is_dir(), reason="needs a folder that takes no files")
@pytest.mark.parametrize("which", ["out", "truth"])
def test_a_folder_that_takes_no_files_ends_in_one_line(
    case: Case, which: str, capsys: pytest.CaptureFixture[str]
) -> None:
    message = one_line(case.arguments(f"no-{which}", **{which: "/sys/kernel/ramet"}), capsys)
    assert "/sys/kernel/ramet" in message
    assert "ermi" in message or "Read-only" in message  # not permitted, permission denied
