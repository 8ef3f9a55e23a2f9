"""Every guard on the same small streams: what earlier tasks keep, what new ones learn, what a smaller step would do.

``python -m benchmarks.compare_guards [--data-dir DIR] [--out results/guards.json] [--streams split permuted children]``

Two streams of five tasks on MNIST at 14 x 14 (2,000 training, 2,000 validation and 2,000 test images): ``split``, two
digits a task, and ``permuted``, ten digits whose pixels change places. One body of two hidden layers, a head for each
task. Each guard's strength is chosen on validation images and seeds apart, as the one with the highest mean accuracy of
all tasks in the end. Any guard makes steps smaller, and small steps forget less: so each is compared, seed by seed,
with unguarded training whose learning rate is lowered (from the second task on) until it learns the new tasks as well.
A third stream, ``children``, is a search on Cells64 with a child's turn in the place of a task.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ramet.data import DataSet, load
from ramet.guards import (
    Guard,
    NoGuard,
    OrthogonalAdapters,
    OrthogonalProjection,
    TrustRegionProjection,
    WeightPlasticity,
    design_adapters,
    diagonal_fisher,
    step_sizes,
)
from ramet.guards.trust_region import ScaledInputs
from ramet.params import named_params
from ramet.ranking import SupernetSetup
from ramet.ranking.intervals import seed_interval
from ramet.searching import Search, SearchPlan
from ramet.seeding import derive_seed, torch_generator
from ramet.spaces import Cells64
from ramet.training import Recipe, training_modes

NUM_TASKS, BATCH, RATE, WIDTH, RANK = 5, 50, 0.1, 64, 8
EPOCHS = {"split": 4, "permuted": 1}
"""Of a task; one of ten digits has five times as many images."""
SEEDS, TUNING_SEEDS = 8, 1
FACTORS = (1.0, 0.4, 0.15, 0.06, 0.025, 0.01, 0.004, 0.001)
"""Of the unguarded learning rate, from the second task on."""
Kind = Literal["guard", "adapters", "design"]


@dataclass(frozen=True)
class Method:
    """One way to guard, and the strengths that are tried."""

    make: Callable[[float], Guard]
    strengths: tuple[float, ...]
    kind: Kind = "guard"


METHODS: dict[str, Method] = {
    "plasticity": Method(WeightPlasticity, (10.0, 100.0, 1e3, 1e4)),
    "projection, mean": Method(lambda s: OrthogonalProjection(s, inputs="mean"), (0.01, 1.0, 100.0)),
    "projection, all": Method(lambda s: OrthogonalProjection(s, unit="energy"), (1e-3, 1e-2, 0.1, 1.0)),
    "gpm": Method(OrthogonalProjection.gpm, (0.9, 0.95, 0.99, 0.999)),
    "trgp": Method(TrustRegionProjection, (0.9, 0.95, 0.99, 0.999)),
    # What is chosen for these is their learning rate.
    "adapters": Method(lambda s: NoGuard(), (0.3, 0.1, 0.03), "adapters"),
    "o-lora": Method(lambda s: OrthogonalAdapters(), (0.3, 0.1, 0.03), "adapters"),
    "inflora": Method(lambda s: OrthogonalProjection.gpm(s, protect=("*lora_A*",)), (0.9, 0.99, 0.999), "design"),
}


@dataclass(frozen=True)
class Task:
    """Training and measured images of a task, [n, 196]."""

    train: tuple[Tensor, Tensor]
    measured: tuple[Tensor, Tensor]


def tasks_of(stream: str, data: DataSet, split: str, seed: int) -> list[Task]:
    """The tasks of a stream; permutations and the order of digits follow from the seed."""
    generator = torch_generator(seed, stream)
    order = torch.randperm(10, generator=generator)
    found = []
    for task in range(NUM_TASKS):
        pixels = torch.randperm(data.train.x[0].numel(), generator=generator)

        def part(x: Tensor, y: Tensor, task: int = task, pixels: Tensor = pixels) -> tuple[Tensor, Tensor]:
            if stream == "permuted":
                return x.flatten(1)[:, pixels], y
            pair = order[2 * task : 2 * task + 2]
            rows = (y[:, None] == pair).any(1)
            return x[rows].flatten(1), (y[rows] == pair[1]).long()

        held = getattr(data, split)
        found.append(Task(part(data.train.x, data.train.y), part(held.x, held.y)))
    return found


class Adapter(nn.Module):
    """A linear layer, with an adapter for each task if there are any."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.base = nn.Linear(inputs, outputs)
        self.lora_A, self.lora_B = nn.ModuleDict(), nn.ModuleDict()

    def add(self, name: str) -> None:
        self.lora_A[name] = nn.Linear(self.base.in_features, RANK, bias=False)
        self.lora_B[name] = nn.Linear(RANK, self.base.out_features, bias=False)
        nn.init.zeros_(self.lora_B[name].weight)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.base(x)
        for name in self.lora_A:
            y = y + self.lora_B[name](self.lora_A[name](x))
        return y


