"""`ramet grow` from the command line: the table, the JSON, the curve on a terminal, layers that are left alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from grow_files import arguments

from ramet.cli import main
from ramet.cli.jobs import _notify
from ramet.errors import ConfigError
from ramet.fields import from_json
from ramet.growth import Budget, GrowPlan, load_network
from ramet.growth.methods.making import make_method
from ramet.jobs.grow.result import StepFigures, step_line

FROZEN = """
from torch import nn

class Net(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.first, self.second = nn.Linear(64, 3), nn.Linear(3, 3)
        self.frozen, self.free = nn.Linear(3, 4).requires_grad_(False), nn.Linear(4, 4)
        self.last = nn.Linear(4, num_classes)

    def forward(self, x):
        x = self.frozen(self.second(self.first(x.flatten(1)).relu()).relu()).relu()
        return self.last(self.free(x).relu())

def network(num_classes):
    return Net(num_classes)
"""

SHARED = """
import torch
from torch import nn

class Twice(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.first, self.same, self.last = nn.Linear(64, 3), nn.Linear(3, 3), nn.Linear(3, num_classes)

    def forward(self, x):
        return self.last(self.same(self.same(self.first(x.flatten(1)).relu()).relu()).relu())

class Tied(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.one, self.other, self.last = nn.Linear(64, 3), nn.Linear(64, 3), nn.Linear(6, num_classes)
        self.other.weight = self.one.weight

    def forward(self, x):
        x = x.flatten(1)
        return self.last(torch.cat([self.one(x), self.other(x.flip(1))], 1).relu())

def twice(num_classes):
    return Twice(num_classes)

def tied(num_classes):
    return Tied(num_classes)
"""

STEP = {
    "number": 2, "score": 0.9312, "sizes": {"neurons": 9, "params": 1234, "flops": 5.0}, "layers": {"3": 4},
    "widened": {"0": {"units": 3, "split": [1], "new": 2}, "5": {"units": 3, "new": 1}, "7": {"units": 3, "new": 1}},
}  # fmt: skip


def test_frozen_layers_are_named_and_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "frozen_network.py").write_text(FROZEN)
    network = ["--network", f"{tmp_path / 'frozen_network.py'}:network", "--budget", "neurons=9,step=1"]
    main(["grow", *network, "--train-size", "60", "--eval-size", "30", "--epochs", "1", "--max-steps", "1", "--method",
          "random", "--out", str(tmp_path / "run")])  # fmt: skip
    text = capsys.readouterr().out
    assert "- left alone: frozen: " in text and "is frozen (requires_grad is False)" in text
    assert f"Report: {tmp_path / 'run' / 'report.html'}" in text
    assert "the number of steps is reached" in text


@pytest.mark.parametrize("name", ["twice", "tied"])
def test_shared_layers_grow_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """A layer that is used twice, and a weight that two layers hold, get wider together and stay shared."""
    code = tmp_path / f"network_with_{name}.py"
    code.write_text(SHARED)
    main(["grow", "--network", f"{code}:{name}", "--budget", "neurons=5,step=2", "--train-size", "60", "--eval-size",
          "30", "--epochs", "1", "--method", "net2net", "--out", str(tmp_path / "run"), "--json"])  # fmt: skip
    assert json.loads(capsys.readouterr().out)["methods"]["net2net"]["neurons"] == 5
    network = load_network(tmp_path / "run" / "networks" / "net2net", trust=True)
    if name == "twice":
        assert network.first.out_features == network.same.in_features == network.same.out_features == 5
    else:
        assert network.one.weight is network.other.weight and network.one.weight.shape == (5, 64)


def test_json_is_one_object_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(arguments(tmp_path, "run", "net2net", "--json"))
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert out.count("\n") == 1 and err == ""
    assert result["methods"]["net2net"]["test"] >= 0 and result["budget"]["total"] == 400


@pytest.mark.slow
def test_patience_writes_the_best_network(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each growth makes it worse, so what is written is the network before it grew."""
    worse = iter([0.6, 0.5])
    monkeypatch.setattr("ramet.growth.growing.measure", lambda *of: next(worse))
    main(arguments(tmp_path, "run", "net2net", "--patience", "1", "--schedule-over", "round", "--json"))
    result = json.loads(capsys.readouterr().out)["methods"]["net2net"]
    assert result["kept"] == 0 and len(result["steps"]) == 2 and result["validation"] == 0.6
    assert result["params"] == result["steps"][0]["sizes"]["params"] < result["steps"][1]["sizes"]["params"]
    network = load_network(tmp_path / "run" / "networks" / "net2net", trust=True)
    assert sum(param.numel() for param in network.parameters()) == result["params"]
    assert json.loads((tmp_path / "run" / "networks" / "net2net" / "network.json").read_text())["steps"] == []


def test_a_loss_that_is_not_finite_is_a_failure_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments(tmp_path, "run", "net2net", "--learning-rate", "1e30"))
    assert caught.value.code == 1
    err = capsys.readouterr().err
    assert "the loss must stay finite" in err and err.count("\n") == 1


def test_a_step_is_a_line_of_the_curve(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    line = step_line("firefly", from_json(StepFigures, STEP))
    assert line.split("  ")[0] == "firefly" and "1,234 parameters" in line and "93.1 %" in line
    assert line.count("█") == 19
    assert line.endswith("0 +3 (1 split, 2 new), 5 +1 (1 new), 7 +1 (1 new) and 1 more")
    _notify("step", {"line": line})
    assert capsys.readouterr().err == "", "standard error is no terminal here"
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    _notify("step", {"line": line})
    assert capsys.readouterr().err == line + "\n"


def test_every_step_is_told_as_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []
    monkeypatch.setattr("ramet.cli.jobs._notify", lambda event, values: told.append((event, values)))
    main(arguments(tmp_path, "run", "net2net", "--json"))
    steps = json.loads(capsys.readouterr().out)["methods"]["net2net"]["steps"]
    (expected, foreseen), *told = told
    assert expected == "foreseen" and foreseen["line"].startswith("foreseen: ")
    assert [(event, values["method"], values["number"]) for event, values in told] == [
        ("step", "net2net", step["number"]) for step in steps
    ]
    assert all(values["line"].startswith("net2net") for _, values in told)


def test_a_plan_of_methods() -> None:
    plan = GrowPlan(methods="firefly:num_new=2,layer_width=3,net2net")  # type: ignore[arg-type]
    assert plan.methods == ("firefly:num_new=2,layer_width=3", "net2net")
    assert plan.by_name == {"firefly": "firefly:num_new=2,layer_width=3", "net2net": "net2net"}
    assert make_method("nash:num_neighbours=2").num_neighbours == 2  # type: ignore[attr-defined]
    assert plan.budget_for(50) == Budget("params", 500.0, 2.0, share=True)
    assert GrowPlan(budget="params=9k").budget_for(50) == Budget("params", 9000.0, 2.0, share=True)
    assert GrowPlan(budget="params=9k, layers=1").budget_for(50) == Budget("params", 9000.0, 0.3, layers=1)
    assert GrowPlan(budget="neurons=9, step=2").budget_for(50) == Budget("neurons", 9.0, 2.0)
    assert GrowPlan().methods == ("even",) and GrowPlan(budget="params=9k, layers=1").methods == ("firefly",)
    for methods in ((), ("firefly", "firefly:num_new=3")):
        with pytest.raises(ConfigError, match="methods must be named once each"):
            GrowPlan(methods=methods)
