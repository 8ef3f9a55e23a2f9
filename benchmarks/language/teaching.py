"""Taught a second text: Penn Treebank first, then the source of Python's own standard library, without forgetting."""

from __future__ import annotations

import hashlib
import sysconfig
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import save_file

import ramet
from benchmarks.language.model import LanguageModel
from benchmarks.language.records import Record, Records
from benchmarks.language.scale import Scale
from benchmarks.language.training import RECIPE, figures, train_by_hand
from ramet.continual import LearnPlan, LearnRecipe, Stream, Task
from ramet.data.text import Text, read_texts
from ramet.seeding import seeded_globally

MODULES = (
    *("argparse", "ast", "calendar", "configparser", "csv", "difflib", "doctest", "enum", "inspect", "mailbox"),
    *("optparse", "pdb", "pickle", "smtplib", "statistics", "subprocess", "tarfile", "threading", "turtle", "typing"),
)
"""Modules of the standard library that are one file each; nothing of them is kept here."""

METHODS = ("naive", "frozen", "adapters", "bind-and-grow", "bind-and-grow:budget=0.5")


def write_source(path: Path) -> str:
    """Write the source of Python's own modules as one text; gives its digest."""
    folder = Path(sysconfig.get_path("stdlib"))
    text = "".join((folder / f"{name}.py").read_text(encoding="utf-8") for name in MODULES)
    path.write_text(text.encode("ascii", "ignore").decode(), encoding="utf-8")
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def read_both(scale: Scale, out: Path) -> tuple[list[Text], str]:
    """Both texts by characters, with one vocabulary."""
    digest = write_source(out / "python.txt")
    options = f"tokens=characters,length={scale.length}"
    sources = [f"text:ptb:{options}", f"text:{out / 'python.txt'}:{options}"]
    return read_texts(sources, train_size=scale.windows, eval_size=scale.held_out), digest


def trained_on_first(texts: list[Text], scale: Scale, rate: float, seed: int, file: Path) -> Record:
    """The large network trained on the first text, its weights in a file, and how it reads the second."""
    width, depth, heads = scale.large
    first, second = texts
    with seeded_globally(seed, "language model"):
        network = LanguageModel(first.num_classes, scale.length, width, depth, heads)
    num_steps = len(first.train.x) // scale.batch_size
    train_by_hand(network, first, scale, rate, seed, num_steps)
    save_file(network.state_dict(), file)
    return {"first": figures(network, first)["test"], "second": figures(network, second)["test"]}


def teach(texts: list[Text], scale: Scale, rate: float, seed: int, out: Path) -> list[Record]:
    """Both texts one after the other by every method, from the weights that the first was learned with."""
    width, depth, heads = scale.large

    def network(words: int, length: int) -> LanguageModel:
        return LanguageModel(words, length, width, depth, heads)

    names = ("first", "second")
    stream = Stream("two texts", [Task(name, text) for name, text in zip(names, texts, strict=True)])
    recipe = LearnRecipe(epochs=1, batch_size=scale.batch_size, learning_rate=rate, **RECIPE)
    result = ramet.learn(
        stream,
        network=network,
        start=out / f"first-{seed}.safetensors",
        plan=LearnPlan(methods=METHODS, controls="none", exports=False),
        recipe=recipe,
        seed=seed,
        out=out / f"learn-{seed}",
    )
    return [
        {
            "method": name,
            "before": outcome.matrix[0][0],
            "after": outcome.matrix[1][0],
            "second": outcome.matrix[1][1],
            "parameters": outcome.growth[-1],
        }
        for name, outcome in result.methods.items()
    ]


def teach_both(texts: list[Text], scale: Scale, rate: float, seed: int, out: Path) -> Record:
    """The network trained on the first text, and what each method makes of it."""
    trained = trained_on_first(texts, scale, rate, seed, out / f"first-{seed}.safetensors")
    return {"trained": trained, "methods": teach(texts, scale, rate, seed, out)}


def compare(scale: Scale, records: Records, out: Path) -> None:
    """For each seed: the network trained on the first text, and all methods that teach it the second."""
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    texts, digest = read_both(scale, out)
    rate = scale.rates[len(scale.rates) // 2]
    for seed in scale.seeds:
        key = {"part": "taught", "seed": seed, "rate": rate, "source": digest}
        records.once(partial(teach_both, texts, scale, rate, seed, out), **key)
