"""Bind and grow: the decision by hand-worked examples, and the method on tiny streams."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_tasks import make_task

from ramet.continual import JointNetwork, Stream, Task, learn, make_method, make_skeleton
from ramet.continual.methods.bind_and_grow.binding import BindingDecision, bind, conflict_distribution, nucleus
from ramet.continual.methods.bind_and_grow.conflict import Conflict, align, measure_conflicts
from ramet.continual.methods.bind_and_grow.method import BindAndGrow
from ramet.continual.methods.bind_and_grow.random_growth import RandomGrowth, draw_of_size, draw_of_total
from ramet.continual.methods.bind_and_grow.similarity import dissimilarity_matrix, linear_cka, rank_similarity
from ramet.continual.networks.graph import LayerGraph, LayerNode, PathStep, TaskPath
from ramet.continual.networks.patches import AdapterPatch, ChannelPatch
from ramet.data import DataSet, Split
from ramet.errors import ConfigError, RunError
from ramet.training import Settings

SETTINGS = Settings(epochs=2, batch_size=8, learning_rate=0.05, final_learning_rate=0.0, momentum=0.9, weight_decay=0.0)


STREAM = Stream("tiny", [make_task(f"task {i}", i, classes=2 + i % 2) for i in range(4)])


def run(method, network="mlp:7,7,7", stream=STREAM, **options):
    made = make_method(method) if isinstance(method, str) else method
    return learn(stream, method=made, network=network, settings=SETTINGS, **options), made


def outputs(learned, names):
    return {name: learned.task(name)(STREAM[0].dataset.test.x) for name in names}


# The decision.


def test_the_nucleus_is_the_smallest_set_that_reaches_delta():
    probabilities = [0.1, 0.4, 0.2, 0.3]
    assert [nucleus(probabilities, delta) for delta in (0.0, 0.3, 0.4, 0.41, 0.7, 0.71, 1.0)] == [
        [], [1], [1], [1, 3], [1, 3], [1, 2, 3], [0, 1, 2, 3],
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="between 0 and 1"):
        nucleus(probabilities, 1.1)


def test_distributions_by_hand():
    assert conflict_distribution([0.2, 0.6]).tolist() == pytest.approx([0.25, 0.75])
    expected = np.exp([0.2, 0.6]) / np.exp([0.2, 0.6]).sum()
    assert conflict_distribution([0.2, 0.6], "softmax").tolist() == pytest.approx(expected.tolist())
    assert conflict_distribution([0.0, 0.0]).tolist() == [0.5, 0.5]


def test_binds_to_the_least_norm_and_not_to_the_most():
    near, far = Conflict("near", (0.1, 0.2), (0, 1)), Conflict("far", (0.9, 0.1), (0, 1))
    assert near.total == pytest.approx(0.05**0.5)
    assert bind([far, near]).task == "near"
    assert bind([near, far]).task == "near"


def test_the_reasons_in_words_name_scores():
    conflicts = (Conflict("a", (0.1, 0.3), (0, 1)), Conflict("b", (0.8, 0.6), (0, 1)))
    text = " ".join(BindingDecision("c", "a", 0.5, (1,), conflicts, (0.25, 0.75)).explain(["low", "high"]))
    assert "'c' was bound to 'a', with a conflict of 0.32; the others: 'b' 1.00." in text
    assert "high (conflict 0.30, answers for 75%)" in text
    assert "Shared: low (conflict 0.10, answers for 25%)." in text
    decision = BindingDecision("c", "a", 0.5, (1,), conflicts, (0.25, 0.75))
    assert BindingDecision.from_json(decision.to_json()) == decision


def slow_alignment(similarity):
    """The best of all matchings in order, one by one."""
    rows, columns = len(similarity), len(similarity[0])

    def best(i, j):
        if i == rows or j == columns:
            return 0.0
        found = max(best(i + 1, j), best(i, j + 1))
        return max(found, similarity[i][j] + best(i + 1, j + 1)) if similarity[i][j] >= 0 else found

    return best(0, 0)


@pytest.mark.parametrize("seed", range(4))
def test_alignment_is_the_best_matching_in_order(seed):
    similarity = np.random.default_rng(seed).uniform(-0.3, 1, size=(4, 5))
    partners = align(similarity)
    matched = [j for j in partners if j is not None]
    assert matched == sorted(set(matched))
    total = sum(similarity[i, j] for i, j in enumerate(partners) if j is not None)
    assert total == pytest.approx(slow_alignment(similarity.tolist()))


# The conflict.


@pytest.mark.parametrize("measure", ["rsa", "cka"])
def test_conflicts_are_those_of_each_path_alone(measure):
    """Ways that begin alike are followed once; the slow twin runs every path from its start."""
    _, method = run("bind-and-grow:delta=0.5")
    probe = make_skeleton("mlp:7,7,7", in_channels=2, image_size=(6, 6)).make_network(3, 5).eval()
    x = STREAM[1].dataset.validation.x
    names = list(method.graph_.paths)
    found = measure_conflicts(list(probe)[:-1], method.skeleton, method.graph_, names, x, measure=measure)
    for conflict in found:
        ours, theirs = x, x
        network = method.network(conflict.task)
        for place, value in enumerate(conflict.layers):
            ours, theirs = probe[place](ours), network[place](theirs)
            if measure == "cka":
                similarity = linear_cka(ours, theirs)
            else:
                similarity = rank_similarity(dissimilarity_matrix(ours), dissimilarity_matrix(theirs))
            assert value == pytest.approx(1 - similarity, abs=1e-6)


def test_a_task_and_its_copy_are_bound():
    original = make_task("original", 11)
    x = original.dataset
    recoloured = [Split(0.7 * split.x + 0.3, split.y) for split in (x.train, x.validation, x.test)]
    stream = Stream(
        "twins", [make_task("a", 1), original, make_task("b", 2), Task("twin", DataSet("t", *recoloured, 3))]
    )
    method = BindAndGrow(delta=1.0)
    learn(stream, method=method, network="mlp:16,16", settings=replace(SETTINGS, epochs=15, learning_rate=0.1))
    assert method.decisions[-1].bound_to == "original"


@pytest.mark.parametrize("unit", ["layer", "channels"])
def test_the_layer_that_differs_is_blamed_and_not_those_that_it_feeds(unit):
    """The probe is the founder's network but for its first layer: behind it everything differs, but nothing else is."""
    found = {}
    for blame in ("added", "whole"):
        method = BindAndGrow(delta=0.5, blame=blame, unit=unit, num_groups=1, measure="rsa")
        run(method, "mlp:32,32,32", stream=Stream("one", STREAM[:1]))
        probe = copy.deepcopy(method.network("task 0"))
        torch.manual_seed(1)
        probe[0].weights.reset_parameters()
        method.known_probes = {"task 1": probe}
        found[blame] = method.decide(STREAM[1].data("cpu"))
    conflicts = np.array(found["added"].conflicts[0].layers)
    assert (conflicts > 0.1).all() and found["added"].conflicts == found["whole"].conflicts
    added = np.maximum(np.diff(conflicts, prepend=0), 0)
    assert found["added"].distribution == pytest.approx(added / added.sum())
    assert found["whole"].distribution == pytest.approx(conflicts / conflicts.sum())
    assert found["added"].expanded == (0,) and len(found["whole"].expanded) == 2


