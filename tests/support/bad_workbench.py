"""Networks, data, weights, texts and files of a user's own that cannot work, one row each.

A row has a name, what provokes the refusal, and a phrase of it. It does what a user would do, in a folder that holds a
finished run, in ``run``, and a network, in ``net.safetensors``, which no refusal may touch.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.torch
import torch
from bad_recipes import CLASSES, SIDE, by_grow, by_learn, labels, network, pixels, raising, small, vector
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import ramet
from ramet.continual import LearnPlan
from ramet.data import DataSet, Split, load_text
from ramet.growth import grow as grow_alone
from ramet.training import fit


class BadUse(NamedTuple):
    name: str
    provoke: Callable[[Path], object]
    phrase: str


class BadCommand(NamedTuple):
    name: str
    make: Callable[[Path], list[str]]
    phrase: str


USES: list[BadUse] = []
COMMANDS: list[BadCommand] = []
MADE = {"weights.safetensors", "weights.pt", "weights.pkl", "text.txt", "letters.txt", "tokenizer.json", "first"}
"""What makers of rows write, and nothing else may."""


# What a user does besides


def use(name: str, phrase: str) -> Callable[[Callable[[Path], object]], Callable[[Path], object]]:
    def keep(provoke: Callable[[Path], object]) -> Callable[[Path], object]:
        USES.append(BadUse(name, provoke, phrase))
        return provoke

    return keep


def plain(name: str, phrase: str, provoke: Callable[[Path], object]) -> None:
    USES.append(BadUse(name, provoke, phrase))


plain("a recipe that is a mapping", "recipe must be a Recipe, but got dict", lambda f: by_grow(f, {"epochs": 1}))
plain(
    "the plan of another verb", "plan must be a GrowPlan, but got LearnPlan", lambda f: by_grow(f, plan=LearnPlan())
)  # fmt: skip
plain("a seed in words", "seed must be a whole number, but got 'one'", lambda f: by_grow(f, seed="one"))
plain("an option that no data has", "options by name must be options of the data", lambda f: by_grow(f, colour="red"))
plain(
    "crop on vectors", "crop is for images, [batch, channels, height, width], but got shape [16, 4]",
    lambda f: grow_alone(
        nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)),
        (torch.randn(32, 4), torch.arange(32) % 2) * 2, "params=200", "net2net", settings=small(augment="crop"),
    ),
)  # fmt: skip
plain(
    "a loss that is a vector, in one's own training", "a loss must be one number",
    lambda f: fit(network(), pixels(), labels(), small(loss=vector), seed=0),
)  # fmt: skip


plain(
    "fewer targets than inputs", "60 inputs and 50 targets",
    lambda f: fit(network(), pixels(), labels(50), small(), seed=0),
)  # fmt: skip
plain("an executor in words", "executor must be an Executor or a number", lambda f: by_grow(f, executor="two"))
plain("no executor at all", "the number of workers must be", lambda f: by_grow(f, executor=0))
plain(
    "a data set for a stream", "a stream is a name, a Stream", lambda f: ramet.learn(own_set(labels()), out=f / "run")
)
plain("a number for a stream", "but got 5", lambda f: ramet.learn(5, out=f / "run"))
plain("a number for a network", "but got", lambda f: by_learn(f, module=5))
plain(
    "a number for a method",
    "a method is a text or a Method, but got 5",
    lambda f: by_learn(f, plan=LearnPlan(methods=5)),
)
plain("a device that nobody has", "device must be one that torch can use", lambda f: by_grow(f, device="gpu"))
plain("readers below nothing", "readers must be a whole number of at least 1", lambda f: by_grow(f, readers=-1))


def text_search(folder: Path, augment: str) -> object:
    write_text(folder)
    return ramet.search(
        "recurrent:hidden_size=4,num_nodes=3",
        str(folder / "text.txt"),
        recipe=small(augment=augment),
        window=5,
        out=folder / "run",
    )


plain("mixup on sequences", "mixup is for inputs that are broken numbers", lambda f: text_search(f, "mixup"))
plain("flip on sequences", "flip is for images", lambda f: text_search(f, "flip"))
plain("noise on sequences", "noise is for inputs that are broken numbers", lambda f: text_search(f, "noise"))


# Data


class Rows(IterableDataset[Any]):
    """Rows one after the other; ``said`` is how many it says that there are."""

    def __init__(self, rows: Callable[[], Iterator[Any]], said: int | None = None) -> None:
        self.rows, self.said = rows, said

    def __iter__(self) -> Iterator[Any]:
        return self.rows()

    def __len__(self) -> int:
        if self.said is None:
            raise TypeError
        return self.said


class Items(Dataset[Any]):
    """Rows by their number."""

    def __init__(self, get: Callable[[int], Any], count: int = 30) -> None:
        self.get, self.count = get, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return self.get(index)


def row(index: int) -> tuple[Tensor, int]:
    return pixels(1)[0] + index, index % CLASSES


def breaking(index: int) -> tuple[Tensor, int]:
    if index == 17:
        raise OSError("the disk is gone")
    return row(index)


def data(name: str, phrase: str, make: Callable[[], Any], **options: Any) -> None:
    plain(name, phrase, lambda folder: by_grow(folder, data=make(), **options))


def stacked(change: Callable[[int, Tensor], Any]) -> Callable[[], DataLoader[Any]]:
    """A loader with a way of its own to put batches together."""
    count = iter(range(1000))

    def collate(rows: list[tuple[Tensor, int]]) -> Any:
        images = torch.stack([image for image, _ in rows])
        return change(next(count), images), torch.tensor([label for _, label in rows])

    return lambda: DataLoader(Items(row), batch_size=10, collate_fn=collate)


spent = iter([row(index) for index in range(30)])

data("a loader that ends early", "as many images as it says, 30, but gives 20",
     lambda: Rows(lambda: iter([row(index) for index in range(20)]), said=30))  # fmt: skip
data("a loader that is empty", "must hold at least one image", lambda: Rows(lambda: iter([])))
data("a loader of batches that is empty", "must hold at least one image", lambda: DataLoader(Rows(lambda: iter([]))))
data("a loader of dicts", "must give (images, labels), but batch 0 is dict",
     lambda: DataLoader(Rows(lambda: iter([{"image": row(0)[0], "label": 0}]))))  # fmt: skip
data("a data set of dicts", "(image, label) for each index, but 0 gives dict", lambda: Items(lambda index: {"x": 1}))
data("batches that change shape", "all images of the DataLoader must have one size",
     stacked(lambda number, images: images[..., number:]))  # fmt: skip
data("batches without all labels", "a label for each image, but batch 0 has 9 and 10", stacked(lambda n, x: x[1:]))
data("a loader that raises in the middle", "must give every image, but raises OSError after 17: the disk is gone",
     lambda: Rows(lambda: (breaking(index) for index in range(30))))  # fmt: skip
data(
    "a data set that raises at once",
    "must give every image, but raises KeyError for 0: 0",
    lambda: Items({}.__getitem__),
)
data("a data set that raises in the middle", "must give every image, but raises OSError for 17: the disk is gone",
     lambda: Items(breaking))  # fmt: skip
data("a data set on disk that raises", "must give every image, but raises OSError for 17: the disk is gone",
     lambda: Items(breaking), in_memory=False)  # fmt: skip
data("a data set that is longer than its rows", "must give every image, but raises IndexError for 20",
     lambda: Items([row(index) for index in range(20)].__getitem__))  # fmt: skip
data("labels that are not numbers", "but one is nan", lambda: Items(lambda index: (row(index)[0], float("nan"))))
data("labels of several numbers", "must have one axis",
     lambda: TensorDataset(pixels(), nn.functional.one_hot(labels(), CLASSES)))  # fmt: skip
data("labels that are none", "must hold numbers or text", lambda: Items(lambda index: (row(index)[0], None)))
data("images that are none", "must hold numbers or text", lambda: Items(lambda index: (None, index % 2)))
data("images that are text", "must be uint8, integers or floats", lambda: (np.array([[["a"]]] * 30), labels(30)))
data("bytes to train and floats of the same range to test", "must both be bytes or both not",
     lambda: (Items(lambda index: ((row(index)[0] * 10).to(torch.uint8), index % 3)), Items(row)))  # fmt: skip
data("the same on disk", "must both be bytes or both not", in_memory=False,
     make=lambda: (Items(lambda index: ((row(index)[0] * 10).to(torch.uint8), index % 3)), Items(row)))  # fmt: skip
data("a generator", "but got generator", lambda: (row(index) for index in range(30)))
data("an iterable that was read before", "must hold at least one image", lambda: Rows(lambda: _exhausted()))
data("an iterable that stays on no disk", "spool=DIR", in_memory=False,
     make=lambda: Rows(lambda: (row(index) for index in range(30))))  # fmt: skip
data("a folder for what needs none", "can be read in any order", lambda: Items(row), spool="spool")
data("a folder that is a number", "spool must be the path of a folder", lambda: Items(row), spool=7)
data("an iterable that breaks off on its way to a folder", "raises OSError after 17: the disk is gone", spool="spool",
     make=lambda: Rows(lambda: (breaking(index) for index in range(30))))  # fmt: skip
data("images alone", "but got Tensor", pixels)
data("three arrays", "a source must be a name, a path, a pair", lambda: (pixels(), labels(), labels()))
data(
    "an image that is not finite",
    "must be finite",
    lambda: (pixels().index_fill(0, torch.tensor(4), torch.inf), labels()),
)
data("images that become not finite on disk", "must be finite", in_memory=False,
     make=lambda: Items(lambda index: (row(index)[0] / (0 if index == 7 else 1), index % 3)))  # fmt: skip


def _exhausted() -> Iterator[Any]:
    list(spent)
    return spent


def own_set(labels: Tensor, num_classes: int = CLASSES) -> DataSet:
    split = Split(pixels(len(labels)), labels)
    return DataSet("mine", split, split, split, num_classes=num_classes)


plain("labels above the classes", "between 0 and 2, but one of train is 5",
      lambda f: by_grow(f, data=own_set(labels() + 5)))  # fmt: skip
plain("labels below 0", "between 0 and 2, but one of train is -1", lambda f: by_grow(f, data=own_set(labels() - 1)))
plain(
    "float labels in a split",
    "a network must give a number for each target",
    lambda f: by_grow(f, data=own_set(labels() / 3)),
)


# Networks


class Given(nn.Module):
    """A network whose result is changed by a function."""

    def __init__(self, change: Callable[..., Any], body: nn.Module | None = None) -> None:
        super().__init__()
        self.body, self.change = network() if body is None else body, change

    def forward(self, x: Tensor) -> Any:
        return self.change(self.body(x))


class Two(nn.Module):
    """A network that needs two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.body = network()

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.body(x) * mask


