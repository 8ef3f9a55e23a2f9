"""The benchmark of streams: an arm, its control, and a table of paired differences; resumable."""

from __future__ import annotations

import json

from benchmarks import learning
from benchmarks.learning import Case, read, run_arm, table

QUARTER = "warm-start~quarter"
SMALL = Case("split-digits:2", "mlp:8,8", options={"train_size": 60, "eval_size": 100})


def test_a_control_has_the_size_and_the_work_of_its_arm(tmp_path):
    known = {}
    for arm in ("progressive", "warm-start", "warm-start=control", "warm-start=work", QUARTER, f"{QUARTER}@work"):
        known[arm] = run_arm(SMALL, arm, 50, tmp_path, known)
    ours, control = known["warm-start"], known["warm-start=control"]
    assert ours["parameters"] <= control["parameters"] <= 1.1 * ours["parameters"]
    for own, other, epochs in zip(ours["work"], control["work"], control["epochs"], strict=True):
        assert abs(own - other) <= 0.5 * other / epochs + 1
    quarter, longer, progressive = (known[arm] for arm in (QUARTER, f"{QUARTER}@work", "progressive"))
    assert quarter["parameters"] == longer["parameters"] <= progressive["parameters"] / 4
    # An epoch less than all of the work pays for, at most; what is no training does not take longer.
    work, epochs = sum(progressive["work"]), int(10 * sum(progressive["work"]) / sum(quarter["work"]))
    assert work * (1 - 1 / epochs) - sum(quarter["work"]) <= sum(longer["work"]) <= work


def test_a_second_call_runs_nothing_and_prints_the_table(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(learning.CASES, "permuted-digits", SMALL)
    results = tmp_path / "found.jsonl"
    words = ["learning", "--streams", "permuted-digits", "--seeds", "50", "51", "--arms", "individual", "naive"]
    words += ["--results", str(results), "--folder", str(tmp_path), "--reference", "individual"]
    monkeypatch.setattr("sys.argv", words)
    learning.main()
    first = results.read_text()
    learning.main()
    assert results.read_text() == first and len(read(results)) == 4
    assert "| naive |" in capsys.readouterr().out


def test_differences_are_paired_by_seed():
    rows = [
        {"stream": "s", "seed": seed, "arm": arm, "test": test, "parameters": 10, "work": [1], "forgetting": 0.0}
        for seed, arm, test in [(0, "a", 0.5), (1, "a", 0.7), (0, "b", 0.6), (1, "b", 0.8), (2, "b", 0.1)]
    ]
    line = next(line for line in table(rows, "s", "a").splitlines() if line.startswith("| b"))
    assert "+10.00 [10.00, 10.00]" in line
    assert json.dumps(rows)
