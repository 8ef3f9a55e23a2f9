"""Architectures of timm with random weights: what grows in each, exactly, with the optimizer's state."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import torch
from exact_growth import check_exact_growth, widenings_of

from ramet.exporting import export
from ramet.growth.surgery.writing import widen
from ramet.growth.tracing.checking import find_coupling
from ramet.tracing.probing import outputs

PATCHES = {"img_size": 16, "patch_size": 4, "embed_dim": 16}
WINDOWS = {"img_size": 16, "patch_size": 2, "embed_dim": 8, "depths": (2, 1), "num_heads": (2, 4), "window_size": 2}
MODELS = {
    "resnet (timm)": ("resnet10t", {}, 32),
    "densenet (timm)": ("densenet121", {"growth_rate": 4, "block_config": (2, 2)}, 32),
    "mobilenetv3 (timm)": ("mobilenetv3_small_050", {}, 32),
    "convnext (timm)": ("convnext_atto", {"depths": (1, 1, 1, 1), "dims": (8, 12, 16, 20)}, 32),
    "vit (timm)": ("vit_tiny_patch16_224", {**PATCHES, "depth": 2, "num_heads": 4}, 16),
    "swin (timm)": ("swin_tiny_patch4_window7_224", WINDOWS, 16),
    "mixer (timm)": ("MlpMixer", {**PATCHES, "num_blocks": 2}, 16),
}
"""The name of each in timm, what makes it small, and the side of its images."""

TABLE = {
    # as in test_growth_architectures.py
    "resnet (timm)": (10, 0, 0, 1, ""),
    "densenet (timm)": (10, 0, 0, 0, ""),
    "mobilenetv3 (timm)": (26, 0, 0, 7, ""),
    "convnext (timm)": (4, 0, 0, 4, "a norm behind a norm, channels scaled one by one"),
    "vit (timm)": (2, 2, 1, 2, ""),
    "swin (timm)": (3, 3, 1, 3, "a norm behind a norm"),
    "mixer (timm)": (4, 0, 0, 2, ""),
}


def make(name):
    """An architecture and a batch of three images; no two weights of it are alike."""
    try:
        import timm
    except (ImportError, RuntimeError) as error:  # its torchvision may be made for another build of torch
        pytest.skip(f"the extra 'timm' cannot be imported: {error}")
    called, options, size = MODELS[name]
    torch.manual_seed(0)
    if called == "MlpMixer":  # whose models by name have their sizes fixed
        network = timm.models.mlp_mixer.MlpMixer(num_classes=5, **options)
    else:
        network = timm.create_model(called, num_classes=5, **options)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return network.eval(), torch.randn(3, 3, size, size)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_an_architecture_of_timm_grows_exactly(name):
    check_exact_growth(*make(name), TABLE[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_grown_architecture_of_timm_is_exported(name):
    network, images = make(name)
    coupling = find_coupling(network, images)
    widen(network, coupling, widenings_of(coupling, torch.Generator().manual_seed(0)))
    program = torch.export.load(io.BytesIO(export(network, images.shape[1:], images.dtype))).module()
    (expected,) = outputs(network, images)
    # Single precision, 6e-8, in the same order of operations up to what torch.export takes apart.
    torch.testing.assert_close(program(images), expected, rtol=1e-4, atol=1e-5)


def test_the_documentation_has_the_table_of_timm():
    written = (Path(__file__).parents[2] / "docs" / "growth.md").read_text()
    for name, (units, blocks, streams, copies, why) in TABLE.items():
        assert f"| {name} | {units} | {blocks} | {streams} | {copies} | {why} |\n" in written
    assert TABLE.keys() == MODELS.keys()
