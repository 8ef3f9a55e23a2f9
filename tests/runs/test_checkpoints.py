"""Checkpoints: exact round trips, one atomic unit under kills at every system call, damage, full disks."""

from __future__ import annotations

import errno
import json
import logging
import math
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from exactness import same_bits
from torch import Tensor, nn

from ramet.errors import ConfigError, RunError
from ramet.runs import Checkpoints
from ramet.runs.encoding import encode

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
]


def loaded(checkpoints: Checkpoints) -> tuple[int, dict[str, Tensor], object]:
    checkpoint = checkpoints.load()
    assert checkpoint is not None
    return checkpoint.step, checkpoint.tensors, checkpoint.state


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path / "part")


# --- round trips ------------------------------------------------------------------------------------------------------


def test_tensors_come_back_with_every_bit_and_stride(checkpoints):
    generator = torch.Generator().manual_seed(0)
    image = torch.randn(2, 3, 4, 5, generator=generator)
    wide = torch.randn(4, 6, generator=generator)
    tensors = {
        "plain": wide,
        "transposed": wide.t(),
        "channels_last": image.to(memory_format=torch.channels_last),
        "one channel": torch.empty(2, 1, 4, 4).to(memory_format=torch.channels_last).fill_(1),
        "scalar": torch.tensor(0.1),
        "empty": torch.empty(0, 3),
        "special": torch.tensor([math.nan, math.inf, -0.0, 5e-324], dtype=torch.float64),
        "parameter": nn.Parameter(torch.randn(3, generator=generator)),
        **{str(dtype): torch.tensor([0, 1, 1, 0]).to(dtype) for dtype in DTYPES},
    }
    before = {name: tensor.detach().clone() for name, tensor in tensors.items()}
    state = {"epoch": 3, "loss": math.nan, "names": ["a", None, True]}
    checkpoints.save(7, tensors, state)
    step, found, found_state = loaded(checkpoints)
    assert step == 7 and encode(found_state) == encode(state) and list(sorted(found)) == sorted(tensors)
    for name, tensor in before.items():
        assert same_bits(found[name], tensor), name
        assert same_bits(tensors[name].detach(), tensor), name
        assert not found[name].requires_grad


def test_views_that_leave_gaps_come_back_dense(checkpoints):
    base = torch.arange(24.0).reshape(4, 6)
    tensors = {
        "column": base[:, 1],
        "rows": base[1:3],
        "every other": base[::2, ::3],
        "broadcast": base[0].expand(3, 6),
    }
    checkpoints.save(0, tensors)
    found = loaded(checkpoints)[1]
    for name, tensor in tensors.items():
        assert torch.equal(found[name], tensor), name
    found["rows"].fill_(-1)
    assert torch.equal(found["column"], base[:, 1])  # Overlapping views do not share memory afterwards.


def test_tied_tensors_are_stored_once_and_come_back_tied(checkpoints):
    weight = torch.randn(100, 100)
    flat = weight.view(-1)  # The same memory under another shape is not the same tensor.
    checkpoints.save(0, {"encoder": weight, "decoder": weight, "again": weight.detach(), "flat": flat})
    found = loaded(checkpoints)[1]
    assert found["encoder"] is found["decoder"] is found["again"]
    assert torch.equal(found["encoder"], weight) and torch.equal(found["flat"], flat)
    (path,) = checkpoints.folder.glob("*.safetensors")
    assert path.stat().st_size < 2.1 * weight.nbytes


def test_what_was_loaded_is_the_caller_s_own(checkpoints):
    checkpoints.save(0, {"w": torch.ones(3)})
    loaded(checkpoints)[1]["w"].add_(1)
    assert torch.equal(loaded(checkpoints)[1]["w"], torch.ones(3))


@pytest.mark.parametrize(
    ("tensors", "state", "error"),
    [
        ({"w": torch.ones(2).to_sparse()}, None, TypeError),
        ({"w": torch.ones(2, dtype=torch.complex128)}, None, TypeError),
        ({"w": [1.0]}, None, TypeError),
        ({}, {"x": object()}, TypeError),
    ],
)
def test_what_cannot_be_stored_leaves_the_last_checkpoint(checkpoints, tensors, state, error):
    checkpoints.save(1, {}, "kept")
    with pytest.raises(error):
        checkpoints.save(2, tensors, state)
    assert loaded(checkpoints)[2] == "kept" and len(os.listdir(checkpoints.folder)) == 2


