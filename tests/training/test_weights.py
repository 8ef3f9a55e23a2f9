"""Weights of files: read without running code, and put only where they fit."""

from __future__ import annotations

import json
import os

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import ramet
from ramet.cli.main import main
from ramet.errors import ConfigError
from ramet.growth import Ends, GrowPlan
from ramet.jobs.grow import GrowRecipe
from ramet.training.weights import load_weights, read_weights


def network(width=3):
    return nn.Sequential(nn.Linear(2, width), nn.BatchNorm1d(width), nn.Linear(width, 2))


@pytest.mark.parametrize("form", ["safetensors", "state dict", "checkpoint", "parallel", "compiled", "wrapped"])
def test_weights_of_every_form(form, tmp_path):
    given, path = network(), tmp_path / ("w.safetensors" if form == "safetensors" else "w.pt")
    state = given.state_dict()
    if form == "safetensors":
        save_file(state, path)
    elif form == "checkpoint":
        torch.save({"epoch": 3, "state_dict": state, "optimizer": {"lr": 0.1}}, path)
    else:
        prefix = {"parallel": "module.", "compiled": "_orig_mod.", "wrapped": "model."}.get(form, "")
        torch.save({prefix + name: value for name, value in state.items()}, path)
    other = network()
    load_weights(other, path)
    assert all(torch.equal(value, state[name]) for name, value in other.state_dict().items())


def test_a_weight_of_two_names_may_have_one_in_the_file(tmp_path):
    """As models of Hugging Face are saved, whose embedding is the head's matrix, too."""

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
            self.head.weight = self.embed.weight

    given, other = Tied(), Tied()
    save_file({"embed.weight": given.embed.weight.detach()}, tmp_path / "w.safetensors")
    load_weights(other, tmp_path / "w.safetensors")
    assert torch.equal(other.head.weight, given.embed.weight) and other.head.weight is other.embed.weight
    apart = Tied()
    apart.head.weight = nn.Parameter(torch.ones(5, 3))
    with pytest.raises(ConfigError, match=r"lacks head\.weight"):
        load_weights(apart, tmp_path / "w.safetensors")


class Evil:
    def __reduce__(self):
        return os.mkdir, ("ran",)


def test_no_code_of_a_file_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"a": Evil()}, "evil.pt")
    with pytest.raises(ConfigError, match=r"weights must be a \.safetensors file or a state_dict"):
        read_weights("evil.pt")
    assert not (tmp_path / "ran").exists()


def test_what_does_not_fit_is_named(tmp_path):
    state = network().state_dict()
    cases = [
        ({name: value for name, value in state.items() if name != "0.bias"}, "lacks 0.bias"),
        ({**state, "more": torch.ones(1)}, "has besides more"),
        (network(width=4).state_dict(), "has with another shape 0.bias, 0.weight, 1.bias and 4 more"),
    ]
    for number, (tensors, message) in enumerate(cases):
        save_file(tensors, tmp_path / f"{number}.safetensors")
        with pytest.raises(ConfigError, match=message):
            load_weights(network(), tmp_path / f"{number}.safetensors")


@pytest.mark.parametrize("content", [b"", b"no tensors", b"\x80\x02K\x03."])
@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
def test_damaged_files(content, suffix, tmp_path):
    (tmp_path / f"w.{suffix}").write_bytes(content)
    with pytest.raises(ConfigError, match="weights must be"):
        read_weights(tmp_path / f"w.{suffix}")
    with pytest.raises(ConfigError, match="there is no"):
        read_weights(tmp_path / "missing.pt")


def test_tensors_without_names_are_refused(tmp_path):
    torch.save([torch.ones(2)], tmp_path / "list.pt")
    with pytest.raises(ConfigError, match=r"weights must be tensors by name, but .* holds list"):
        read_weights(tmp_path / "list.pt")


def test_a_growth_starts_from_weights(tmp_path, capsys):
    from ramet.growth.making import make_network

    start = make_network("mlp:4", in_channels=1, image_size=(8, 8), num_classes=10, seed=5)
    torch.save(start.state_dict(), tmp_path / "start.pt")
    options = ["--network", "mlp:4", "--train-size", "64", "--eval-size", "32", "--max-steps", "1", "--json"]
    losses, arms = [], []
    for number, more in enumerate(([], ["--start", str(tmp_path / "start.pt")])):
        main(["grow", *options, "--epochs", "1", "--out", str(tmp_path / str(number)), *more])
        result = json.loads(capsys.readouterr().out)
        losses.append(result["methods"]["even"]["steps"][0]["loss"])
        arms.append(list(result["against"]))
    assert losses[0] != losses[1]
    assert arms == [["plain"], ["start"]], "a wider network has no trained weights to begin with"
    again = ramet.grow(
        make_network("mlp:4", in_channels=1, image_size=(8, 8), num_classes=10, seed=6),
        start=tmp_path / "start.pt",
        plan=GrowPlan(ends=Ends(max_steps=1)),
        recipe=GrowRecipe(epochs=1),
        out=tmp_path / "module",
        train_size=64,
        eval_size=32,
    )
    assert again.to_json()["methods"]["even"]["steps"][0]["loss"] == losses[1]
    torch.save(network().state_dict(), tmp_path / "start.pt")
    with pytest.raises(SystemExit):
        main(["resume", str(tmp_path / "1")])
    assert "weights must fit the network" in capsys.readouterr().err
