"""``python -m benchmarks.fine_tuning``: what a small language model keeps of a text while it is fine-tuned to another.

A model is trained on Penn Treebank's sentences without numbers (A) and then fine-tuned to those with numbers (B), whole
and by low-rank adapters, without a guard at several learning rates and with each guard at several strengths. Each
guarded training has an unguarded one beside it, at a learning rate that was chosen to gain as much on B.

Records are appended to results/fine-tuning.jsonl, a line a training; what is there already is left out.
``--table`` prints the table of docs/fine-tuning.md from them.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.small_language_model import Halves, LanguageModel, halves, with_adapters
from ramet.guards import (
    ElasticConsolidation,
    Guard,
    KroneckerPlasticity,
    NoGuard,
    OrthogonalProjection,
    UncoveredWarning,
    WeightPlasticity,
    attach,
    remember_batches,
)
from ramet.ranking import t_interval
from ramet.reports.formats import decimals

RECORDS = Path(__file__).parents[1] / "results" / "fine-tuning.jsonl"
WAYS = ("whole", "adapters")
RATES = (1e-4, 3e-4, 6e-4, 1e-3, 1.7e-3, 3e-3)
"""Learning rates without a guard; guarded trainings have the highest."""
NEAR = 0.02
"""How near the loss on B of a control must come to that of the guarded training, in nats; two rates are tried."""
GUARDS: dict[str, tuple[Callable[[float], Guard], tuple[float, ...]]] = {
    "plasticity": (lambda x: WeightPlasticity(x, unit="hold"), (0.01, 0.1, 0.5)),
    "elastic": (lambda x: ElasticConsolidation(x, unit="trace"), (0.01, 0.1, 1.0)),
    "kronecker": (lambda x: KroneckerPlasticity(x, unit="hold", freeze_uncovered=True), (0.01, 0.1, 0.5)),
    "projection": (lambda x: OrthogonalProjection(x, unit="hold"), (0.5, 0.9, 0.99)),
    "gpm": (OrthogonalProjection.gpm, (0.9, 0.97, 0.99)),
}
BATCH, MEASURED = 32, 768


def trained(text: Halves, seed: int, steps: int = 800) -> LanguageModel:
    """The model of the first text."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = LanguageModel()
    train(network, NoGuard(), text.train[0], rate=3e-3, steps=steps, seed=seed)
    return network