class Network(nn.Module):
    """Two hidden layers and a head for each task."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Adapter(inputs, WIDTH), Adapter(WIDTH, WIDTH)])
        self.heads = nn.ModuleList(nn.Linear(WIDTH, classes) for _ in range(NUM_TASKS))

    def forward(self, x: Tensor, task: int) -> Tensor:
        for layer in self.layers:
            x = layer(x).relu()
        logits: Tensor = self.heads[task](x)
        return logits


class Course:
    """The tasks one after the other on one network, under one method."""

    def __init__(
        self, tasks: Sequence[Task], method: Method | None, strength: float, seed: int, factor: float, epochs: int
    ) -> None:
        self.tasks, self.seed, self.factor, self.epochs = tasks, seed, factor, epochs
        self.kind: Kind = "guard" if method is None else method.kind
        self.guard: Guard = NoGuard() if method is None else method.make(strength)
        self.adapter_rate = strength if self.kind == "adapters" else 0.3
        torch.manual_seed(derive_seed(seed, "weights") % 2**31)
        classes = 1 + max(int(task.train[1].max()) for task in tasks)
        self.network = Network(tasks[0].train[0].shape[1], classes)
        self.scales: dict[int, ScaledInputs] = {}

    def run(self) -> dict[str, list[float]]:
        """The accuracy of each task right after its training, and in the end."""
        own = []
        for number in range(len(self.tasks)):
            self._train(number)
            own.append(self.accuracy(number))
        return {"own": own, "end": [self.accuracy(number) for number in range(len(self.tasks))]}

    def _loss(self, number: int, x: Tensor, y: Tensor) -> Tensor:
        scales = self.scales.get(number)
        if scales is None:
            return cross_entropy(self.network(x, number), y)
        with scales.applied(self.network):
            return cross_entropy(self.network(x, number), y)

    def _train(self, number: int) -> None:
        x, y = self.tasks[number].train
        trained = self._prepare(number)
        params = {name: param for name, param in named_params(self.network).items() if any(param is t for t in trained)}
        extra = [] if number not in self.scales else list(self.scales[number].parameters())
        rate = RATE * (1.0 if number == 0 else self.factor if self.kind == "guard" else self.adapter_rate)
        groups: list[dict[str, Any]] = [{"params": list(params.values())}]
        # Scales of inputs act on all outputs at once: at the network's own rate they diverge.
        groups += [{"params": extra, "lr": 0.1 * rate}] if extra else []
        optimizer = torch.optim.SGD(groups, lr=rate, momentum=0.9)
        sizes = step_sizes(optimizer, params)
        generator = torch_generator(self.seed, "batches", number)
        for _ in range(self.epochs):
            for rows in torch.randperm(len(x), generator=generator).split(BATCH):
                self.network.zero_grad(set_to_none=True)
                for one in extra:
                    one.grad = None
                self._loss(number, x[rows], y[rows]).backward()
                with self.guard.step(params, sizes):
                    optimizer.step()
        self._remember(number, params)

    def _prepare(self, number: int) -> list[Tensor]:
        """What a task trains: everything; or an adapter and its head, from the second task on."""
        x, y = self.tasks[number].train
        if isinstance(self.guard, TrustRegionProjection) and number:
            self.network.zero_grad(set_to_none=True)
            self._loss(number, x[:500], y[:500]).backward()
            self.scales[number] = self.guard.scales(named_params(self.network))
        if self.kind == "guard" or number == 0:
            return list(self.network.parameters())
        for layer in self.network.layers:
            layer.base.requires_grad_(False)
        name = "only" if self.kind == "design" else f"task{number}"
        for layer in self.network.layers:
            if name not in layer.lora_A:
                layer.add(name)
        head = list(self.network.heads[number].parameters())
        if self.kind == "design":
            assert isinstance(self.guard, OrthogonalProjection)
            self._pass(number)
            design_adapters(self.guard, named_params(self.network))
            return [*head, *(layer.lora_B[name].weight for layer in self.network.layers)]
        own = [one for layer in self.network.layers for one in (layer.lora_A[name].weight, layer.lora_B[name].weight)]
        return [*head, *own]

    def _pass(self, number: int) -> None:
        """The guard looks at a task's training images."""
        x, y = self.tasks[number].train
        self.network.zero_grad(set_to_none=True)
        with self.guard.watch(self.network):
            self._loss(number, x, y).backward()

    def _remember(self, number: int, params: dict[str, Tensor]) -> None:
        if self.kind == "design":
            for layer in self.network.layers:
                if number == 0:  # the first task has no adapter yet; the memory is that of what adapters would read
                    layer.add("only")
                with torch.no_grad():
                    layer.base.weight += layer.lora_B["only"].weight @ layer.lora_A["only"].weight
                    layer.lora_B["only"].weight.zero_()
        self._pass(number)
        if isinstance(self.guard, WeightPlasticity):
            x, y = self.tasks[number].train
            with training_modes(self.network):
                fisher = diagonal_fisher(self.network.eval(), cross_entropy, x[:500], y[:500], arguments=(number,))
            self.guard.remember(params, fisher)
        else:
            self.guard.remember(named_params(self.network) if self.kind == "design" else params)

    @torch.no_grad()
    def accuracy(self, number: int) -> float:
        x, y = self.tasks[number].measured
        scales = self.scales.get(number)
        if scales is None:
            return float((self.network(x, number).argmax(1) == y).double().mean())
        with scales.applied(self.network):
            return float((self.network(x, number).argmax(1) == y).double().mean())


