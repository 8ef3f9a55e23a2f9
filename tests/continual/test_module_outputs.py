"""A model of Hugging Face is learned with as it is: of what it gives, its logits count."""

from __future__ import annotations

import pytest
import torch
from module_networks import Layered
from torch import nn

from ramet.continual import learn
from ramet.errors import ConfigError
from ramet.testing import methods as suite
from ramet.testing.methods import SETTINGS

transformers = pytest.importorskip("transformers", reason="the extra 'networks' is not installed")

SIZES = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
OF_UNITS = ["packnet", "apd", "cpg", "firefly", "den", "rcl", "learn-to-grow", "progressive"]
METHODS = ["bind-and-grow", "adapters", "frozen", "individual", "warm-start", "distillation", "replay"]


class Logits(nn.Module):
    """What a wrapper of one's own would be."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x).logits


def vit():
    torch.manual_seed(0)
    config = transformers.ViTConfig(image_size=5, patch_size=2, num_channels=1, num_labels=3, **SIZES)
    return transformers.ViTForImageClassification(config).eval()


@pytest.mark.parametrize("method", [*METHODS, *(pytest.param(name, marks=pytest.mark.slow) for name in OF_UNITS)])
def test_a_model_of_hugging_face_learns_as_its_logits_do(method):
    stream = suite.make_stream(2)
    joints = [learn(stream, method=method, network=network, settings=SETTINGS) for network in (vit(), Logits(vit()))]
    x = torch.randn(4, 1, 5, 5, generator=torch.Generator().manual_seed(1))
    for task in ("task 0", "task 1"):
        given, wrapped = (joint.task(task).eval()(x) for joint in joints)
        assert torch.equal(getattr(given, "logits", given), getattr(wrapped, "logits", wrapped))


def test_what_has_no_logits_is_refused_in_one_line():
    class Other(Layered):
        def forward(self, x):
            return {"classes": super().forward(x), "features": x}

    network = Other(in_channels=1, image_size=(5, 5), num_classes=3)
    with pytest.raises(ConfigError, match=r"^a network must give logits of shape .* but Other gives dict\.$"):
        learn(suite.make_stream(2), method="individual", network=network, settings=SETTINGS)
