"""The benchmark of smoothing: what is held against what, what it costs, and records that are enough for its table."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from benchmarks.smoothing import (
    DRAWS,
    RESULTS,
    SEED,
    Measured,
    agreement,
    lead,
    measure,
    rankings,
    read_alone,
    table_of,
)
from ramet.ranking.predictor import features_of
from ramet.seeding import numpy_generator
from ramet.spaces import Cells64


def noisy() -> Measured:
    random = np.random.default_rng(0)
    archs = list(Cells64(channels=2, num_cells=1))
    truth = np.array([random.normal(size=(3, 4))[range(3), arch].sum() for arch in archs])
    return Measured(
        alone=truth + random.normal(size=(3, 64)),
        losses=-truth + random.normal(size=(3, 64)),
        averaged=truth + random.normal(size=(2, 64)),
        reestimated=truth + random.normal(size=(2, 64)),
        flops=random.normal(size=64),
        features=features_of(archs, (4, 4, 4), []),
        supernet_cost=2.0,
    )


def test_no_ranking_has_a_part_in_what_it_is_held_against() -> None:
    known = noisy()
    found = rankings(known)
    pairs = [known.alone[[1, 2]].mean(axis=0), known.alone[[0, 2]].mean(axis=0), known.alone[[0, 1]].mean(axis=0)]
    cost, seeds, others = found[SEED]
    assert cost == 64 and (seeds == known.alone).all() and np.allclose(others, pairs)
    halves = next(entry for name, entry in found.items() if name.startswith("one seed of half"))
    assert halves[0] == 32 and halves[1].shape == (3 * DRAWS, 64)
    assert np.allclose(halves[2], np.repeat(pairs, DRAWS, axis=0))
    cost, each, truth = found["one supernet"]
    assert cost == 2 and {(tuple(row), tuple(true)) for row, true in zip(each, truth, strict=True)} == {
        (tuple(row), tuple(true)) for row in known.averaged for true in others
    }
    cost, mean, truth = found["mean of 2 supernets"]
    assert cost == 4 and np.allclose(mean, known.averaged.mean(axis=0)) and np.allclose(truth, pairs)


def test_a_lead_is_the_difference_on_the_same_children() -> None:
    known = noisy()
    found = rankings(known)
    _, *seed = found[SEED]
    _, *smooth = found["one seed, smoothed"]
    value = lead(smooth, seed, numpy_generator(0, "test"))
    assert value.value == pytest.approx(agreement(*smooth) - agreement(*seed))
    same = lead(seed, seed, numpy_generator(0, "test"))
    assert (same.low, same.value, same.high) == (0.0, 0.0, 0.0)


def test_the_truth_of_another_setting_is_passed_over(tmp_path: Path) -> None:
    head = {"setting": {"space": {"kind": "cells64", "channels": 16, "num_cells": 4}}}
    (tmp_path / "0.jsonl").write_text(json.dumps(head) + "\n")
    with pytest.raises(LookupError, match="alone"):
        read_alone(tmp_path, ["111"])
    ours = next((RESULTS / "truth").glob("b859*.jsonl"))
    shutil.copy(ours, tmp_path / "1.jsonl")
    alone, losses = read_alone(tmp_path, ["111", "112"])
    assert alone.shape == losses.shape == (3, 2) and (losses > alone).all()


def test_the_records_are_enough_for_the_table(tmp_path: Path) -> None:
    lines = table_of(measure(RESULTS, tmp_path)).splitlines()
    assert not list(tmp_path.iterdir()) and len(lines) == 2 + 8 + 8 + 1
    assert all(line.count("|") == 6 for line in lines)
