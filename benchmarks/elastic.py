"""Six sizes from one training: each against itself trained alone with the same steps, and against pruning.

``RAMET_DATA=... python -m benchmarks.elastic`` runs every arm on Fashion-MNIST at 16 x 16 with five seeds (CIFAR-10
with ``--data cifar10``, another network with ``--network mlp``), appends a line for each arm and seed to
``results/elastic.jsonl``, leaves out what is there already, and prints the table of what is there. The seeds from 20 on
were there for choices, which were made on validation images alone; the figures that count are the test accuracies of
the others.

All arms have the same network, recipe and number of steps for a size, and the learning rate that is best for sizes
trained alone; the sandwich has one of its own:

- ``alone``: each size from scratch, all steps.
- ``elastic``: the whole for a share of the steps, then all sizes together by the sandwich rule for the rest of them.
- ``continued``: the whole for all steps, as ``alone``, then all sizes together for what ``elastic`` costs more.
- ``pruned``: the whole for all steps, then each size pruned from it (Torch-Pruning, by the magnitude of groups) and
  trained on for so many steps that all of it costs what ``elastic`` did, in multiply-adds. Torch-Pruning is not among
  ramet's dependencies: the arm is left out, with a word, where it is missing.

Costs are multiply-adds of all training steps by those of training the whole, and CPU time beside them;
``python -m benchmarks elastic`` says what a step of a sandwich costs by its parts.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.elastic_networks import IMAGE, convnet, mlp, prune, resnet, transformer
from ramet.costs import count_flops, count_parameters
from ramet.data import DataSet, load
from ramet.ranking.intervals import t_interval
from ramet.reports.formats import decimals
from ramet.searching.elastic import calibration_inputs, child_of, sizes_at, train_elastic
from ramet.spaces import Arch, ElasticSpace, Sandwich, elastic
from ramet.training import Batches, Recipe, accuracy, fit

TRAIN_SIZE, BATCH = 8000, 64
WIDTHS = (0.25, 0.375, 0.5, 0.625, 0.75, 1.0)
AUGMENT = {"fashion-mnist": "crop:2+flip", "cifar10": "crop:2+flip"}
RESULTS = Path(__file__).parents[1] / "results" / "elastic.jsonl"
FIRST_DEVELOPMENT_SEED, NUM_VALIDATED = 20, 4000
EXAMPLES = 3
"""Inputs that a network is traced with: in no width, so that a transformer's batch is told from its channels."""
ARMS = ("alone", "elastic", "continued", "pruned")
CONTINUED = ARMS[2]
Make = Callable[[int, int], nn.Module]
Record = dict[str, Any]


@dataclass(frozen=True)
class Choice:
    """What was chosen on development seeds and validation images of Fashion-MNIST.

    Attributes:
        rate: the learning rate of whatever is trained from scratch.
        shared_rate: that of the sandwich.
        first: the share of the epochs in which the whole is trained by itself before.
        between: drawn sizes in a step of the sandwich.
        distillation: the share of the whole's outputs in what the others learn from.
        weight: of the others' losses, where the whole's is 1.
    """

    rate: float = 3e-3
    shared_rate: float = 3e-3
    first: float = 0.5
    between: int = 2
    distillation: float = 1.0
    weight: float = 0.5


@dataclass(frozen=True)
class Case:
    """A network, how long it is trained, and the shares of it that its sizes keep, a tuple for each dial."""

    make: Make
    epochs: int
    shares: Mapping[str, Any] = field(default_factory=lambda: {"widths": WIDTHS})
    choice: Choice = Choice()
    continued_rate: float = 3e-3
    """The sandwich's, where the whole has been trained to its end before."""

    def choice_for(self, arm: str) -> Choice:
        """The choice of an arm."""
        return replace(self.choice, shared_rate=self.continued_rate, first=1.0) if arm == CONTINUED else self.choice

    def fresh(self, held: DataSet, seed: int) -> nn.Module:
        """The whole, freshly drawn."""
        torch.manual_seed(seed)
        return self.make(held.in_channels, held.num_classes)

    def space(self, module: nn.Module, held: DataSet, choice: Choice) -> ElasticSpace:
        """The sizes of a network, its units in the order of what the loss would lose."""
        few = (held.train.x[:512], held.train.y[:512])
        sandwich = Sandwich(distillation=choice.distillation, weight=choice.weight)
        return elastic(module, held.train.x[:EXAMPLES], **self.shares, data=few, sandwich=sandwich)

    def kept(self, arch: Arch) -> list[float]:
        """The shares that a size keeps, a number for each dial."""
        dials = [shares for kind in self.shares.values() for shares in listed(kind)]
        return [shares[choice] for shares, choice in zip(dials, arch, strict=True)]


