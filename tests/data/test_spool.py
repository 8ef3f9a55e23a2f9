"""Data that come one after the other are written once, and are then what they would have been as arrays."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import ramet
from ramet.data import array_writer, iterables, load
from ramet.data.stored import StoredInputs
from ramet.errors import DataError, DiskError
from ramet.growth.budget import Ends
from ramet.growth.plan import GrowPlan
from ramet.runs import Checkpoints
from ramet.runs.lock import folder_lock
from ramet.training import Recipe, accuracy, fit

X = np.random.default_rng(0).integers(0, 256, (60, 3, 5, 6), dtype=np.uint8)
Y = np.arange(60) % 3
Usage = namedtuple("Usage", ["total", "used", "free"])


class Images(IterableDataset):
    """Images one after the other, which counts how often it was read."""

    def __init__(self, x=X, y=Y, says=None, breaks=None):
        self.x, self.y, self.says, self.breaks, self.times = x, y, says, breaks, 0

    def __iter__(self):
        self.times += 1
        for number, (image, label) in enumerate(zip(self.x, self.y, strict=True)):
            if number == self.breaks:
                raise OSError("the line is dead")
            yield image, label

    def __len__(self):
        if self.says is None:
            raise TypeError("nobody knows")
        return self.says


def equal(ours, theirs):
    for role in ("train", "validation", "test"):
        one, other = getattr(ours, role), getattr(theirs, role)
        assert torch.equal(one.x[:], other.x) and torch.equal(one.y, other.y)
    assert (ours.class_names, ours.mean, ours.deviation) == (theirs.class_names, theirs.mean, theirs.deviation)


def network(data):
    torch.manual_seed(0)
    size = int(np.prod(data.input_shape))
    return nn.Sequential(nn.Flatten(), nn.Linear(size, 6), nn.ReLU(), nn.Linear(6, data.num_outputs))


@pytest.mark.parametrize(
    ("source", "twin"),
    [
        (lambda: Images(), (X, Y)),
        (lambda: DataLoader(Images(), batch_size=7), (X, Y)),
        (lambda: Images(torch.from_numpy(X), torch.from_numpy(Y)), (X, Y)),
        (lambda: Images(X / np.float32(255), Y), (X / np.float32(255), Y)),
        (lambda: Images(X, [f"class {label}" for label in Y]), (X, np.array([f"class {label}" for label in Y]))),
        (lambda: Images(X, [*Y[:-1], 0.5]), (X, np.array([*Y[:-1], 0.5]))),
        (lambda: Images(X, np.stack([Y, Y / 7], 1)), (X, np.stack([Y, Y / 7], 1))),
        (lambda: Images(X[:, 0], Y), (X[:, 0], Y)),
        (lambda: Images(X[:, 0, 0] / 7, Y), (X[:, 0, 0] / 7, Y)),
    ],
    ids=["images", "loader", "tensors", "floats", "names", "a fraction at the end", "two numbers", "grey", "vectors"],
)
def test_what_was_written_has_the_bits_of_arrays(source, twin, tmp_path):
    expected = load(twin, name="it", seed=3)
    stored = load(source(), name="it", seed=3, in_memory=False, spool=tmp_path / "spool")
    assert isinstance(stored.train.x, StoredInputs)
    equal(stored, expected)
    again = load(source(), name="it", seed=3, spool=tmp_path / "spool")
    assert isinstance(again.train.x, torch.Tensor), "what fits is in memory, also from there"
    assert again.fingerprint() == expected.fingerprint()


def test_a_pair_trains_and_tests(tmp_path):
    parts = [(X[:45], Y[:45]), (X[45:], Y[45:])]
    arrays = dict(zip(("x_train", "y_train", "x_test", "y_test"), [*parts[0], *parts[1]], strict=True))
    stored = load([Images(*part) for part in parts], in_memory=False, spool=tmp_path / "spool")
    equal(stored, load(arrays))
    assert sorted(os.listdir(tmp_path / "spool")) == ["test", "train"]
    test = TensorDataset(torch.from_numpy(X[45:]), torch.from_numpy(Y[45:]))
    equal(load((Images(*parts[0]), test), in_memory=False, spool=tmp_path / "other"), load(arrays))


def test_the_source_is_read_once(tmp_path):
    first, second = Images(), Images()
    one, other = (load(source, in_memory=False, spool=tmp_path / "s") for source in (first, second))
    assert (first.times, second.times) == (1, 0)
    assert one.notes == other.notes == ("written once to the folder s, and read there",)
    assert one.fingerprint() == other.fingerprint()
    equal(load(tmp_path / "s" / "all", in_memory=False), load((X, Y)))


def test_training_has_the_same_bits(tmp_path):
    memory = load((X, Y))
    stored = load(Images(), in_memory=False, spool=tmp_path / "spool", readers=2)
    ends = []
    for data in (memory, stored):
        trained = network(data)
        fit(trained, data.train.x, data.train.y, Recipe(epochs=3, batch_size=8, augment="crop:1+flip"), seed=5)
        ends.append((trained[1].weight, accuracy(trained, data.validation.x, data.validation.y)))
    assert torch.equal(ends[0][0], ends[1][0]) and ends[0][1] == ends[1][1]


class Killed(BaseException):
    """The process is gone."""


def test_a_killed_run_goes_on_without_reading_the_source_again(tmp_path, monkeypatch):
    recipe, plan = Recipe(epochs=2, batch_size=8), GrowPlan(methods="net2net", ends=Ends(max_steps=1))

    def grown(source, out):
        options = {"in_memory": False, "spool": str(tmp_path / "spool")}
        return ramet.grow("mlp", source, recipe=recipe, plan=plan, out=tmp_path / out, **options)

    saves, save = [], Checkpoints.save

    def last_save(self, step, *content):
        save(self, step, *content)
        saves.append(step)
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Checkpoints, "save", last_save)
        grown(Images(), "killed")
    assert saves
    ended, whole = grown(source := Images(), "killed"), grown(Images(), "whole")
    assert source.times == 0
    in_memory = ramet.grow("mlp", load((X, Y), name="Images"), recipe=recipe, plan=plan, out=tmp_path / "arrays")
    for other in (whole, in_memory):
        assert ended.methods["net2net"].validation == other.methods["net2net"].validation
        assert ended.methods["net2net"].test == other.methods["net2net"].test
    weights = [(tmp_path / out / "networks" / "net2net" / "weights.safetensors") for out in ("killed", "arrays")]
    assert weights[0].read_bytes() == weights[1].read_bytes()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (lambda: Images(says=61), "as many images as it says, 61, but gives 60"),
        (lambda: Images(breaks=7), "raises OSError after 7: the line is dead"),
        (lambda: Images([], []), "at least one image"),
        (lambda: Images([*X[:9], X[0, :, 1:]], Y[:10]), r"image 0 has \(3, 5, 6\) uint8 and image 9 has \(3, 4, 6\)"),
        (lambda: Images([*X[:9], X[0] / 2], Y[:10]), "image 9 has .* float64"),
        (lambda: Images(X, [*([[1, 2]] * 59), [1, 2, 3]]), "rows of one shape"),
        (lambda: Images(X.astype(complex), Y), "must be uint8, integers or floats"),
    ],
    ids=["too few", "raises", "none", "another size", "another dtype", "ragged labels", "complex"],
)
def test_what_breaks_off_leaves_nothing(source, message, tmp_path):
    with pytest.raises(DataError, match=message) as found:
        load(source(), spool=tmp_path / "spool")
    assert "\n" not in str(found.value) and not (tmp_path / "spool").exists()
    load(Images(), spool=tmp_path / "spool")


def test_what_breaks_off_in_a_folder_that_was_there_leaves_it(tmp_path):
    with pytest.raises(DataError):
        load(Images(breaks=7), spool=tmp_path)
    assert os.listdir(tmp_path) == []
    with pytest.raises(DataError):
        load((Images(X[:45], Y[:45]), Images(breaks=7)), spool=tmp_path / "pair")
    assert os.listdir(tmp_path / "pair") == ["train"], "what is whole is taken the next time"


def test_what_would_fill_the_disk_is_refused_before_and_while_it_is_written(tmp_path, monkeypatch):
    free = array_writer.LEFT_FREE + 2000
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(10**12, 0, free))
    with pytest.raises(DataError, match="must have room for 5,400 bytes and 268,435,456 that stay free") as found:
        load(Images(says=60), spool=tmp_path / "spool")
    assert "\n" not in str(found.value) and not (tmp_path / "spool").exists()
    monkeypatch.setattr(array_writer, "PIECE", 1000)
    looks = iter([free] * 4 + [array_writer.LEFT_FREE + 500] * 9)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(10**12, 0, next(looks)))
    with pytest.raises(DataError, match="must have room for 1,000 bytes"):
        load(Images(), spool=tmp_path / "spool")
    assert not (tmp_path / "spool").exists()


def test_a_disk_that_is_full_all_the_same_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(array_writer, "PIECE", 1000)
    real, calls = os.write, []

    def write(descriptor, data):
        calls.append(len(data))
        if len(calls) == 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data)

    with monkeypatch.context() as patch, pytest.raises(DiskError, match="No space left on device") as found:
        patch.setattr(os, "write", write)
        load(Images(), spool=tmp_path / "spool")
    assert "\n" not in str(found.value) and not (tmp_path / "spool").exists()
    equal(load(Images(), in_memory=False, spool=tmp_path / "spool"), load((X, Y)))


def damaged(path, place=-1):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


DAMAGES = {
    "an image": (lambda place: damaged(place / "x.npy"), r"x\.npy must be as it was written"),
    "a label": (lambda place: damaged(place / "y.npy", -8), r"y\.npy must be as it was written"),
    "a header": (lambda place: damaged(place / "x.npy", 20), "must be"),
    "cut short": (lambda place: os.truncate(place / "x.npy", 2000), "as long as its header says"),
    "gone": (lambda place: (place / "y.npy").unlink(), "must be readable"),
    "another array": (lambda place: np.save(place / "x.npy", X[:30]), "must be as it was written"),
    "words": (lambda place: (place / "spool.json").write_text("none"), "must say what was written there"),
    "no mapping": (lambda place: (place / "spool.json").write_text("[]"), "must say what was written there"),
    "a byte of words": (lambda place: damaged(place / "spool.json", 30), "must say what was written there"),
    "no words": (lambda place: (place / "spool.json").unlink(), "holds all, which is none of it"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_folder_is_refused(damage, tmp_path):
    load(Images(), spool=tmp_path)
    make, message = DAMAGES[damage]
    make(tmp_path / "all")
    with pytest.raises(DataError, match=message) as found:
        load(Images(), spool=tmp_path)
    assert "\n" not in str(found.value)


def test_a_flipped_bit_in_any_piece_of_a_small_file_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(array_writer, "PIECE", 700)
    load(Images(), spool=tmp_path)
    content = (tmp_path / "all" / "x.npy").read_bytes()
    for place in range(600, len(content), 487):
        damaged(tmp_path / "all" / "x.npy", place)
        with pytest.raises(DataError, match="must be as it was written"):
            load(Images(), spool=tmp_path)
        (tmp_path / "all" / "x.npy").write_bytes(content)
    load(Images(), spool=tmp_path)


class Others(Images):
    """Another class."""


def test_a_folder_of_another_source_is_refused(tmp_path):
    load(Images(), spool=tmp_path / "spool")
    for source, words in (
        (Others(), "from source Others, but was from source Images"),
        (Images(says=60), "from source Images, length 60, but was from source Images"),
        (DataLoader(Images(), batch_size=4), "source DataLoader of Images"),
        ((Images(), Images()), "holds all, which is none of it"),
    ):
        with pytest.raises(DataError, match=words):
            load(source, spool=tmp_path / "spool")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(DataError, match=r"a folder of its own, but .* holds letter\.txt"):
        load(Images(), spool=tmp_path / "mine")
    with pytest.raises(DataError, match=r"must be a folder, but .* is a file"):
        load(Images(), spool=tmp_path / "mine" / "letter.txt")


def test_what_a_killed_process_left_is_removed(tmp_path):
    left = tmp_path / ".all.999999999.ramet-tmp"
    left.mkdir()
    (left / "x.npy").write_bytes(b"half")
    load(Images(), spool=tmp_path)
    assert os.listdir(tmp_path) == ["all"]


def test_who_comes_second_waits_for_the_first(tmp_path):
    reached, go_on = threading.Event(), threading.Event()

    class Waiting(Images):
        def __iter__(self):
            for number, row in enumerate(super().__iter__()):
                if number == 5:
                    reached.set()
                    assert go_on.wait(30)
                yield row

    with ThreadPoolExecutor(2) as pool:
        first, second = Waiting(), Waiting()
        found = [pool.submit(load, first, in_memory=False, spool=tmp_path)]
        assert reached.wait(30)
        found.append(pool.submit(load, second, in_memory=False, spool=tmp_path))
        time.sleep(0.2)
        assert not found[1].done()
        go_on.set()
        for each in found:
            equal(each.result(), load((X, Y)))
    assert (first.times, second.times) == (1, 0)


def test_workers_that_live_on_do_not_hold_the_folder(tmp_path):
    """They are forked while it is locked, and would keep the lock with their copy of its descriptor."""
    loader = DataLoader(Images(), batch_size=7, num_workers=1, persistent_workers=True, multiprocessing_context="fork")
    load(loader, in_memory=False, spool=tmp_path)
    with folder_lock(tmp_path):
        equal(load(loader, in_memory=False, spool=tmp_path), load((X, Y)))


KILLED = """
import os, signal
import numpy as np
from torch.utils.data import IterableDataset
from ramet.data import array_writer, load

