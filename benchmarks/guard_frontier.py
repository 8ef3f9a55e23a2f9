"""``python -m benchmarks.guard_frontier``: what each guard keeps of one task against what it learns of the next.

A small transformer (torch's own encoder layer, an embedding, a head for each of two tasks) learns A, and then B by
AdamW: without a guard at several learning rates, and under each guard at several strengths. Every training of a seed
begins with the same network. Accuracies are of 2,000 sentences that no training has. Half of B's words are A's, so that
there is something to forget; where no word is shared, projection alone is compared with no guard.

Records are appended to results/guard-frontier.jsonl, a line a training; what is there already is left out. The picture
of docs/guards.md and, with ``--table``, its table are made from them.
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import torch

from benchmarks.two_tasks import WORDS, Reader, accuracy, finish, learn
from ramet.guards import (
    ElasticConsolidation,
    Guard,
    KroneckerPlasticity,
    NoGuard,
    OrthogonalProjection,
    WeightPlasticity,
)
from ramet.ranking import t_interval
from ramet.reports import Chart, Points, picture, scatter_chart

HOME = Path(__file__).parents[1]
RECORDS, PICTURE = HOME / "results" / "guard-frontier.jsonl", HOME / "docs" / "guard-frontier.svg"
RATE, HALF = 3e-3, WORDS // 2
STEPS = {HALF: 200, WORDS: 300}
"""Of a task, by from which word on B's begin."""
GUARDS: dict[str, tuple[Callable[[float], Guard], tuple[float, ...]]] = {
    "plasticity": (lambda x: WeightPlasticity(x, unit="hold"), (0.01, 0.1, 0.5)),
    "elastic": (lambda x: ElasticConsolidation(x, unit="trace"), (0.1, 1.0, 10.0)),
    "kronecker": (lambda x: KroneckerPlasticity(x, unit="hold", freeze_uncovered=True), (0.01, 0.1, 0.5)),
    "projection, mean inputs": (lambda x: OrthogonalProjection(x, inputs="mean", unit="energy"), (1.0, 0.1, 0.01)),
    "projection, all inputs": (lambda x: OrthogonalProjection(x, unit="energy"), (1.0, 0.1, 0.01, 0.001)),
    "GPM": (OrthogonalProjection.gpm, (0.9, 0.97, 0.99)),
}
"""From weak to strong."""
RATES = (RATE, 1e-3, 3e-4)
"""Learning rates without a guard: small steps forget less, too."""
JUDGED = ("projection, all inputs", 0.01)
WISH = 0.995
"""The share of A that other seeds must keep under a strength for it to be chosen: half of what may be lost."""


def run(seed: int) -> Iterator[dict[str, Any]]:
    """All trainings of a seed."""
    judged = GUARDS[JUDGED[0]][0]
    asked: list[tuple[int, str, float, Guard, float]] = [
        (WORDS, "none", RATE, NoGuard(), RATE),
        (WORDS, *JUDGED, judged(JUDGED[1]), RATE),
        *((HALF, "none", rate, NoGuard(), rate) for rate in RATES),
        *((HALF, name, s, make(s), RATE) for name, (make, strengths) in GUARDS.items() for s in strengths),
    ]
    for apart, rows in groupby(asked, key=lambda one: one[0]):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            start = Reader()
        learn(start, NoGuard(), 0, steps=STEPS[apart], seed=seed + 1)
        before = accuracy(start, 0)
        for _, name, strength, guard, rate in rows:
            network = copy.deepcopy(start)
            finish(network, guard, 0)
            learn(network, guard, 1, steps=STEPS[apart], seed=seed + 50, rate=rate, apart=apart)
            found = {"before": before, "kept": accuracy(network, 0), "learned": accuracy(network, 1, apart)}
            yield {"seed": seed, "apart": apart, "guard": name, "strength": strength, **found}


def means(records: list[dict[str, Any]], field: str) -> dict[str, dict[float, float]]:
    """The mean over seeds of a field, by guard and strength, from weak to strong."""
    tried = {"none": RATES, **{name: strengths for name, (_, strengths) in GUARDS.items()}}
    found: dict[str, dict[float, float]] = {}
    for name, strengths in tried.items():
        for strength in strengths:
            rows = [r[field] for r in records if (r["apart"], r["guard"], r["strength"]) == (HALF, name, strength)]
            if rows:
                found.setdefault(name, {})[strength] = sum(rows) / len(rows)
    return found


def chart(records: list[dict[str, Any]]) -> Chart:
    """All guards in one picture, a line each from weak to strong."""
    kept, learned = means(records, "kept"), means(records, "learned")
    kinds = []
    for name, row in kept.items():
        names = [f"{'rate' if name == 'none' else name} {strength:g}" for strength in row]
        x, y = [100 * value for value in row.values()], [100 * value for value in learned[name].values()]
        kinds.append(Points(name, x, y, names, labelled=(), joined=True))
    return scatter_chart(kinds, x_label="accuracy of A kept, %", y_label="accuracy of B learned, %")


