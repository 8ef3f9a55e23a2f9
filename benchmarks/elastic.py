"""Six sizes from one training: each against itself trained alone with the same steps, and against pruning.

``RAMET_DATA=... python -m benchmarks.elastic`` runs every arm on Fashion-MNIST at 16 x 16 with the seeds 0, 1 and 2
(CIFAR-10 with ``--data cifar10``, another network with ``--network resnet``), appends a line for each arm and seed to
``results/elastic.jsonl``, leaves out what is there already, and prints the table of what is there. The seeds from 20 on
were there for choices, which were made on validation images alone; the figures that count are the test accuracies of
the others.

All arms have the same network, recipe, learning rates chosen alike, and number of steps for a size:

- ``alone``: each size from scratch, all steps.
- ``elastic``: the whole for a share of the steps, then all sizes together by the sandwich rule for the rest of them.
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
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from benchmarks.backbone_network import ResNet
from ramet.costs import count_flops, count_parameters
from ramet.data import DataSet, load
from ramet.ranking.intervals import t_interval
from ramet.searching.elastic import calibration_inputs, child_of, sizes_at, train_elastic
from ramet.spaces import ElasticSpace, Sandwich, elastic
from ramet.training import Batches, Recipe, accuracy, fit

IMAGE, TRAIN_SIZE = 16, 8000
WIDTHS = (0.25, 0.375, 0.5, 0.625, 0.75, 1.0)
EPOCHS = {"mlp": 8, "convnet": 16, "resnet": 16, "transformer": 16}
AUGMENT = {"fashion-mnist": "crop:2+flip", "cifar10": "crop:2+flip"}
RESULTS = Path(__file__).parents[1] / "results" / "elastic.jsonl"
FIRST_DEVELOPMENT_SEED, NUM_VALIDATED = 20, 4000
ARMS = ("alone", "elastic", "pruned")
Make = Callable[[int, int], nn.Module]


@dataclass(frozen=True)
class Choice:
    """What was chosen on development seeds: seed 20, with the MLP; the other networks are not judged yet.

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


