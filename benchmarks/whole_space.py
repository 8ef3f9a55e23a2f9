"""Why shared weights of the whole of NAS-Bench-201 rank worse than a count of parameters: one thing changed at a time.

``RAMET_DATA=... python -m benchmarks.whole_space`` trains a supernet for each setting and seed on CIFAR-10 at 16 x 16,
scores 300 drawn architectures with it, and holds the scores against the table's accuracies and the count of parameters.
Lines are appended to ``results/whole-space.jsonl``; what is there is left out; ``--settings``, ``--seeds`` run a part.

A setting differs from ``as it is`` in what its name says. ``drawn alone`` trains the 300 architectures that are scored
and no others, so that the space is small and as bad; settings with fewer operations draw 300 among what is left. With
no weights shared, 20 steps for each of the 300 are as many steps as one supernet has.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from ramet.data import DataSet, data_folder, load
from ramet.jobs.search.job import SearchRecipe
from ramet.ranking import rank_correlation
from ramet.ranking.predictor import features_of, smoothed
from ramet.ranking.scoring import score_children, score_losses, score_reestimated
from ramet.searching.costs import ArchCosts
from ramet.seeding import derive_seed, numpy_generator, seeded_globally
from ramet.sharing import Order
from ramet.spaces import Arch, NasBench201
from ramet.spaces.cells.nasbench201 import CONV_3X3, NONE, POOL, SKIP
from ramet.training import fit

RESULTS = Path(__file__).parents[1] / "results" / "whole-space.jsonl"
COLUMN = "cifar10_test_acc_200ep"
NUM_SCORED, NUM_VALIDATED, NUM_CALIBRATING = 300, 1000, 8
SEEDS = (0, 1)
COUNTED = {"skip": SKIP, "3x3 convolution": CONV_3X3, "none": NONE}
"""Operations of which it is said whether a ranking prefers them: the tau between it and their number."""
Line = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """How a supernet is trained.

    Attributes:
        without: operations that no architecture has, neither of those trained nor of those scored.
        drawn_alone: whether what is scored is all that is trained.
        apart: whether each of these has weights of its own, which all begin alike, and ``steps`` for itself.
    """

    steps: int = 6000
    cells: int = 1
    rate: float = 0.05
    bn_momentum: float = 0.1
    without: tuple[int, ...] = ()
    drawn_alone: bool = False
    apart: bool = False


SETTINGS: dict[str, Setting] = {
    "as it is": Setting(),
    "a quarter of the steps": Setting(steps=1500),
    "four times the steps": Setting(steps=24000),
    "five cells a stage, a quarter of the steps": Setting(cells=5, steps=1500),
    "five cells a stage": Setting(cells=5),
    "a fifth of the learning rate": Setting(rate=0.01),
    "four times the learning rate": Setting(rate=0.2),
    "batch norm's momentum 0.01": Setting(bn_momentum=0.01),
    "without none": Setting(without=(NONE,)),
    "without none and skip": Setting(without=(NONE, SKIP)),
    "without none, skip and pooling": Setting(without=(NONE, SKIP, POOL)),
    "drawn alone": Setting(drawn_alone=True),
    "drawn alone, without none": Setting(drawn_alone=True, without=(NONE,)),
    "no weights shared, 20 steps each": Setting(steps=20, drawn_alone=True, apart=True),
    "no weights shared, 80 steps each": Setting(steps=80, drawn_alone=True, apart=True),
}


def architectures(space: NasBench201, setting: Setting, seed: int) -> tuple[list[Arch], list[Arch]]:
    """Those that are trained and those that are scored."""
    left = [arch for arch in space if not set(arch) & set(setting.without)]
    order = numpy_generator(seed, "scored").permutation(len(left))
    scored = [left[int(place)] for place in order[:NUM_SCORED]]
    return (scored if setting.drawn_alone else left), scored


def measure(name: str, seed: int) -> Line:
    """Train what a setting says, and hold its scores against the table."""
    setting = SETTINGS[name]
    space = NasBench201(channels=8, cells_per_stage=setting.cells, bn_momentum=setting.bn_momentum)
    data = load("cifar10", image_size=16, validation_fraction=0.2, seed=seed)
    trained, scored = architectures(space, setting, seed)
    turns = [[arch] for arch in scored] if setting.apart else [trained]
    values: dict[str, list[float]] = {}
    seconds = {"training": 0.0, "scoring": 0.0}
    for turn in turns:
        begun = time.process_time()
        network = train(space, setting, data, turn, seed)
        seconds["training"] += time.process_time() - begun
        for way, found in scores_of(network, turn if setting.apart else scored, data).items():
            values.setdefault(way, []).extend(found)
        seconds["scoring"] += time.process_time() - begun
    seconds["scoring"] -= seconds["training"]
    return {"setting": name, "seed": seed, **judged(space, values, data, scored), "cpu_seconds": seconds}


def train(space: NasBench201, setting: Setting, data: DataSet, archs: Sequence[Arch], seed: int) -> nn.Module:
    """A supernet of which some architectures are trained, each in its turn."""
    with seeded_globally(seed, "weights"):
        network = space.supernet(data.in_channels, data.num_outputs)
    order = Order("shuffled", len(archs), derive_seed(seed, "order"))
    recipe = SearchRecipe(learning_rate=setting.rate, weight_decay=5e-4, augment="crop:2+flip")
    fit(
        network,
        data.train.x,
        data.train.y,
        recipe,
        seed=seed,
        arguments=lambda step: (archs[order[step]],),
        num_steps=setting.steps,
    )
    return network


def scores_of(network: nn.Module, archs: Sequence[Arch], data: DataSet) -> dict[str, list[float]]:
    """Scores of architectures on validation images."""
    x, y = data.validation.x[:NUM_VALIDATED], data.validation.y[:NUM_VALIDATED]
    calibration = [data.train.x[64 * number : 64 * (number + 1)] for number in range(NUM_CALIBRATING)]
    return {
        "loss": score_losses(network, archs, x, y, cross_entropy),
        "accuracy": score_children(network, archs, x, y),
        "batch norm anew": score_reestimated(network, archs, x, y, calibration),
    }


def judged(space: NasBench201, values: dict[str, list[float]], data: DataSet, scored: Sequence[Arch]) -> Line:
    """What scores agree with: all of them, and those of the truly better half.

    ``smoothed`` are the losses as the choices of the architectures explain them.
    """
    costs = ArchCosts(space, data.train.x.shape[1:], data.num_outputs)
    features = features_of(scored, space.num_options, [])
    fitted = smoothed(features, np.array([values["loss"]]))[0].tolist()
    values = values | {"parameters": [costs("params", arch) for arch in scored], "smoothed": fitted}
    true = truth(space, scored)
    better = true >= np.median(true)
    counts = {name: np.array([arch.count(option) for arch in scored]) for name, option in COUNTED.items()}
    ranked = {"truth": true} | {name: np.array(score) for name, score in values.items()}
    return {
        "tau": {name: rank_correlation(score, true) for name, score in values.items()},
        "tau_of_better_half": {name: rank_correlation(np.array(v)[better], true[better]) for name, v in values.items()},
        "likes": {
            operation: {name: rank_correlation(score, count) for name, score in ranked.items()}
            for operation, count in counts.items()
            if count.any()
        },
        "mean_accuracy": float(np.mean(values["accuracy"])),
    }


def truth(space: NasBench201, archs: Sequence[Arch]) -> np.ndarray:
    """The table's accuracies."""
    with np.load(data_folder(None) / "nas" / "nasbench201.npz", allow_pickle=False) as table:
        by_name = dict(zip(table["arch"].tolist(), table[COLUMN].tolist(), strict=True))
    return np.array([by_name[space.name(arch)] for arch in archs])