array_writer.PIECE = 100

class Images(IterableDataset):
    def __iter__(self):
        for number in range(60):
            if number == 30:
                os.kill(os.getpid(), signal.SIGKILL)
            yield np.zeros((3, 5, 6), dtype=np.uint8), number % 3

load(Images(), spool="spool")
"""


def test_a_process_that_is_killed_while_it_writes_leaves_nothing_that_is_taken_for_whole(tmp_path):
    ended = subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, timeout=120)
    assert ended.returncode == -signal.SIGKILL
    assert [name.startswith(".all.") for name in os.listdir(tmp_path / "spool")] == [True]
    equal(load(Images(), in_memory=False, spool=tmp_path / "spool"), load((X, Y)))
    assert os.listdir(tmp_path / "spool") == ["all"]


def test_without_a_folder_it_is_said_which_option_names_one(monkeypatch, tmp_path):
    for options in ({"in_memory": False}, {}):
        monkeypatch.setattr(iterables, "fits_in_memory", lambda shape: np.prod(shape) <= 16 * 90)
        with pytest.raises(DataError, match=r"spool=DIR \(--spool DIR") as found:
            load(Images(), **options)
        assert "\n" not in str(found.value)
    load(Images(), spool=tmp_path / "spool")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("digits", "spool is for data that come one after the other, but digits can be read in any order"),
        ((X, Y), "but list can be read in any order"),
        (DataLoader(TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))), "but TensorDataset can be read"),
        (load((X, Y)), "a DataSet is taken as it is, but got spool"),
    ],
    ids=["name", "arrays", "loader", "data set"],
)
def test_what_needs_no_spool_has_none(source, message, tmp_path):
    with pytest.raises(DataError, match=message):
        load(source, spool=tmp_path / "spool")
    assert not (tmp_path / "spool").exists()


def test_a_spool_is_a_path():
    with pytest.raises(DataError, match="spool must be the path of a folder, but got 3"):
        load(Images(), spool=3)


MINE = """
import numpy as np
from torch.utils.data import IterableDataset