def summary(course: dict[str, list[float]]) -> tuple[float, float]:
    """What earlier tasks have in the end, and what new ones reached right after their training."""
    return float(np.mean(course["end"][:-1])), float(np.mean(course["own"][1:]))


def at_same_gain(learned: float, frontier: Sequence[tuple[float, float]]) -> float:
    """What unguarded training keeps where it learns so much, between the two nearest learning rates of a seed.

    Args:
        learned: of the guarded training.
        frontier: kept and learned of each learning rate.

    >>> at_same_gain(0.85, [(0.5, 0.9), (0.7, 0.8)])
    0.6
    """
    order = sorted((one[1], one[0]) for one in frontier)
    return float(np.round(np.interp(learned, [x for x, _ in order], [y for _, y in order]), 12))


def compare(stream: str, data: DataSet, log: Callable[[str], None]) -> list[dict[str, Any]]:
    """The rows of one stream of tasks."""
    seeds = [derive_seed(0, stream, n) for n in range(SEEDS)]
    tasks = {seed: tasks_of(stream, data, "test", seed) for seed in seeds}
    frontier = {s: [summary(Course(tasks[s], None, 0.0, s, f, EPOCHS[stream]).run()) for f in FACTORS] for s in seeds}
    log(f"{stream}: unguarded done")
    rows = [row("none", stream, None, [frontier[s][0] for s in seeds], None)]
    for name, method in METHODS.items():
        strength = method.strengths[0]
        if len(method.strengths) > 1:
            scores = {
                s: np.mean([tuned(stream, data, method, s, n) for n in range(TUNING_SEEDS)]) for s in method.strengths
            }
            strength = max(scores, key=lambda s: scores[s])
        found = [summary(Course(tasks[s], method, strength, s, 1.0, EPOCHS[stream]).run()) for s in seeds]
        controls = [at_same_gain(one[1], frontier[s]) for one, s in zip(found, seeds, strict=True)]
        rows.append(row(name, stream, strength, found, controls))
        log(f"{stream}: {name} {rows[-1]}")
    return rows


def tuned(stream: str, data: DataSet, method: Method, strength: float, number: int) -> float:
    """The mean accuracy of all tasks in the end, on validation images and a seed apart."""
    seed = derive_seed(0, stream, "tuning", number)
    tasks = tasks_of(stream, data, "validation", seed)
    return float(np.mean(Course(tasks, method, strength, seed, 1.0, EPOCHS[stream]).run()["end"]))


