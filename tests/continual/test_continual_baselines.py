"""The growing baselines do what the formulas of their papers say: worked by hand, or against a slow twin."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch

from ramet.continual import Layer, Skeleton, make_method
from ramet.continual.methods.apd import compose, retroactive_adaptive, retroactive_penalty
from ramet.continual.methods.cpg import CompactPickGrow, PickedNetwork
from ramet.continual.methods.den import _distance, reachable
from ramet.continual.methods.learn_to_grow.layer_choices import (
    ChoiceNetwork,
    expected_size,
    list_choices,
    search_choices,
)
from ramet.continual.methods.optimizers import Sparse, shrink_
from ramet.continual.methods.rcl import ExpansionController
from ramet.continual.networks.master import Draft
from ramet.errors import ConfigError
from ramet.seeding import seeded_globally, torch_generator
from ramet.testing import methods as suite
from ramet.training import accuracy


def learned(name, num_tasks=3, skeleton="linear", **options):
    stream = suite.make_stream()
    method = suite.started(partial(make_method, name, **options), suite.make_skeletons()[skeleton])
    for _ in range(num_tasks):
        suite.learn_next(method, stream)
    return method, stream


QUICK = {"cpg": {"prune_step": 0.5}, "rcl": {"trials": 2, "max_units": 3}, "den": {"loss_threshold": 0.0}}


@pytest.mark.parametrize("name", ["learn-to-grow", "cpg", "den", "rcl", "apd"])
def test_convolutions_in_a_row_and_an_image_that_is_flattened(name):
    layers = (Layer("a", "conv", 3, kernel=2), Layer("b", "conv", 4, kernel=2, pool=True), Layer("c", "linear", 5))
    stream, method = suite.make_stream(size=3), make_method(name, **QUICK.get(name, {}))
    method.start(Skeleton(layers, 1, (5, 5)), replace(suite.SETTINGS, epochs=2), seed=0)
    before = []
    for _ in stream:
        suite.learn_next(method, stream)
        now = suite.outputs(method, stream)
        assert all(bool(logits.isfinite().all()) for logits in now)
        if method.forgets_nothing:
            assert all(torch.equal(old, new) for old, new in zip(before, now, strict=False))
        before = now
    copy = make_method(name, **method.options)
    copy.start(method.skeleton, method.settings, seed=0)
    copy.tasks = list(method.tasks)
    copy.load_state(method.state())
    assert all(torch.equal(old, new) for old, new in zip(before, suite.outputs(copy, stream), strict=True))


# Learn to grow


def search(method, data, *, learning_rate, penalty):
    choices = list_choices(method.graph_, method.skeleton, rank=1)
    network = ChoiceNetwork(method.graph_, method.skeleton, choices, 3, seed=3)
    settings = replace(suite.SETTINGS, learning_rate=learning_rate, epochs=20, weight_decay=0.0)
    shares = search_choices(network, data, settings, seed=0, choice_rate=0.05, size_penalty=penalty)
    return [options[int(share.argmax())].kind for options, share in zip(choices, shares, strict=True)], network


def test_a_search_reuses_what_is_learned_where_new_layers_are_useless():
    method, stream = learned("learn-to-grow", 1)
    choices = list_choices(method.graph_, method.skeleton, rank=1)
    assert [[choice.kind for choice in options] for options in choices] == [["reuse", "adapt", "new"]] * 2
    network = ChoiceNetwork(method.graph_, method.skeleton, choices, 2, seed=3)
    network.head.load_state_dict(method.network("task 0").head.state_dict())
    with torch.no_grad():
        for name, param in network.fresh.named_parameters():
            if name.split(".")[0].endswith("-2"):
                param.zero_()  # a new layer gives nothing ...
    settings = replace(suite.SETTINGS, learning_rate=1e-9, epochs=20, weight_decay=0.0)  # ... and learns nothing
    shares = search_choices(network, stream[0].dataset.train, settings, seed=0, choice_rate=0.05, size_penalty=0.0)
    for share in shares:
        assert share[2] == share.min() and share[2] < 0.25


def test_a_search_takes_new_layers_where_the_old_are_useless():
    method, _ = learned("learn-to-grow", 1)
    with torch.no_grad():
        for param in method.graph_.parameters():
            param.zero_()
    # Enough samples that the half of the choices tells what the half of the weights taught, not its noise.
    data = suite.make_stream(size=40)[1].dataset.train
    kinds, _ = search(method, data, learning_rate=0.02, penalty=0.0)
    assert kinds == ["new", "new"]


def test_a_high_price_of_parameters_makes_a_search_reuse():
    method, stream = learned("learn-to-grow", 1)
    kinds, _ = search(method, stream[1].dataset.train, learning_rate=0.1, penalty=100.0)
    assert kinds == ["reuse", "reuse"]


def test_a_search_leaves_the_old_layers_alone():
    method, stream = learned("learn-to-grow", 1, skeleton="linear with batch norm")
    before = method.graph_.to_state()["weights"]
    _, network = search(method, stream[1].dataset.train, learning_rate=0.1, penalty=0.0)
    for name, value in network.old.state_dict().items():
        assert torch.equal(value, before[f"nodes.{name}"])


def test_a_mixture_that_is_sure_of_reuse_is_the_old_network():
    method, stream = learned("learn-to-grow", 1)
    choices = list_choices(method.graph_, method.skeleton, rank=1)
    network = ChoiceNetwork(method.graph_, method.skeleton, choices, 2, seed=3)
    old, x = method.network("task 0"), stream[0].dataset.test.x
    sure = [torch.tensor([1.0, 0.0, 0.0])] * 2
    assert torch.allclose(network(x, sure), network.head(old.layer2(old.layer1(x))))
    # A map beside a layer begins at zero, so that adapting begins with reuse.
    adapted = [torch.tensor([0.0, 1.0, 0.0])] * 2
    assert torch.allclose(network(x, adapted), network(x, sure))
    # By hand: 25 x 16 + 16 and 16 x 12 + 12 new; maps of rank 1 have 25 + 16 + 16 and 16 + 12 + 12.
    halves = [torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.0, 0.0, 1.0])]
    assert float(expected_size(halves, choices)) == pytest.approx((57 / 2 + 204) / (416 + 204))


def test_only_tuned_layers_move_and_less_the_more_they_are_held():
    distances = []
    for options in ({"reuse": "fixed"}, {"reuse": "tuned", "tune_strength": 1.0}, {"reuse": "tuned"}):
        method, stream = learned("learn-to-grow", 1, size_penalty=1e6, **options)
        before = method.network("task 0").state_dict()
        suite.learn_next(method, stream)
        assert {entry["choice"] for entry in method.decisions[1]} == {"reuse"}
        after = method.network("task 0").state_dict()
        distances.append(sum(float((after[name] - before[name]).square().sum()) for name in before))
    assert distances[0] == 0 < distances[1] < distances[2]


@pytest.mark.parametrize(
    "check", [suite.check_it_goes_on_after_a_kill, suite.check_a_saved_network_takes_a_new_task, suite.check_it_learns]
)
def test_tuned_layers_keep_what_the_seam_promises(check):
    check(partial(make_method, "learn-to-grow", reuse="tuned", size_penalty=100.0))


def test_convolutions_are_adapted_by_one_by_one_maps():
    method, _ = learned("learn-to-grow", 1, skeleton="convolution with batch norm")
    choices = list_choices(method.graph_, method.skeleton, rank=0)
    assert [[choice.kind for choice in options] for options in choices] == [["reuse", "adapt", "new"], ["reuse", "new"]]
    # 1 x 6 weights, 6 biases, and a batch norm of 12.
    assert choices[0][1].size == 24


def test_learn_to_grow_refuses_bad_options():
    for options in ({"reuse": "never"}, {"rank": -1}, {"size_penalty": -1.0}, {"tune_rate": 0.0}):
        with pytest.raises(ConfigError, match="must"):
            make_method("learn-to-grow", **options)


# Compacting, picking and growing


def test_picking_by_hand():
    network = suite.make_skeletons()["linear"].make_network(2, seed=0)
    names = [f"{layer}.weights.weight" for layer in ("layer1", "layer2")]
    maskable = {name: torch.zeros_like(network.get_parameter(name), dtype=torch.bool) for name in names}
    maskable[names[0]][0, :2] = True
    masked, plain = PickedNetwork(network, maskable), network.layer1.weights.weight
    assert [len(scores) for scores in masked.scores] == [2, 0]
    x = torch.randn(3, 1, 5, 5, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(masked(x), network(x)), "all weights are picked at first"
    with torch.no_grad():
        masked.scores[0][1] = 0.004
    effective = masked.effective()[names[0]]
    assert effective[0, 1] == 0 and torch.equal(effective[:, 2:], plain[:, 2:]) and effective[0, 0] == plain[0, 0]
    # Straight through: the gradient of a score is that of the masked weight, times the weight.
    toward = torch.randn(effective.shape, generator=torch.Generator().manual_seed(1))
    (effective * toward).sum().backward()
    assert torch.allclose(masked.scores[0].grad, (toward * plain)[0, :2])


def test_each_task_keeps_its_share_and_reads_only_what_it_picked():
    method, _ = learned("cpg", goal=0.01, max_prune=0.6, prune_step=0.5)
    owners = method.state()["owners"]
    for owner in owners:
        shares = [float((owner == place).float().mean()) for place in (1, 2, 3, 0)]
        assert shares == pytest.approx([0.4, 0.24, 0.144, 0.216], abs=0.02)
    bits = 0
    for place, task in enumerate(method.tasks):
        for i, owner in enumerate(owners):
            weight = method.network(task.name)[i].weights.weight
            before = (owner > 0) & (owner <= place)
            assert not bool(weight[(owner == 0) | (owner > place + 1)].any())
            assert bool((weight[owner == place + 1] != 0).all())
            assert torch.equal(weight[before] != 0, method._picks[place][i])
            assert torch.equal(weight[weight != 0], method._weights[i][weight != 0])
            bits += -(-int(before.sum()) // 8)
    # Weights, a byte for the owner of each, a bit for each pick, and what is each task's own.
    own = sum(tensor.numel() * 4 for tensors in method._own for tensor in tensors.values())
    assert method.stored_bytes() == sum(5 * owner.numel() for owner in owners) + bits + own


@pytest.mark.parametrize(("wider_is_better", "width"), [(True, 2.0), (False, 1.0)])
def test_it_grows_while_it_misses_its_goal_and_keeps_a_width_that_helps(monkeypatch, wider_is_better, width):
    method, stream = learned("cpg", 1, goal=0.01, max_width=2.0)
    before, weights = suite.outputs(method, stream)[0], [weights.clone() for weights in method._weights]
    scores, tried = iter([0.1, 0.2, 0.3] if wider_is_better else [0.1] * 3), []

    def score(self, network, task):
        tried.append(len(network.network.layer1.weights.weight))
        return next(scores, 0.0)

    method.goal = 0.9
    monkeypatch.setattr(CompactPickGrow, "_score", score)
    suite.learn_next(method, stream)
    assert tried[:3] == [16, 24, 32] and method.width == width
    assert torch.equal(suite.outputs(method, stream)[0], before)
    assert method._weights[1].shape == (12 * width, 16 * width)
    for new, old in zip(method._weights, weights, strict=True):
        kept = old != 0
        assert torch.equal(new[: len(old), : old.shape[1]][kept], old[kept])


def test_a_pruning_that_misses_the_goal_is_undone(monkeypatch):
    scores = iter([1.0, 1.0, 0.5])  # trained, half pruned, nine tenths pruned
    monkeypatch.setattr(CompactPickGrow, "_score", lambda self, network, task: next(scores, 1.0))
    method, _ = learned("cpg", 1, goal=0.9, prune_step=0.5, max_prune=0.9)
    for owner, weights in zip(method._owners, method._weights, strict=True):
        assert int((owner == 1).sum()) == owner.numel() // 2 == int((weights != 0).sum())


def test_cpg_refuses_bad_options():
    for options in ({"goal": 2.0}, {"max_prune": 1.0}, {"max_width": 0.5}, {"mask_rate": 0.0}):
        with pytest.raises(ConfigError, match="must"):
            make_method("cpg", **options)


# Dynamically expandable networks


def test_the_proximal_map_minimises_the_penalty():
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(4, 6, generator=generator).double()
    rows, mask = torch.tensor([True, True, True, False]), torch.rand(4, 6, generator=generator) > 0.3

    def objective(x):
        norms = x.norm(dim=1)[rows].sum()
        return (x - start).square().sum() / 2 + 0.5 * (0.4 * (x.abs() * mask).sum() + 1.5 * norms)

    best = start.clone()
    shrink_(Sparse(best, l1=0.4, group=1.5, rows=rows, mask=mask), reach=0.5)
    for scale in (1e-1, 1e-2, 1e-3):
        for _ in range(50):
            other = best + scale * torch.randn(4, 6, generator=generator)
            assert objective(other) >= objective(best) - 1e-12
    assert (best == 0).any() and torch.equal(best[3][~mask[3]], start[3][~mask[3]])


def test_what_a_head_depends_on_by_hand():
    skeleton = suite.make_skeletons()["linear"]
    network = skeleton.make_network(2, seed=0)
    with torch.no_grad():
        for param in network.parameters():
            param.zero_()
        network.head.weights.weight[1, 3] = 1.0  # the head reads neuron 3 of layer 2,
        network.layer2.weights.weight[3, 5] = -1.0  # which reads neuron 5
        network.layer2.weights.weight[4, 6] = 1.0  # (nobody reads this one)
        network.layer1.weights.weight[5, [0, 24]] = 1.0  # and that one two pixels
    pixels, first, second = reachable(Draft(skeleton, network, [torch.arange(16), torch.arange(12)]))
    assert [mask.nonzero()[:, 0].tolist() for mask in (pixels, first, second)] == [[0, 24], [5], [3]]


@pytest.mark.parametrize("skeleton", ["linear", "convolution with batch norm"])
def test_group_sparsity_removes_new_neurons_that_are_of_no_use(skeleton):
    for group, added in ((5.0, 0), (0.0, 6)):
        method, stream = learned("den", 1, skeleton=skeleton, loss_threshold=0.0, group=group, l1=0.0, new_units=3)
        before = method.master.widths
        notes = suite.learn_next(method, stream)
        assert (notes["added"], notes["removed"]) == (added, 6 - added)
        width = sum(module.weights.weight.shape[0] for module in list(method.network("task 1"))[:-1])
        assert width == sum(before) + added
        # A neuron that is kept reads something.
        for layer in list(method.network("task 1"))[:-1]:
            assert bool(layer.weights.weight.flatten(1).any(1).all()) or group == 0


def test_it_expands_only_above_the_loss():
    method, stream = learned("den", 1, loss_threshold=100.0)
    assert suite.learn_next(method, stream)["added"] == 0


def test_split_neurons_leave_earlier_tasks_as_they_were():
    for threshold in (0.0, 1e9):
        method, stream = learned("den", 1, split_threshold=threshold, loss_threshold=100.0)
        before = suite.outputs(method, stream)[0]
        notes = suite.learn_next(method, stream)
        same = torch.equal(suite.outputs(method, stream)[0], before)
        assert same == (threshold == 0) and (notes["split"] > 0) == (threshold == 0)
        assert notes["split"] in (0, 28)
        # The copy stands in for the original, which only the earlier task still sees.
        assert len(method.network("task 1").layer1.weights.weight) == 16
        assert sum(method.master.widths) == 28 + notes["split"]


def test_the_drift_of_den_by_hand():
    skeleton = suite.make_skeletons()["linear"]
    network = skeleton.make_network(2, seed=0)
    draft = Draft(skeleton, network, [torch.tensor([0, *[-1] * 15]), torch.tensor([0, 1, *[-1] * 10])])
    before = [network[place].weights.weight.detach().clone() for place in range(2)]
    with torch.no_grad():
        network.layer1.weights.weight += 1.0  # one old neuron, which reads 25 pixels
        network.layer2.weights.weight += 2.0  # two old neurons, which read one old one
    assert _distance(draft, before).item() == pytest.approx(25 * 1 + 2 * 4)


def test_drift_is_less_the_more_it_costs():
    distances = []
    for drift in (0.0, 1.0):
        method, stream = learned("den", 1, split_threshold=1e9, loss_threshold=100.0, drift=drift)
        before = [weights.clone() for weights in method.master.weights]
        suite.learn_next(method, stream)
        distances.append(sum(float((a - b).norm()) for a, b in zip(before, method.master.weights, strict=True)))
    assert distances[1] < distances[0]


def test_den_refuses_bad_options():
    for options in ({"l1": -1.0}, {"new_units": 0}, {"split_threshold": -0.1}):
        with pytest.raises(ConfigError, match="must"):
            make_method("den", **options)


# Reinforced continual learning


def make_controller(rate=0.02):
    with seeded_globally(0, "controller"):
        return ExpansionController(2, 3, hidden=8, rate=rate)


def test_the_controller_by_hand():
    controller, decisions = make_controller().double(), [1, 3]
    logarithms, values = controller.evaluate(decisions)
    # What each layer gets is a distribution: over all pairs of decisions the probabilities add up to 1.
    pairs = [controller.evaluate([a, b])[0].sum().exp() for a in range(4) for b in range(4)]
    assert torch.stack(pairs).sum().item() == pytest.approx(1.0)
    # -sum log pi (R - V) + sum (R - V)^2, its gradient by hand through the last layer of the values.
    loss = -(logarithms * (2.0 - values.detach())).sum() + (2.0 - values).square().sum()
    expected = torch.autograd.grad(loss, [controller.policy.bias, controller.value.bias])
    controller.observe(decisions, 2.0)
    assert torch.allclose(controller.policy.bias.grad, expected[0])
    assert torch.allclose(controller.value.bias.grad, expected[1])
    assert expected[1].item() == pytest.approx(-2 * (2.0 - values.detach()).sum().item())


def test_the_controller_finds_what_is_rewarded():
    controller, generator = make_controller(), torch_generator(0, "decisions")
    rewards = []
    for _ in range(300):
        decisions = controller.propose(generator)
        rewards.append(float(decisions[0] == 2) + float(decisions[1] == 0))
        controller.observe(decisions, rewards[-1])
    # At random a reward is 0.5 on average, and 2 is the best.
    assert sum(rewards[:20]) / 20 < 1.2 and sum(rewards[-50:]) / 50 > 1.8


def test_the_best_reward_is_kept():
    for alpha in (0.0, 1.0):
        method, stream = learned("rcl", 1, trials=4, max_units=5, alpha=alpha)
        notes = suite.learn_next(method, stream)
        rewards = [trial["validation"] - alpha * sum(trial["added"]) for trial in notes["trials"]]
        best = notes["trials"][max(range(len(rewards)), key=rewards.__getitem__)]
        assert rewards == pytest.approx([trial["reward"] for trial in notes["trials"]])
        assert (notes["added"], notes["validation"]) == (best["added"], best["validation"])
        assert method.master.widths == [16 + best["added"][0], 12 + best["added"][1]]
        validation = stream[1].dataset.validation
        assert accuracy(method.network("task 1"), validation.x, validation.y) == best["validation"]
    assert sum(best["added"]) == min(sum(trial["added"]) for trial in notes["trials"])


def test_a_task_reads_old_neurons_and_old_weights_stay():
    method, stream = learned("rcl", 1, trials=1, max_units=5)
    before = [weights.clone() for weights in method.master.weights]
    suite.learn_next(method, stream)
    for layer, old in zip(method.network("task 1"), before, strict=False):
        assert torch.equal(layer.weights.weight[: len(old), : old.shape[1]], old)


def test_rcl_refuses_bad_options():
    for options in ({"trials": 0}, {"alpha": -1.0}, {"controller_rate": 0.0}):
        with pytest.raises(ConfigError, match="must"):
            make_method("rcl", **options)


# Additive decomposition


def written_loss(residual, tau, sparsity, drift):
    """The terms of Eq. 3 that an earlier task's own weights are in, as the paper writes them."""
    return sparsity * tau.abs().sum() + drift * (residual - tau).square().sum()


