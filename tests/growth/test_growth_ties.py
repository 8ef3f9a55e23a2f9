"""Groups that grow together, so that `from_pretrained` loads a grown model of Hugging Face by whatever method."""

from __future__ import annotations

import itertools
import warnings

import architectures
import pytest
import torch
from torch import nn

from ramet.costs import count_parameters
from ramet.errors import ConfigError
from ramet.growth import Grower, GrowPlan, find_coupling, grow, widen
from ramet.growth.configured import fitted, shapes_of
from ramet.growth.evenly import drawn_units, even_additions
from ramet.growth.looking import Looking
from ramet.growth.meter import Meter, select
from ramet.growth.pretrained import save_pretrained
from ramet.growth.ties import GrownApartWarning
from ramet.tracing.probing import outputs
from ramet.training import Settings

transformers = pytest.importorskip("transformers", reason="the extra 'networks' is not installed")

TIES = {
    # for each tie its first group, the units that it and the last one gain, and how many groups there are; blocks
    "bert": ([("layer.0.intermediate.dense", 1, 1, 2)], 0),
    "gpt2": ([("h.0.mlp.c_fc", 1, 1, 2), ("transformer.wte#2", 4, 1, 3)], 2),
    "llama": ([("layers.0.mlp.gate_proj", 1, 1, 2), ("embed_tokens", 8, 1, 3)], 2),
    "vit": ([("layers.0.mlp.fc1", 1, 1, 2), ("patch_embeddings.projection", 4, 1, 3)], 2),
    "t5": ([("DenseReluDense.wi", 1, 1, 4), ("SelfAttention.q", 1, 1, 3)], 2),
}
"""The stream of most grows with its heads; that of T5 scales its outputs, and the norms of BERT forbid it."""

MODELS = [pytest.param(name, marks=[pytest.mark.slow] * (name in ("t5", "vit", "gpt2"))) for name in TIES]


def widened(network, coupling, times):
    """A network with each tie carried out so many times, by units that can be heard."""
    generator = torch.Generator().manual_seed(0)
    units = {name: n * count for n, tie in zip(times, coupling.ties, strict=True) for name, count in tie.items()}
    groups = coupling.groups
    widen(network, coupling, {n: drawn_units(network, coupling, groups[n], c, generator) for n, c in units.items()})
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))


@pytest.mark.parametrize("name", MODELS)
def test_ties_are_found_and_what_they_give_is_loaded(name, tmp_path):
    network, inputs = architectures.make(name)
    before = outputs(network, inputs)
    found = Looking(layers=1)(network, inputs, began=False)
    expected, num_blocks = TIES[name]
    for tie, (first, units, last, count) in zip(found.coupling.ties, expected, strict=True):
        assert next(iter(tie)).endswith(first) and len(tie) == count
        assert [next(iter(tie.values())), list(tie.values())[-1]] == [units, last]
    assert set(found.coupling.groups) == {group for tie in found.coupling.ties for group in tie}
    assert (found.sites, len(found.blocks), found.apart) == ([], num_blocks, "")
    assert torch.equal(outputs(network, inputs)[0], before[0])
    widened(network, found.coupling, range(3, 3 - len(expected), -1))
    assert save_pretrained(network, tmp_path, inputs) == ""
    again = type(network).from_pretrained(tmp_path).eval()
    assert torch.equal(outputs(again, inputs)[0], outputs(network, inputs)[0])


def test_numbers_that_may_only_change_together_are_found_again():
    config = transformers.LlamaConfig(**{**architectures.PLAIN, "hidden_size": 48, "num_attention_heads": 12})
    network, inputs = transformers.LlamaForCausalLM(config).eval(), torch.randint(3, architectures.WORDS, (3, 7))
    found = Looking(layers=0)(network, inputs, began=False)
    widened(network, found.coupling, [0, 1])
    shapes = shapes_of(network)
    configured, problem = fitted(network, inputs)
    assert problem == "" and configured.shapes() == shapes
    # Neither 52 channels and 12 heads nor 48 and 13 are allowed.
    found = configured.config
    assert (found.hidden_size, found.num_attention_heads, found.num_key_value_heads) == (52, 13, 13)


def tied_network():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 2))
    coupling = find_coupling(network, torch.randn(2, 3))
    coupling.ties = ({"0": 1, "2": 3},)
    return network, coupling