def table(records: list[dict[str, Any]]) -> str:
    """A row a guard and strength, and how far the judged one is from none, seed by seed."""
    kept, learned = means(records, "kept"), means(records, "learned")
    lines = ["| guard | strength | A kept, % | B learned, % |", "|---|---|---|---|"]
    for name, row in kept.items():
        for strength, value in row.items():
            words = f"rate {strength:.2g}" if name == "none" else f"{strength:g}"
            lines.append(f"| {name} | {words} | {100 * value:.1f} | {100 * learned[name][strength]:.1f} |")
    return "\n".join([*lines, "", *(_judged(records, apart) for apart in (WORDS, HALF)), _chosen_by_others(records)])


def _judged(records: list[dict[str, Any]], apart: int) -> str:
    """How far the judged guard is from none, seed by seed, in a sentence."""
    of = {(row["guard"], row["strength"], row["seed"]): row for row in records if row["apart"] == apart}
    seeds = sorted({row["seed"] for row in of.values()})
    pairs = [(of[*JUDGED, seed], of["none", RATES[0], seed]) for seed in seeds]
    share = min(guarded["kept"] / guarded["before"] for guarded, _ in pairs)
    plain = sum(free["kept"] for _, free in pairs) / len(pairs)
    cost = t_interval([100 * (free["learned"] - guarded["learned"]) for guarded, free in pairs])
    is_above = all(guarded["kept"] >= free["kept"] for guarded, free in pairs)
    return (
        f"- {'No word' if apart == WORDS else 'Half of the words'} shared, {_counted(len(pairs))}: {JUDGED[0]} at "
        f"{JUDGED[1]:g} keeps at least {share:.1%} of A in every seed ({plain:.1%} in the mean without a guard), at a "
        f"cost of {cost.text()} points of B; A is {'never' if is_above else 'in some seed'} below unguarded."
    )


def chosen_by_others(records: list[dict[str, Any]], seed: int) -> float:
    """The weakest strength of the judged guard with which each seed but this one keeps what is wished of A.

    The strongest that was tried, if there is none.
    """
    rows = [row for row in records if (row["apart"], row["guard"]) == (HALF, JUDGED[0]) and row["seed"] != seed]
    tried = [strength for strength in GUARDS[JUDGED[0]][1] if any(row["strength"] == strength for row in rows)]
    for strength in tried:
        if min(row["kept"] / row["before"] for row in rows if row["strength"] == strength) >= WISH:
            return strength
    return tried[-1]


def _chosen_by_others(records: list[dict[str, Any]]) -> str:
    """What the judged guard keeps and costs in each seed at the strength that the others choose, in a sentence."""
    of = {(row["guard"], row["strength"], row["seed"]): row for row in records if row["apart"] == HALF}
    seeds = sorted({row["seed"] for row in of.values()})
    chosen = {seed: chosen_by_others(records, seed) for seed in seeds}
    pairs = [(of[JUDGED[0], chosen[seed], seed], of["none", RATES[0], seed]) for seed in seeds]
    share = min(guarded["kept"] / guarded["before"] for guarded, _ in pairs)
    costs = [100 * (free["learned"] - guarded["learned"]) for guarded, free in pairs]
    words = ", ".join(f"{strength:g}" for strength in sorted(set(chosen.values()), reverse=True))
    return (
        f"- Half of the words shared, each seed at the strength that the others choose ({words}): at least {share:.1%} "
        f"of A is kept, at a cost of {t_interval(costs).text()} points of B, {max(costs):.2f} at most."
    )


def _counted(num_seeds: int) -> str:
    return "one seed" if num_seeds == 1 else f"{num_seeds} seeds"


def read(path: Path = RECORDS) -> list[dict[str, Any]]:
    """The records, if there are any."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="how many seeds there shall be")
    parser.add_argument("--out", type=Path, default=RECORDS, help="where the records are")
    parser.add_argument("--picture", type=Path, default=PICTURE, help="where the picture goes")
    parser.add_argument("--table", action="store_true", help="print the table and draw the picture, and stop")
    options = parser.parse_args()
    torch.set_num_threads(1)
    done = {record["seed"] for record in read(options.out)}
    for seed in () if options.table else (seed for seed in range(options.seeds) if seed not in done):
        lines = [json.dumps(record) for record in run(seed)]
        with options.out.open("a") as file:  # a whole seed at once, so that one that was stopped is done anew
            file.write("\n".join(lines) + "\n")
    options.picture.write_text(picture(chart(read(options.out))))
    print(table(read(options.out)))


if __name__ == "__main__":
    main()