def test_a_probe_begins_with_weights_of_its_own():
    """Networks that were never trained are alike only where they began alike; a probe must not be like the founder."""
    method = BindAndGrow()
    still = replace(SETTINGS, learning_rate=1e-12)
    learn(Stream("one", STREAM[:1]), method=method, network="mlp:16,16", settings=still)
    (conflict,) = method.decide(STREAM[1].data("cpu")).conflicts
    assert min(conflict.layers) > 0.01


# The method.


def test_delta_0_shares_all_and_delta_1_nothing():
    one = run("individual")[0].network.num_parameters()
    heads = [7 * task.dataset.num_classes + task.dataset.num_classes for task in STREAM]
    whole = 2 * 36 * 7 + 7 + 2 * (7 * 7 + 7)
    assert run("bind-and-grow:delta=0")[0].network.num_parameters() == whole + sum(heads)
    assert run("bind-and-grow:delta=1")[0].network.num_parameters() == one == 4 * whole + sum(heads)


@pytest.mark.parametrize(
    "options", ["delta=0.5", "delta=0.5,unit=channels", "delta=0.3,adapt=1.0,adapter_rank=2", "delta=0"]
)
@pytest.mark.parametrize("batch_norm", [False, True])
def test_frozen_tasks_keep_their_outputs_bit_for_bit(options, batch_norm):
    skeleton = make_skeleton("mlp:7,7,7", in_channels=2, image_size=(6, 6), batch_norm=batch_norm)
    method = make_method(f"bind-and-grow:old_weights=frozen,{options}")
    method.start(skeleton, SETTINGS, 0)
    x, before = STREAM[0].dataset.test.x, {}
    for task in STREAM:
        method.learn(task.data())
        before[task.name] = method.network(task.name)(x)
        for name, logits in before.items():
            assert torch.equal(method.network(name)(x), logits)
    assert method.forgets_nothing


