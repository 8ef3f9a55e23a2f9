"""Rows of bad input to `ramet learn`, for the table of ``bad_input.py``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from bad_input import BadInput, Maker

from ramet.continual import JointNetwork, make_method, make_skeleton
from ramet.continual.methods.naive import Naive
from ramet.continual.streams.stream import TaskInfo
from ramet.continual.study.plan import StudyPlan
from ramet.data import InputForm
from ramet.jobs.study.job import StudyJob
from ramet.runs import Run
from ramet.training import Settings

ROWS: list[BadInput] = []


def learn(phrase: str, *arguments: str) -> None:
    """A row of arguments of ``ramet learn``, named by them."""
    row = ["learn", *arguments]
    ROWS.append(BadInput(" ".join(row), lambda folder: row, phrase))


def made(name: str, phrase: str, make: Maker) -> None:
    ROWS.append(BadInput(f"learn: {name}", make, phrase))


# Names and numbers

for text in ("digits", "split-digits", "split-digits:", "split-digits:x", "split-digits:5:odd", "mixed-digits:3"):
    learn("a stream must be split-DATA:TASKS", "--stream", text)
learn("must be one of", "--stream", "split-qqqqqqqq:5")
learn("a stream must have at least one task", "--stream", "permuted-digits:0")
learn("a task must have at least 2 classes, but 10 classes were to be split into 6", "--stream", "split-digits:6")
learn("a split by superclass must have a task for each superclass", "--stream", "split-digits:5:superclass")
learn("a method is one of individual, separate, naive", "--method", "magic")
learn("a list names at least one part", "--method", ",")
learn("methods must differ", "--method", "naive,naive")
learn("options of naive are none, but got wisdom", "--method", "naive:wisdom=3")
learn("takes no values without a key", "--method", "elastic:strong")
learn("prune must lie in [0, 1)", "--method", "packnet:prune=1")
learn("goal must lie in [0, 1]", "--method", "cpg:goal=2")
learn("memory must be at least 1 sample", "--method", "replay:memory=0")
learn("the method joint needs the scenario all", "--method", "joint")
learn("--scenario", "--scenario", "dreaming")
learn("one of mlp, conv, vgg, mobilenet", "--network", "resnet")
learn("weights must be a file, but there is no", "--start", "nothing.pt", "--method", "naive")
learn("classifier names the head of a module", "--classifier", "head", "--method", "naive")
learn("one of its linear layers, but got 'nobody'", "--network", "vgg", "--classifier", "nobody", "--method", "naive")
learn("budget must not be negative", "--network", "vgg", "--method", "bind-and-grow:budget=-1")
learn("the rank of an adapter must be at least 1", "--network", "vgg", "--method", "adapters:rank=0")
learn("whole_rate must be above 0 and at most 1", "--network", "vgg", "--method", "adapters:whole_rate=0")
learn("budget must lie between 0 and 1", "--network", "vgg", "--method", "adapters:budget=2")
learn("convolutions must be one of pointwise, low-rank", "--network", "vgg", "--method", "adapters:convolutions=large")
learn("slow or frozen, not guarded", "--network", "vgg", "--method", "bind-and-grow:old_weights=guarded")
learn("unit must be layer for a module", "--network", "vgg", "--method", "bind-and-grow:unit=channels")
learn("8 x 8 is too small for conv2", "--network", "conv")
for name in ("packnet", "progressive", "firefly", "bind-and-grow", "random-growth"):
    learn(
        f"the method {name} has a head for each task, so that head must be own",
        *("--head", "shared", "--stream", "permuted-digits:2", "--method", name),
    )
learn(
    "tasks that share a head must have as many classes, but 'digits 0 1 2 3' has 4 and 'digits 4 5 6' 3",
    *("--head", "shared", "--stream", "split-digits:3", "--method", "naive"),
)
learn("--head", "--head", "none")
learn("reuse must not be negative", "--method", "firefly:reuse=-1")
learn("seeds must be at least 1", "--seeds", "0")
learn("epochs must be at least 1", "--epochs", "0")
learn("--epochs", "--epochs", "1.5")
learn("device must be one that torch can use here", "--device", "toaster")
learn("a joint network must be a file, but there is none at", "--onto", "nowhere.safetensors")
learn("a stream's file must be readable, but nowhere.json is not", "--stream", "nowhere.json")

# Files


def images(path: Path, *shape: int, classes: int = 2) -> None:
    rng = np.random.default_rng(0)
    np.savez(path, x=rng.integers(0, 255, shape, dtype=np.uint8), y=np.arange(shape[0]) % classes)


def listed(folder: Path, *entries: Any) -> list[str]:
    (folder / "mine.json").write_text(json.dumps(list(entries)))
    return ["learn", "--stream", "mine.json"]


def named(name: str, data: str = "a.npz") -> dict[str, str]:
    return {"name": name, "data": data}


def with_images(folder: Path, *entries: Any) -> list[str]:
    images(folder / "a.npz", 30, 5, 5)
    images(folder / "one.npz", 30, 5, 5, classes=1)
    images(folder / "three.npz", 30, 5, 5, 3)
    images(folder / "four.npz", 30, 5, 5, 4)
    np.savez(folder / "empty.npz", x=np.zeros((0, 5, 5), np.uint8), y=np.zeros(0, np.int64))
    return listed(folder, *entries)


made("an empty list", "a stream's file must be a list of", lambda folder: listed(folder))
made("no list", "mine.json has not", lambda folder: listed(folder, "a"))
made("no name", "have a name and data, but task 1", lambda folder: listed(folder, {"data": "digits"}))
made("an empty name", "a task must have a name", lambda folder: with_images(folder, named(" ")))
made("an unknown entry", "has colour", lambda folder: listed(folder, named("a", "digits") | {"colour": 3}))
made("a repeated name", "'a' occurs twice", lambda folder: with_images(folder, named("a"), named("a")))
made("a task of one class", "at least 2 classes", lambda folder: with_images(folder, named("b", "one.npz")))
made("an empty task", "empty.npz", lambda folder: with_images(folder, named("a"), named("b", "empty.npz")))
made("a missing file", "there is no file or folder", lambda folder: with_images(folder, named("b", "gone.npz")))
made(
    "channels that do not fit",
    "a task must have 1 channel, or the 4 of its stream, but 'b' has 3",
    lambda folder: with_images(folder, named("a"), named("b", "three.npz"), named("c", "four.npz")),
)


NORMED = """
from torch import nn