def train(network: LanguageModel, guard: Guard, windows: Tensor, *, rate: float, steps: int, seed: int) -> None:
    """AdamW with a learning rate that falls to 0, under a guard."""
    generator = torch.Generator().manual_seed(seed)
    learning = [param for param in network.parameters() if param.requires_grad]
    optimizer = torch.optim.AdamW(learning, lr=rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    with attach(guard, network, optimizer):
        for _ in range(steps):
            batch = windows[torch.randint(len(windows), (BATCH,), generator=generator)]
            optimizer.zero_grad()
            network.loss(batch).backward()
            optimizer.step()
            schedule.step()


def measured(network: LanguageModel, windows: Tensor) -> float:
    """The mean of -ln p(word) on held-out windows."""
    with torch.no_grad():
        parts = [network.loss(part) * len(part) for part in windows[:MEASURED].split(128)]
    return float(torch.stack(parts).sum()) / min(len(windows), MEASURED)


def fine_tuned(
    start: LanguageModel, text: Halves, way: str, guard: Guard, *, rate: float, seed: int, steps: int = 80
) -> tuple[float, float]:
    """The losses on both texts after a fine-tuning to the second, under a guard that has seen nothing yet."""
    network = copy.deepcopy(start)
    if way == "adapters":
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = with_adapters(network)
    if not isinstance(guard, NoGuard):
        generator = torch.Generator().manual_seed(seed)
        old = text.train[0][torch.randint(len(text.train[0]), (256,), generator=generator)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UncoveredWarning)  # held still
            remember_batches(guard, network, old.split(4), network.loss)
    train(network, guard, text.train[1], rate=rate, steps=steps, seed=seed + 1000)
    return measured(network, text.held_out[0]), measured(network, text.held_out[1])


def run(text: Halves, seed: int, known: Sequence[dict[str, Any]] = ()) -> Iterator[dict[str, Any]]:
    """All trainings of a seed that are not known, the unguarded ones first."""
    ways = {way: [row for row in known if (row["seed"], row["way"]) == (seed, way)] for way in WAYS}
    ways = {way: rows for way, rows in ways.items() if not set(GUARDS) <= {row["guard"] for row in rows}}
    if not ways:
        return
    start = trained(text, seed)
    before = {"before_a": measured(start, text.held_out[0]), "before_b": measured(start, text.held_out[1])}
    for way, rows in ways.items():

        def record(guard: str, strength: float | None, rate: float, made: Guard, way: str = way) -> dict[str, Any]:
            a, b = fine_tuned(start, text, way, made, rate=rate, seed=seed)
            named = {"seed": seed, "way": way, "guard": guard, "strength": strength, "rate": rate}
            return {**named, **before, "after_a": a, "after_b": b}

        plain = [row for row in rows if row["guard"].startswith("none")]
        if not plain:
            plain = [record("none", None, rate, NoGuard()) for rate in RATES]
            yield from list(plain)
        for name, (make, strengths) in GUARDS.items():
            for strength in strengths if all(row["guard"] != name for row in rows) else ():
                guarded = record(name, strength, RATES[-1], make(strength))
                yield guarded
                wanted, tried = guarded["after_b"], []
                while not tried or (len(tried) < 2 and abs(tried[-1]["after_b"] - wanted) > NEAR):
                    tried.append(record(f"none beside {name}", strength, matching_rate(plain, wanted), NoGuard()))
                    plain.append(tried[-1])
                yield min(tried, key=lambda row: abs(row["after_b"] - wanted))


def matching_rate(plain: list[dict[str, Any]], after_b: float) -> float:
    """The learning rate at which unguarded trainings reach a loss on B, between those that were tried."""
    rows = sorted(plain, key=lambda row: row["after_b"])
    losses, rates = [row["after_b"] for row in rows], [math.log(row["rate"]) for row in rows]
    return math.exp(float(np.interp(after_b, losses, rates)))


def table(records: list[dict[str, Any]]) -> str:
    """A row a guard, way and strength: what was lost of A and gained on B, and what the control loses."""
    lines = [
        "| way | guard | strength | B gained | A lost | control: B gained | A lost | less lost than by the control |",
        "|---|---|---|---|---|---|---|---|",
    ]

    def chosen(way: str, guard: str, strength: float | None, rate: float | None = None) -> list[dict[str, Any]]:
        found = [r for r in records if (r["way"], r["guard"], r["strength"]) == (way, guard, strength)]
        return sorted((r for r in found if rate is None or r["rate"] == rate), key=lambda r: r["seed"])

    for way in WAYS:
        for rate in RATES:
            rows = chosen(way, "none", None, rate)
            lines.append(f"| {way} | none | rate {rate:g} | {_mean(_gains(rows))} | {_mean(_losses(rows))} | | | |")
        for guard, (_, strengths) in GUARDS.items():
            for strength in strengths:
                rows, others = chosen(way, guard, strength), chosen(way, f"none beside {guard}", strength)
                if not rows:
                    continue
                figures = (_mean(_gains(rows)), _mean(_losses(rows)), _mean(_gains(others)), _mean(_losses(others)))
                lines.append(
                    f"| {way} | {guard} | {strength:g} | {' | '.join(figures)} | {_difference(rows, others)} |"
                )
    return "\n".join(lines)


def _difference(rows: list[dict[str, Any]], others: list[dict[str, Any]]) -> str:
    """How much less of A is lost than by the controls, if these gain as much on B."""
    if max(abs(a - b) for a, b in zip(_gains(rows), _gains(others), strict=True)) > 2 * NEAR:
        return "not matched"
    return t_interval([b - a for a, b in zip(_losses(rows), _losses(others), strict=True)]).text(decimals(3))


def _gains(rows: list[dict[str, Any]]) -> list[float]:
    return [row["before_b"] - row["after_b"] for row in rows]


def _losses(rows: list[dict[str, Any]]) -> list[float]:
    return [row["after_a"] - row["before_a"] for row in rows]


def _mean(values: list[float]) -> str:
    return f"{sum(values) / len(values):z.3f}"


def read(path: Path = RECORDS) -> list[dict[str, Any]]:
    """The records, if there are any."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="how many seeds there shall be")
    parser.add_argument("--out", type=Path, default=RECORDS, help="where the records are")
    parser.add_argument("--table", action="store_true", help="print the table, and stop")
    options = parser.parse_args()
    if options.table:
        print(table(read(options.out)))
        return
    torch.set_num_threads(1)
    text = halves("numbers")
    for seed in range(options.seeds):
        for way, rows in groupby(run(text, seed, read(options.out)), key=lambda row: row["way"]):
            found = list(rows)
            with options.out.open("a") as file:
                file.writelines(json.dumps(record) + "\n" for record in found)
            print(f"seed {seed}, {way}: {len(found)} trainings", flush=True)


if __name__ == "__main__":
    main()