def test_tied_candidates_are_chosen_and_cost_together():
    network, coupling = tied_network()
    places = [("split", "0")] * 2 + [("new", "2")] * 7
    scores = torch.tensor([0.1, 0.9, 0.5, 0.4, 0.8, 0.3, 0.7, 0.2, -torch.inf], dtype=torch.float64)

    def cost(times):
        """Of the wider network, counted by making it."""
        wide = nn.Sequential(nn.Linear(3, 2 + times), nn.Linear(2 + times, 6 + 3 * times), nn.Linear(6 + 3 * times, 2))
        return count_parameters(wide) - count_parameters(network)

    for allowance in (cost(1) - 1, cost(1), cost(2) - 1, cost(2), 10 * cost(2)):
        chosen = select(Meter(network, coupling, [], "params"), places, scores, allowance, 0)
        expected = [[], [1, 4, 6, 2], [1, 4, 6, 2, 0, 3, 5, 7]][sum(cost(times) <= allowance for times in (1, 2))]
        assert chosen == expected
    assert select(Meter(network, coupling, [], "params"), places, scores, 1e9, 0, most=1) == [1, 4, 6, 2]


def test_an_even_growth_keeps_ties():
    network, coupling = tied_network()
    sizes = []
    for times in range(8):
        meter = Meter(network, coupling, [], "params")
        meter.add("new", "0", times)
        meter.add("new", "2", 3 * times)
        sizes.append(meter.size)
    for wanted in range(int(sizes[0]), int(sizes[6]), 7):
        added = even_additions(network, coupling, wanted)
        nearest = min(range(8), key=lambda times: abs(sizes[times] - wanted))
        assert added == {"0": nearest, "2": 3 * nearest}


def grown(name, method, tmp_path, layers=""):
    """A model grown in the loop, and why it cannot be saved for others, if so."""
    network, inputs = architectures.make(name)
    generator = torch.Generator().manual_seed(1)
    if name == "vit":
        x, y = torch.randn(16, *inputs.shape[1:], generator=generator), torch.arange(16) % 2
    else:
        x = torch.randint(3, architectures.WORDS, (16, 7), generator=generator)
        y = torch.arange(16) % 2 if name == "bert" else x.roll(-1, 1)
    budget = f"params={2 * count_parameters(network)}, step=80%{layers}"
    settings = Settings(epochs=1, batch_size=8, learning_rate=0.01)
    network, history = grow(network, (x, y, x, y), budget, method, settings=settings)
    return network, history, x, save_pretrained(network, tmp_path / "pretrained", x[:4])


METHODS = ["even", "firefly", "net2net", "random", "stacking"]
LOOPS = [
    pytest.param(name, method, marks=[pytest.mark.slow] * ((name, method) not in {("llama", "firefly")}))
    for name, method in itertools.product(["bert", "gpt2", "llama", "vit"], METHODS)
    if (name, method) != ("bert", "stacking")  # its blocks end in norms, so that none of them can be copied
]


@pytest.mark.parametrize(("name", "method"), LOOPS)
def test_what_a_method_grows_is_loaded(name, method, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error", GrownApartWarning)
        network, history, x, problem = grown(name, method, tmp_path, ", layers=1" * (method == "stacking"))
    assert problem == "" and history.steps[-1].grew
    again = type(network).from_pretrained(tmp_path / "pretrained").eval()
    assert torch.equal(outputs(again, x)[0], outputs(network, x)[0])
    kept = history.refusals if name in ("bert", "llama") else []
    assert bool(kept) == any("has no number for it" in refusal.reason for refusal in kept)


def test_layers_that_grow_apart_are_said_before_anything_is_trained():
    network, inputs = architectures.make("llama")
    with pytest.warns(GrownApartWarning, match="own format only, because its layers are to grow apart"):
        grower = Grower(network, [(inputs, inputs)], "neurons=80, step=5", "random", ties="none")
        candidates = grower.propose()
    assert len({candidate.where for candidate in candidates}) == 6
    network, inputs = architectures.make("bloom")
    with pytest.warns(GrownApartWarning, match="because BloomConfig has no number for what can grow in it"):
        Grower(network, [(inputs, inputs)], "neurons=999, step=5", "random").propose()
    found = Looking(layers=1, needs_sites=True)(network, inputs, began=False)
    assert found.apart == "no configuration can say new layers"


def test_bad_ties_are_refused():
    for refused in (lambda: GrowPlan(ties="all"), lambda: Looking(layers=0, ties="all")):
        with pytest.raises(ConfigError, match=r"^ties are auto or none, but got 'all'\.$"):
            refused()
