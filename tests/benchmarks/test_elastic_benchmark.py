"""The benchmark of elastic sizes: six for each network, each arm once at a size of seconds, a table of what counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from benchmarks.elastic import (
    ARMS,
    CASES,
    CONTINUED,
    FIRST_DEVELOPMENT_SEED,
    Choice,
    judged,
    run_alone,
    run_continued,
    run_elastic,
    table,
)
from benchmarks.elastic_networks import IMAGE
from ramet.costs import count_parameters
from ramet.data import DataSet, Split, load

SMALL = replace(CASES["convnet"], epochs=2, choice=Choice(first=0.5, between=1))


def noise(count: int) -> DataSet:
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(count, 1, IMAGE, IMAGE, generator=generator)
    split = Split(images, torch.randint(10, (count,), generator=generator))
    return DataSet("noise", split, split, split, num_classes=10)


@pytest.mark.parametrize("network", CASES)
def test_a_network_has_six_sizes(network: str) -> None:
    case = CASES[network]
    held = noise(count=16)
    space = case.space(case.fresh(held, 0), held, case.choice)
    kept = [case.kept(arch) for arch in space]
    assert len(kept) == 6 and set(map(max, kept)) <= {0.25, 0.375, 0.5, 0.625, 0.75, 1.0}
    assert kept[-1] == [1.0] * len(kept[-1]) and space[5] == space.whole
    sizes = {
        tuple(shares): count_parameters(space.supernet(0, 0).child(arch))
        for shares, arch in zip(kept, space, strict=True)
    }
    assert all(sizes[small] < sizes[large] for small in sizes for large in sizes if _is_below(small, large))


def _is_below(small: tuple[float, ...], large: tuple[float, ...]) -> bool:
    return small != large and all(ours <= theirs for ours, theirs in zip(small, large, strict=True))


def test_arms_say_what_each_size_is_and_what_all_cost() -> None:
    held = load("digits", train_size=128, eval_size=20)
    alone, shared = (run(SMALL, "fashion-mnist", held, 0, SMALL.choice) for run in (run_alone, run_elastic))
    assert list(alone["sizes"]) == list(shared["sizes"])
    flops = [size["flops"] for size in alone["sizes"].values()]
    assert [size["flops"] for size in shared["sizes"].values()] == flops
    assert alone["cost"] == sum(flops) / flops[-1]
    later = run_continued(SMALL, "fashion-mnist", held, 0, SMALL.choice_for(CONTINUED), shared["cost"])
    assert list(later["sizes"]) == list(alone["sizes"]) and later["epochs"] == 1 < later["cost"]
    # Half of the steps are the whole's alone; in the others the whole, the smallest and perhaps a third have a turn.
    least, most = ((flops[-1] + 0.5 * flops[0] + 0.5 * third) / flops[-1] for third in (0, flops[-2]))
    assert least <= shared["cost"] <= most


def record(arm: str, seed: int, test: float, **others: Any) -> dict[str, Any]:
    case = CASES["mlp"]
    sizes = {name: {"parameters": count, "test": test} for name, count in (("width=0.5", 1200), ("width=1", 4000))}
    about = {"network": "mlp", "data": "fashion-mnist", "arm": arm, "seed": seed, "epochs_each": case.epochs}
    return {**about, "choice": vars(case.choice_for(arm)), "sizes": sizes, "cost": 1.5, **others}


def test_a_table_has_the_judged_seeds_and_the_choice_alone() -> None:
    records = [record(arm, seed, 0.7 + 0.01 * ARMS.index(arm)) for arm in ARMS for seed in (0, 1)]
    kept = judged(records, "fashion-mnist", "mlp")
    records += [record(arm, FIRST_DEVELOPMENT_SEED, 0.1) for arm in ARMS]
    records += [record(arm, 2, 0.1, choice=vars(Choice(rate=7.0))) for arm in ARMS]
    records += [record("alone", 3, 0.1)]  # the other arms have not run
    assert judged(records, "fashion-mnist", "mlp") == kept | {"alone": kept["alone"] | {3: records[-1]}}
    lines = table(records, "fashion-mnist").splitlines()
    assert lines[2] == (
        "| mlp | width=0.5 | 1,200 | 70.00 | 1.00 [1.00, 1.00] | 2.00 [2.00, 2.00] | 3.00 [3.00, 3.00] |"
    )
    assert lines[-1] == f"| mlp, 2 seeds | *cost, by the whole's* | |{' 1.50 |' * 4}" and len(lines) == 5
