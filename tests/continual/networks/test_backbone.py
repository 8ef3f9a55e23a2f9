"""Any module as the network of a stream: where its weights come from, what is kept of it, and what is refused."""

from __future__ import annotations

import json

import pytest
import safetensors.torch
import torch
from module_networks import Layered, ResNet, Small, ViT
from torch import nn

from ramet.continual.networks.backbone import Backbone
from ramet.continual.networks.making import make_template
from ramet.continual.networks.skeletons import Skeleton
from ramet.errors import ConfigError, DataError

IMAGES = {"in_channels": 1, "image_size": (8, 8), "num_classes": 4}


def same(one, other):
    assert one.keys() == other.keys()
    return all(torch.equal(value, other[name]) for name, value in one.items())


def body(network, head="fc"):
    return {name: value for name, value in network.state_dict().items() if not name.startswith(f"{head}.")}


def test_a_module_is_taken_with_its_weights_and_left_as_it_is():
    network = ResNet()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    template = make_template(network, **IMAGES)
    assert template.is_trained and template.names == ("conv1", "layer1.0", "layer1.1", "layer2.0", "layer2.1")
    first, second = template.make_network(3, 0, "a"), template.make_network(3, 0, "b")
    assert same(body(first), body(network)) and same(body(first), body(second))
    assert not torch.equal(first.fc.weight, second.fc.weight) and first.fc.weight.shape == (3, 12)
    with torch.no_grad():
        for param in first.parameters():
            param.add_(1.0)
    assert same(network.state_dict(), before) and same(body(template.make_network(3, 0, "a")), body(network))


def test_what_is_spread_over_devices_is_taken_as_what_it_wraps():
    network = ResNet()
    plain, wrapped = (make_template(made, **IMAGES) for made in (network, nn.DataParallel(network)))
    assert wrapped.names == plain.names and same(body(wrapped.make_network(3, 0, "a")), body(network))


def test_a_function_draws_other_weights_for_each_role():
    template = make_template(ResNet, **IMAGES)
    assert not template.is_trained
    one, again, other = (body(template.make_network(3, 0, role)) for role in ("a", "a", "b"))
    assert same(one, again) and not same(one, other)


def test_a_function_that_reads_its_weights_somewhere_counts_as_trained():
    stored = ResNet()

    def network(num_classes):
        made = ResNet(num_classes=num_classes)
        made.load_state_dict(body(stored), strict=False)
        return made

    template = make_template(network, **IMAGES)
    assert template.is_trained and same(body(template.make_network(3, 0, "a")), body(stored))


@pytest.mark.parametrize("suffix", ["safetensors", "pt"])
def test_trained_weights_of_a_file_but_for_the_head(tmp_path, suffix):
    stored, file = ResNet(num_classes=7), tmp_path / f"weights.{suffix}"
    if suffix == "pt":
        torch.save({"state_dict": {f"module.{name}": value for name, value in stored.state_dict().items()}}, file)
    else:
        safetensors.torch.save_file(stored.state_dict(), file)
    template = make_template(ResNet, **IMAGES, start=str(file))
    assert template.is_trained and same(body(template.make_network(3, 0)), body(stored))
    with pytest.raises(ConfigError, match="weights must fit the network"):
        make_template(ViT, **IMAGES, start=str(file))


def test_chains_take_trained_weights_too(tmp_path):
    skeleton = make_template("mlp:9,8", **IMAGES)
    assert isinstance(skeleton, Skeleton)
    stored = skeleton.make_network(4, 5)
    safetensors.torch.save_file(stored.state_dict(), tmp_path / "mlp.safetensors")
    template = make_template("mlp:9,8", **IMAGES, start=str(tmp_path / "mlp.safetensors"))
    assert isinstance(template, Backbone) and template.names == ("layer1", "layer2")
    made = template.make_network(2, 0)
    assert same(body(made, "head"), body(stored, "head")) and made[2].weights.weight.shape == (2, 8)


@pytest.mark.parametrize("name", ["vgg:width=4", "mobilenet"])
def test_networks_of_growth_have_names(name):
    template = make_template(name, **IMAGES)
    assert isinstance(template, Backbone) and len(template.names) > 2
    assert template.make_network(3, 0)(torch.zeros(2, 1, 8, 8)).shape == (2, 3)


def test_body_and_head_are_the_network():
    template = make_template(ViT(), **IMAGES)
    body, head = template.make_features(0), template.make_head(3)
    x = torch.randn(2, 1, 8, 8)
    network = template.joined(body, head).eval()
    assert isinstance(network, ViT) and torch.equal(network(x), head(body(x)))
    assert network.head is not head and isinstance(body.head, nn.Identity)


def test_what_a_saved_network_keeps_of_it(tmp_path):
    template = make_template("module_networks:ResNet", **IMAGES)
    values = json.loads(json.dumps(template.to_json()))
    assert values["network"] == "module_networks:ResNet" and values["weights"] is None
    again = Backbone.from_json(values, trusted=True)
    assert template.is_described_by(values) and again.to_json() == template.to_json()
    with pytest.raises(ConfigError, match="only with --trust"):
        Backbone.from_json(values)
    with pytest.raises(ConfigError, match="has other blocks or shapes"):
        Backbone.from_json(values | {"network": "module_networks:Small", "head": "fc"}, trusted=True)
    of_object = json.loads(json.dumps(make_template(ResNet(), **IMAGES).to_json()))
    assert not template.is_described_by(of_object)
    with pytest.raises(ConfigError, match="is loaded with that object"):
        Backbone.from_json(of_object)
    assert Backbone.from_json(of_object, network=ResNet()).to_json() == of_object
    with pytest.raises(ConfigError, match="has other blocks or shapes"):
        Backbone.from_json(of_object, network=ResNet(width=4))


def test_other_weights_are_another_network():
    one, other = (make_template(ResNet(), **IMAGES) for _ in range(2))
    assert not one.is_described_by(other.to_json())


def broken(num_classes):
    raise OSError("no such weights")


@pytest.mark.parametrize(
    ("network", "options", "words"),
    [
        (broken, {}, "broken must run, but raises OSError: no such weights"),
        (lambda: 3, {}, "must make a LearnableNetwork, but made int"),
        ("module_networks:Layered", {}, "must run on images of shape"),
        ("resnet", {}, "a skeleton is one of mlp, conv, vgg, mobilenet"),
        ("mlp", {"classifier": "head"}, "classifier names the head of a module"),
        (Small, {"classifier": "block"}, "one of its linear layers, but got 'block'"),
        (Small, {"start": "missing.pt"}, "there is no missing.pt"),
        (Small, {"head": "both"}, "head must be own or shared"),
    ],
)
def test_what_cannot_be_learned_with(network, options, words):
    images = IMAGES | {"image_size": (9, 9)}
    if network == "module_networks:Layered":
        network = lambda: Layered(image_size=(5, 5))  # noqa: E731 - for images of another size
    with pytest.raises(ConfigError, match=words):
        make_template(network, **images, **options)


def test_tasks_of_other_images_are_refused():
    from ramet.continual import make_stream

    task = make_stream("split-digits:5", train_size=50)[0].info
    make_template(Small, **IMAGES).check(task)
    with pytest.raises(DataError, match="must have images of shape"):
        make_template(Small, **IMAGES | {"image_size": (9, 9)}).check(task)