def listed(shares: Sequence[float] | Mapping[str, Sequence[float]]) -> list[Sequence[float]]:
    """The dials of a kind: one, or one for each pattern of names."""
    return list(shares.values()) if isinstance(shares, Mapping) else [shares]


CASES = {
    "mlp": Case(mlp, 8, choice=Choice(rate=0.01, shared_rate=5e-3, first=0.375, between=3, weight=0.1)),
    "convnet": Case(
        convnet, 16, choice=Choice(rate=0.02, shared_rate=0.02, first=0.25, between=4), continued_rate=0.01
    ),
    "transformer": Case(
        transformer,
        16,
        {"widths": {"blocks.*.up": (0.25, 0.5, 1.0)}, "heads": (0.5, 1.0)},
        Choice(first=0.375, between=3),
    ),
    "resnet": Case(resnet, 16),
}
"""The transformer's sizes keep hidden units and heads; its stream stays as it is. Nothing was chosen yet for resnet."""


def recipe_of(data: str, epochs: int, rate: float, **others: Any) -> Recipe:
    """AdamW with a cosine and a short warm-up, the same for every arm."""
    return Recipe(
        epochs=epochs,
        batch_size=BATCH,
        optimizer="adamw",
        learning_rate=rate,
        final_learning_rate=0.0,
        weight_decay=0.05,
        undecayed="vectors",
        warmup=0.05,
        augment=AUGMENT[data],
        **others,
    )


def images(data: str, seed: int) -> DataSet:
    """8,000 images to train, and what is held out."""
    return load(data, image_size=IMAGE, seed=seed, train_size=TRAIN_SIZE)


def flops(module: nn.Module, held: DataSet) -> int:
    """Multiply-adds for one image."""
    return count_flops(module, held.train.x.shape[1:])


def measured(module: nn.Module, held: DataSet, seed: int) -> dict[str, Any]:
    """What a size is and reaches: on validation images, where choices are made, or else on test images."""
    is_choice = seed >= FIRST_DEVELOPMENT_SEED
    part = held.validation if is_choice else held.test
    count = NUM_VALIDATED if is_choice else len(part.y)
    return {
        "parameters": count_parameters(module),
        "flops": flops(module, held),
        "validation" if is_choice else "test": accuracy(module, part.x[:count], part.y[:count]),
    }


def run_alone(case: Case, data: str, held: DataSet, seed: int, choice: Choice) -> Record:
    """Each size from scratch; the sizes are carved from a fresh whole, and weights drawn anew."""
    recipe = recipe_of(data, case.epochs, choice.rate)
    space = case.space(case.fresh(held, seed), held, choice)
    rows, begun = {}, time.process_time()
    seconds: dict[str, float] = {}
    for arch in space:
        child = space.supernet(0, 0).child(arch)
        torch.manual_seed(seed)
        child.apply(_draw_anew)
        start = time.process_time()
        fit(child, held.train.x, held.train.y, recipe, seed=seed)
        seconds[space.name(arch)] = time.process_time() - start
        rows[space.name(arch)] = measured(child.eval(), held, seed) | {
            "cpu_seconds": round(seconds[space.name(arch)], 1)
        }
    whole = rows[space.name(space.whole)]
    cost = sum(row["flops"] for row in rows.values()) / whole["flops"]
    return {"sizes": rows, "cost": cost, "cpu_seconds": round(time.process_time() - begun, 1)}


def _draw_anew(module: nn.Module) -> None:
    reset = getattr(module, "reset_parameters", None)
    if callable(reset):
        reset()


