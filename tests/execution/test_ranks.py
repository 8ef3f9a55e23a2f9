"""One search on several ranks: it equals one process with the whole batch, one rank writes, a lost rank ends all.

The ranks are real processes, started by torchrun on this machine.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import torch
from ranks_driver import CASES, MORE_CASES, SETTINGS, SMALL_LAST, make_words, search_case
from torch import Tensor, nn

from ramet.cli.main import main
from ramet.execution.ranks import ALONE, Ranks
from ramet.runs import read_records, state_from_bytes
from ramet.training import SynchronisedNorms

ROOT = Path(__file__).parents[2]
DRIVER = str(Path(__file__).parents[1].joinpath("support", "ranks_driver.py"))
SECONDS = 400  # for a machine that is busy with other things


@contextmanager
def torchrun(*arguments, num_ranks=2):
    """A torchrun of which nothing is left afterwards; its arguments are a script or a module, and theirs."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(num_ranks)]
    # Port 0: the agent finds a free one, and the ranks meet at the agent's store.
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--local-addr", "127.0.0.1", *arguments]
    mark = uuid.uuid4().hex
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "RAMET_TEST_MARK": mark}
    process = subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield process, mark
    finally:
        for pid in marked(f"RAMET_TEST_MARK={mark}"):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.communicate()


