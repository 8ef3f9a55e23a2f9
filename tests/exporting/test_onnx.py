"""Networks for onnxruntime: what they compute there, in which batches, and what is refused."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

from ramet.cli.main import main
from ramet.errors import ConfigError, RunError
from ramet.exporting import onnx, write_network
from ramet.exporting.card import Card
from ramet.growth import grow
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
    for command in ("grow", "search"):
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
        ("grow", ["--network", "mlp:4", "--max-steps", "1", "--epochs", "1"], "networks/firefly"),
        ("search", ["--channels", "2", "--epochs", "1", "--models-per-epoch", "1", "--strategy", "random",
                    "--warmup-epochs", "0", "--final", "1", "--final-epochs", "1"], "."),
    ],
)  # fmt: skip
def test_commands_write_networks_with_cards(command, options, folder, tmp_path, capsys):
    out = tmp_path / "run"
    main([command, *options, "--train-size", "64", "--eval-size", "32", "--onnx", "--json", "--out", str(out)])
    result = json.loads(capsys.readouterr().out)
    files = {path.name for path in (out / folder).iterdir()}
    assert {"network.pt2", "network.onnx", "network.md"} <= files
    card = (out / folder / "network.md").read_text()
    test = result["methods"]["firefly"]["test"] if command == "grow" else result["trained"][0]["test"]
    for words in ("digits", "test", str(test), "onnxruntime", "torch.export.load", f"torch: {torch.__version__}"):
        assert words in card
    session = onnxruntime.InferenceSession(out / folder / "network.onnx")
    (given,) = session.get_inputs()
    assert session.run(None, {given.name: torch.zeros(3, 1, 8, 8).numpy()})[0].shape == (3, 10)