class Tied(nn.Module):
    """The head and a layer below it are one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(CLASSES, CLASSES), nn.Linear(CLASSES, CLASSES)
        self.first = nn.Linear(SIDE * SIDE, CLASSES)
        self.head.weight = self.inner.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.inner(self.first(x.flatten(1)).relu()).relu())


class Quantised(nn.Module):
    """A layer that keeps a number beside its weights, as quantised ones do."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = network()
        self.register_state_dict_post_hook(_keep_number)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


def _keep_number(module: nn.Module, state: dict[str, Any], prefix: str, local: Any) -> None:
    state[f"{prefix}1.scale"] = 0.5


def module(name: str, phrase: str, make: Callable[[], Any], *verbs: Callable[..., object]) -> None:
    for verb in verbs or (by_grow, by_learn):
        word = verb.__name__.removeprefix("by_")
        plain(f"{word}: {name}", phrase, lambda folder, verb=verb: verb(folder, module=make()))


module("a module that gives a pair", "tuple with tensors 0, 1", lambda: Given(lambda x: (x, x)), by_grow)
module("a module that gives a pair", "gives tuple", lambda: Given(lambda x: (x, x)), by_learn)
module("a module that gives a dict without logits", "dict with tensors a, b", lambda: Given(lambda x: {"a": x, "b": x}),
       by_grow)  # fmt: skip
