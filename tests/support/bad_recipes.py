"""Recipes that cannot work, one row each: a name, keywords of ``Recipe``, and a phrase of the refusal.

Every row is tried with all five verbs, each on little data, whose run directory is the ``run`` of the folder given.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import ramet
from ramet.continual import LearnPlan, Stream, StudyPlan, Task
from ramet.data import load
from ramet.growth import GrowPlan
from ramet.growth.budget import Ends
from ramet.ranking.plan import Plan
from ramet.searching import SearchPlan
from ramet.spaces import Cells64
from ramet.training import Recipe

CLASSES, SIDE = 3, 8


class BadRecipe(NamedTuple):
    name: str
    options: dict[str, Any]
    phrase: str


ROWS: list[BadRecipe] = []


def pixels(count: int = 60) -> Tensor:
    return torch.from_numpy(np.random.default_rng(0).normal(size=(count, 1, SIDE, SIDE)).astype("float32"))


def labels(count: int = 60) -> Tensor:
    return torch.arange(count) % CLASSES


def network(width: int = 8, outputs: int = CLASSES) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, width), nn.ReLU(), nn.Linear(width, outputs))


def small(**options: Any) -> Recipe:
    return Recipe(**{"epochs": 1, "batch_size": 16, "learning_rate": 0.05, **options})


# The verbs, each on little data


def by_grow(folder: Path, recipe: Any = None, module: Any = None, data: Any = None, **options: Any) -> object:
    options = {"plan": GrowPlan(methods=("net2net",), ends=Ends(max_steps=1)), **options}
    data = (pixels(), labels()) if data is None else data
    module = network() if module is None else module
    return ramet.grow(module, data, recipe=recipe or small(), out=folder / "run", **options)


def stream() -> Stream:
    data = load((pixels(), labels()))
    return Stream("mine", [Task("one", data), Task("two", data)])


def by_learn(folder: Path, recipe: Any = None, module: Any = "mlp:4", **options: Any) -> object:
    options = {"plan": LearnPlan(methods="naive"), **options}
    return ramet.learn(stream(), network=module, recipe=recipe or small(), out=folder / "run", **options)


def by_study(folder: Path, recipe: Any = None) -> object:
    plan = StudyPlan(num_trials=1, network="mlp:4")
    return ramet.study(stream(), plan=plan, recipe=recipe or small(), out=folder / "run")


def by_rank(folder: Path, recipe: Any = None) -> object:
    plan = Plan(instances=1, truth="none", children=2, last_epochs=1, last_steps=1, fine_tune_steps=0)
    space = Cells64(channels=2, num_cells=1)
    return ramet.rank(space, (pixels(), labels()), plan=plan, recipe=recipe or small(), out=folder / "run")


def by_search(folder: Path, recipe: Any = None) -> object:
    plan = SearchPlan(
        strategy="random", epochs=1, warmup_epochs=0, models_per_epoch=1, batches_per_model=1, strategy_steps=1,
        archs_per_step=1, num_candidates=1, num_final=0,
    )  # fmt: skip
    space = Cells64(channels=2, num_cells=1)
    return ramet.search(space, (pixels(), labels()), plan=plan, recipe=recipe or small(), out=folder / "run")


VERBS: dict[str, Callable[..., object]] = {
    "grow": by_grow, "learn": by_learn, "study": by_study, "rank": by_rank, "search": by_search,
}  # fmt: skip


# Recipes


def recipe(name: str, phrase: str, **options: Any) -> None:
    ROWS.append(BadRecipe(name, options, phrase))


def raising(*arguments: Any) -> Any:
    raise KeyError("fold")


def vector(outputs: Tensor, targets: Tensor) -> Tensor:
    return cross_entropy(outputs, targets, reduction="none")


def not_a_number(outputs: Tensor, targets: Tensor) -> Tensor:
    return cross_entropy(outputs, targets) * float("nan")


def infinite_gradient(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - outputs.detach()).abs().pow(0.5).mean()  # the derivative of a root at zero


recipe("a loss that is a vector", "a loss must be one number, the mean over a batch, but has shape [8]", loss=vector)
recipe("a loss that is none", "a loss must be a tensor of one number, but is NoneType", loss=lambda o, t: None)
recipe("a loss that is a float", "but is float", loss=lambda o, t: cross_entropy(o, t).item())
recipe("a loss that is detached", "it was detached", loss=lambda o, t: cross_entropy(o, t).detach())
recipe("a loss that is a constant", "or is constant", loss=lambda o, t: torch.tensor(1.0))
recipe("a loss that is not a number", "a loss and its gradient must be finite", loss=not_a_number)
recipe("a loss without a finite gradient", "the outputs of the network are finite", loss=infinite_gradient)
recipe("a loss that is an integer", "floating-point", loss=lambda o, t: (o.argmax(1) == t).sum())
recipe("a loss of outputs alone", "a loss must take outputs of shape [8, 3] and targets of [8]", loss=lambda o: o.sum())
recipe("a loss that raises", "but it raises KeyError: 'fold'", loss=raising)
recipe("a loss that is a pair", "but is tuple", loss=lambda o, t: (cross_entropy(o, t), o))
recipe("a loss with a name that nothing has", "a loss is one of", loss="cross-entropi")
recipe("a loss with an option that it has not", "options of cross-entropy are smoothing", loss="cross-entropy:smooth=1")
recipe("a loss with an option out of range", "label_smoothing", loss="cross-entropy:smoothing=2.0")
recipe("a loss for targets of another shape", "for each target, of shape [8], but its outputs have shape [8, 3]",
       loss="binary")  # fmt: skip
recipe("a function for targets of another shape", "a loss must take outputs of shape [8, 3]",
       loss=lambda outputs, y: nn.functional.binary_cross_entropy(outputs.sigmoid(), y.float()))  # fmt: skip
recipe("a loss that is a class", "but it raises", loss=nn.CrossEntropyLoss)
recipe("a loss that is a tensor", "a loss is a text or a function, but got tensor([[0., 0.], [0., 0.]])",
       loss=torch.zeros(2, 2))  # fmt: skip
recipe("a loss that is a number", "a loss is a text or a function, but got 0.5", loss=0.5)

recipe("an augmentation to another shape", "keep the shape of inputs", augment=lambda x, y, g: (x[..., 1:], y))
recipe("an augmentation to another type", "keep the type of inputs", augment=lambda x, y, g: (x.double(), y))
recipe("an augmentation that drops samples", "keep the 8 samples", augment=lambda x, y, g: (x[1:], y[1:]))
recipe("an augmentation that drops targets", "8 inputs and 7 targets", augment=lambda x, y, g: (x, y[1:]))
recipe(
    "an augmentation to one tensor",
    "a pair of tensors, inputs and targets, but gives Tensor",
    augment=lambda x, y, g: x,
)
recipe("an augmentation to nothing", "but gives NoneType", augment=lambda x, y, g: None)
recipe("an augmentation to three things", "but gives 3 things", augment=lambda x, y, g: (x, y, y))
recipe("an augmentation off the device", "keep the device of inputs", augment=lambda x, y, g: (x.to("meta"), y))
recipe("targets off the device", "keep the device of targets", augment=lambda x, y, g: (x, y.to("meta")))
recipe("an augmentation that raises", "an augmentation must run on a training batch", augment=raising)
recipe("an augmentation of inputs alone", "but it raises TypeError", augment=lambda x: (x, x))
recipe("an augmentation that nothing has", "a augmentation is one of", augment="rotate")
recipe("an augmentation to no numbers", "must be finite", augment=lambda x, y, g: (x / 0, y))
recipe("a crop by less than nothing", "crop's padding must be at least 0", augment="crop:-3")
recipe("a flip of more than all", "flip's probability must lie in [0, 1]", augment="flip:7.0")
recipe("a cutout without a side", "cutout's length must be at least 1", augment="cutout:0")
recipe("a mixup for fewer classes", "mixup's classes must be more than the largest label, 2", augment="mixup:classes=2")
recipe("a noise below nothing", "noise's deviation must be at least 0", augment="noise:-0.5")


def of_others(groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
    return torch.optim.SGD([nn.Parameter(torch.zeros(3))], lr=0.1)


def with_closure(groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
    return torch.optim.LBFGS([param for group in groups for param in group["params"]])


recipe("an optimizer that does not exist", "optimizer must be one of", optimizer="adamm")
recipe("an optimizer by name that needs a closure", "but got 'lbfgs'", optimizer="lbfgs")
recipe("an optimizer that needs a closure", "without a function that computes the loss again", optimizer=with_closure)
recipe("an optimizer that refuses its options", "Invalid momentum", optimizer=lambda g: torch.optim.SGD(g, momentum=-1))
recipe("an optimizer that refuses parameters", "must take the parameters of the network", optimizer="muon")
recipe("an optimizer that is none", "torch.optim.Optimizer), but got NoneType", optimizer=lambda groups: None)
recipe("an optimizer of other parameters", "must step the parameters that it is given", optimizer=of_others)
recipe("an optimizer of one's own network", "but got an object of SGD", optimizer=of_others([]))
recipe("an optimizer that raises", "but it raises KeyError", optimizer=raising)
recipe("an optimizer that is a class with other arguments", "must take the parameters", optimizer=nn.Linear)

recipe("a schedule that is not a number", "a finite number of at least 0, but gives nan", schedule=lambda s, n: np.nan)
recipe("a schedule below nothing", "of at least 0, but gives -1", schedule=lambda s, n: -1)
recipe("a schedule that ends below nothing", "of at least 0", schedule=lambda s, n: 1.0 - 3.0 * (s + 1) / n)
recipe("a schedule without end", "a finite number of at least 0, but gives inf", schedule=lambda s, n: float("inf"))
recipe("a schedule that is a text", "but gives 'fast'", schedule=lambda s, n: "fast")
recipe("a schedule that is nothing", "but gives None", schedule=lambda s, n: None)
recipe("a schedule of one argument", "a schedule must give a factor for each of", schedule=lambda step: 1.0)
recipe("a schedule that raises", "but it raises KeyError", schedule=raising)
recipe("a schedule out of range", "factor and every in (0, 1]", schedule="step:factor=3.0")

recipe("an average of more than all", "average reads ema:DECAY", average="ema:2")
recipe("an average that is a number", "average reads ema:DECAY or tail:SHARE, but got 0.99", average=0.99)
recipe("a precision that is another", "precision must be float32 or bfloat16", precision="float16")
recipe("more micro-batches than samples", "accumulate must lie between 1 and half of batch_size", accumulate=17)
recipe("epochs that are broken", "epochs must be a whole number, but got 1.5", epochs=1.5)
recipe("epochs in words", "epochs must be a whole number, but got 'three'", epochs="three")
recipe("a batch size that is broken", "batch_size must be a whole number, but got 16.0", batch_size=16.0)
recipe("a learning rate in words", "learning_rate must be a number, but got '0.1'", learning_rate="0.1")
recipe("a warm-up that is nothing", "warmup must be a number, but got None", warmup=None)
