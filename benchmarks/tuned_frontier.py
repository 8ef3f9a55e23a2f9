"""``python -m benchmarks.tuned_frontier``: the strength of a projection chosen on some seeds, judged on others.

The tasks and the transformer are those of ``guard_frontier``. By the rule ``tune`` the strength is chosen on seeds and
sentences apart: of what the least lucky of the tuning seeds keeps of A, ``WISH`` at least, and then the most of B, a
margin away from the edge. The rule ``edge`` leaves no margin, as ``tune`` did at first. By the rule ``others`` it is
what the seeds of the frontier chose for each other (docs/decisions/089). Each rule was set before the seeds that it is
judged on were looked at; what is chosen is judged on these, beside no guard.

Records go to results/guard-frontier-tuned.jsonl; ``--table`` prints the lines of docs/guards.md from them.
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks.guard_frontier import GUARDS, HALF, HOME, JUDGED, RATE, STEPS
from benchmarks.two_tasks import WORDS, Reader, accuracy, finish, learn
from ramet.guards import Guard, NoGuard, tune
from ramet.ranking import t_interval

RECORDS = HOME / "results" / "guard-frontier-tuned.jsonl"
TUNING_SEEDS = (100, 101, 102)
JUDGED_SEEDS = {"edge": range(5, 10), "others": range(5, 10), "tune": range(10, 15)}
"""The seeds 0 to 4 are those of the frontier, which was looked at; the margin was set after 5 to 9 were."""
MARGINS = {"edge": 1.0, "tune": 10.0}
VALIDATION = 888_888
"""The seed of the sentences that strengths are chosen by; they are neither trained on nor judged by."""
WISH, BETWEEN, NUM_TRIALS = 0.995, (1e-3, 10.0), 8
"""The share of A to keep, which is half of what may be lost; and which strengths are tried, and how many."""
OTHERS = 0.1
"""What the seeds of the frontier chose for each other where half of the words are shared."""
CASES = ((WORDS, "edge"), (HALF, "edge"), (HALF, "others"), (WORDS, "tune"), (HALF, "tune"))


def started(seed: int, apart: int) -> Reader:
    """A network that has learned A."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = Reader()
    learn(network, NoGuard(), 0, steps=STEPS[apart], seed=seed + 1)
    return network


def trained(start: Reader, guard: Guard, seed: int, apart: int) -> Reader:
    """The network that has learned B after it, under a guard."""
    network = copy.deepcopy(start)
    finish(network, guard, 0)
    learn(network, guard, 1, steps=STEPS[apart], seed=seed + 50, rate=RATE, apart=apart)
    return network


def chosen(apart: int, rule: str) -> Iterator[dict[str, Any]]:
    """What each strength that was tried comes to on the tuning seeds; the chosen one is marked."""
    starts = {seed: started(seed, apart) for seed in TUNING_SEEDS}

    def trial(guard: Guard) -> tuple[float, float]:
        kept, learned = [], []
        for seed, start in starts.items():
            network = trained(start, copy.deepcopy(guard), seed, apart)
            kept.append(accuracy(network, 0, seed=VALIDATION) / accuracy(start, 0, seed=VALIDATION))
            learned.append(accuracy(network, 1, apart, seed=VALIDATION))
        return min(kept), sum(learned) / len(learned)

    make, margin = GUARDS[JUDGED[0]][0], MARGINS[rule]
    for row in tune(make, trial, keep=WISH, between=BETWEEN, num_trials=NUM_TRIALS, margin=margin).to_rows():
        found = {key: row[key] for key in ("kept", "learned", "chosen")}
        yield {"apart": apart, "tuned": rule, "tried": row["strength"], **found}


def judged(apart: int, strength: float, rule: str) -> Iterator[dict[str, Any]]:
    """No guard and the projection of a strength on the judged seeds, on test sentences."""
    for seed in JUDGED_SEEDS[rule]:
        start = started(seed, apart)
        for name, guard in (("none", NoGuard()), (JUDGED[0], GUARDS[JUDGED[0]][0](strength))):
            network = trained(start, guard, seed, apart)
            found = {"before": accuracy(start, 0), "kept": accuracy(network, 0), "learned": accuracy(network, 1, apart)}
            yield {"apart": apart, "rule": rule, "guard": name, "strength": strength, "seed": seed, **found}


def sentence(records: list[dict[str, Any]], apart: int, rule: str) -> str:
    """What the strength that a rule chose keeps and costs, seed by seed."""
    rows = [row for row in records if row["apart"] == apart and row.get("rule") == rule]
    free = {row["seed"]: row for row in rows if row["guard"] == "none"}
    pairs = [(row, free[row["seed"]]) for row in rows if row["guard"] != "none"]
    share = min(guarded["kept"] / guarded["before"] for guarded, _ in pairs)
    costs = [100 * (plain["learned"] - guarded["learned"]) for guarded, plain in pairs]
    is_above = all(guarded["kept"] >= plain["kept"] for guarded, plain in pairs)
    plain = sum(row["kept"] for row in free.values()) / len(free)
    return (
        f"- {'No word' if apart == WORDS else 'Half of the words'} shared, {len(pairs)} seeds, by {rule}: {JUDGED[0]} "
        f"at {pairs[0][0]['strength']:.2g} keeps at least {share:.1%} of A ({plain:.1%} in the mean unguarded), at a "
        f"cost of {t_interval(costs).text()} points of B, {max(costs):.1f} at most; A is "
        f"{'never' if is_above else 'in some seed'} below unguarded."
    )


def read(path: Path = RECORDS) -> list[dict[str, Any]]:
    """The records, if there are any."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RECORDS, help="where the records are")
    parser.add_argument("--table", action="store_true", help="print the lines, and stop")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for apart, rule in () if options.table else CASES:
        if any((row["apart"], row.get("rule")) == (apart, rule) for row in read(options.out)):
            continue
        rows = list(chosen(apart, rule)) if rule in MARGINS else []
        strength = next(row["tried"] for row in rows if row["chosen"]) if rows else OTHERS
        rows += judged(apart, strength, rule)
        with options.out.open("a") as file:  # a whole case at once, so that one that was stopped is done anew
            file.writelines(json.dumps(row) + "\n" for row in rows)
    for apart, rule in CASES:
        print(sentence(read(options.out), apart, rule))


if __name__ == "__main__":
    main()