def network(num_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 4), nn.LayerNorm(4), nn.Linear(4, num_classes))
"""


def without_units(folder: Path, method: str) -> list[str]:
    file = f"normed_for_{method}.py"  # a module is loaded once
    (folder / file).write_text(NORMED)
    return ["learn", "--network", f"{file}:network", "--method", method]


for name in ("firefly", "cpg", "den", "rcl"):
    made(
        f"a network without units for {name}",
        f"the method {name} adds and leaves out units: a network must have channels or neurons that may come and go",
        lambda folder, name=name: without_units(folder, name),
    )


def damaged_list(folder: Path) -> list[str]:
    (folder / "mine.json").write_text("[{")
    return ["learn", "--stream", "mine.json"]


made("a damaged list", "a stream's file must be JSON", damaged_list)


def nested_list(folder: Path) -> list[str]:
    (folder / "mine.json").write_text("[" * 100_000)
    return ["learn", "--stream", "mine.json"]


made("a list without end", "a stream's file must be JSON", nested_list)


class Mine(Naive):
    """A method that the command does not know."""

    name = "mine"


def saved(folder: Path, size: int = 8, channels: int = 1, method: Naive | None = None, task: str = "") -> Path:
    method = make_method("naive") if method is None else method
    method.start(make_skeleton("mlp:4", in_channels=channels, image_size=(size, size)), Settings(epochs=1), 0)
    if task:
        method._add_head(2, 0)
        method.tasks.append(TaskInfo(task, 2, InputForm((channels, size, size))))
    JointNetwork(method).save(folder / "net.safetensors")
    return folder / "net.safetensors"


def damaged(folder: Path) -> list[str]:
    path = saved(folder)
    data = path.read_bytes()
    path.write_bytes(data[:-3] + bytes([data[-3] ^ 1]) + data[-2:])
    return ["learn", "--onto", str(path)]


def cut_short(folder: Path) -> list[str]:
    path = saved(folder)
    path.write_bytes(path.read_bytes()[:100])
    return ["learn", "--onto", str(path)]


def emptied(folder: Path) -> list[str]:
    (folder / "net.safetensors").write_bytes(b"")
    return ["learn", "--onto", "net.safetensors"]


def something_else(folder: Path) -> list[str]:
    safetensors.torch.save_file({"weight": torch.zeros(3)}, folder / "net.safetensors")
    return ["learn", "--onto", "net.safetensors"]


def a_folder(folder: Path) -> list[str]:
    (folder / "net.safetensors").mkdir()
    return ["learn", "--onto", "net.safetensors"]


made("an empty joint network", "a joint network must be whole, but", emptied)
made("tensors of something else", "is damaged or something else", something_else)
made("a folder for a joint network", "a joint network must be a file, but there is none at", a_folder)
made(
    "a joint network of an unknown method",
    "a method is one of individual, separate, naive",
    lambda folder: ["learn", "--onto", str(saved(folder, method=Mine()))],
)
made(
    "a task that the joint network has learned",
    "a task is learned once, but 'digits 0 1' was learned already by",
    lambda folder: ["learn", "--onto", str(saved(folder, task="digits 0 1"))],
)
made(
    "a joint network for colours of another size",
    "a task must have images of shape (3, 4, 4), but 'digits 0 1' has (3, 8, 8)",
    lambda folder: ["learn", "--onto", str(saved(folder, channels=3, size=4))],
)
made(
    "a later task of one class",
    "at least 2 classes",
    lambda folder: with_images(folder, named("a"), named("b", "one.npz")),
)
made("a damaged joint network", "a joint network must match its checksum, but", damaged)
made("a joint network that is cut short", "a joint network must be whole, but", cut_short)
made(
    "a joint network for other images",
    "a task must have images of shape (1, 6, 6), but 'digits 0 1' has (1, 8, 8)",
    lambda folder: ["learn", "--onto", str(saved(folder, size=6))],
)


def no_stream(folder: Path) -> list[str]:
    with Run.create(folder / "run", "learn", {"colour": "green"}) as run:
        return ["resume", str(run.path)]


made("a config.json of something else", "must hold fields of LearnJob, but has 'colour'", no_stream)


# Studies


def study(phrase: str, *arguments: str) -> None:
    """A row of arguments of ``ramet study``, named by them."""
    row = ["study", *arguments]
    ROWS.append(BadInput(" ".join(row), lambda folder: row, phrase))


study("trials must be at least 1, but got -3", "--trials", "-3")
study("trials must be at least 1, but got 0", "--trials", "0")
study("--trials", "--trials", "many")
study("batch must be at least 1", "--batch", "0")
study("--sampler", "--sampler", "magic")
study("--delta", "--delta", "some")
study("--order", "--order", "odd")
study("the step of delta must be above 0 and at most 1", "--step", "0")
study("silence must be positive", "--silence", "0")
study("a study must have a name", "--name", " ")
study("the method of a study must be bind-and-grow, but got 'naive'", "--method", "naive")
study("delta is what a study searches", "--method", "bind-and-grow:delta=0.5")
study("a stream must have at least 2 tasks to be studied", "--stream", "split-digits:1")
study("a stream must be split-DATA:TASKS", "--stream", "digits")
study("a storage must be an address such as sqlite:///FILE", "--storage", "nonsense")
study("SQLAlchemy knows no database 'mongodb': 'mongodb://ann:***@", "--storage", "mongodb://ann:s3cret@db/lab")
study("a SQLite storage must be a file, sqlite:///FILE", "--storage", "sqlite:///:memory:")
study("a SQLite storage must be a file in a folder that exists", "--storage", "sqlite:///nowhere/study.db")
study("install it with: pip install pymysql", "--storage", "mysql+pymysql://ann:s3cret@127.0.0.1/lab")
study("the storage postgresql+psycopg://ann:***@", "--storage", "postgresql+psycopg://ann:s3cret@127.0.0.1:1/lab")


def no_database(folder: Path) -> list[str]:
    (folder / "study.db").write_text("a thesis, not a database\n" * 100)
    return ["study", "--storage", f"sqlite:///{folder / 'study.db'}"]


def no_study(folder: Path) -> list[str]:
    with Run.create(folder / "run", "study", {"colour": "green"}) as run:
        return ["resume", str(run.path)]


def no_password(folder: Path) -> list[str]:
    job = StudyJob(plan=StudyPlan(storage="postgresql://ann:s3cret@127.0.0.1:1/lab"))
    with Run.create(folder / "run", "study", job.to_json()) as run:
        return ["resume", str(run.path)]


ROWS.append(BadInput("study: a file that is no database", no_database, "file is not a database"))
ROWS.append(
    BadInput("study: a config.json of something else", no_study, "must hold fields of StudyJob, but has 'colour'")
)
ROWS.append(BadInput("study: a password that is not kept", no_password, "in the environment variable RAMET_STORAGE"))


# Networks of one's own


def code_row(name: str, phrase: str, code: str) -> None:
    def make(folder: Path) -> list[str]:
        path = folder / f"bad_module_{abs(hash(name))}.py"
        path.write_text(code)
        return ["learn", "--network", f"{path}:network", "--method", "naive"]

    made(f"code: {name}", phrase, make)


def ending(line: str, before: str = "nn.Linear(64, 6)") -> str:
    """A network of one layer and a head, whose forward ends with a line."""
    return f"""
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = {before}, nn.Linear(6, 2)

    def forward(self, x):
        x = self.body(x.flatten(1))
        {line}