def test_bad_numbers_are_refused(checkpoints):
    with pytest.raises(ConfigError, match="-1"):
        checkpoints.save(-1, {})
    with pytest.raises(ConfigError, match="at least 1, but got 0"):
        Checkpoints("x", keep=0)
    assert not checkpoints.folder.exists()


# --- which ones are kept ----------------------------------------------------------------------------------------------


def steps(checkpoints: Checkpoints) -> list[int]:
    return sorted(int(path.stem.removeprefix("step-")) for path in checkpoints.folder.glob("*.json"))


def test_the_last_two_are_kept(checkpoints):
    for step in (1, 2, 10, 1_000_000_000_000_000):
        checkpoints.save(step, {"w": torch.full((2,), float(step))}, step)
    assert steps(checkpoints) == [10, 1_000_000_000_000_000] and len(os.listdir(checkpoints.folder)) == 4
    assert loaded(checkpoints)[0] == 1_000_000_000_000_000


def test_an_earlier_step_drops_the_later_ones(checkpoints):
    for step in (3, 4, 2):
        checkpoints.save(step, {}, step)
    assert steps(checkpoints) == [2]


def test_a_step_saved_again_replaces_the_first(checkpoints):
    checkpoints.save(1, {"w": torch.zeros(2)}, "first")
    checkpoints.save(1, {"w": torch.ones(2)}, "second")
    step, tensors, state = loaded(checkpoints)
    assert (step, state) == (1, "second") and torch.equal(tensors["w"], torch.ones(2))
    assert len(os.listdir(checkpoints.folder)) == 2


def test_clear_removes_everything_of_ours(checkpoints):
    assert checkpoints.load() is None
    checkpoints.clear()
    checkpoints.save(1, {}, None)
    checkpoints.save(2, {}, None)
    (checkpoints.folder / "mine.txt").write_text("kept")
    checkpoints.clear()
    assert checkpoints.load() is None and os.listdir(checkpoints.folder) == ["mine.txt"]


def test_a_copy_for_a_worker_needs_no_run(tmp_path):
    original = Checkpoints(tmp_path, keep=3, before_save=lambda: pytest.fail("the driver's records"))
    copy = pickle.loads(pickle.dumps(original))
    copy.save(1, {}, "worker")
    assert copy.keep == 3 and loaded(original)[2] == "worker"


# --- damage -----------------------------------------------------------------------------------------------------------


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "missing":
        path.unlink()
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "truncated":
        path.write_bytes(content[:-5])
    elif how == "one bit":
        path.write_bytes(content[:-10] + bytes([content[-10] ^ 1]) + content[-9:])


@pytest.mark.parametrize(
    ("part", "how"),
    [
        ("json", "empty"),
        ("json", "truncated"),
        ("json", "one bit"),
        ("safetensors", "missing"),
        ("safetensors", "empty"),
        ("safetensors", "truncated"),
        ("safetensors", "one bit"),
    ],
)
def test_a_damaged_newest_is_named_and_the_one_before_is_used(checkpoints, caplog, part, how):
    for step in (1, 2):
        checkpoints.save(step, {"w": torch.full((3,), float(step))}, {"step": step})
    (newest,) = checkpoints.folder.glob(f"step-{2:012d}*.{part}")
    damage(newest, how)
    with caplog.at_level(logging.WARNING):
        assert loaded(checkpoints)[0] == 1
    assert len(caplog.records) == 1 and f"step-{2:012d}.json is not used: " in caplog.text
    checkpoints.save(2, {"w": torch.full((3,), 2.0)}, {"step": 2})  # The run goes on and writes it again.
    caplog.clear()
    assert loaded(checkpoints)[0] == 2 and not caplog.records


def test_if_all_are_damaged_the_part_starts_anew(checkpoints, caplog):
    for step in (1, 2):
        checkpoints.save(step, {"w": torch.ones(3)}, None)
    for path in checkpoints.folder.glob("*.safetensors"):
        damage(path, "truncated")
    with caplog.at_level(logging.WARNING):
        assert checkpoints.load() is None
    assert len(caplog.records) == 3 and "starts anew" in caplog.text


