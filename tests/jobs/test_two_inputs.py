"""A network of two inputs, a source and a target text: packed in one row of tokens, and taken apart by its forward."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn

import ramet
from ramet.cli import main
from ramet.continual import LearnPlan, LearnRecipe, Stream, Task
from ramet.data import load
from ramet.errors import DataError
from ramet.growth import GrowPlan, load_network
from ramet.training import Recipe

SOURCE, TARGET, WORDS = 5, 3, 9

CODE = f"""
import torch
from torch import nn

class Translator(nn.Module):
    '''An encoder and a decoder that reads what it gives.'''

    def __init__(self, words, num_classes, width=8):
        super().__init__()
        self.embed, self.encoder = nn.Embedding(words, width), nn.Linear(width, width)
        self.decoder, self.head = nn.Linear(2 * width, width), nn.Linear(width, num_classes)

    def translate(self, source, target):
        read = torch.relu(self.encoder(self.embed(source))).mean(1, keepdim=True)
        told = self.embed(target)
        return self.head(torch.relu(self.decoder(torch.cat([told, read.expand_as(told)], 2))))

    def forward(self, x):
        return self.translate(x[:, :{SOURCE}], x[:, {SOURCE}:])
"""


def texts(shift=0, count=60):
    """Sources, the decoder's inputs behind them, and what it shall tell."""
    source = torch.randint(1, WORDS, (count, SOURCE), generator=torch.Generator().manual_seed(shift))
    target = (source[:, :TARGET] + shift) % WORDS
    return torch.cat([source, nn.functional.pad(target[:, :-1], (1, 0))], 1), target


def translator():
    names: dict = {}
    exec(CODE, names)
    return names["Translator"](WORDS, WORDS)


def test_tokens_with_other_targets():
    x, y = texts()
    data = load((x, y), inputs="tokens")
    assert (data.form.shape, data.form.words, data.num_classes, data.rows) == (
        (SOURCE + TARGET,),
        WORDS,
        WORDS,
        "tokens",
    )
    rows = {tuple(row): tuple(told) for row, told in zip(x.tolist(), y.tolist(), strict=True)}
    for split in (data.train, data.validation, data.test):
        assert all(
            rows[tuple(row)] == tuple(told) for row, told in zip(split.x.tolist(), split.y.tolist(), strict=True)
        )
    # A class for each text.
    named = load((x, np.array(["low", "high"])[(x[:, 0] > 4).long()]), inputs="tokens")
    assert (named.class_names, named.form.words, named.num_classes) == (("high", "low"), WORDS, 2)
    assert torch.equal(named.train.y == 0, named.train.x[:, 0] > 4)


@pytest.mark.parametrize(
    ("x", "y", "options", "message"),
    [
        (torch.rand(30, 4), torch.arange(30) % 2, {}, "tokens must be whole numbers in memory"),
        (texts()[0], texts()[1].float(), {}, "the targets of tokens must be classes"),
        (texts()[0], texts()[1] - 5, {}, "must be numbers from 0"),
        (texts()[0], texts()[1][:50], {}, "targets for each row|rows"),
        (texts()[0], texts()[1], {"image_size": 4}, "tokens are neither images nor numbers"),
        (texts()[0], texts()[1], {"inputs": "words"}, "inputs must be tokens"),
    ],
)
def test_what_are_no_tokens(x, y, options, message):
    with pytest.raises(DataError, match=message) as found:
        load((x, y), **{"inputs": "tokens", **options})
    assert "\n" not in str(found.value)


def test_a_network_of_two_inputs_grows(tmp_path):
    network, (x, y) = translator(), texts()
    plan = GrowPlan(methods=("net2net",), budget="params=600,step=20%", against=())
    recipe = Recipe(epochs=1, batch_size=16)
    result = ramet.grow(network, (x, y), inputs="tokens", plan=plan, recipe=recipe, out=tmp_path / "run")
    grown = load_network(result.networks["net2net"], network)
    assert sum(map(torch.numel, grown.parameters())) > sum(map(torch.numel, network.parameters()))
    assert grown.translate(x[:, :SOURCE], x[:, SOURCE:]).shape == (60, TARGET, WORDS)


def test_a_network_of_two_inputs_learns_another_text(tmp_path):
    stream = Stream("two texts", [Task(name, load(texts(shift), inputs="tokens")) for shift, name in enumerate("ab")])
    plan = LearnPlan(methods=("adapters", "bind-and-grow"))
    recipe = LearnRecipe(epochs=1, batch_size=16)
    result = ramet.learn(stream, network=translator(), plan=plan, recipe=recipe, out=tmp_path / "run")
    assert all(result.methods[name].forgets_nothing for name in ("adapters", "bind-and-grow"))


def test_a_network_of_two_inputs_from_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "of_two_inputs.py").write_text(CODE)
    np.savez("texts.npz", x=texts()[0], y=texts()[1])
    main(
        [
            *("grow", "--network", "of_two_inputs.py:Translator", "--data", "texts.npz", "--inputs", "tokens"),
            *("--epochs", "1", "--budget", "params=600", "--against", "none", "--out", "run", "--json"),
        ]
    )
    assert json.loads(capsys.readouterr().out)["methods"]["even"]["steps"]