class Mine(IterableDataset):
    def __iter__(self):
        print("read", file=open("{folder}/reads", "a"))
        for number in range(60):
            yield np.random.default_rng(number).integers(0, 256, (1, 6, 6), dtype=np.uint8), number % 3

def data():
    return Mine()
"""


def test_the_command_takes_a_spool_and_its_run_is_resumed(tmp_path, monkeypatch, capsys):
    from ramet.cli import main

    (tmp_path / "mine.py").write_text(MINE.format(folder=tmp_path))
    monkeypatch.chdir(tmp_path)
    command = ["grow", "--data", f"{tmp_path}/mine.py:data", "--network", "mlp", "--method", "net2net", "--epochs", "1"]
    command += ["--max-steps", "1", "--no-in-memory", "--batch-size", "8"]
    with pytest.raises(SystemExit) as ended:
        main([*command, "--out", str(tmp_path / "refused")])
    assert ended.value.code == 2
    assert "(--spool DIR)" in capsys.readouterr().err
    main([*command, "--spool", "spool", "--out", str(tmp_path / "run"), "--json"])
    first = json.loads(capsys.readouterr().out)
    config = json.loads((tmp_path / "run" / "config.json").read_text())["config"]
    assert config["data_options"]["spool"] == str(tmp_path / "spool")
    monkeypatch.chdir("/")
    main(["resume", str(tmp_path / "run"), "--trust", "--json"])
    assert json.loads(capsys.readouterr().out) == first
    assert (tmp_path / "reads").read_text().split() == ["read"]