module("a module that gives a dict without logits", "gives dict", lambda: Given(lambda x: {"a": x, "b": x}), by_learn)
module("a module that gives a list", "list with tensors 0, 1", lambda: Given(lambda x: [x, x]), by_grow)
module("a module that gives nothing", "NoneType", lambda: Given(lambda x: None))
module("a module that needs two inputs", "missing 1 required positional argument: 'mask'", Two)
module("a module without parameters", "must have parameters that are trained",
       lambda: Given(lambda x: x.flatten(1)[:, :3], nn.Identity()), by_grow)  # fmt: skip
module("a module without parameters", "must be what its head gives, a linear layer",
       lambda: Given(lambda x: x.flatten(1)[:, :3], nn.Identity()), by_learn)  # fmt: skip
module("a module with all parameters frozen", "must have parameters that are trained",
       lambda: network().requires_grad_(False), by_grow)  # fmt: skip
module("a module of too few classes", "must give outputs of shape [4, 3]", lambda: network(outputs=2), by_grow)
module(
    "a module in half precision", "must be in single precision, but 1.weight is torch.float16", lambda: network().half()
)
module("a module in double precision", "must be in single precision", lambda: network().double())
module("a module that is not made yet", "must have its weights", lambda: nn.Sequential(nn.Flatten(), nn.LazyLinear(3)))
module("a module without content", "must have its weights", lambda: network().to("meta"))
module("a module with weights that are not numbers", "must be finite", lambda: _spoilt(network()))
module(
    "a tensor instead of a module", "a network is a text or an nn.Module, but got an object of Tensor",
    lambda: torch.eye(3), by_grow,
)  # fmt: skip
module("a state_dict instead of a module", "but got an object of OrderedDict", lambda: network().state_dict(), by_grow)
module("a state_dict instead of a module", "has a class and its arguments, but got 1.weight, 1.bias",
       lambda: network().state_dict(), by_learn)  # fmt: skip
