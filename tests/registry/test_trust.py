"""Code that data name runs only after the user has said so."""

from __future__ import annotations

import json
import subprocess

import pytest

from ramet.continual import JointNetwork, make_method, make_stream
from ramet.continual.networks.skeletons import make_skeleton
from ramet.data import load
from ramet.errors import ConfigError
from ramet.growth import load_network, make_network, save_network
from ramet.growth import make_method as make_growth
from ramet.ranking import Plan
from ramet.searching import SearchPlan
from ramet.spaces import make_space
from ramet.training import Settings

HOSTILE = "subprocess:getoutput"


@pytest.fixture(autouse=True)
def _nothing_runs(monkeypatch, tmp_path):
    """A command that would leave a file, and a function that fails the test if it is called."""

    def run(*arguments, **options):
        raise AssertionError(f"it ran: {arguments} {options}")

    monkeypatch.setattr(subprocess, "getoutput", run)
    yield


def saved_mlp(folder, **origin):
    network = make_network("mlp", in_channels=1, image_size=(4, 4), num_classes=2)
    about = {"network": "mlp", "in_channels": 1, "image_size": [4, 4], "num_classes": 2, "options": {}, "seed": 0}
    save_network(network, folder, steps=[], origin=about | origin)


def test_a_saved_network_runs_no_shell(tmp_path):
    saved_mlp(tmp_path, network=HOSTILE, options={"cmd": "touch ran"})
    with pytest.raises(ConfigError, match=r"--trust \(trust=True\), but this would run 'subprocess:getoutput'"):
        load_network(tmp_path)
    with pytest.raises(ConfigError, match="it ran"):  # trusted, it is called; what it raises is one line
        load_network(tmp_path, trust=True)


def test_a_saved_network_cannot_trust_itself(tmp_path):
    saved_mlp(tmp_path, network=HOSTILE, trusted=True, trust=True)
    with pytest.raises(ConfigError, match="would run"):
        load_network(tmp_path)


def test_built_in_networks_need_no_trust(tmp_path):
    saved_mlp(tmp_path)
    assert load_network(tmp_path)[1].out_features == 4


def test_a_joint_network_runs_nothing(tmp_path):
    method = make_method("naive")
    method.start(make_skeleton("mlp:4", in_channels=1, image_size=(4, 4)), Settings(epochs=1), seed=0)
    JointNetwork(method).save(tmp_path / "net.safetensors")
    assert JointNetwork.load(tmp_path / "net.safetensors").names == []
    method.source = HOSTILE
    JointNetwork(method).save(tmp_path / "bad.safetensors")
    with pytest.raises(ConfigError, match="would run 'subprocess:getoutput'"):
        JointNetwork.load(tmp_path / "bad.safetensors")


@pytest.mark.parametrize("description", [{"kind": HOSTILE}, {"kind": "module", "factory": HOSTILE}])
def test_a_described_space_runs_nothing(description):
    with pytest.raises(ConfigError, match="would run 'subprocess:getoutput'"):
        make_space(description)
    with pytest.raises((ConfigError, AssertionError), match=r"it ran|neither"):
        make_space(description, trusted=True)


@pytest.mark.parametrize("data", ["os.path:join:a", "nowhere.py:images", f"{HOSTILE}:ls"])
def test_a_streams_file_runs_nothing(tmp_path, data):
    file = tmp_path / "stream.json"
    file.write_text(json.dumps([{"name": "one", "data": data}]))
    with pytest.raises(ConfigError, match=r"would run '(os.path:join|nowhere.py:images)'|must be one of digits"):
        make_stream(file)


def test_a_streams_file_cannot_trust_itself(tmp_path):
    file = tmp_path / "stream.json"
    file.write_text(json.dumps([{"name": "one", "data": "os.path:join", "trusted": True}]))
    with pytest.raises(ConfigError, match="takes data_dir"):
        make_stream(file)


def test_a_streams_file_brings_its_own_data_with_trust(tmp_path):
    (tmp_path / "streams_own_data.py").write_text(
        "import torch\ndef images():\n    return torch.rand(60, 1, 6, 6).numpy(), torch.arange(60).numpy() % 3\n"
    )
    file = tmp_path / "stream.json"
    file.write_text(json.dumps([{"name": "mine", "data": "streams_own_data.py:images"}]))
    with pytest.raises(ConfigError, match=r"would run '.*streams_own_data.py:images'"):
        make_stream(file)
    assert make_stream(file, trusted=True)[0].dataset.num_classes == 3


@pytest.mark.parametrize("text", ["subprocess:getoutput:ls", "none+os.path:join", "/nowhere/mine.py:Guard"])
def test_a_plan_that_is_read_runs_nothing(text):
    """config.json of a run becomes a plan; what it names is listed, not run."""
    plans = [Plan(guard=text), SearchPlan(guard=text)]
    plans += [] if "+" in text else [Plan(sharing=text), SearchPlan(sharing=text), SearchPlan(strategy=text)]
    for plan in plans:
        assert plan.code() == [":".join(text.rpartition("+")[2].split(":")[:2])]
    assert Plan().code() == SearchPlan(guard="plasticity:60+projection").code() == []


def test_every_maker_refuses_what_is_not_trusted():
    with pytest.raises(ConfigError, match="would run"):
        make_network(HOSTILE, in_channels=1, image_size=(4, 4), num_classes=2, trusted=False)
    with pytest.raises(ConfigError, match="would run"):
        make_method(HOSTILE, trusted=False)
    with pytest.raises(ConfigError, match="would run"):
        make_skeleton(HOSTILE, in_channels=1, image_size=(4, 4), trusted=False)
    with pytest.raises(ConfigError, match="would run"):
        load("os.path:join", trusted=False)


def test_inside_an_option_only_names_are_resolved():
    """It would not be shown to the user before it runs, so that not even a user's own text may name code there."""
    assert type(make_growth("redrawn:method=firefly").method).__name__ == "Firefly"
    with pytest.raises(ConfigError, match="would run 'subprocess:getoutput'"):
        make_growth('redrawn:method="subprocess:getoutput"')
    with pytest.raises(ConfigError, match="would run 'subprocess:getoutput'"):
        make_method('bind-and-grow:guard="subprocess:getoutput"')
