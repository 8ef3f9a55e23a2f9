"""`ramet learn` with a network of the user's own: of a file with trained weights, as an object, resumed, gone on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import safetensors.torch
import torch
from module_networks import ResNet

import ramet
from ramet.cli import main
from ramet.continual import JointNetwork, LearnPlan, LearnRecipe
from ramet.errors import ConfigError
from ramet.jobs.learn import LearnJob

CODE = """
from module_networks import Layered, ResNet


def network(in_channels, num_classes):
    return ResNet(in_channels, num_classes, width=3)


def layered(in_channels, image_size, num_classes):
    return Layered(in_channels, image_size, num_classes)
"""
STREAM = ["--stream", "split-digits:2", "--train-size", "60", "--eval-size", "60", "--epochs", "1"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A file that makes a network, and one of trained weights, in the folder that commands are called from."""
    (tmp_path / "of_a_user.py").write_text(CODE)
    safetensors.torch.save_file(ResNet(1, 7, width=3).state_dict(), tmp_path / "trained.safetensors")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def body(network):
    return {name: value for name, value in network.state_dict().items() if not name.startswith("fc.")}


def test_a_network_of_a_file_with_trained_weights(files, capsys):
    options = ["--network", "of_a_user.py:network", "--start", "trained.safetensors"]
    main(["learn", *STREAM, *options, "--method", "frozen,adapters,bind-and-grow", "--json", "--out", "run"])
    result = json.loads(capsys.readouterr().out)
    assert list(result["methods"]) == ["individual", "frozen", "adapters", "bind-and-grow"]
    for name, outcome in result["methods"].items():
        assert outcome["forgets_nothing"] and outcome["figures"]["forgetting"]["mean"] == 0, name
    graph = result["methods"]["bind-and-grow"]["graph"]
    assert {node["layer"] for node in graph["nodes"]} >= {"conv1", "layer1.0", "layer2.1", "head"}
    assert list(graph["paths"]) == ["the trained network", "digits 0 1 2 3 4", "digits 5 6 7 8 9"]
    page = Path("run/report.html").read_text()
    assert "layer2.0" in page and "the weights that it started with" in page
    with pytest.raises(ConfigError, match="only with --trust"):
        JointNetwork.load("run/networks/frozen-0.safetensors")
    net = JointNetwork.load("run/networks/frozen-0.safetensors", trust=True)
    stored = safetensors.torch.load_file("trained.safetensors")
    for name, value in body(net.task("digits 0 1 2 3 4")).items():
        assert torch.equal(value, stored[name])


@pytest.mark.slow
def test_it_is_resumed_from_any_folder_with_trust(files, capsys, monkeypatch):
    import ramet.jobs.learn.learning as module

    options = ["--network", "of_a_user.py:network", "--start", "trained.safetensors", "--method", "naive,bind-and-grow"]
    main(["learn", *STREAM, *options, "--out", "whole"])
    real = module.learn_one

    def killed(setup, method, place):
        if method == "bind-and-grow":
            raise KeyboardInterrupt
        return real(setup, method, place)

    with monkeypatch.context() as patched:
        patched.setattr(killed, "__module__", module.__name__)
        patched.setattr(killed, "__qualname__", "learn_one")
        patched.setattr(module, "learn_one", killed)
        with pytest.raises(SystemExit):
            main(["learn", *STREAM, *options, "--out", "stopped"])
    (files / "elsewhere").mkdir()
    monkeypatch.chdir(files / "elsewhere")
    with pytest.raises(SystemExit) as ended:
        main(["resume", "../stopped"])
    assert ended.value.code == 2 and "only with --trust" in capsys.readouterr().err
    main(["resume", "../stopped", "--trust"])
    name = "networks/bind-and-grow-0.safetensors"
    assert (files / "stopped" / name).read_bytes() == (files / "whole" / name).read_bytes()