def run_elastic(case: Case, data: str, held: DataSet, seed: int, choice: Choice) -> Record:
    """The whole for some epochs, then all sizes together for the rest of them."""
    whole, begun = case.fresh(held, seed), time.process_time()
    alone = round(choice.first * case.epochs)
    if alone:
        # A constant rate: the schedule's end belongs to the training that follows.
        first = recipe_of(data, alone, choice.rate, schedule="constant")
        fit(whole, held.train.x, held.train.y, first, seed=seed + 1000)
    rows, cost = train_together(case, data, held, seed, choice, whole, case.epochs - alone)
    seconds = round(time.process_time() - begun, 1)
    return {"sizes": rows, "cost": alone / case.epochs + cost, "cpu_seconds": seconds}


def run_continued(case: Case, data: str, held: DataSet, seed: int, choice: Choice, cost: float) -> Record:
    """The whole as it is trained alone, then all sizes together, for as much as ``elastic`` cost in all."""
    whole, begun = case.fresh(held, seed), time.process_time()
    fit(whole, held.train.x, held.train.y, recipe_of(data, case.epochs, choice.rate), seed=seed)
    space = case.space(whole.eval(), held, choice)
    by_arch = {arch: flops(space.supernet(0, 0).child(arch), held) for arch in space}
    costs = [cost_together(case, held, space, by_arch, seed, choice, epochs) for epochs in range(1, case.epochs)]
    epochs = 1 + int(np.argmin(np.abs(np.array(costs) - (cost - 1))))
    rows, spent = train_together(case, data, held, seed, choice, whole, epochs)
    seconds = round(time.process_time() - begun, 1)
    return {"sizes": rows, "cost": 1 + spent, "epochs": epochs, "cpu_seconds": seconds}


def train_together(
    case: Case, data: str, held: DataSet, seed: int, choice: Choice, whole: nn.Module, epochs: int
) -> tuple[dict[str, Any], float]:
    """What each size is and reaches after a sandwich, and its cost by the training of the whole."""
    space = case.space(whole.eval(), held, choice)
    recipe = recipe_of(data, epochs, choice.shared_rate)
    supernet = train_elastic(space, held.train.x, held.train.y, recipe, seed=seed, num_between=choice.between)
    calibration = calibration_inputs(held.train.x, recipe, seed)
    rows = {space.name(arch): measured(child_of(supernet, arch, calibration), held, seed) for arch in space}
    by_arch = {arch: rows[space.name(arch)]["flops"] for arch in space}
    return rows, cost_together(case, held, space, by_arch, seed, choice, epochs)


def cost_together(
    case: Case, held: DataSet, space: ElasticSpace, by_arch: Mapping[Arch, int], seed: int, choice: Choice, epochs: int
) -> float:
    """Multiply-adds of so many epochs of a sandwich, by those of training the whole alone."""
    steps = Batches(len(held.train.x), BATCH, seed).steps_per_epoch
    turns = (
        {space.whole, space.smallest, *sizes_at(space, seed, step, choice.between)} for step in range(steps * epochs)
    )
    return sum(by_arch[arch] for archs in turns for arch in archs) / (steps * case.epochs * by_arch[space.whole])


def run_pruned(case: Case, data: str, held: DataSet, seed: int, choice: Choice, cost: float) -> Record:
    """The whole, then each size pruned from it and trained on, for as much as the sandwich cost."""
    import_module("torch_pruning")  # before anything is trained
    whole, begun = case.fresh(held, seed), time.process_time()
    fit(whole, held.train.x, held.train.y, recipe_of(data, case.epochs, choice.rate), seed=seed)
    space = case.space(whole.eval(), held, choice)
    pruned: dict[str, nn.Module] = {}
    for arch in space:
        if arch != space.whole:
            child = case.fresh(held, seed)
            child.load_state_dict(whole.state_dict())
            prune(child, held.train.x[:1], case.kept(arch))
            pruned[space.name(arch)] = child
    # Steps of the whole's training that are left for all pruned sizes together, in its own multiply-adds.
    whole_cost = case.epochs * flops(whole, held)
    each = sum(flops(child, held) for child in pruned.values())
    epochs = max(1, round((cost - 1) * whole_cost / each))
    rows = {}
    for name, child in pruned.items():
        fit(child, held.train.x, held.train.y, recipe_of(data, epochs, choice.rate), seed=seed + 2000)
        rows[name] = measured(child.eval(), held, seed)
    rows[space.name(space.whole)] = measured(whole, held, seed)
    seconds = round(time.process_time() - begun, 1)
    return {"sizes": rows, "cost": 1 + epochs * each / whole_cost, "epochs": epochs, "cpu_seconds": seconds}


