"""Grown models of Hugging Face as `from_pretrained` loads them, and why some cannot be."""

from __future__ import annotations

import json

import architectures
import pytest
import torch
from torch import nn

from ramet.growth import copy_blocks, find_blocks, find_coupling, load_network, save_network, widen
from ramet.growth.history import GroupGrowth, GrowthStep
from ramet.growth.pretrained import save_pretrained
from ramet.growth.surgery.widening import Widening, slot_shape
from ramet.tracing.probing import outputs

transformers = pytest.importorskip("transformers", reason="the extra 'networks' is not installed")


def grown(name, amounts, deeper=()):
    """An architecture with so many new units in every group whose name has one of the words."""
    network, inputs = architectures.make(name)
    coupling = find_coupling(network, inputs)
    widenings = {}
    for group in coupling.groups.values():
        num_new = next((amount for word, amount in amounts.items() if word in group.name), 0)
        role, kind = ("in", "outgoing") if group.norms else ("out", "incoming")
        loud = {
            slot.tensor: 0.1 * torch.randn(slot_shape(coupling, group, slot.tensor, slot.dim, num_new))
            for slot in group.slots
            if slot.role == role
        }
        widenings[group.name] = Widening(num_new=num_new, **{kind: loud})
    widen(network, coupling, widenings)
    if deeper:
        blocks, _ = find_blocks(network, inputs, coupling)
        copy_blocks(network, blocks, [block.copied() for block in blocks if block.name in deeper])
    return network, inputs


CASES = {
    "llama, wider in each layer": ("llama", {"gate_proj": 3}, (), {"intermediate_size": 27}),
    "llama, its stream": ("llama", {"embed_tokens": 4}, (), {"hidden_size": 20, "head_dim": 4}),
    "llama, keys": ("llama", {"#2": 0, "q_proj": 2}, (), {"num_attention_heads": 8, "num_key_value_heads": 4}),
    "llama, queries": ("llama", {"#2": 2}, (), {"num_attention_heads": 8, "num_key_value_heads": 2}),
    "llama, all of it": ("llama", {"gate": 2, "embed": 4}, ("model.layers.1",), {"num_hidden_layers": 3}),
    "qwen2, deeper": ("qwen2", {}, ("model.layers.0", "model.layers.1"), {"num_hidden_layers": 4}),
    "vit": ("vit", {"fc1": 2}, ("vit.layers.1",), {"intermediate_size": 26, "num_hidden_layers": 3}),
    "bert": ("bert", {"intermediate": 4}, (), {"intermediate_size": 28}),
    "gpt2": ("gpt2", {"c_fc": 4}, (), {"n_inner": 68}),
    "t5": ("t5", {"wi": 2}, (), {"d_ff": 26}),
}


@pytest.mark.parametrize("case", CASES)
def test_it_is_loaded_as_it_is(case, tmp_path):
    name, amounts, deeper, expected = CASES[case]
    network, inputs = grown(name, amounts, deeper)
    assert save_pretrained(network, tmp_path, inputs) == ""
    config = json.loads((tmp_path / "config.json").read_text())
    assert {key: config[key] for key in expected} == expected
    again = type(network).from_pretrained(tmp_path).eval()
    (found,), (wanted,) = outputs(again, inputs), outputs(network, inputs)
    assert torch.equal(found, wanted)


@pytest.mark.parametrize(
    ("name", "amounts", "reason"),
    [
        ("llama", {"layers.0.mlp.gate": 3}, "it has one number for all layers"),
        ("llama", {"embed_tokens": 5}, "is not a multiple of the number of attention heads"),
        ("gpt2", {"c_attn": 1}, "it has one number for all layers"),
        ("gemma", {"embed_tokens": 2}, "a GemmaForCausalLM with its sizes and weights gives outputs that differ by"),
    ],
)
def test_why_it_is_not_saved(name, amounts, reason, tmp_path):
    network, inputs = grown(name, amounts)
    assert reason in save_pretrained(network, tmp_path / "model", inputs)
    assert not (tmp_path / "model").exists()


def test_other_networks_are_none_of_its():
    assert save_pretrained(nn.Linear(2, 2), None, torch.zeros(1, 2)) == "Linear is no model of Hugging Face"


@pytest.mark.slow
def test_a_grown_language_model_is_saved_in_every_form(tmp_path):
    network, words = architectures.make("llama")
    bare, _ = architectures.make("llama")
    coupling = find_coupling(network, words)
    names = ["model.layers.0.mlp.gate_proj", "model.layers.1.mlp.gate_proj", "model.embed_tokens"]
    widen(network, coupling, {name: Widening(num_new=4) for name in names})
    steps = [GrowthStep(1, {name: GroupGrowth(coupling.groups[name].size, new=4) for name in names})]
    origin = {"network": None, "length": 7, "words": architectures.WORDS, "num_classes": architectures.WORDS}
    assert save_network(network, tmp_path, steps=steps, origin=origin) == ""
    assert json.loads((tmp_path / "network.json").read_text())["not_pretrained"] == ""
    (expected,) = outputs(network, words)
    (found,) = outputs(load_network(tmp_path, bare), words)
    assert torch.equal(found, expected)
    (found,) = outputs(transformers.LlamaForCausalLM.from_pretrained(tmp_path / "pretrained"), words)
    assert torch.equal(found, expected)
    program = torch.export.load(tmp_path / "network.pt2").module()
    torch.testing.assert_close(program(words), expected)
    widen(network, find_coupling(network, words), {names[0]: Widening(num_new=1)})
    save_network(network, tmp_path / "other", steps=steps, origin=origin)
    reason = json.loads((tmp_path / "other" / "network.json").read_text())["not_pretrained"]
    assert "it has one number for all layers" in reason and not (tmp_path / "other" / "pretrained").exists()


def test_saving_draws_nothing_from_the_generators_of_others(tmp_path):
    network, inputs = grown("llama", {"gate_proj": 3})
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    assert save_pretrained(network, tmp_path / "model", inputs) == ""
    assert torch.equal(torch.rand(3), expected)