def test_the_drift_penalty_is_the_least_of_the_written_loss():
    residual = torch.randn(50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for sparsity, drift in ((0.5, 0.7), (2.0, 0.3), (0.01, 100.0)):
        best = retroactive_adaptive(residual, sparsity, drift)
        penalty = retroactive_penalty(residual, sparsity, drift)
        assert penalty.item() == pytest.approx(written_loss(residual, best, sparsity, drift).item())
        # No other own weights cost less, over a grid: [values, weights].
        others = torch.linspace(-4, 4, 1601, dtype=torch.float64)[:, None]
        costs = sparsity * others.abs() + drift * (residual - others).square()
        assert bool((costs >= sparsity * best.abs() + drift * (residual - best).square() - 1e-12).all())
        # The slope is what is left of the residual: 2 lambda_2 (r - tau).
        moving = residual.clone().requires_grad_()
        retroactive_penalty(moving, sparsity, drift).backward()
        assert torch.allclose(moving.grad, 2 * drift * (residual - best))


def test_composed_weights_by_hand():
    shared, adaptive = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[0.0, 5.0], [0.0, 0.0]])
    weights = compose(shared, torch.tensor([0.0, 100.0]), adaptive)  # the gates are 1/2 and 1
    assert weights.tolist() == [[0.5, 6.0], [3.0, 4.0]]