def read(path: Path) -> list[Record]:
    """The records so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def judged(records: Sequence[Record], data: str, network: str) -> dict[str, dict[int, Record]]:
    """Of each arm the records of a network by its choice, by seed; those that choices were made on are none of them."""
    case = CASES[network]
    found: dict[str, dict[int, Record]] = {arm: {} for arm in ARMS}
    for record in records:
        wanted = {"data": data, "network": network, "epochs_each": case.epochs}
        wanted |= {"choice": vars(case.choice_for(record["arm"]))}
        if record["seed"] < FIRST_DEVELOPMENT_SEED and all(record[key] == value for key, value in wanted.items()):
            found[record["arm"]][record["seed"]] = record
    return found


def table(records: Sequence[Record], data: str) -> str:
    """Markdown: each network's sizes, alone and what the other arms differ from it, over seeds; and what each costs."""
    heads = ["network", "size", "parameters", "alone, %", *(f"{arm} minus alone, points" for arm in ARMS[1:])]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for network in CASES:
        arms = judged(records, data, network)
        seeds = sorted(set.intersection(*(set(arms[arm]) for arm in ARMS)))
        if not seeds:
            continue
        tests = {arm: [tests_of(arms[arm][seed]) for seed in seeds] for arm in ARMS}
        for name, row in arms["alone"][seeds[0]]["sizes"].items():
            alone, *others = (np.array([test[name] for test in tests[arm]]) for arm in ARMS)
            cells = [network, name.replace("*", r"\*"), f"{row['parameters']:,}", f"{alone.mean():.2f}"]
            cells += [t_interval((other - alone).tolist()).text(decimals(2)) for other in others]
            lines.append(f"| {' | '.join(cells)} |")
        costs = [f"{np.mean([arms[arm][seed]['cost'] for seed in seeds]):.2f}" for arm in ARMS]
        lines.append(f"| {network}, {len(seeds)} seeds | *cost, by the whole's* | | {' | '.join(costs)} |")
    return "\n".join(lines)


def tests_of(record: Record) -> dict[str, float]:
    """The test accuracy of each size, in per cent."""
    return {name: 100 * size["test"] for name, size in record["sizes"].items()}


def changed(choice: Choice, text: str) -> Choice:
    """A choice with what a text such as ``rate=0.002,between=2`` changes."""
    given = dict(entry.split("=") for entry in text.split(",")) if text else {}
    return replace(choice, **{key: type(getattr(choice, key))(float(value)) for key, value in given.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="fashion-mnist", choices=list(AUGMENT))
    parser.add_argument("--network", default="convnet", choices=list(CASES))
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--set", default="", help="other choices, such as rate=0.002,between=2")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    case, data = CASES[options.network], options.data
    for seed in map(int, options.seeds.split(",")):
        held = images(data, seed)
        for arm in options.arms.split(","):
            choice = changed(case.choice_for(arm), options.set)
            asked = {"network": options.network, "data": data, "arm": arm, "seed": seed}
            asked |= {"epochs_each": case.epochs, "choice": vars(choice)}
            records = read(options.results)
            if any(all(record[key] == value for key, value in asked.items()) for record in records):
                continue
            if arm in ("alone", "elastic"):
                run = run_alone if arm == "alone" else run_elastic
                found = run(case, data, held, seed, choice)
            else:
                like = asked | {"arm": "elastic", "choice": vars(changed(case.choice, options.set))}
                same = [record for record in records if all(record[key] == value for key, value in like.items())]
                if not same:
                    print(f"{arm}: its cost is that of elastic, which is not there yet")
                    continue
                later = run_continued if arm == CONTINUED else run_pruned
                try:
                    found = later(case, data, held, seed, choice, same[0]["cost"])
                except ModuleNotFoundError as error:
                    print(f"{arm}: left out, because {error.name} is missing (pip install torch-pruning)")
                    continue
            line = json.dumps(asked | found)
            with options.results.open("a") as file:
                file.write(line + "\n")
            print(line, flush=True)
    print(table(read(options.results), data))


if __name__ == "__main__":
    main()
