"""The staged search on spaces that no table knows, against choosing by multiply-adds.

Two spaces of one's own: ``layers``, eight layers of three choices each, and ``macro``, the depth, kernel and expansion
of three stages. ``RAMET_DATA=... python -m benchmarks.staged_own`` searches each with 600 CPU-seconds on
Fashion-MNIST for the seeds 0, 1 and 2, trains what was found, the architecture of most multiply-adds and a random one
three times each for 8 epochs, and appends their test errors to ``results/staged-own.jsonl``; what is there already is
left out.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ramet.data import load
from ramet.jobs.search.job import SearchRecipe, search
from ramet.ranking.setup import SupernetSetup
from ramet.searching import SearchPlan
from ramet.searching.baselines import baselines
from ramet.searching.costs import ArchCosts
from ramet.searching.final import train_final
from ramet.searching.staged.options import StagedOptions
from ramet.seeding import derive_seed
from ramet.spaces import Choice, ModuleSpace

CPU_SECONDS, EPOCHS, SEEDS = 600.0, 8, 3
RESULTS = Path(__file__).parents[1] / "results" / "staged-own.jsonl"
IMAGES: dict[str, Any] = {"image_size": 14, "train_size": 6000, "eval_size": 1500, "validation_fraction": 0.2}


def _block(channels: int, kernel: int, groups: int = 1) -> nn.Module:
    convolution = nn.Conv2d(channels, channels, kernel, padding=kernel // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(channels), nn.ReLU())


class Layers(nn.Module):
    """Eight layers, each a 3x3 convolution, a depthwise 5x5 one or nothing; a pooling in the middle."""

    def __init__(self, in_channels: int, num_classes: int, channels: int = 12) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(in_channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels))
        self.layers = nn.ModuleList(
            Choice([_block(channels, 3), _block(channels, 5, groups=channels), nn.Identity()]) for _ in range(8)
        )
        self.head = nn.Linear(channels, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        x = self.stem(x)
        for number, layer in enumerate(self.layers):
            x = nn.functional.max_pool2d(layer(x), 2) if number == 3 else layer(x)
        logits: Tensor = self.head(x.mean(dim=(2, 3)))
        return logits


class Repeated(nn.Sequential):
    """So many blocks of a kernel and an expansion, from some channels to others."""

    def __init__(self, channels: int, depth: int, kernel: int, expansion: int) -> None:
        hidden = channels * expansion
        super().__init__(*(self._one(channels, hidden, kernel) for _ in range(depth)))

    @staticmethod
    def _one(channels: int, hidden: int, kernel: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(channels, hidden, 1, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU(),
            nn.Conv2d(hidden, hidden, kernel, padding=kernel // 2, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU(),
            nn.Conv2d(hidden, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
        )


class Macro(nn.Module):
    """Three stages, each with a depth of 1, 2 or 4, a kernel of 3 or 5 and an expansion of 1 or 3."""

    def __init__(self, in_channels: int, num_classes: int) -> None:
        super().__init__()
        widths = (8, 16, 24)
        self.stages = nn.ModuleList()
        before = in_channels
        for width in widths:
            enter = nn.Sequential(
                nn.Conv2d(before, width, 3, stride=1 if before == in_channels else 2, padding=1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(),
            )
            options = [Repeated(width, d, k, e) for d in (1, 2, 4) for k in (3, 5) for e in (1, 3)]
            self.stages.append(nn.Sequential(enter, Choice(options)))
            before = width
        self.head = nn.Linear(before, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        for stage in self.stages:
            x = stage(x)
        logits: Tensor = self.head(x.mean(dim=(2, 3)))
        return logits


SPACES = {"layers": Layers, "macro": Macro}


def run(name: str, seed: int, work: Path) -> dict[str, Any]:
    """Search a space with a seed, and train the find and what needed no search; test errors are means of trainings."""
    data = load("fashion-mnist", seed=seed, **IMAGES)
    space = ModuleSpace(SPACES[name], in_channels=data.in_channels, num_classes=data.num_classes)
    plan = SearchPlan(staged=StagedOptions(minutes=CPU_SECONDS / 60), num_final=0, seed=seed)
    result = search(space, data, plan=plan, recipe=SearchRecipe(), seed=seed, out=work / f"{name}-{seed}")
    setup = SupernetSetup(space, data, SearchRecipe())
    costs = ArchCosts(space, data.train.x.shape[1:], data.num_classes)
    chosen = {"staged": tuple(result.candidates[0].arch), **baselines(setup, plan, costs)}
    line: dict[str, Any] = {"space": name, "seed": seed, "stages": [vars(stage) for stage in result.stages]}
    known: dict[tuple[int, ...], list[float]] = {}
    for arm, arch in chosen.items():
        if arch not in known:
            seeds = [derive_seed(seed, "judge", number) for number in range(SEEDS)]
            known[arch] = [train_final(setup, arch=list(arch), seed=one, epochs=EPOCHS)["test"] for one in seeds]
        line[arm] = {"arch": list(arch), "flops": int(costs("flops", arch)), "tests": known[arch]}
    return line


def main() -> None:
    """Run what is not known yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--spaces", nargs="*", default=list(SPACES), choices=list(SPACES))
    parser.add_argument("--work", type=Path, default=Path("runs") / "staged-own")
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    lines = [json.loads(line) for line in asked.results.read_text().splitlines()] if asked.results.exists() else []
    for seed in asked.seeds:
        for name in asked.spaces:
            if not any((line["space"], line["seed"]) == (name, seed) for line in lines):
                lines.append(run(name, seed, asked.work))
                with open(asked.results, "a") as file:
                    file.write(json.dumps(lines[-1]) + "\n")
    print("| space | seed | staged | largest | untrained best | random |\n|---|---|---|---|---|---|")
    for line in lines:
        arms = ("staged", "largest that fits", "training-free best", "random")
        errors = [f"{100 * statistics.mean(line[arm]['tests']):.2f} %" if arm in line else "-" for arm in arms]
        print(f"| {line['space']} | {line['seed']} | {' | '.join(errors)} |")


if __name__ == "__main__":
    main()
