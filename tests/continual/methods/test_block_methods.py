"""learn-to-grow's choices and progressive's columns on modules, against networks that are put together by hand."""

from __future__ import annotations

import pytest
import torch
from module_networks import Small, TinyViT
from torch.nn import functional as F

from ramet.continual import make_method
from ramet.continual.methods.learn_to_grow.block_choices import BlockChoices, list_block_choices
from ramet.continual.methods.progressive_columns import BlockLateral
from ramet.continual.networks.graph import LayerNode, TaskPath
from ramet.continual.networks.making import make_template
from ramet.seeding import torch_generator
from ramet.testing.methods import learn_next, make_stream, started

IMAGES = {"in_channels": 1, "image_size": (5, 5), "num_classes": 3}


@pytest.mark.parametrize("make", [Small, TinyViT])
def test_a_mixture_of_one_choice_is_the_network_of_that_choice(make):
    """Blocks that are run one by one, each in a run of its own, give what the whole network gives."""
    template, stream = make_template(make, **IMAGES), make_stream(2, size=3)
    method = started(lambda: make_method("learn-to-grow"), template)
    learn_next(method, stream)
    graph, x = method.graph_, stream[1].dataset.test.x
    options = list_block_choices(graph, 2)
    assert [[choice.kind for choice in block] for block in options] == [["reuse", "adapt", "new"]] * 2
    mixed = BlockChoices(graph, options, 3, seed=5).eval()
    with torch.no_grad():
        for name, param in mixed.fresh.named_parameters():
            if "maps" in name:
                param.add_(0.1)  # an adapter that changes something
    drawn = template.make_network(3, 5, "new")
    for picks in ((0, 2), (1, 0), (2, 1)):
        chosen = [block[pick] for block, pick in zip(options, picks, strict=True)]
        steps = graph.add_chosen(
            f"{picks}",
            [choice.source for choice in chosen],
            [choice.patch for choice in chosen],
            drawn,
            lambda place, picks=picks: torch_generator(5, "patch", place, picks[place]),
        )
        for step in steps:
            if step.patch is not None:
                with torch.no_grad():
                    for param in graph.nodes[step.patch].maps.parameters():
                        param.add_(0.1)
        head = graph.add_node(mixed.head, LayerNode(2, f"{picks}"))
        network = graph.view(TaskPath(f"{picks}", 3, template, steps, head)).eval()
        mixture = [F.one_hot(torch.tensor(pick), 3).float() for pick in picks]
        # What is not chosen is multiplied by zero; the rest are the same operations.
        torch.testing.assert_close(mixed(x, mixture), network(x), rtol=1e-5, atol=1e-5)


def test_sizes_of_choices_are_what_a_task_adds():
    template, stream = make_template(Small, **IMAGES), make_stream(2, size=3)
    method = started(lambda: make_method("learn-to-grow"), template)
    learn_next(method, stream)
    stem, block = ([choice.size for choice in choices] for choices in list_block_choices(method.graph_, 4))
    # Batch norms of 2 x 8 in any case; a 1 x 1 convolution of 1 -> 8, two of 8 -> 8; 3 x 3 convolutions.
    assert stem == [16, 16 + 8, 16 + 72] and block == [32, 32 + 2 * 64, 32 + 2 * 576]
    assert [choice.kind for choice in list_block_choices(method.graph_, 0)[0]] == ["reuse", "new"]


def test_the_trained_network_is_there_like_an_earlier_task():
    stream = make_stream(1, size=3)
    network = Small(num_classes=4)
    method = started(lambda: make_method("learn-to-grow", size_penalty=1e6), make_template(network, **IMAGES))
    notes = learn_next(method, stream)
    assert [entry["choice"] for entry in notes["choices"]] == ["reuse", "reuse"]  # which adds nothing but norms
    made = method.network("task 0")
    assert torch.equal(made.stem[0].weight, network.stem[0].weight)
    assert torch.equal(made.block.conv2.weight, network.block.conv2.weight)


def test_a_column_reads_the_columns_before_it():
    template, stream = make_template(Small, **IMAGES), make_stream(3, size=3)
    method = started(lambda: make_method("progressive"), template)
    for _ in stream:
        learn_next(method, stream)
    x = stream[2].dataset.test.x
    given = []  # for each column, what its stem and its block give, and what its head takes
    for column in method.columns:
        network = column.network

        def add(place, value, column=column):
            if not len(column.laterals):
                return value
            lateral = column.laterals[place]
            images = torch.cat([scale * h[place] for scale, h in zip(lateral.scales, given, strict=True)], 1)
            channels = images.movedim(1, -1)
            return value + lateral.expand(F.relu(lateral.reduce(channels))).movedim(-1, 1)

        stem = add(0, network.stem(x))
        features = add(1, F.adaptive_avg_pool2d(network.block(stem), 2).flatten(1))
        given.append([stem, features])
        logits = network.fc(features)
    assert all(lateral.expand.weight.any() for lateral in method.columns[2].laterals)
    torch.testing.assert_close(method.view("task 2")(x), logits)


def test_a_column_begins_as_if_it_were_alone():
    for shape in ((2, 8, 4, 4), (2, 5, 8), (2, 8)):
        lateral = BlockLateral(shape, 2)
        assert lateral.reduce.in_features == 16
        outputs = [torch.randn(shape) for _ in range(2)]
        assert lateral(outputs).shape == shape and not lateral(outputs).any()


@pytest.mark.slow
def test_a_network_of_several_columns_is_exported_for_batches_of_any_size():
    template, stream = make_template(TinyViT, **IMAGES), make_stream(2, size=3)
    method = started(lambda: make_method("progressive"), template)
    for _ in stream:
        learn_next(method, stream)
    network = method.network("task 1")
    for count in (1, 5):
        x = torch.randn(count, 1, 5, 5)
        torch.testing.assert_close(network(x), method.view("task 1")(x))


def test_apd_begins_with_the_matrices_of_a_trained_network():
    network = Small(num_classes=4)
    method = started(lambda: make_method("apd"), make_template(network, **IMAGES))
    share = torch.tensor(2.0).sigmoid()
    for sigma, weight in zip(method._shared, (network.stem[0], network.block.conv1, network.block.conv2), strict=True):
        torch.testing.assert_close(sigma * share, weight.weight)


def test_a_thin_vit_keeps_two_heads_and_grows():
    """Of one head a trace sees nothing that could grow, and the first task's growth would be refused."""
    template, stream = make_template(TinyViT, **IMAGES), make_stream(1, size=3)
    method = started(lambda: make_method("firefly", start_share=0.1, goal=1.0, neurons=3, rounds=1), template)
    method.goal = 2.0  # which nothing reaches
    notes = learn_next(method, stream)
    assert method.template.wiring.names == ("blocks.0.attn.qkv#2", "blocks.0.mlp.0")
    assert notes["growths"] == 1 and sum(method.master.widths) == 2 + 2 + 3