def row(
    name: str,
    stream: str,
    strength: float | None,
    found: Sequence[tuple[float, float]],
    controls: Sequence[float] | None,
) -> dict[str, Any]:
    """One line: means over seeds in percent, and the paired gain over the control with its interval in points."""
    kept, learned = (100 * np.array([one[side] for one in found]) for side in (0, 1))
    values: dict[str, Any] = {
        "stream": stream,
        "guard": name,
        "strength": strength,
        "kept": round(float(kept.mean()), 2),
        "learned": round(float(learned.mean()), 2),
        "seeds": len(kept),
    }
    if controls is not None:
        gain = seed_interval(kept - 100 * np.array(controls))
        values |= {"control": round(100 * float(np.mean(controls)), 2)}
        values |= {"gain": round(float(gain.value or 0.0), 2), "interval": [_rounded(gain.low), _rounded(gain.high)]}
    return values


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(float(value), 2)


CHILDREN = SearchPlan(
    epochs=5,
    warmup_epochs=0,
    guard_warmup_epochs=2,
    models_per_epoch=10,
    batches_per_model=4,
    strategy="random",
    strategy_steps=1,
    archs_per_step=1,
    error_samples=2000,
    measured_models=4,
)
SUPERNET_GUARDS = {
    "plasticity": ("plasticity:60:fall_from=1,fall_to=2", "plasticity:6000:fall_from=1,fall_to=2"),
    "projection, mean": ("projection:1", "projection:100"),
    "projection, columns": ("projection:1:inputs=columns", "projection:100:inputs=columns"),
    "gpm": ("gpm:0.5:inputs=mean", "gpm:0.9:inputs=mean"),
    "nsas": ("nsas:0.5:size=2", "nsas:0.5:size=4"),
}
CHILD_FACTORS = (1.0, 0.6, 0.35, 0.2)


def children(data: DataSet, guard: str, seed: int, factor: float) -> tuple[float, float]:
    """The accuracy of an epoch's children at its end, and right after their turns; means over the guarded epochs.

    A guard remembers from the third epoch on, and the learning rate of the control is that of the whole search.
    """
    space = Cells64(channels=4, num_cells=1)
    recipe = Recipe(batch_size=32, learning_rate=0.1 * factor, final_learning_rate=0.02 * factor, weight_decay=3e-4)
    records: list[dict[str, Any]] = []
    plan = replace(CHILDREN, guard=guard, seed=seed)
    Search(SupernetSetup(space, data, recipe), plan, record=lambda key, **fields: records.append(fields)).run()
    after = [[1 - e for e in record["err2"] if e is not None] for record in records[2:]]
    own = [[1 - e for e in record["err1"] if e is not None] for record in records[2:]]
    return float(np.mean(np.concatenate(after))), float(np.mean(np.concatenate(own)))


def compare_children(data: DataSet, log: Callable[[str], None]) -> list[dict[str, Any]]:
    """The rows of the stream of children; what is measured are validation images, and strengths have seeds apart."""
    seeds = [derive_seed(0, "children", n) for n in range(SEEDS)]
    frontier = {s: [children(data, "none", s, f) for f in CHILD_FACTORS] for s in seeds}
    log("children: unguarded done")
    rows = [row("none", "children", None, [frontier[s][0] for s in seeds], None)]
    for name, texts in SUPERNET_GUARDS.items():
        apart = derive_seed(0, "children", "tuning")
        text = max(texts, key=lambda one: children(data, one, apart, 1.0)[0])
        found = [children(data, text, s, 1.0) for s in seeds]
        controls = [at_same_gain(one[1], frontier[s]) for one, s in zip(found, seeds, strict=True)]
        rows.append(row(name, "children", None, found, controls) | {"text": text})
        log(f"children: {name} {rows[-1]}")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data-dir")
    parser.add_argument("--out", default="results/guards.json", type=Path)
    parser.add_argument("--streams", nargs="+", default=["split", "permuted", "children"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = load("mnist", image_size=14, train_size=2000, eval_size=2000, data_dir=options.data_dir)
    small = load("mnist", image_size=7, train_size=2000, eval_size=2000, data_dir=options.data_dir)
    kept = json.loads(options.out.read_text())["rows"] if options.out.exists() else []
    for stream in options.streams:
        rows = compare_children(small, print) if stream == "children" else compare(stream, data, print)
        kept = [one for one in kept if one["stream"] != stream] + rows
        options.out.write_text(json.dumps({"rows": kept}, indent=1) + "\n")


if __name__ == "__main__":
    main()
