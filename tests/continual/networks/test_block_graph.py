"""Blocks that tasks share, adapt or have for themselves: what is one tensor, what is unchanged, what is exported."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from module_networks import ResNet, TorchViT, ViT
from torch import nn
from torch.nn import functional as F

from ramet.continual.networks.block_graph import START, BlockGraph, new_graph, read_graph
from ramet.continual.networks.block_weights import BlockAdapter, BlockWeights, LowRankMap, PointwiseMap
from ramet.continual.networks.graph import LayerNode, TaskPath
from ramet.continual.networks.making import make_template
from ramet.errors import ConfigError
from ramet.runs import pack_state, unpack_state
from ramet.seeding import torch_generator

IMAGES = {"in_channels": 1, "image_size": (8, 8), "num_classes": 4}
VALUES = {"rank": 2, "pointwise": True}
generator = partial(torch_generator, 0, "adapters")


def graph_of(make):
    """A trained network whose batch norms have seen something, and its graph."""
    network = make()
    network.train()(torch.randn(8, 1, 8, 8))
    template = make_template(network.eval(), **IMAGES)
    return network, new_graph(template)


def add_task(graph, name, own=(), adapted=(), source=START):
    """A task some of whose blocks are its own or adapted; gives the view of its path."""
    steps = graph.path(source).steps
    blocks = {place: graph.block(steps[place]) for place in own}
    path_steps = graph.add_blocks(name, steps, blocks, dict.fromkeys(adapted, VALUES), generator)
    head = graph.add_node(graph.backbone.make_head(3), LayerNode(len(steps), name))
    graph.add_path(TaskPath(name, 3, graph.backbone, path_steps, head))
    return graph.view(graph.path(name))


def disturb(view, graph, old):
    """Change all that is the task's own, and let it see images in training mode."""
    known = {id(param) for key in old for param in graph.nodes[key].parameters()}
    draws = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for param in view.parameters():
            if id(param) not in known:
                param.add_(0.3 * torch.randn(param.shape, generator=draws))
    view.train()(torch.randn(8, 1, 8, 8, generator=draws))
    view.eval()


@pytest.mark.parametrize("make", [ResNet, ViT, TorchViT])
def test_a_new_task_begins_with_just_what_its_source_gives(make):
    network, graph = graph_of(make)
    x = torch.randn(5, 1, 8, 8)
    features = {}
    places = range(len(graph.backbone.names))
    for name, own, adapted in (("shared", [], []), ("adapted", [], places), ("own", places, [])):
        view = add_task(graph, name, own, adapted).eval()
        head = view.network.get_submodule(graph.backbone.cut.head)
        head.register_forward_hook(lambda _, given, __, name=name: features.__setitem__(name, given[0]))
        with torch.no_grad():
            view(x)
    head = network.get_submodule(graph.backbone.cut.head)
    head.register_forward_hook(lambda _, given, __: features.__setitem__("network", given[0]))
    with torch.no_grad():
        network(x)
    for name in ("shared", "adapted", "own"):
        assert torch.equal(features[name], features["network"]), name


@pytest.mark.parametrize("make", [ResNet, ViT, TorchViT])
@pytest.mark.parametrize("kind", ["shared", "adapted", "own", "mixed"])
def test_earlier_tasks_stay_bit_for_bit_whatever_a_later_one_does(make, kind):
    _, graph = graph_of(make)
    x = torch.randn(5, 1, 8, 8)
    places = list(range(len(graph.backbone.names)))
    disturb(add_task(graph, "first", own=[1], adapted=[0, 2]), graph, graph.path(START).keys)
    before = [graph.network(task)(x) for task in ("first", START)]
    old = list(graph.about)
    choices = {
        "shared": {},
        "adapted": {"adapted": places},
        "own": {"own": places},
        "mixed": {"own": [0], "adapted": [1]},
    }
    view = add_task(graph, "second", **choices[kind], source="first")
    disturb(view, graph, old)
    assert torch.equal(graph.network("first")(x), before[0]) and torch.equal(graph.network(START)(x), before[1])
    assert not torch.allclose(graph.network("second")(x), before[0], atol=1e-3)