@pytest.mark.parametrize("name", ["bind-and-grow", "random-growth"])
def test_nothing_is_forgotten_by_default(name):
    learned, method = run(name)
    assert method.forgets_nothing
    x = STREAM[0].dataset.test.x
    early, _ = run(name, stream=Stream("one", STREAM[:1]))
    first = STREAM[0].name
    assert torch.equal(learned.network.task(first)(x), early.network.task(first)(x))
    assert all(row["test"][0] == learned.rows[0]["test"][0] for row in learned.rows)


def test_slow_weights_move_a_little_and_train_at_a_tenth():
    first, method = run("bind-and-grow:delta=0,old_weights=slow", stream=STREAM[:1] and Stream("one", STREAM[:1]))
    before = copy.deepcopy(method.graph_.nodes["n0"].state_dict())
    slow = method
    frozen = copy.deepcopy(method)
    frozen.old_weights = "frozen"
    for made in (slow, frozen):
        made.learn(STREAM[1].data())
    moved = slow.graph_.nodes["n0"].weights.weight - before["weights.weight"]
    assert moved.abs().max() > 0
    assert torch.equal(frozen.graph_.nodes["n0"].weights.weight, before["weights.weight"])
    assert not slow.forgets_nothing and "old_weights=frozen keeps it" in slow.explain()[-1]
    assert frozen.forgets_nothing and "old_weights" not in " ".join(frozen.explain())
    assert first.network.names == ["task 0", "task 1"]


def test_a_guard_keeps_old_weights_nearer():
    def drift(options):
        _, method = run(f"bind-and-grow:delta=0,old_weights=guarded,{options}", stream=Stream("two", STREAM[:2]))
        founded = BindAndGrow()
        founded.start(method.skeleton, SETTINGS, 0)
        founded.learn(STREAM[0].data())
        pairs = zip(method.graph_.nodes["n1"].parameters(), founded.graph_.nodes["n1"].parameters(), strict=True)
        return sum(float((a - b).detach().square().sum()) for a, b in pairs)

    free = drift("guard_strength=0")
    assert drift("guard_strength=1e6") < 0.5 * free
    assert drift("guard=elastic,guard_strength=1e6") < 0.5 * free


def test_shared_heads_are_one_node():
    stream = Stream("permuted", [make_task(f"p{i}", i) for i in range(3)])
    _, method = run("bind-and-grow:heads=shared,delta=0.5", stream=stream)
    assert len({path.head for path in method.graph_.paths.values()}) == 1
    _, method = run("bind-and-grow:delta=0.5", stream=stream)
    assert len({path.head for path in method.graph_.paths.values()}) == 3