@pytest.mark.parametrize(
    "method",
    [
        pytest.param("individual", marks=pytest.mark.slow),
        "bind-and-grow",
        pytest.param("replay", marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow
def test_a_saved_network_goes_on_with_another_stream(files, capsys, method):
    options = ["--network", "of_a_user.py:network", "--start", "trained.safetensors"]
    main(["learn", *STREAM, *options, "--method", method, "--out", "first"])
    file = f"first/networks/{method}-0.safetensors"
    stored = safetensors.torch.load_file("trained.safetensors")
    (files / "trained.safetensors").unlink()  # it is in the saved network, where it is still needed
    more = ["--stream", "rotated-digits:2", *STREAM[2:], "--network", "mlp:5", "--method", "naive", "--onto", file]
    with pytest.raises(SystemExit) as ended:
        main(["learn", *more, "--out", "second"])
    assert ended.value.code == 2 and not Path("second").exists()
    main(["learn", *more, "--out", "second", "--trust"])
    before = JointNetwork.load(file, trust=True)
    after = JointNetwork.load("second/networks/onto-0.safetensors", trust=True)
    assert after.names == [*before.names, "digits at 0 degrees", "digits at 90 degrees"]
    if method != "replay":
        for name, value in before.method.template.start().items():  # which the next task begins with
            assert torch.equal(value, stored[name]), name
        x = torch.randn(5, 1, 8, 8)
        for name in before.names:
            assert torch.equal(before.task(name)(x), after.task(name)(x))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--network", "of_a_user.py:layered", "--method", "firefly"], "the method firefly adds and leaves out units"),
        (["--network", "of_a_user.py:nothing", "--method", "naive"], "must define nothing"),
        (["--network", "mlp:5", "--start", "trained.safetensors", "--method", "naive"], "weights must fit the network"),
        (["--network", "of_a_user.py:network", "--start", "none.pt", "--method", "naive"], "there is no"),
        (
            ["--network", "of_a_user.py:network", "--classifier", "conv1", "--method", "naive"],
            "one of its linear layers",
        ),
        (["--network", "of_a_user.py:network", "--head", "shared", "--method", "frozen"], "head must be own"),
    ],
)
def test_what_cannot_work_is_one_line_and_nothing_is_written(files, capsys, options, words):
    with pytest.raises(SystemExit) as ended:
        main(["learn", *STREAM, *options, "--out", "run"])
    printed = capsys.readouterr().err.strip()
    assert ended.value.code == 2 and words in printed and "\n" not in printed
    assert not Path("run").exists()


@pytest.mark.slow
def test_a_module_from_python(tmp_path):
    network = ResNet(width=3)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    plan = LearnPlan(methods=("naive", "bind-and-grow"))
    given = {"plan": plan, "recipe": LearnRecipe(epochs=1), "train_size": 60, "eval_size": 60}
    result = ramet.learn("split-digits:2", network=network, out=tmp_path / "run", **given)
    assert list(result.methods) == ["individual", "naive", "bind-and-grow"]
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert "Conv2d(1, 3" in json.dumps(config)  # a run says what its network was
    again = ramet.learn("split-digits:2", network=network, out=tmp_path / "run", **given)
    assert again == result
    with pytest.raises(ConfigError, match="run"):
        ramet.learn("split-digits:2", network=ResNet(width=3), out=tmp_path / "run", **given)  # other weights
    file = tmp_path / "run" / result.methods["naive"].file
    assert isinstance(JointNetwork.load(file, network=network).task("digits 0 1 2 3 4"), ResNet)
    more = {**given, "plan": LearnPlan(methods="naive", onto=str(file))}
    onto = ramet.learn("rotated-digits:2", network=network, out=tmp_path / "more", **more)
    assert onto.methods["onto"].unmeasured == ["digits 0 1 2 3 4", "digits 5 6 7 8 9"]


@pytest.mark.slow
def test_workers_learn_with_modules(tmp_path):
    plan = LearnPlan(methods=("naive",))
    given = {"plan": plan, "recipe": LearnRecipe(epochs=1), "train_size": 40, "eval_size": 40}
    torch.manual_seed(0)
    network = ResNet(width=2)
    one = ramet.learn("split-digits:2", network=network, out=tmp_path / "one", **given)
    two = ramet.learn("split-digits:2", network=network, out=tmp_path / "two", executor=2, **given)
    assert one.methods["naive"].matrix == two.methods["naive"].matrix
    files = [tmp_path / run / "networks" / "naive-0.safetensors" for run in ("one", "two")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_the_job_is_its_json():
    asked = LearnJob(plan=LearnPlan(network="mine.py:network", start="weights.pt", classifier="fc", methods="naive"))
    assert LearnJob.from_json(json.loads(json.dumps(asked.to_json()))) == asked