@pytest.mark.parametrize("make", [ResNet, ViT, TorchViT])
def test_an_exported_task_is_the_users_module_and_gives_what_its_path_gives(make):
    network, graph = graph_of(make)
    view = add_task(graph, "task", own=[1], adapted=[0, 2])
    disturb(view, graph, graph.path(START).keys)
    plain, x = graph.network("task"), torch.randn(5, 1, 8, 8)
    assert type(plain) is make and not any(part.training for part in plain.modules())
    assert {
        name: value.shape for name, value in plain.state_dict().items() if "head" not in name and "fc" not in name
    } == {name: value.shape for name, value in network.state_dict().items() if "head" not in name and "fc" not in name}
    with torch.no_grad():
        # One product more is rounded otherwise where torch computes a layer in one kernel.
        assert torch.allclose(plain(x), view.eval()(x), rtol=1e-5, atol=1e-5)
    other = graph.network("task")
    assert not {id(p) for p in plain.parameters()} & {id(p) for p in other.parameters()}


def test_shared_blocks_are_the_same_tensors_and_batch_norms_are_not():
    _, graph = graph_of(ResNet)
    one, other = add_task(graph, "one", own=[4]).network, add_task(graph, "other", adapted=[3]).network
    assert one.conv1.weight is other.conv1.weight and one.layer1[0].conv2.weight is other.layer1[0].conv2.weight
    assert one.layer2[1].conv1.weight is not other.layer2[1].conv1.weight
    for name, buffer in one.named_buffers():
        assert buffer is not other.get_buffer(name), name
    assert one.bn1.weight is not other.bn1.weight


def test_parameters_count_once():
    network, graph = graph_of(ResNet)
    body = sum(p.numel() for name, p in network.named_parameters() if not name.startswith("fc."))
    assert graph.num_parameters() == body == sum(graph.backbone.layer_sizes())
    norms = sum(m.weight.numel() + m.bias.numel() for m in network.modules() if isinstance(m, nn.BatchNorm2d))
    add_task(graph, "task")
    assert graph.num_parameters("task") == norms + 3 * 12 + 3
    step = graph.path(START).steps[1]  # two convolutions of 6 x 6 x 3 x 3, each with a batch norm
    assert graph.sizes(step, VALUES) == (24, 24 + 2 * 36, 24 + 2 * 324)
    assert graph.sizes(step, VALUES | {"pointwise": False}) == (24, 24 + 2 * (2 * 6 + 2 * 54), 24 + 2 * 324)


def test_a_task_adapts_on_from_its_sources_adapter():
    _, graph = graph_of(ViT)
    disturb(add_task(graph, "first", adapted=[1, 2]), graph, graph.path(START).keys)
    add_task(graph, "second", adapted=[1], source="first")
    first, second = graph.path("first").steps, graph.path("second").steps
    assert second[2] == first[2] and second[1].node == first[1].node and second[1].patch != first[1].patch
    x = torch.randn(3, 1, 8, 8)
    one, other = graph.network("first"), graph.network("second")
    other.head = one.head
    assert torch.equal(one(x), other(x))