def test_networks_of_another_depth_share_what_fits():
    method = BindAndGrow(delta=0.0, skeletons={"task 2": "mlp:7,7,7,7", "task 3": "mlp:7,5"}, old_weights="frozen")
    _, method = run(method)
    deeper, narrower = method.graph_.paths["task 2"], method.graph_.paths["task 3"]
    shared = {step.node for step in method.graph_.paths["task 0"].steps}
    assert len([step for step in deeper.steps if step.node in shared]) == 3  # the fourth has no counterpart
    assert len([step for step in narrower.steps if step.node not in shared]) == 1  # a layer of 5 exists nowhere else
    assert "could stand for" in " ".join(method.explain())


def test_a_given_binding_is_taken_or_refused():
    _, method = run(BindAndGrow(bindings={"task 3": "task 1"}))
    assert method.decisions[-1].bound_to == "task 1" and method.decisions[-1].reason == "given"
    with pytest.raises(ConfigError, match="learned before it"):
        run(BindAndGrow(bindings={"task 1": "task 3"}))


@pytest.mark.parametrize(
    "options", ["delta=0.5,unit=channels", "delta=0.3,adapt=1.0,adapter_rank=2,old_weights=guarded"]
)
def test_a_saved_network_takes_the_next_task_as_if_never_saved(options, tmp_path):
    _, whole = run(f"bind-and-grow:{options}")
    part, _ = run(f"bind-and-grow:{options}", stream=Stream("part", STREAM[:3]))
    part.network.save(tmp_path / "net.safetensors")
    loaded = JointNetwork.load(tmp_path / "net.safetensors")
    loaded.learn(STREAM[3].data())
    x = STREAM[0].dataset.test.x
    for name in STREAM.names:
        assert torch.equal(loaded.task(name)(x), whole.network(name)(x))
    assert loaded.explain() == whole.explain()


def test_a_failure_leaves_the_graph_as_it_was():
    _, method = run("bind-and-grow", stream=Stream("part", STREAM[:3]))
    before = method.state()
    broken = STREAM[3].data()
    method.known_probes["task 3"] = method.skeleton.make_network(3, 0)
    broken.train.x.fill_(float("nan"))
    with pytest.raises(RunError, match="finite"):
        method.learn(broken)
    after = method.state()
    assert after["graph"]["nodes"] == before["graph"]["nodes"]
    assert all(
        torch.equal(after["graph"]["weights"][name], value) for name, value in before["graph"]["weights"].items()
    )


def test_known_probes_change_nothing():
    expected, method = run("bind-and-grow")
    alone = BindAndGrow()
    alone.start(method.skeleton, SETTINGS, 0)
    probes = {}
    for task in STREAM:
        fresh = BindAndGrow()
        fresh.start(method.skeleton, SETTINGS, 0)
        fresh.learn(task.data())
        probes[task.name] = fresh.network(task.name)
    given = BindAndGrow()
    given.known_probes = probes
    learned, _ = run(given)
    for name in STREAM.names:
        assert torch.equal(outputs(learned, [name])[name], outputs(expected, [name])[name])


@pytest.mark.parametrize(
    "options", [{"delta": 2.0}, {"measure": "x"}, {"distribution": "x"}, {"unit": "x"}, {"num_samples": 1},
                {"adapt": -1}, {"blame": "x"}, {"old_weights": "x"}, {"guard": "x"}, {"heads": "x"},
                {"start_weights": "x"}, {"old_rate": 2.0}],
)  # fmt: skip
def test_bad_options_are_refused(options):
    with pytest.raises(ConfigError, match=r"must|is one of"):
        BindAndGrow(**options)


# Patches, the graph, random growth.