def recipe_of(data: str, epochs: int, rate: float, **others: Any) -> Recipe:
    """AdamW with a cosine and a short warm-up, the same for every arm."""
    return Recipe(
        epochs=epochs,
        batch_size=64,
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


def mlp(in_channels: int, num_classes: int) -> nn.Module:
    """Two hidden layers of 128 units: 51 thousand weights for grey images."""
    hidden = [nn.Linear(IMAGE**2 * in_channels, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU()]
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(128, num_classes))


def convnet(in_channels: int, num_classes: int) -> nn.Module:
    """Three convolutions with batch norm that halve the image, and a linear layer: 97 thousand weights."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((in_channels, 32), (32, 64), (64, 128)):
        layers += [nn.Conv2d(inputs, outputs, 3, 2, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, num_classes))


def resnet(in_channels: int, num_classes: int) -> nn.Module:
    """Fourteen layers of 16 to 64 channels with shortcuts, whose stem halves the image: 175 thousand weights."""
    made = ResNet(in_channels, num_classes)
    made.stem[0] = nn.Conv2d(in_channels, 16, 3, 2, 1, bias=False)
    return made


HEADED = ("queries", "keys", "values")
"""Layers of a block whose outputs are heads."""


class Block(nn.Module):
    """Attention and a perceptron, each after a norm and beside a shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.other_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries, self.keys, self.values = (nn.Linear(width, width) for _ in HEADED)
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Shape [batch, tokens, stream] in and out; heads are as wide as they were, however wide the stream is."""
        normed = self.norm(x)
        parts = [part(normed).unflatten(-1, (self.heads, -1)) for part in (self.queries, self.keys, self.values)]
        mixed = scaled_dot_product_attention(*(part.transpose(1, 2) for part in parts))
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(gelu(self.up(self.other_norm(x))))


class VisionTransformer(nn.Module):
    """Sixteen patches of 4 x 4, learned positions, and a head on the mean over tokens."""

    def __init__(self, in_channels: int, num_classes: int, width: int = 64, depth: int = 3) -> None:
        super().__init__()
        self.patches = nn.Conv2d(in_channels, width, 4, 4)
        self.positions = nn.Parameter(0.02 * torch.randn(1, (IMAGE // 4) ** 2, width))
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        x = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(self.norm(x).mean(1))
        return logits


def transformer(in_channels: int, num_classes: int) -> nn.Module:
    """A vision transformer of three blocks with a stream of 64 channels: 105 thousand weights for grey images."""
    return VisionTransformer(in_channels, num_classes)


NETWORKS: dict[str, Make] = {"mlp": mlp, "convnet": convnet, "resnet": resnet, "transformer": transformer}


def drawn(make: Make, held: DataSet, seed: int) -> nn.Module:
    """The whole, freshly drawn."""
    torch.manual_seed(seed)
    return make(held.in_channels, held.num_classes)


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


def space_of(module: nn.Module, held: DataSet, choice: Choice) -> ElasticSpace:
    """The six widths of a network, its units in the order of what the loss would lose."""
    few = (held.train.x[:512], held.train.y[:512])
    sandwich = Sandwich(distillation=choice.distillation, weight=choice.weight)
    return elastic(module, held.train.x[:4], widths=WIDTHS, data=few, sandwich=sandwich)


def run_alone(make: Make, data: str, held: DataSet, seed: int, choice: Choice) -> dict[str, Any]:
    """Each size from scratch; the widths are carved from a fresh whole, and weights drawn anew."""
    recipe = recipe_of(data, EPOCHS[make.__name__], choice.rate)
    space = elastic(drawn(make, held, seed), held.train.x[:4], widths=WIDTHS)
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


def run_elastic(make: Make, data: str, held: DataSet, seed: int, choice: Choice) -> dict[str, Any]:
    """The whole for some epochs, then all sizes together for the rest of them."""
    whole, begun = drawn(make, held, seed), time.process_time()
    alone = round(choice.first * EPOCHS[make.__name__])
    if alone:
        # A constant rate: the schedule's end belongs to the training that follows.
        first = recipe_of(data, alone, choice.rate, schedule="constant")
        fit(whole, held.train.x, held.train.y, first, seed=seed + 1000)
    space = space_of(whole.eval(), held, choice)
    rest = recipe_of(data, EPOCHS[make.__name__] - alone, choice.shared_rate)
    supernet = train_elastic(space, held.train.x, held.train.y, rest, seed=seed, num_between=choice.between)
    seconds = time.process_time() - begun
    calibration = calibration_inputs(held.train.x, rest, seed)
    children = {space.name(arch): child_of(supernet, arch, calibration) for arch in space}
    rows = {name: measured(child, held, seed) for name, child in children.items()}
    by_arch = {arch: rows[space.name(arch)]["flops"] for arch in space}
    steps = Batches(len(held.train.x), rest.batch_size, seed).steps_per_epoch
    spent = steps * alone * by_arch[space.whole]
    for step in range(steps * (EPOCHS[make.__name__] - alone)):
        archs = {space.whole, space.smallest, *sizes_at(space, seed, step, choice.between)}
        spent += sum(by_arch[arch] for arch in archs)
    cost = spent / (steps * EPOCHS[make.__name__] * by_arch[space.whole])
    return {"sizes": rows, "cost": cost, "cpu_seconds": round(seconds, 1)}


def never_pruned(module: nn.Module) -> list[nn.Module]:
    """What gives the network's outputs, which is its last layer, and a head's channels."""
    heads = [getattr(block, name) for block in module.modules() if isinstance(block, Block) for name in HEADED]
    return [*heads, list(module.modules())[-1]]


def run_pruned(make: Make, data: str, held: DataSet, seed: int, choice: Choice, cost: float) -> dict[str, Any]:
    """The whole, then each size pruned from it and trained on, for as much as the sandwich cost."""
    import torch_pruning

    whole, begun = drawn(make, held, seed), time.process_time()
    fit(whole, held.train.x, held.train.y, recipe_of(data, EPOCHS[make.__name__], choice.rate), seed=seed)
    rows = {"width=1": measured(whole.eval(), held, seed)}
    pruned: dict[str, nn.Module] = {}
    for width in WIDTHS[:-1]:
        child = drawn(make, held, seed)
        child.load_state_dict(whole.state_dict())
        torch_pruning.pruner.MagnitudePruner(
            child,
            held.train.x[:1],
            importance=torch_pruning.importance.GroupMagnitudeImportance(),
            pruning_ratio=1 - width,
            ignored_layers=never_pruned(child),
        ).step()
        pruned[f"width={width:g}"] = child
    # Steps of the whole's training that are left for all pruned sizes together, in its own multiply-adds.
    left = (cost - 1) * EPOCHS[make.__name__] * rows["width=1"]["flops"]
    epochs = max(1, round(left / sum(flops(child, held) for child in pruned.values())))
    for name, child in pruned.items():
        fit(child, held.train.x, held.train.y, recipe_of(data, epochs, choice.rate), seed=seed + 2000)
        rows[name] = measured(child.eval(), held, seed)
    spent = EPOCHS[make.__name__] * rows["width=1"]["flops"] + epochs * sum(rows[name]["flops"] for name in pruned)
    cost = spent / (EPOCHS[make.__name__] * rows["width=1"]["flops"])
    return {"sizes": rows, "cost": cost, "epochs": epochs, "cpu_seconds": round(time.process_time() - begun, 1)}


def read(path: Path) -> list[dict[str, Any]]:
    """The records so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def table(records: list[dict[str, Any]], data: str, network: str) -> str:
    """Markdown: each size by each arm, and its difference from itself trained alone, seed by seed."""
    chosen = {
        (record["arm"], record["seed"]): record
        for record in records
        if record["data"] == data
        and record["network"] == network
        and record["seed"] < FIRST_DEVELOPMENT_SEED
        and record["choice"] == vars(CHOICES[data])
        and record["epochs_each"] == EPOCHS[network]
    }
    seeds = sorted(seed for arm, seed in chosen if arm == "alone")
    if not seeds:
        return "no records yet"
    names = list(chosen["alone", seeds[0]]["sizes"])
    lines = ["| size | parameters | alone | elastic | pruned | elastic minus alone | pruned minus alone |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for name in names:
        cells = [name, f"{chosen['alone', seeds[0]]['sizes'][name]['parameters']:,}"]
        for arm in ARMS:
            own = [chosen[arm, seed]["sizes"][name]["test"] for seed in seeds if (arm, seed) in chosen]
            cells.append(f"{100 * np.mean(own):.2f} %" if own else "")
        for arm in ("elastic", "pruned"):
            pairs = [
                100 * (chosen[arm, seed]["sizes"][name]["test"] - chosen["alone", seed]["sizes"][name]["test"])
                for seed in seeds
                if (arm, seed) in chosen
            ]
            each = ", ".join(f"{pair:+.2f}" for pair in pairs)
            if len(pairs) > 1:
                found = t_interval(pairs)
                cells.append(f"{found.value:+.2f} [{found.low:.2f}, {found.high:.2f}] ({each})")
            else:
                cells.append(each)
        lines.append(f"| {' | '.join(cells)} |")
    for arm in ARMS:
        own = [chosen[arm, seed] for seed in seeds if (arm, seed) in chosen]
        if own:
            cost = np.mean([record["cost"] for record in own])
            lines.append(
                f"\n{arm}: {cost:.2f} times the multiply-adds of training the whole, {own[0]['cpu_seconds']} CPU-s"
            )
    return "\n".join(lines)


CHOICES = {"fashion-mnist": Choice(), "cifar10": Choice()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="fashion-mnist", choices=list(CHOICES))
    parser.add_argument("--network", default="convnet", choices=list(NETWORKS))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--set", default="", help="other choices, such as rate=0.002,between=2")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    choice, data, make = CHOICES[options.data], options.data, NETWORKS[options.network]
    if options.set:
        given = dict(entry.split("=") for entry in options.set.split(","))
        choice = replace(choice, **{key: type(getattr(choice, key))(float(value)) for key, value in given.items()})
    for seed in map(int, options.seeds.split(",")):
        held = images(data, seed)
        for arm in options.arms.split(","):
            asked = {"network": options.network, "data": data, "arm": arm, "seed": seed}
            asked |= {"epochs_each": EPOCHS[options.network], "choice": vars(choice)}
            records = read(options.results)
            if any(all(record[key] == value for key, value in asked.items()) for record in records):
                continue
            if arm == "alone":
                found = run_alone(make, data, held, seed, choice)
            elif arm == "elastic":
                found = run_elastic(make, data, held, seed, choice)
            else:
                like = {**asked, "arm": "elastic"}
                same = [record for record in records if all(record[key] == like[key] for key in like)]
                if not same:
                    print("pruned: its cost is that of elastic, which is not there yet")
                    continue
                try:
                    found = run_pruned(make, data, held, seed, choice, same[0]["cost"])
                except ModuleNotFoundError as error:
                    print(f"pruned: left out, because {error.name} is missing (pip install torch-pruning)")
                    continue
            line = json.dumps(asked | found)
            with options.results.open("a") as file:
                file.write(line + "\n")
            print(line, flush=True)
    print(table(read(options.results), data, options.network))


if __name__ == "__main__":
    main()