def test_a_pointwise_map_is_a_convolution_beside_the_other():
    for kernel, stride, size in (((3, 3), 1, 7), ((5, 3), 2, 9), ((4, 4), 2, 8)):
        conv = nn.Conv2d(3, 4, kernel, stride, bias=False).double()
        made = PointwiseMap(conv.weight.shape).double()
        nn.init.normal_(made.beside)
        x = torch.randn(2, 3, size, size, dtype=torch.double)
        middle = [(side - 1) // 2 for side in kernel]
        cropped = x[:, :, middle[0] :, middle[1] :]
        expected = conv(x)
        beside = F.conv2d(cropped, made.beside, stride=stride)[:, :, : expected.shape[2], : expected.shape[3]]
        # A few hundred products of numbers near 1, in double precision.
        assert torch.allclose(F.conv2d(x, made(conv.weight), stride=stride), expected + beside, atol=1e-12)


def test_a_convolution_that_is_a_tasks_own_is_exported_and_stored():
    _, graph = graph_of(ResNet)
    name = next(iter(graph.whole_convolutions(graph.path(START).steps[1], VALUES)))
    values = VALUES | {"whole": [name]}
    steps = graph.add_blocks("task", graph.path(START).steps, {}, {1: values}, generator)
    head = graph.add_node(graph.backbone.make_head(3), LayerNode(len(steps), "task"))
    graph.add_path(TaskPath("task", 3, graph.backbone, steps, head))
    shared, view = graph.network(START).get_parameter(name), graph.view(graph.path("task"))
    disturb(view, graph, graph.path(START).keys)
    plain, x = graph.network("task"), torch.randn(5, 1, 8, 8)
    change = plain.get_parameter(name) - shared
    assert torch.equal(graph.network(START).get_parameter(name), shared) and (change != 0).all()
    with torch.no_grad():
        assert torch.allclose(plain(x), view.eval()(x), rtol=1e-5, atol=1e-5)
    tensors, packed = pack_state(graph.to_state())
    read = read_graph(unpack_state(tensors, packed), make_template(ResNet(), **IMAGES))
    assert torch.equal(read.network("task")(x), plain(x)) and read.about == graph.about
    sizes = [graph.sizes(steps[1], given)[1] for given in (values, VALUES)]
    assert sizes[0] - sizes[1] == graph.whole_convolutions(graph.path(START).steps[1], VALUES)[name] == 8 * 36


def test_a_map_of_low_rank_has_it():
    made = LowRankMap(torch.Size([8, 4, 3, 3]), 2, torch.Generator().manual_seed(0))
    weight = torch.randn(8, 4, 3, 3)
    assert torch.equal(made(weight), weight)
    nn.init.normal_(made.up)
    assert torch.linalg.matrix_rank((made(weight) - weight).detach().flatten(1)) == 2
    assert LowRankMap(torch.Size([3, 5]), 10).up.shape == (3, 3)  # more would be no less than the whole
    with pytest.raises(ConfigError, match="rank of an adapter must be at least 1"):
        BlockAdapter(BlockWeights({}), (), {"rank": 0, "pointwise": True})


def test_an_adapter_has_vectors_of_its_own_and_leaves_tables_shared():
    _, graph = graph_of(ViT)
    add_task(graph, "task", adapted=[1])
    patch = graph.nodes[graph.path("task").steps[1].patch]
    assert "cls_token" in patch.vectors.tensors() and "positions" not in patch.vectors.tensors()
    assert "blocks.0.norm1.weight" in patch.vectors.tensors() and "blocks.0.attn.qkv.bias" in patch.vectors.tensors()
    assert set(patch.maps_by_name()) == {
        f"blocks.0.{name}.weight" for name in ("attn.qkv", "attn.proj", "mlp.0", "mlp.2")
    }


@pytest.mark.parametrize("make", [ResNet, ViT])
def test_a_graph_is_stored_and_read_again(make):
    _, graph = graph_of(make)
    disturb(add_task(graph, "first", own=[1], adapted=[0, 2]), graph, graph.path(START).keys)
    tensors, packed = pack_state(graph.to_state())
    template = make_template(make(), **IMAGES)  # of other weights
    read = read_graph(unpack_state(tensors, packed), template)
    assert isinstance(read, BlockGraph) and read.paths.keys() == graph.paths.keys() and read.about == graph.about
    x = torch.randn(3, 1, 8, 8)
    assert torch.equal(read.network("first")(x), graph.network("first")(x))
    # A trained network's first weights are those of the graph: the next task begins with them.
    for name, value in graph.network(START).state_dict().items():
        if not name.startswith(f"{template.cut.head}."):
            assert torch.equal(template.module.state_dict()[name], value)


def test_tied_weights_stay_tied():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.a, self.b, self.head = nn.Linear(64, 6), nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.head(self.b(self.a(self.stem(x.flatten(1)).relu()).relu()).relu())

    template = make_template(Tied(), **IMAGES)
    graph = new_graph(template)
    for own, adapted in (([1], []), ([], [1])):
        view = add_task(graph, f"{own} {adapted}", own, adapted)
        assert view.network.a.weight is view.network.b.weight
        disturb(view, graph, graph.path(START).keys)
        plain, x = graph.network(f"{own} {adapted}"), torch.randn(3, 1, 8, 8)
        assert plain.a.weight is plain.b.weight
        assert torch.allclose(plain(x), view.eval()(x), atol=1e-5)