def block(seed=0):
    torch.manual_seed(seed)
    return make_skeleton("conv:6,5,4,8,8", in_channels=2, image_size=(20, 20)).make_layer(0)


@pytest.mark.parametrize("make", [lambda b: ChannelPatch(b, [1, 4]), lambda b: AdapterPatch(b, 2, torch.Generator()),
                                  lambda b: AdapterPatch(b, 0)])  # fmt: skip
def test_patches_begin_as_the_layer_and_merge_into_a_plain_one(make):
    layer = block().double()
    patch, x = make(layer).double(), torch.randn(3, 2, 20, 20).double()
    assert torch.allclose(patch(x, layer), layer(x), atol=1e-12)
    with torch.no_grad():
        for param in patch.parameters():
            param.add_(torch.randn_like(param))
    assert not torch.allclose(patch(x, layer), layer(x), atol=1e-2)
    assert torch.allclose(patch.merged(layer)(x), patch(x, layer), atol=1e-12)


def test_a_pointwise_adapter_is_a_1x1_convolution_beside_the_layer():
    layer = block().double()
    patch, x = AdapterPatch(layer, 0).double(), torch.randn(3, 2, 20, 20).double()
    with torch.no_grad():
        patch.pointwise.normal_()
        beside = torch.einsum("oi,nihw->nohw", patch.pointwise, x)[:, :, 1:18, 1:18]  # the tap of a 4 x 4 kernel
        expected = layer.pool(layer.relu(layer.weights(x) + beside))
        assert torch.allclose(patch(x, layer), expected, atol=1e-12)


def test_the_graph_refuses_what_does_not_fit():
    graph = LayerGraph()
    skeleton = make_skeleton("mlp:7", in_channels=2, image_size=(6, 6))
    key = graph.add_node(skeleton.make_layer(0), LayerNode(0, "a"))
    with pytest.raises(ConfigError, match="nodes of the graph"):
        graph.add_path(TaskPath("a", 2, skeleton, (PathStep(key),), "n9"))
    with pytest.raises(ConfigError, match="none yet"):
        graph.path("b")


@pytest.mark.slow
def test_random_growth_draws_sets_for_all_tasks_that_have_a_size_together():
    sizes = [784, 4640, 4128, 1584, 2352]
    for seed in range(20):
        drawn = draw_of_total(sizes, 9, 60_000, np.random.default_rng(seed))
        total = sum(sizes[place] for own in drawn for place in own)
        assert len(drawn) == 9 and abs(total - 60_000) <= 0.01 * sum(sizes)
    # Each number of layers is as likely as another where the goal does not lean to either side.
    even = [draw_of_total([1, 1], 2, 2, np.random.default_rng(seed)) for seed in range(400)]
    both = sum(len(first) == 1 for first, _ in even) / len(even)
    assert both == pytest.approx(1 / 3, abs=0.08)
    with pytest.raises(ConfigError, match="below 3"):
        run(RandomGrowth(layers={"task 1": [3]}))


def test_random_growth_draws_sets_of_the_size_it_is_given():
    drawn = {tuple(draw_of_size([10, 10, 10, 25], 20, np.random.default_rng(seed))) for seed in range(60)}
    assert drawn == {(0, 1), (0, 2), (1, 2)}
    guided, method = run("bind-and-grow:delta=0.5", network="mlp:7,7,7")
    sizes = {
        info.name: sum(
            sum(param.numel() for param in method.graph_.nodes[key].parameters())
            for key, node in method.graph_.about.items()
            if node.task == info.name and node.place < 3
        )
        for info in method.tasks[1:]
    }
    bound = {
        tuple(d and d.bound_to for d in run(RandomGrowth(sizes=sizes, draw=draw))[1].decisions) for draw in range(6)
    }
    assert len(bound) > 1
    random, made = run(RandomGrowth(sizes=sizes))
    assert random.network.num_parameters() == guided.network.num_parameters()
    assert "random" in " ".join(made.explain())