def known(path: Path) -> list[Line]:
    """What was measured before."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table_of(lines: Iterable[Line]) -> str:
    """Kendall's tau with the truth by each setting and way to score, of each seed, and among the truly better half."""
    ways = ("loss", "smoothed", "accuracy", "batch norm anew", "parameters")
    rows = [f"| setting | seeds | {' | '.join(ways)} | loss, better half | parameters, better half | CPU-s |"]
    rows += ["|---" * (len(ways) + 5) + "|"]
    by_setting = {name: [line for line in lines if line["setting"] == name] for name in SETTINGS}
    for name, own in by_setting.items():
        if own:
            cells = [each([line["tau"][way] for line in own]) for way in ways]
            cells += [each([line["tau_of_better_half"][way] for line in own]) for way in ("loss", "parameters")]
            cost = statistics.mean(line["cpu_seconds"]["training"] for line in own)
            rows.append(f"| {name} | {len(own)} | {' | '.join(cells)} | {cost:.0f} |")
    return "\n".join(rows)


def each(values: Sequence[float]) -> str:
    """The value of each seed."""
    return ", ".join(f"{value:z.2f}" for value in values)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", nargs="*", default=list(SETTINGS), choices=list(SETTINGS), metavar="NAME")
    parser.add_argument("--seeds", type=int, nargs="*", default=list(SEEDS))
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    for seed in asked.seeds:
        for name in asked.settings:
            if any((line["setting"], line["seed"]) == (name, seed) for line in known(asked.results)):
                continue
            line = measure(name, seed)
            with asked.results.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(f"{name}, seed {seed}: tau {line['tau']['loss']:.2f}", flush=True)
    print(table_of(known(asked.results)))


if __name__ == "__main__":
    main()
