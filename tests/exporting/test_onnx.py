"""Networks for onnxruntime: what they compute there, in which batches, and what is refused."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

from ramet.cli.main import main
from ramet.continual import JointNetwork
from ramet.data import load
from ramet.errors import ConfigError, RunError
from ramet.exporting import onnx, write_network
from ramet.exporting.card import Card
from ramet.growth import grow
from ramet.runs import read_config
from ramet.searching.costs import ArchCosts
from ramet.spaces import Cells64
from ramet.training import Recipe

onnxruntime = pytest.importorskip("onnxruntime")


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Dropout(0.5), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(3, 2),
    )  # fmt: skip


def test_a_file_computes_what_the_module_does_for_any_batch():
    made = network()
    content = onnx.export_onnx(made, (1, 6, 6))
    assert all(module.training for module in made.modules()), "the module is left as it was"
    session = onnxruntime.InferenceSession(content)
    (given,) = session.get_inputs()
    made.eval()
    for size in (1, 2, 5):
        x = torch.randn(size, 1, 6, 6)
        (found,) = session.run(None, {given.name: x.numpy()})
        # A sum of 9 products, a norm, a mean of 16 and a sum of 3: well under 100 roundings of numbers below 10.
        assert torch.allclose(torch.from_numpy(found), made(x), rtol=0, atol=1000 * torch.finfo(torch.float32).eps)
    assert onnx.onnx_latency(content, (1, 6, 6), num_runs=2) > 0


@pytest.mark.slow
def test_another_result_is_refused(monkeypatch):
    other, made = network(), network()
    nn.init.constant_(other[-1].bias, 1.0)
    wrong = onnx.export_onnx(other, (1, 6, 6))
    with pytest.raises(RunError, match="onnxruntime must give what the module gives"):
        onnx._compare(made, wrong, torch.zeros(2, 1, 6, 6))


def test_what_is_missing_is_said_before_anything_is_trained(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(onnx, "MODULES", ("onnx", "no_such_package"))
    with pytest.raises(ConfigError, match=r"no_such_package is needed for this, .* pip install 'ramet\[onnx\]'"):
        onnx.check_installed()
    for command in ("grow", "search", "learn"):
        with pytest.raises(SystemExit) as ended:
            main([command, "--onnx", "--out", str(tmp_path / command)])
        assert ended.value.code == 2 and not (tmp_path / command).exists()
        assert "no_such_package" in capsys.readouterr().err


class Data(nn.Module):
    def forward(self, x):
        return x * 2 if float(x.sum()) > 0 else x  # what a network computes may not depend on values


def test_a_module_that_cannot_be_exported_says_so(tmp_path):
    card = Card(title="Something", network={}, data={}, figures={}, made={})
    problem = write_network(Data(), tmp_path / "network", input_shape=(3,), onnx=True, card=card)
    assert len(problem.split("; ")) == 2 and [path.name for path in tmp_path.iterdir()] == ["network.md"]


@pytest.mark.slow
def test_a_latency_in_onnxruntime_is_a_budget():
    x = torch.randn(16, 4)
    made = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    data = (x, x[:, 0].gt(0).long(), x[:4], x[:4, 0].gt(0).long())
    _, history = grow(made, data, "onnx-latency=1000", "net2net", settings=Recipe(epochs=1, batch_size=8), max_steps=1)
    assert 0 < history.steps[0].budget_size < 1000 and history.steps[1].widened
    costs = ArchCosts(Cells64(channels=2, num_cells=1), (1, 8, 8), 10)
    assert costs("onnx_latency", (0, 0, 0)) > 0


@pytest.mark.parametrize(
    ("command", "options", "folder"),
    [
        ("grow", ["--network", "mlp:4", "--max-steps", "1", "--epochs", "1"], "networks/even"),
        pytest.param("search", ["--channels", "2", "--epochs", "1", "--models-per-epoch", "1", "--strategy", "random",
                                "--warmup-epochs", "0", "--final", "1", "--final-epochs", "1"], ".",
                     marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_commands_write_networks_with_cards(command, options, folder, tmp_path, capsys):
    out = tmp_path / "run"
    main([command, *options, "--train-size", "64", "--eval-size", "32", "--onnx", "--json", "--out", str(out)])
    result = json.loads(capsys.readouterr().out)
    files = {path.name for path in (out / folder).iterdir()}
    assert {"network.pt2", "network.onnx", "network.md"} <= files
    card = (out / folder / "network.md").read_text()
    test = result["methods"]["even"]["test"] if command == "grow" else result["trained"][0]["test"]
    for words in ("digits", "test", str(test), "onnxruntime", "torch.export.load", f"torch: {torch.__version__}"):
        assert words in card
    options = read_config(out)["config"]["data_options"]
    data = load("digits", train_size=64, eval_size=32, validation_fraction=options["validation_fraction"])
    for words in ("[batch, 1, 8, 8]", f"mean: {data.mean[0]}", f"deviation: {data.deviation[0]}", "0 '0', 1 '1', 2"):
        assert words in card
    session = onnxruntime.InferenceSession(out / folder / "network.onnx")
    (given,) = session.get_inputs()
    assert session.run(None, {given.name: torch.zeros(3, 1, 8, 8).numpy()})[0].shape == (3, 10)


def learned(folder, *options):
    main(["learn", "--stream", "split-digits:5", "--epochs", "1", "--train-size", "100", "--eval-size", "50", "--json",
          "--out", str(folder), *options])  # fmt: skip


@pytest.mark.slow
def test_learned_tasks_are_written_with_cards(tmp_path, capsys):
    learned(tmp_path / "run", "--method", "packnet", "--network", "mlp:8", "--seeds", "2", "--onnx")
    result = json.loads(capsys.readouterr().out)["methods"]
    assert result["packnet"]["exported"] == "networks/packnet-0" and result["packnet"]["not_exported"] == {}
    assert result["individual"]["exported"] is None, "a reference that nobody asked for"
    folder = tmp_path / "run" / "networks" / "packnet-0"
    stems = [f"{place + 1}-digits-{2 * place}-{2 * place + 1}" for place in range(5)]
    assert {path.name for path in folder.iterdir()} == {
        f"{stem}.{end}" for stem in stems for end in ("pt2", "onnx", "md")
    }
    data = load("digits", train_size=100, eval_size=50)
    card = (folder / f"{stems[1]}.md").read_text()
    for words in (
        "# digits 2 3, learned by packnet", "[batch, 1, 8, 8]", f"mean: {data.mean[0]}", "classes: 0 '2', 1 '3'",
        f"deviation: {data.deviation[0]}", "stream: split-digits:5", "task 2 of 5: digits 0 1, digits 2 3",
        "seed: 0", "recipe: ", "parameters: 538", "onnxruntime", f"torch: {torch.__version__}",
    ):  # fmt: skip
        assert words in card
    test = result["packnet"]["figures"]["average_accuracy"]["values"][0]
    lines = [line for stem in stems for line in (folder / f"{stem}.md").read_text().splitlines()]
    each = [float(line.rpartition(": ")[2]) for line in lines if line.startswith("- accuracy on test images")]
    assert sum(each) / 5 == pytest.approx(test, abs=1e-12)
    net = JointNetwork.load(tmp_path / "run" / "networks" / "packnet-0.safetensors")
    assert net.card("digits 2 3").inputs == {
        "input": "[batch, 1, 8, 8], single precision",
        "preparation": "bytes are divided by 255; then (pixel - mean) / deviation, channel by channel",
        "mean": str(data.mean[0]),
        "deviation": str(data.deviation[0]),
        "classes": "0 '2', 1 '3'",
    }, "a saved network knows what it takes, without its data"
    x = torch.randn(3, 1, 8, 8)
    session = onnxruntime.InferenceSession(folder / f"{stems[1]}.onnx")
    (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    # Sums of 64 and of 8 products of numbers below 10, once here and once there: some hundred roundings at most.
    assert torch.allclose(torch.from_numpy(found), net.task("digits 2 3")(x), rtol=0, atol=1e3 * 2**-23)


UNEXPORTABLE = """
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(64, 6), nn.Linear(6, 2)

    def forward(self, x):
        x = self.body(x.flatten(1)).relu()
        return self.head(x if float(x.detach().sum()) > -1.0 else -x)


def network():
    return Net()
"""


@pytest.mark.slow
def test_a_module_that_cannot_be_exported_costs_its_files_alone(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "unexportable.py").write_text(UNEXPORTABLE)
    learned("run", "--network", "unexportable.py:network", "--method", "naive", "--onnx")
    result = json.loads(capsys.readouterr().out)["methods"]["naive"]
    assert list(result["not_exported"]) == [f"digits {2 * place} {2 * place + 1}" for place in range(5)]
    problem = result["not_exported"]["digits 0 1"]
    assert "1-digits-0-1.pt2: " in problem and "; 1-digits-0-1.onnx: " in problem and "\n" not in problem
    folder = tmp_path / "run" / "networks"
    assert {path.suffix for path in (folder / "naive-0").iterdir()} == {".md"}
    assert JointNetwork.load(folder / "naive-0.safetensors", trust=True).names[0] == "digits 0 1"
    main(["report", "run"])
    assert "Not written, naive, digits 0 1: 1-digits-0-1.pt2: " in capsys.readouterr().out