def marked(*variables):
    """The processes that have these variables in their environment, as torchrun's ranks have theirs."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            present = (folder / "environ").read_bytes().split(b"\0")
            if all(variable.encode() in present for variable in variables):
                found.append(int(folder.name))
    return found


def finish(process):
    """Exit code, standard output and standard error, once it has ended."""
    out, err = process.communicate(timeout=SECONDS)
    return process.returncode, out, err


def leaves(value, where=""):
    """The tensors and the other values of a nested structure, by place."""
    if isinstance(value, dict):
        return {k: v for key, item in value.items() for k, v in leaves(item, f"{where}/{key}").items()}
    if isinstance(value, list | tuple):
        return {k: v for key, item in enumerate(value) for k, v in leaves(item, f"{where}/{key}").items()}
    # The directions that a projection of a limited rank keeps are eigenvectors, whose signs mean nothing.
    return {where: value.abs() if "/basis/" in where else value}


def distance(ours, theirs):
    """The relative distance of two values; of values that are neither tensors nor floats, 0 where they are equal."""
    if isinstance(ours, torch.Generator):
        ours, theirs = ours.get_state(), theirs.get_state()
    if isinstance(ours, Tensor | float) and not isinstance(ours, bool):
        a, b = torch.as_tensor(ours).double(), torch.as_tensor(theirs).double()
        return 0.0 if torch.equal(a, b) else float((a - b).norm() / b.norm().clamp(min=1e-12))
    return 0.0 if ours == theirs else float("inf")


def run_equal(folder, cases, dtype, num_ranks=2, settings=SETTINGS):
    """All ranks end with the same bits, and with the numbers of one process.

    In float64 each number and each tensor is compared by itself, to 1e-9. In float32 some are what is left of sums that
    cancel, such as the gradient of a weight before a batch norm, and hold rounding only; there the parts of the state
    are compared as wholes, to 1e-5: all weights, all momenta, all Fisher information, the numbers of a record.
    """
    make_words(folder)
    with torchrun(DRIVER, "equal", str(folder), dtype, ",".join(cases), num_ranks=num_ranks) as (process, _):
        code, _, err = finish(process)
    assert code == 0, err
    for case in cases:
        alone = leaves(state_from_bytes(search_case(case, folder, ALONE, dtype, settings)))
        files = [folder / f"{case}-{rank}.bin" for rank in range(num_ranks)]
        ranks = [leaves(state_from_bytes(file.read_bytes())) for file in files]
        for other in ranks[1:]:
            assert other.keys() == ranks[0].keys()
            assert [name for name, value in other.items() if distance(value, ranks[0][name]) > 0] == []
        assert ranks[0].keys() == alone.keys()
        ours, theirs = (by_part(found) if dtype == "float32" else found for found in (ranks[0], alone))
        far = {name: distance(value, theirs[name]) for name, value in ours.items()}
        worst = max(far, key=far.get)
        print(f"{case}, {num_ranks} ranks, {dtype}: {worst} is {far[worst]:.1e} away")
        assert far[worst] < (1e-5 if dtype == "float32" else 1e-9), f"{case}: {worst} is {far[worst]} away"


def by_part(found):
    """The numbers of each part of the state in one tensor; everything else as it is."""
    parts, rest = {}, {}
    for name, value in found.items():
        is_number = isinstance(value, float) or (isinstance(value, Tensor) and value.is_floating_point())
        if is_number:
            part = "/".join(name.split("/")[: 4 if "/guard/" in name or "/records/" in name else 3])
            kind = name.rpartition(".")[2] if "running" in name else ""
            parts.setdefault(f"{part} {kind}", []).append(torch.as_tensor(value).double().reshape(-1))
        else:
            rest[name] = value
    return rest | {part: torch.cat(values) for part, values in parts.items()}


def test_two_ranks_equal_one_process(tmp_path):
    """Whole searches with each guard, with batch norms and without, on batches that do not divide by 2."""
    run_equal(tmp_path, list(CASES), "float64")


def test_two_ranks_equal_one_process_in_single_precision(tmp_path):
    """Two guards on a small network: at the kink of a ReLU two roundings have two gradients, so larger ones differ."""
    run_equal(tmp_path, ["words"], "float32")


@pytest.mark.slow
def test_two_ranks_equal_one_process_whatever_they_search(tmp_path):
    """Also the guards that only Python names, the other statistics, groups, and DARTS."""
    run_equal(tmp_path, [case for case in MORE_CASES if case not in CASES], "float64")


@pytest.mark.slow
def test_three_ranks_and_a_batch_of_two(tmp_path):
    """More ranks than samples in the last mini-batch of an epoch."""
    run_equal(tmp_path, list(MORE_CASES), "float64", num_ranks=3, settings=SMALL_LAST)


def test_parts_cover_a_batch():
    for count in (1, 2, 3, 4, 7, 64):
        parts = [Ranks(rank, 3).part(count) for rank in range(3)]
        rows = [row for part in parts for row in range(count)[part.rows]]
        assert sum(part.weight for part in parts) == pytest.approx(1.0)
        assert rows == list(range(count)) * (3 if count < 3 else 1)
        assert {part.repeated for part in parts} == {count < 3}
        for part in parts:
            assert part.repeated or part.weight == pytest.approx(len(range(count)[part.rows]) / count)
    assert ALONE.part(1) == ALONE.part(1) and not ALONE.part(1).repeated and ALONE.part(5).rows == slice(0, 5)


@pytest.mark.parametrize(
    "options", [{}, {"affine": False}, {"momentum": None}, {"track_running_stats": False}], ids=str
)
@pytest.mark.parametrize("kind", [nn.BatchNorm1d, nn.BatchNorm2d])
def test_a_synchronised_norm_of_one_rank_is_the_norm(kind, options):
    """Outputs, gradients and running statistics against torch's own, in both modes."""
    shape = (5, 3) if kind is nn.BatchNorm1d else (5, 3, 4, 2)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=generator, dtype=torch.float64) * 3 + 7
    slope = torch.randn(shape, generator=generator, dtype=torch.float64)
    found = []
    for synchronise in (False, True):
        norm, inputs = kind(3, **options).double(), x.clone().requires_grad_()
        norms = SynchronisedNorms(norm, lambda tensors: None)
        outputs = []
        for training in (True, True, False):
            norm.train(training)
            if synchronise:
                with norms.synchronised():
                    outputs.append(norm(inputs))
            else:
                outputs.append(norm(inputs))
        (torch.stack(outputs) * slope).sum().backward()
        found.append([*outputs, inputs.grad, *(param.grad for param in norm.parameters()), *norm.buffers()])
        assert "forward" not in vars(norm)
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


SMALL = ["--channels", "2", "--cells", "1", "--train-size", "40", "--eval-size", "16", "--epochs", "4", "--seed", "1"]
SMALL += ["--warmup-epochs", "1", "--models-per-epoch", "4", "--batches-per-model", "2", "--strategy-steps", "3"]
SMALL += ["--archs-per-step", "3", "--batch-size", "9", "--candidates", "3", "--final", "0", "--guard", "projection"]