module("a module that torch has traced", "must be a module in Python, but Sequential is a ScriptModule",
       lambda: torch.jit.trace(network(), pixels(2)))  # fmt: skip
module("a module of whole numbers", "the state of a network must be tensors, but 1.scale is float", Quantised)
module("a class instead of a module", "but got Two, which makes one: call it", lambda: Two, by_grow)
module("a module for other images", "must run on images of shape [1, 8, 8]", lambda: nn.Sequential(nn.Linear(5, 3)))
module("a module that raises", "must run on images of shape [1, 8, 8]", lambda: Given(raising))
module(
    "a module that shares its head's weights", "must have weights of its own, but 'head' shares them", Tied, by_learn
)


def _spoilt(made: nn.Sequential) -> nn.Sequential:
    with torch.no_grad():
        made[1].weight[0, 0] = torch.nan
    return made


# Weights


def weights(name: str, phrase: str, write: Callable[[Path], object], suffix: str = "safetensors") -> None:
    """A row for learning, which begins with a file of weights; ``write`` makes it."""

    def provoke(folder: Path) -> object:
        path = folder / f"weights.{suffix}"
        write(path)
        return by_learn(folder, module=network(), start=str(path))

    plain(f"weights: {name}", phrase, provoke)


def state(**changes: Tensor) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in network().state_dict().items()} | changes


def saved(tensors: dict[str, Tensor]) -> Callable[[Path], None]:
    return lambda path: safetensors.torch.save_file(tensors, path)


def without(*names: str) -> dict[str, Tensor]:
    return {name: value for name, value in state().items() if name not in names}