@pytest.mark.parametrize("skeleton", ["linear", "convolution with batch norm"])
def test_earlier_weights_move_no_further_than_promised(skeleton):
    sparsity, drift = 0.01, 2.0
    method, stream = learned("apd", 2, skeleton=skeleton, sparsity=sparsity, drift=drift)
    before = [method.network(task.name) for task in method.tasks]
    shared = [sigma.clone() for sigma in method._shared]
    suite.learn_next(method, stream)
    assert any(not torch.equal(a, b) for a, b in zip(shared, method._shared, strict=True)), "the shared weights move"
    for old in before:
        new = method.network(method.tasks[before.index(old)].name)
        for one, other in zip(list(old)[:-1], list(new)[:-1], strict=True):
            assert (one.weights.weight - other.weights.weight).abs().max() <= sparsity / (2 * drift) + 1e-6
            assert torch.equal(one.weights.bias, other.weights.bias)


def test_own_weights_are_fewer_the_more_they_cost_and_only_those_are_stored():
    own = []
    for sparsity in (0.0, 1e-3, 1e-1):
        method, _ = learned("apd", sparsity=sparsity)
        own.append(sum(int(tau.count_nonzero()) for taus in method._adaptive for tau in taus))
        plain = sum(tensor.numel() for tensors in method._own for tensor in tensors.values())
        gates, shared = 3 * (16 + 12), 25 * 16 + 16 * 12
        assert method.num_parameters() == shared + gates + plain + own[-1]
        assert method.stored_bytes() == 4 * (shared + gates + plain) + 8 * own[-1]
    assert own[0] > own[1] > own[2]


def test_apd_refuses_bad_options():
    for options in ({"sparsity": -1.0}, {"drift": 0.0}):
        with pytest.raises(ConfigError, match="must"):
            make_method("apd", **options)
