"""The benchmark of growth and its baselines, at a size of seconds: equal work, each arm once, a table of it all."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.growing import FULL, RATES, TUNING_SEEDS, Records, Scale, best_rate, chosen_rate, curve, run, table

SCALE = Scale(size=1000, train_size=60, eval_size=30, image_size=8, epochs=2, batch_size=20, width=2)
ARMS = ("grown", "plain", "pruned")


def test_arms_have_the_growths_work_and_records_are_made_once(tmp_path: Path) -> None:
    records = Records(tmp_path / "records.jsonl")
    rows = list(run(records, ["digits"], SCALE, [0], ARMS))
    assert [(row["arm"], row["seed"], row["rate"]) for row in rows] == [
        *((arm, seed, rate) for seed in TUNING_SEEDS for arm in ARMS for rate in RATES),
        *((arm, 0, best_rate(records, "digits", SCALE, arm)) for arm in ARMS),
    ]
    grown = next(row for row in rows if row["arm"] == "grown" and row["seed"] == 0)
    # A unit reads and is read by at most the widest group, by 3x3 filters, and has its norm's two numbers. Groups of
    # one size get a unit at the same time, and the nearer number of units is taken.
    unit = 2 * 9 * max(grown["shape"].values()) + 2
    for row in rows[-2:]:
        assert 0 < row["work"] <= grown["work"]
        assert abs(row["params"] - grown["params"]) <= unit * len(grown["shape"]) / 2
    again = Records(records.path)
    assert again.found == records.found and not list(run(again, ["digits"], SCALE, [0], ARMS))
    lines = table(again, SCALE, ["digits"], ARMS).splitlines()
    assert len(lines) == 5 and lines[2].startswith("| grown | ") and lines[4].startswith("| pruned | ")


def test_a_rate_is_chosen_by_the_seeds_that_all_rates_have() -> None:
    first, second, third = TUNING_SEEDS

    def row(rate: float, seed: int, validation: float) -> dict[str, float]:
        return {"rate": rate, "seed": seed, "validation": validation}

    rows = [row(0.1, first, 0.9), row(0.1, second, 0.5), row(0.3, first, 0.8), row(0.3, second, 0.8)]
    assert chosen_rate(rows) == 0.3 and chosen_rate(rows[::2]) == 0.1
    assert chosen_rate([*rows, row(0.1, third, 5.0), row(0.1, 0, 9.0)]) == 0.3, "not by a seed that one of them lacks"


def test_the_curve_lies_beside_ten_times_the_size(tmp_path: Path) -> None:
    records = Records(tmp_path / "records.jsonl")
    *_, grown, full = run(records, ["digits"], SCALE, [0], ["grown", FULL])
    assert full["params"] == pytest.approx(10 * grown["params"], rel=0.05)
    assert full["work"] > 5 * full["work_of_the_small_size"]
    row = curve(records, SCALE, ["digits"]).splitlines()[-1].strip("| ").split(" | ")
    assert row[:2] == ["digits", "1"] and float(row[4]) == pytest.approx(100 * grown["test"] / full["test"], abs=0.06)
    assert float(row[5]) == pytest.approx(10, abs=0.5) and float(row[6]) == pytest.approx(1, abs=0.2)