class Evil:
    """What writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


weights("of another shape", "has with another shape 1.weight", saved(state(**{"1.weight": torch.zeros(9, 64)})))
weights("that lack names", "lacks 1.bias, 1.weight", saved(without("1.weight", "1.bias")))
weights("with names besides", "has besides 1.scale", saved(state(**{"1.scale": torch.ones(1)})))
weights("of whole numbers", "has with another type 1.weight", saved(state(**{"1.weight": torch.ones(8, 64).long()})))
weights("that are not finite", "must be finite, but 1.bias", saved(state(**{"1.bias": torch.full((8,), torch.nan)})))
weights("by two names of one", "names 1.bias twice", saved(state(**{"module.1.bias": torch.ones(8)})))
weights("cut short", "weights must be a .safetensors file", lambda p: (saved(state())(p), _cut(p)))
weights("that are empty", "weights must be a .safetensors file", lambda path: path.write_bytes(b""))
weights("that are text", "weights must be a .safetensors file", lambda path: path.write_text("weights\n" * 50))
weights("that are a folder", "weights must be a file", lambda path: path.mkdir())
weights("that are missing", "weights must be a file", lambda path: None)
weights("of a state_dict cut short", "a state_dict that torch saved", lambda p: (torch.save(state(), p), _cut(p)), "pt")
weights("of a list", "tensors by name, but", lambda path: torch.save([torch.ones(3)], path), "pt")
weights("of numbers by name", "tensors by name, but", lambda path: torch.save({"lr": 0.1}, path), "pt")
weights("of a whole module", "save its state_dict()", lambda path: torch.save(network(), path), "pt")
weights("of a pickle", "a state_dict that torch saved", lambda path: path.write_bytes(pickle.dumps(state())), "pkl")
weights("of code", "a state_dict that torch saved",
        lambda path: path.write_bytes(pickle.dumps(Evil(path.parent / "ran"))), "pt")  # fmt: skip
weights("of a joint network", "lacks 1.bias, 1.weight", lambda path: path.write_bytes(joint_network()))
plain(
    "weights for an object from a run",
    "weights must be a file",
    lambda f: by_learn(f, module=network(), start=f / "run"),
)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def joint_network() -> bytes:
    return safetensors.torch.save({"task.0.weight": torch.zeros(3)}, metadata={"ramet": "{}"})


# Texts

WORDS = "the cat sat on the mat and the dog sat on the cat\n" * 200


def write_text(folder: Path, content: str | bytes = WORDS, name: str = "text.txt") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def write_tokenizer(folder: Path, words: list[str]) -> str:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    made = Tokenizer(WordLevel({word: place for place, word in enumerate(["<unk>", *words])}, unk_token="<unk>"))
    made.pre_tokenizer = Whitespace()
    made.save(str(folder / "tokenizer.json"))
    return str(folder / "tokenizer.json")


def text(name: str, phrase: str, content: str | bytes = WORDS, **options: Any) -> None:
    plain(f"text: {name}", phrase, lambda folder: load_text(write_text(folder, content), **options))


text("of one token", "at least 2 are needed", "word")
text("that is empty", "has 0 windows", "")
text("that is not in UTF-8", "must be text in UTF-8", b"\xff\xfe caf\xe9 " * 200)
text("that stays on no disk", "spool=DIR", in_memory=False)
text("in a folder that is a number", "spool must be the path of a folder", spool=7)
text("by syllables", "tokens are words, characters or the file of a tokenizer", tokens="syllables")
text("in windows of nothing", "window must be at least 1", window=0)
text("with a vocabulary of two", "vocabulary at least 3", vocabulary=2)
text("of more windows than there are", "at least 2 are needed, but got 100000", train_size=100000)
plain("text: that is not there", "a text needs the file", lambda folder: load_text(folder / "nowhere.txt"))


@use("text: a tokenizer with another vocabulary", "must have the vocabulary that is known, 4 pieces, but")
def _(folder: Path) -> object:
    (folder / "first").mkdir()
    first = load_text(write_text(folder), tokens=write_tokenizer(folder / "first", ["the", "cat", "sat"]))
    return load_text(folder / "text.txt", tokens=write_tokenizer(folder, ["the", "dog"]), like=first)


@use("text: a tokenizer with as many words, but others", "must have the vocabulary that is known, 3 pieces, but")
def _(folder: Path) -> object:
    (folder / "first").mkdir()
    first = load_text(write_text(folder), tokens=write_tokenizer(folder / "first", ["the", "cat"]))
    return load_text(folder / "text.txt", tokens=write_tokenizer(folder, ["the", "dog"]), like=first)


@use("text: words for a tokenizer's vocabulary", "must have <unk>")
def _(folder: Path) -> object:
    write_text(folder, "abc" * 900, "letters.txt")
    like = load_text(write_text(folder))
    like.__dict__["class_names"] = ("a", "b")
    return load_text(folder / "letters.txt", tokens="characters", like=like)


@use("text: no tokenizer", "must hold a tokenizer as tokenizers saves it")
def _(folder: Path) -> object:
    (folder / "tokenizer.json").write_text('{"model": "mine"}')
    return load_text(write_text(folder), tokens=str(folder / "tokenizer.json"))


@use("text: a tokenizer cut short", "must hold a tokenizer as tokenizers saves it")
def _(folder: Path) -> object:
    path = Path(write_tokenizer(folder, ["the", "cat"]))
    path.write_text(path.read_text()[:-30])
    return load_text(write_text(folder), tokens=str(path))


@use("text: a tokenizer and a vocabulary", "has a vocabulary of its own, but got vocabulary=50")
def _(folder: Path) -> object:
    return load_text(write_text(folder), tokens=write_tokenizer(folder, ["the"]), vocabulary=50)


# Commands, with --out on a run that is there and --overwrite


def command(name: str, phrase: str, *arguments: str, **files: str) -> None:
    """A row of arguments; ``{folder}`` in them is where the files are, which are written by name."""

    def make(folder: Path) -> list[str]:
        for file, content in files.items():
            (folder / f"{file}.py").write_text(content)
        return [argument.replace("{folder}", str(folder)) for argument in arguments]

    COMMANDS.append(BadCommand(name, make, phrase))


def recipe_file(name: str, phrase: str, content: str, function: str = "recipe", verb: str = "grow") -> None:
    # A file is imported under its own name, and stays imported in this process.
    file = f"bad_recipe_{len(COMMANDS)}"
    command(f"recipe file: {name}", phrase, verb, "--recipe", f"{{folder}}/{file}.py:{function}", **{file: content})


def part_file(option: str, name: str, phrase: str, content: str, verb: str = "grow") -> None:
    file = f"bad_part_{len(COMMANDS)}"
    command(f"{option} file: {name}", phrase, verb, f"--{option}", f"{{folder}}/{file}.py:mine", **{file: content})


recipe_file("without the function", "must define other", "def recipe(): return {}", "other")
recipe_file("with a mistake", "SyntaxError", "def recipe(:")
recipe_file("that gives a number", "a recipe is a Recipe or a mapping of its fields", "def recipe(): return 7")
recipe_file("that gives nothing", "a recipe is a Recipe or a mapping of its fields", "def recipe(): pass")
recipe_file("with fields of something else", "of its fields", "def recipe(): return {'colour': 'red'}")
recipe_file("that raises", "must run, but raises KeyError: 'fold'", "def recipe(): return {}['fold']")
recipe_file("that takes arguments", "must run, but raises TypeError", "def recipe(epochs): return {}")
recipe_file(
    "with a function without a name", "must be a function of a file", "def recipe(): return {'loss': lambda o, t: o}"
)
recipe_file("with a value out of range", "momentum must lie in [0, 1)", "def recipe(): return {'momentum': 3.0}")
recipe_file(
    "with a value of another type",
    "epochs must be a whole number",
    "def recipe(): return {'epochs': '3'}",
    verb="learn",
)
recipe_file("that is a number", "must run, but raises TypeError", "recipe = 7")
command("recipe: that nothing has", "a recipe is one of", "rank", "--recipe", "dart")
command("recipe: an option that it has not", "options of adamw are", "learn", "--recipe", "adamw:speed=3")
part_file("loss", "that gives a vector", "a loss must be one number", "def mine(o, t): return o.sum(1)")
part_file("loss", "that raises", "ZeroDivisionError", "def mine(o, t): return 1 / 0", "learn")
part_file("loss", "without it", "must define mine", "def other(o, t): return o.sum()", "search")
part_file("augment", "to another shape", "keep the shape", "def mine(x, y, g): return x[..., 1:], y", "rank")
part_file("augment", "that cannot be imported", "No module named 'nowhere'", "import nowhere", "grow")
part_file("schedule", "below nothing", "of at least 0", "def mine(step, num_steps): return -0.5", "search")
PAIR = """
from torch import nn


