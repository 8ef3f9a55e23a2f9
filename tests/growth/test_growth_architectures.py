"""Real architectures of Hugging Face: what grows in each, and what does not; exactly, with the optimizer's state."""

from __future__ import annotations

import copy
import io
from pathlib import Path

import architectures
import pytest
import torch
from exact_growth import check_exact_growth, widenings_of

from ramet.exporting import export
from ramet.growth.surgery.writing import widen
from ramet.growth.tracing.checking import find_coupling
from ramet.tracing.probing import outputs

pytest.importorskip("transformers", reason="the extra 'networks' is not installed")

TABLE = {
    # plain units, blocks of channels (heads), streams under norms, copies of blocks, why a stream does not grow
    "resnet": (5, 0, 0, 2, ""),
    "regnet": (12, 0, 0, 1, ""),
    "mobilenet_v1": (14, 0, 0, 0, ""),
    "mobilenet_v2": (25, 0, 0, 10, ""),
    "efficientnet": (10, 0, 0, 0, ""),
    "convnext": (3, 0, 0, 3, "a norm behind a norm, channels scaled one by one"),
    "poolformer": (3, 2, 0, 3, "one group of a group norm"),
    "vit": (2, 2, 1, 2, ""),
    "deit": (2, 2, 1, 2, ""),
    "beit": (2, 2, 0, 2, "channels scaled one by one"),
    "dinov2": (2, 2, 0, 2, "channels scaled one by one"),
    "swin": (3, 3, 1, 3, "a norm behind a norm"),
    "segformer": (3, 3, 0, 3, "a norm behind a norm"),
    "bert": (3, 2, 0, 0, "a norm behind a norm"),
    "roberta": (3, 2, 0, 0, "a norm behind a norm"),
    "distilbert": (3, 2, 0, 0, "a norm behind a norm"),
    "albert": (2, 1, 1, 0, "a norm behind a norm"),
    "gpt2": (2, 2, 1, 2, ""),
    "gpt_neox": (2, 2, 1, 2, ""),
    "opt": (2, 2, 1, 2, ""),
    "bloom": (2, 0, 0, 2, "a norm behind a norm"),
    "phi": (2, 2, 1, 2, ""),
    "llama": (2, 4, 1, 2, ""),
    "mistral": (2, 4, 1, 2, ""),
    "qwen2": (2, 4, 1, 2, ""),
    "qwen3": (2, 4, 1, 2, ""),
    "gemma": (2, 4, 1, 2, ""),
    "t5": (4, 3, 1, 4, ""),
    "bart": (2, 3, 0, 0, ""),
}

RELATIVES = {"mobilenet_v2", "deit", "dinov2", "segformer", "roberta", "distilbert", "gpt_neox"}
RELATIVES |= {"opt", "mistral", "qwen2", "gemma"}
"""Much like another of the table: they run with the slow tests."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in RELATIVES)) for name in architectures.CONFIGS]
)
def test_an_architecture_grows_exactly(name):
    check_exact_growth(*architectures.make(name), TABLE[name])


def test_two_stacks_grow_as_well_when_called_with_one_text():
    """The decoder then reads the text moved on by a place, and a class is read where a mask finds the end."""
    import transformers

    sizes = {**architectures.CONFIGS["bart"][1], "eos_token_id": 2}
    torch.manual_seed(0)
    texts = torch.randint(3, architectures.WORDS, (3, 7))
    texts[:, -1] = 2
    both = set(find_coupling(*architectures.make("bart")).groups)
    for cls in (transformers.BartForConditionalGeneration, transformers.BartForSequenceClassification):
        network = cls(transformers.BartConfig(**sizes)).eval()
        coupling = find_coupling(network, texts)
        assert both <= coupling.groups.keys()
        wide = copy.deepcopy(network).double()
        (before,) = outputs(wide, texts)
        widen(wide, coupling, widenings_of(coupling, torch.Generator().manual_seed(0)))
        torch.testing.assert_close(outputs(wide, texts)[0], before)


def test_the_documentation_has_the_table():
    written = (Path(__file__).parents[2] / "docs" / "growth.md").read_text()
    for name, (units, blocks, streams, copies, why) in TABLE.items():
        assert f"| {name} | {units} | {blocks} | {streams} | {copies} | {why} |\n" in written
    assert len(TABLE) == len(architectures.CONFIGS) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in architectures.CONFIGS if name not in ("t5", "bart")])
def test_a_grown_architecture_is_exported(name):
    """Those of two inputs are left to their owners: a file of ours takes one."""
    network, inputs = architectures.make(name)
    coupling = find_coupling(network, inputs)
    widen(network, coupling, widenings_of(coupling, torch.Generator().manual_seed(0)))
    program = torch.export.load(io.BytesIO(export(network, inputs.shape[1:], inputs.dtype))).module()
    (expected,) = outputs(network, inputs)
    # Single precision, 6e-8, in the same order of operations up to what torch.export takes apart.
    torch.testing.assert_close(program(inputs), expected, rtol=1e-4, atol=1e-5)
