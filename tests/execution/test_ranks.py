"""One search on several ranks: it equals one process with the whole batch, one rank writes, a lost rank ends all.

The ranks are real processes, started by torchrun on this machine.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import torch
from ranks_driver import CASES, MORE_CASES, SETTINGS, SMALL_LAST, first_step, make_words, momenta_of, search_case
from torch import Tensor, nn

from ramet.cli.main import main
from ramet.execution.ranks import ALONE, Ranks
from ramet.runs import read_records, state_from_bytes
from ramet.training import SynchronisedNorms

ROOT = Path(__file__).parents[2]
DRIVER = str(Path(__file__).parents[1].joinpath("support", "ranks_driver.py"))
SECONDS = 1800  # for a machine that is busy with other things


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


def run_ranks(folder, cases, dtype, num_ranks):
    """What each rank ends with, by case; all have the same bits, in any precision and on any processor."""
    make_words(folder)
    with torchrun(DRIVER, "equal", str(folder), dtype, ",".join(cases), num_ranks=num_ranks) as (process, _):
        code, _, err = finish(process)
    assert code == 0, err
    found = {}
    for path in folder.glob("*-0.bin"):
        case = path.name.removesuffix("-0.bin")
        files = [folder / f"{case}-{rank}.bin" for rank in range(num_ranks)]
        ranks = [leaves(state_from_bytes(file.read_bytes())) for file in files]
        for other in ranks[1:]:
            assert other.keys() == ranks[0].keys()
            assert [name for name, value in other.items() if distance(value, ranks[0][name]) > 0] == []
        found[case] = ranks[0]
    return found


def run_equal(folder, cases, num_ranks=2, settings=SETTINGS):
    """In double precision all ranks end with the numbers of one process, each number and each tensor by itself.

    The ranks add up in another order: a sum of n terms is then up to n u of its terms' size away, u = 1.1e-16. What a
    search makes of it is a property of the search and not of a processor. Weights moved by 1e-12 in the beginning are
    up to 1.2e2 times as far away in the end where networks are trained, and 2.4e4 times where the ENAS controller
    learns from perplexities: rewards less their mean are 1/300 of the rewards, and Adam moves a weight by its learning
    rate however small its gradient is, 6e-7 at most of the controller's. The sums are of up to 19 * 64 values of an
    image's channel, 1216 * 1.2e2 * u = 1.6e-11, and of up to 95 words, 95 * 2.4e4 * u = 2.5e-10; a sum that is left
    out moves numbers by 1e-3 and more. Of u = 6e-8, single precision's, the same is left of nothing: see there.
    """
    for case, ours in run_ranks(folder, cases, "float64", num_ranks).items():
        theirs = leaves(state_from_bytes(search_case(case, folder, ALONE, "float64", settings)))
        assert ours.keys() == theirs.keys()
        far = {name: distance(value, theirs[name]) for name, value in ours.items()}
        worst = max(far, key=far.get)
        print(f"{case}, {num_ranks} ranks: {worst} is {far[worst]:.1e} away")
        assert far[worst] < 1e-9, f"{case}: {worst} is {far[worst]} away"


@pytest.mark.parametrize(
    "cases", [list(CASES)[:2], pytest.param(list(CASES)[2:], marks=pytest.mark.slow)], ids=["two", "rest"]
)
@pytest.mark.slow
def test_two_ranks_equal_one_process(tmp_path, cases):
    """Whole searches with each guard, with batch norms and without, on batches that do not divide by 2."""
    run_equal(tmp_path, cases)


def gradients_and_bounds(layer, x, y):
    """The gradient of a linear classifier's mean loss, and how far single precision may be from it, [classes, inputs].

    Both are computed in double precision. With u = 2^-24 a sum of k terms, in any order and with any fused
    multiplications, is at most k u times the sum of the terms' sizes away, up to terms in u squared (the 1.01 below):

    - a logit is a sum of inputs + 1 terms;
    - log p = logit - max - log(sum of exponentials) moves by at most twice what the logits move; its own roundings are
      those of a sum of as many terms as classes and of some functions of numbers up to ``spread``, each good to 4 u;
    - p - target is multiplied by the share of the batch: 8 roundings of both, with those of the softmax's derivative;
    - the gradient is a sum over the samples, within a rank and over the ranks.
    """
    u, num_inputs, num_classes = 2.0**-24, x.shape[1], len(layer.bias)
    weight, bias, x = layer.weight.detach().double(), layer.bias.detach().double(), x.double()
    logits = x @ weight.T + bias  # [samples, classes]
    p, target = logits.softmax(1), nn.functional.one_hot(y, num_classes).double()
    logit_error = (num_inputs + 1) * u * (x.abs() @ weight.abs().T + bias.abs()).amax(1, keepdim=True)
    spread = 1 + (logits.amax(1, keepdim=True) - logits.amin(1, keepdim=True)) + torch.tensor(num_classes).log()
    p_error = p * torch.expm1(2 * logit_error + (num_classes + 16) * u * spread)
    error = 1.01 * (p_error + (len(x) + 8) * u * (p + target))
    by_input = torch.cat([x, torch.ones(len(x), 1)], 1)  # the last one is the bias's
    return (p - target).T @ by_input / len(x), error.T @ by_input.abs() / len(x)


@pytest.mark.slow
def test_two_ranks_in_single_precision(tmp_path):
    """Ranks stay alike to the last bit in whole searches; one step is the whole batch's, as far as rounding lets it.

    More steps cannot be promised: at the kink of a ReLU two roundings have two gradients, and see ``run_equal``.
    """
    found = run_ranks(tmp_path, ["words", "projection"], "float32", num_ranks=2)
    assert found.keys() == {"words", "projection", "step"}
    alone = first_step(ALONE)
    data, rows = alone.setup.data.train, alone._batches[0]
    (trained,) = {name.rpartition(".")[0] for name in momenta_of(alone)}
    layer = alone.setup.new_supernet(alone.plan.seed).get_submodule(trained)
    expected, bound = gradients_and_bounds(layer, data.x[rows].flatten(1), data.y[rows])
    assert len(rows) % 2 == 1 and bound.max() < 1e-3 * expected.abs().max()  # odd, so that a rank's part counts more
    for momenta in (leaves(momenta_of(alone)), found["step"]):
        assert {value.dtype for value in momenta.values()} == {torch.float32}
        gradient = torch.cat([momenta[f"/{trained}.weight"], momenta[f"/{trained}.bias"][:, None]], 1)
        excess = (gradient - expected).abs() / bound
        print(f"one step: {excess.max():.2f} of the bound")
        assert excess.max() <= 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ramet.guards.coverage.UncoveredWarning")  # norms, by Kronecker
def test_two_ranks_equal_one_process_whatever_they_search(tmp_path):
    """Also the guards that only Python names, the other statistics, groups, and DARTS."""
    run_equal(tmp_path, [case for case in MORE_CASES if case not in CASES])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ramet.guards.coverage.UncoveredWarning")  # norms, by Kronecker
def test_three_ranks_and_a_batch_of_two(tmp_path):
    """More ranks than samples in the last mini-batch of an epoch."""
    run_equal(tmp_path, list(MORE_CASES), num_ranks=3, settings=SMALL_LAST)


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
    for _ in range(20):  # on a busy machine a kill may come late, when the search is over
        with torchrun(*arguments) as (process, mark):
            while process.poll() is None and not list((out / "checkpoints").glob("search/step-*.json")):
                time.sleep(0.001)
            for pid in marked(f"RAMET_TEST_MARK={mark}", f"RANK={rank}"):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            code, printed, err = finish(process)
        if "result" not in [record["key"] for record in read_records(out)]:
            assert code != 0
            return printed, err
        shutil.rmtree(out)
    raise AssertionError("a search that lost a rank must end, but each came to its result.")


def told(err):
    """What ramet itself has written on standard error."""
    return [line for line in err.splitlines() if line.startswith("ramet:")]


def check_records(ours, theirs):
    """The records of two searches: the same architectures and figures, up to rounding."""
    ours, theirs = (leaves({record["key"]: record for record in read_records(out)}) for out in (ours, theirs))
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        assert ours[name] == (pytest.approx(value, rel=1e-3, abs=1e-5) if isinstance(value, float) else value), name


@pytest.mark.slow
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
@pytest.mark.slow
def test_bad_input_is_told_by_the_leader_alone(rank, arguments, words, capsys, monkeypatch):
    launch = {"TORCHELASTIC_RUN_ID": "1", "RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1"}
    for name, value in (launch | {"MASTER_PORT": 1}).items():
        monkeypatch.setenv(name, str(value))
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    err = capsys.readouterr().err
    assert ended.value.code == 2 and err.count("\n") == (rank == 0) and (words in err) == (rank == 0)