def test_a_checksum_covers_the_state(checkpoints, caplog):
    checkpoints.save(1, {}, {"learning_rate": 0.1})
    path = checkpoints.folder / f"step-{1:012d}.json"
    path.write_text(path.read_text().replace('"learning_rate":0.1', '"learning_rate":0.2'))
    assert checkpoints.load() is None
    assert "does not match its checksum" in caplog.text


def test_another_format_is_refused(checkpoints):
    import hashlib

    checkpoints.save(1, {}, None)
    path = checkpoints.folder / f"step-{1:012d}.json"
    body = {**json.loads(path.read_text())["body"], "format": 99}
    digest = hashlib.sha256(encode(body).encode()).hexdigest()
    path.write_text(json.dumps({"sha256": digest, "body": body}))
    with pytest.raises(ConfigError, match=r"of format 1, but .* has 99"):
        checkpoints.load()


# --- stops at every system call ---------------------------------------------------------------------------------------

CALLS = ["write", "fsync", "replace", "unlink", "open", "close", "mkdir"]


def save_third(folder: Path) -> None:
    Checkpoints(folder).save(3, {"w": torch.full((50,), 3.0)}, 3)


def with_two(folder: Path) -> Checkpoints:
    checkpoints = Checkpoints(folder)
    for step in (1, 2):
        checkpoints.save(step, {"w": torch.full((50,), float(step))}, step)
    return checkpoints


def interrupt_call(number: int, name_and_data: Callable[[str, tuple[object, ...]], None]) -> None:
    """Replace os.write and its like by versions of which the n-th call is interrupted."""
    count = iter(range(10_000))

    def wrap(name: str, original: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **keywords: object) -> object:
            if next(count) == number:
                if name == "write":
                    original(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])  # type: ignore[arg-type]
                name_and_data(name, arguments)
            return original(*arguments, **keywords)

        return call

    for name in CALLS:
        setattr(os, name, wrap(name, getattr(os, name)))


def killed_at(number: int, folder: Path) -> bool:
    """Save in a forked process that ends without a word at its n-th system call; False if it came to its end."""
    child = os.fork()
    if child == 0:
        interrupt_call(number, lambda name, arguments: os._exit(9))
        try:
            save_third(folder)
        except BaseException:
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9)
    return code == 9


def test_a_kill_at_any_system_call_leaves_a_whole_checkpoint(tmp_path, caplog):
    outcomes = []
    for number in range(1000):
        folder = tmp_path / str(number)
        checkpoints = with_two(folder)
        was_killed = killed_at(number, folder)
        step, tensors, state = loaded(checkpoints)
        assert step == state and torch.equal(tensors["w"], torch.full((50,), float(step)))
        outcomes.append(step)
        save_third(folder)  # The resumed run writes it again, and sweeps what was left.
        assert steps(checkpoints) == [2, 3] and len(os.listdir(folder)) == 4
        if not was_killed:
            break
    assert not caplog.records
    assert outcomes == sorted(outcomes) and outcomes[0] == 2 and outcomes[-1] == 3 and len(outcomes) > 10


def test_a_full_disk_at_any_write_leaves_the_last_checkpoint(tmp_path, monkeypatch):
    interrupted = []

    def full(name: str, arguments: tuple[object, ...]) -> None:
        interrupted.append(name)
        if name in ("write", "fsync", "replace", "mkdir"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    num_failures = 0
    for number in range(1000):
        folder = tmp_path / str(number)
        checkpoints = with_two(folder)
        with monkeypatch.context() as patch:
            for name in CALLS:
                patch.setattr(os, name, getattr(os, name))
            interrupt_call(number, full)
            try:
                save_third(folder)
            except RunError as error:
                num_failures += 1
                assert str(error).startswith("cannot write ") and str(error).endswith(": No space left on device.")
                has_failed = True
            else:
                has_failed = False
        step, _, state = loaded(checkpoints)
        assert step == state and step in (2, 3) and (has_failed or step == 3)
        assert not [name for name in os.listdir(folder) if name.startswith(".")]
        save_third(folder)
        assert steps(checkpoints) == [2, 3] and len(os.listdir(folder)) == 4
        if len(interrupted) == number:  # The save made fewer calls than that.
            break
    assert num_failures >= 6