class Pair(nn.Linear):
    def forward(self, x):
        y = super().forward(x.flatten(1))
        return y, y


def mine():
    return Pair(64, 10)
"""
part_file("network", "that gives a pair", "tuple with tensors 0, 1", PAIR)
command("micro-batches of less than two samples", "accumulate must lie between 1", "grow", "--accumulate", "99")
command("crop on sequences", "crop is for images", "search", "--space", "recurrent:hidden_size=4,num_nodes=3", "--data",
        "{folder}/words.py", "--window", "5", "--augment", "crop", words=WORDS)  # fmt: skip
command("weights that are missing", "weights must be a file", "grow", "--start", "{folder}/nowhere.safetensors")
command("weights of another network", "weights must fit the network", "grow", "--start", "{folder}/net.safetensors")
command("weights of another network, learning", "weights must fit the network", "learn", "--start",
        "{folder}/net.safetensors")  # fmt: skip
command(
    "a budget in seconds of nothing", "a budget and its step must be positive", "grow", "--budget", "onnx-latency=0"
)


def run_good_makers(folder: Path) -> None:
    """What rows are made of, without their faults."""
    for name, data in {
        "rows": Rows(lambda: iter([row(index) for index in range(30)]), said=30),
        "items": Items(row),
        "loader": stacked(lambda number, images: images)(),
        "set": own_set(labels()),
    }.items():
        by_grow(folder / name, data=data)
    by_grow(folder / "on disk", data=Items(row), in_memory=False)
    by_grow(folder / "given", module=Given(lambda x: {"logits": x}))
    saved(state())(folder / "weights.safetensors")
    by_learn(folder / "weights", module=network(), start=str(folder / "weights.safetensors"))
    torch.save({"state_dict": state()}, folder / "weights.pt")
    by_learn(folder / "state", module=network(), start=str(folder / "weights.pt"))
    tokenizer = write_tokenizer(folder, ["the", "cat"])
    first = load_text(write_text(folder), tokens=tokenizer)
    load_text(folder / "text.txt", tokens=tokenizer, like=first)