def network():
    return Net()
"""


code_row("a tuple", "gives tuple", ending("return self.head(x), x"))
code_row("a dict", "gives dict", ending("return {'classes': self.head(x), 'features': x}"))
code_row("a vector", "gives shape [2]", ending("return self.head(x)[:, 0]"))
code_row(
    "a tuple in training", "in training mode", ending("return (self.head(x), x) if self.training else self.head(x)")
)
code_row("log-softmax", "ends with LogSoftmax", ending("return self.head(x).log_softmax(1)"))
code_row("no head", "ends with Mul", ending("return x[:, :2] * 2"))
code_row("detached", "must be differentiable", ending("return self.head(x).detach()"))
code_row("constant", "must depend on its inputs", ending("return self.head(torch.ones_like(x))"))
code_row("another width", "raises RuntimeError", ending("return self.head(x[:, :3])"))
code_row("other images", "must run on images of shape [1, 8, 8]", ending("return self.head(x)", "nn.Linear(63, 6)"))
code_row("nothing below", "parameters below its head", ending("return self.head(x[:, :6])", "nn.Identity()"))
code_row("raises", "must run, but raises OSError: gone", "def network():\n    raise OSError('gone')")
code_row("no module", "must make a LearnableNetwork, but made int", "def network():\n    return 7")
