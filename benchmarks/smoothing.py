"""What ranks 64 children as one seed of each alone does, and what it costs: shared weights, half of them, a predictor.

``RAMET_DATA=... python -m benchmarks.smoothing`` trains three supernets of Cells64 under the bench of the papers'
reproductions (CIFAR-10 at 8x8, 8 channels, 2 cells; minutes), keeps their scores in ``results/smoothing.json``, leaves
it out if they are there, and prints a table. The children alone are those of ``results/truth``: 15 epochs, three seeds.

Every ranking is held against the mean of two of these seeds, of which it is no part: a seed against the two others, and
what has no part in the truth against each two. Intervals are over children. A cost of 1 is a training of a child.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ramet.data import data_folder
from ramet.execution import Inline
from ramet.ranking.intervals import agreement_interval, resampled_interval
from ramet.ranking.metrics import Floats, rank_correlation
from ramet.ranking.predictor import Ridge, features_of, smoothed
from ramet.reports.formats import Estimate, decimals
from ramet.runs.encoding import Json
from ramet.seeding import numpy_generator
from ramet.spaces import Cells64
from ramet_papers import Workspace
from ramet_papers.deeper_insights.presets import BENCH

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
DRAWS = 10
"""Halves of the children, where a half is trained."""
TEN_SEEDS = 640
"""What ten seeds of each child cost."""
SEED = "one seed of each child"


@dataclass(frozen=True)
class Measured:
    """What there is of each child, in the order of the space.

    Attributes:
        alone: test accuracies, [seeds, children]; ``losses`` of the training's last epoch.
        averaged: validation accuracies with each supernet, the mean of the last mini-batches, [supernets, children].
        reestimated: the same with batch norm anew.
        supernet_cost: of one.
    """

    alone: Floats
    losses: Floats
    averaged: Floats
    reestimated: Floats
    flops: Floats
    features: Floats
    supernet_cost: float


def measure(results: Path, runs: Path) -> Measured:
    """Train what is not there yet, and read what is."""
    file = results / "smoothing.json"
    if not file.exists():
        workspace = Workspace(runs=runs, results=results, executor=Inline(), data_dir=data_folder(None))
        found = BENCH.diagnose(workspace, "smoothing", last_steps=1)
        file.write_text(json.dumps(kept(found)) + "\n")
    supernets = json.loads(file.read_text())
    space = Cells64(**BENCH.space_options)
    alone, losses = read_alone(results / "truth", supernets["children"])
    return Measured(
        alone=alone,
        losses=losses,
        averaged=np.array(supernets["averaged"]),
        reestimated=np.array(supernets["reestimated"]),
        flops=np.array(supernets["flops"], float),
        features=features_of([space.parse(name) for name in supernets["children"]], space.num_options, []),
        supernet_cost=BENCH.supernet_epochs / BENCH.settings.epochs,
    )


def kept(diagnosis: Json) -> Json:
    """What a table needs of a diagnosis."""
    scores = {way: diagnosis["accuracy"][way] for way in ("averaged", "reestimated")}
    return {"children": diagnosis["children"], "flops": diagnosis["sizes"]["flops"], **scores}


def read_alone(folder: Path, names: list[str]) -> tuple[Floats, Floats]:
    """Test accuracies and training losses of the bench's children alone, [seeds, children]."""
    for file in sorted(folder.glob("*.jsonl")):
        head, *lines = (json.loads(line) for line in file.read_text().splitlines())
        if BENCH.space_options.items() <= head["setting"]["space"].items():
            trained = {(line["seed"], line["arch"]): line["result"] for line in lines}
            seeds = sorted({seed for seed, _ in trained})
            each = [[[trained[seed, name][key] for name in names] for seed in seeds] for key in ("test", "loss")]
            return np.array(each[0]), np.array(each[1])
    raise LookupError(f"{folder} has no children of {BENCH.space_options} alone.")


def rankings(known: Measured) -> dict[str, tuple[float, Floats, Floats]]:
    """By name: the cost, and rankings and what each is held against, [rankings, children] both."""
    seeds = len(known.alone)
    others = (known.alone.sum(axis=0) - known.alone) / (seeds - 1)
    children, by_loss = known.alone.shape[1], -known.losses
    found: dict[str, tuple[float, Floats, Floats]] = {
        SEED: (children, known.alone, others),
        "one seed, smoothed": (children, smoothed(known.features, known.alone), others),
        "one seed by training loss": (children, by_loss, others),
        "one seed by training loss, smoothed": (children, smoothed(known.features, by_loss), others),
    }
    for part, share in (("half", 2), ("a quarter", 4)):
        for words, scores in (("", known.alone), (" by training loss", by_loss)):
            rows = [predicted(known.features, row, draw, children // share) for row in scores for draw in range(DRAWS)]
            name = f"one seed of {part} of the children{words}, the others predicted"
            found[name] = (children / share, np.stack(rows), np.repeat(others, DRAWS, axis=0))
    shared: dict[str, Callable[[Floats], Floats]] = {
        "": lambda scores: scores,
        ", smoothed": lambda scores: smoothed(known.features, scores),
    }
    count = len(known.averaged)
    for words, change in shared.items():
        for way, scores in (("", known.averaged), (", batch norm anew", known.reestimated)):
            each, mean = change(scores), change(scores.mean(axis=0, keepdims=True))
            pairs = np.repeat(others, count, axis=0)
            found[f"one supernet{way}{words}"] = (known.supernet_cost, np.tile(each, (seeds, 1)), pairs)
            cost = count * known.supernet_cost
            found[f"mean of {count} supernets{way}{words}"] = (cost, np.tile(mean, (seeds, 1)), others)
    found["multiply-adds"] = (0.0, np.tile(known.flops, (seeds, 1)), others)
    return found


def predicted(features: Floats, scores: Floats, draw: int, count: int) -> Floats:
    """All children as some of them explain them, which are drawn."""
    chosen = numpy_generator(draw, "drawn children").permutation(len(scores))[:count]
    return Ridge(features[chosen], scores[chosen])(features)


def table_of(known: Measured) -> str:
    """Markdown: each ranking, its cost, how it agrees with seeds of which it is no part, and its lead over one seed."""
    found = rankings(known)
    _, *seed = found[SEED]
    rows = ["| ranking | cost, trainings of a child | of ten seeds' | tau | minus one seed |", "|---|---|---|---|---|"]
    for name, (cost, *own) in found.items():
        generator = numpy_generator(0, "agreement", name)
        cells = [name, f"{cost:.0f}", f"{cost / TEN_SEEDS:.1%}"]
        cells += [agreement_interval(*own, generator=generator).text(decimals(2))]
        cells += [lead(own, seed, generator).text(decimals(2)) if name != SEED else ""]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def lead(ours: Sequence[Floats], theirs: Sequence[Floats], generator: np.random.Generator) -> Estimate:
    """How far rankings agree better than others, each with what it is held against, on the same resampled children."""
    children = np.arange(ours[0].shape[1])

    def difference(chosen: Floats, _: Floats) -> float:
        places = chosen.astype(int)
        return agreement(*(rows[:, places] for rows in ours)) - agreement(*(rows[:, places] for rows in theirs))

    return resampled_interval(difference, children, children, generator=generator, num_resamples=200)


def agreement(rankings: Floats, truth: Floats) -> float:
    """The mean tau of pairs of rows."""
    return float(np.mean([rank_correlation(row, true) for row, true in zip(rankings, truth, strict=True)]))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--work", type=Path, default=Path("runs") / "smoothing")
    asked = parser.parse_args()
    print(table_of(measure(asked.results, asked.work)))


if __name__ == "__main__":
    main()