def kill_a_rank(out, rank):
    """Start a search on two ranks, kill one in the middle of it; gives standard output and standard error."""
    arguments = ["-m", "ramet", "search", *SMALL, "--checkpoint-every", "0", "--out", str(out)]
    with torchrun(*arguments) as (process, mark):
        while process.poll() is None and not list((out / "checkpoints").glob("search/step-*.json")):
            time.sleep(0.001)
        for pid in marked(f"RAMET_TEST_MARK={mark}", f"RANK={rank}"):
            os.kill(pid, signal.SIGKILL)
        code, printed, err = finish(process)
    assert code != 0 and "result" not in [record["key"] for record in read_records(out)]
    return printed, err


def told(err):
    """What ramet itself has written on standard error."""
    return [line for line in err.splitlines() if line.startswith("ramet:")]


def check_records(ours, theirs):
    """The records of two searches: the same architectures and figures, up to rounding."""
    ours, theirs = (leaves({record["key"]: record for record in read_records(out)}) for out in (ours, theirs))
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        assert ours[name] == (pytest.approx(value, rel=1e-3, abs=1e-5) if isinstance(value, float) else value), name


def test_a_killed_rank_ends_the_job_with_a_line_and_it_goes_on(tmp_path, capsys):
    """SIGKILL in the middle of a search; gone on with by one process, it ends like one that never stopped."""
    printed, err = kill_a_rank(tmp_path / "killed", rank=1)
    assert printed == "" and len(told(err)) == 1 and "`ramet resume DIR`" in told(err)[0]
    main(["resume", str(tmp_path / "killed")])
    main(["search", *SMALL, "--out", str(tmp_path / "whole")])
    check_records(tmp_path / "killed", tmp_path / "whole")


@pytest.mark.slow
def test_without_its_leader_a_job_ends_too_and_goes_on_with_all_ranks(tmp_path, capsys):
    """Rank 0 is killed; two ranks go on. One of them writes and prints."""
    printed, err = kill_a_rank(tmp_path / "killed", rank=0)
    assert printed == "" and len(told(err)) == 1
    with torchrun("-m", "ramet", "resume", str(tmp_path / "killed"), "--json") as (process, _):
        code, printed, err = finish(process)
    assert code == 0 and not told(err), err
    assert [json.loads(line)["epochs"] for line in printed.splitlines()] == [4]
    main(["search", *SMALL, "--out", str(tmp_path / "whole")])
    check_records(tmp_path / "killed", tmp_path / "whole")


@pytest.mark.slow
def test_a_rank_that_hangs_ends_the_job(tmp_path):
    with torchrun(DRIVER, "hang", str(tmp_path)) as (process, _):
        code, _, err = finish(process)
    assert code != 0 and len(told(err)) == 1 and "`ramet resume DIR`" in told(err)[0]


@pytest.mark.slow
def test_what_one_rank_refuses_all_refuse(tmp_path):
    with torchrun(DRIVER, "agree", str(tmp_path)) as (process, _):
        code, _, err = finish(process)
    assert code == 0, err
    for rank in range(2):
        said = (tmp_path / f"said-{rank}").read_text().splitlines()
        assert said[:2] == ["from 1", "2 on rank 1: no room."]
        assert said[2] == f"1 ranks are alike, but on rank {rank} it is another than elsewhere."


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rank"], "torchrun is for `ramet search` and `ramet resume`, but got 'rank'"),
        (["search", "--batch-norm", "luck"], "luck"),
    ],
)
def test_bad_input_is_told_by_the_leader_alone(rank, arguments, words, capsys, monkeypatch):
    launch = {"TORCHELASTIC_RUN_ID": "1", "RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1"}
    for name, value in (launch | {"MASTER_PORT": 1}).items():
        monkeypatch.setenv(name, str(value))
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    err = capsys.readouterr().err
    assert ended.value.code == 2 and err.count("\n") == (rank == 0) and (words in err) == (rank == 0)
