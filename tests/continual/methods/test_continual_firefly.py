"""Firefly for streams: masks over a master network, against networks built by hand."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from ramet.continual import make_method
from ramet.continual.methods.firefly.candidates import _best, bound_candidates, grow_draft, widened
from ramet.continual.methods.firefly.neuron_masks import MaskedNetwork, binary, kept
from ramet.continual.networks.master import Draft, Master, columns
from ramet.continual.networks.skeletons import weights_of
from ramet.continual.training import Saves
from ramet.errors import ConfigError
from ramet.testing.methods import SETTINGS, learn_next, make_skeletons, make_stream, started

SKELETONS = make_skeletons()


def made(skeleton, seed=0, classes=2):
    """A master of one task, and its draft."""
    torch.manual_seed(seed)
    network = skeleton.make_network(classes, seed)
    origins = [torch.full((layer.width,), -1) for layer in skeleton.layers]
    master = Master(skeleton, "cpu")
    draft = Draft(skeleton, network, origins)
    master.add(draft)
    return master, draft


@pytest.mark.parametrize("name", SKELETONS)
def test_a_network_comes_out_of_the_master_as_it_went_in(name):
    master, draft = made(SKELETONS[name])
    x = torch.randn(6, 1, 5, 5)
    assert torch.equal(master.network(0, 2)(x), draft.network.eval()(x))


@pytest.mark.parametrize("name", SKELETONS)
def test_later_neurons_do_not_change_an_earlier_network(name):
    skeleton = SKELETONS[name]
    master, _ = made(skeleton)
    x = torch.randn(6, 1, 5, 5)
    before = master.network(0, 2)(x)
    chosen = [torch.arange(0, width, 2) for width in master.widths]
    draft = widened(master.draft(chosen, 3), 2, seed=1)
    with torch.no_grad():
        for entry in draft.held():  # all that may move, moves
            entry.param.add_(torch.where(entry.mask, 0.0, 7.0))
    expected = copy.deepcopy(draft.network).eval().double()(x.double())
    master.add(draft)
    assert torch.equal(master.network(0, 2)(x), before)
    torch.testing.assert_close(master.network(1, 3).double()(x.double()), expected, rtol=1e-12, atol=1e-12)
    assert master.widths == [layer.width + 2 for layer in skeleton.layers]


def test_only_weights_between_two_old_neurons_are_held():
    master, _ = made(SKELETONS["linear"])
    draft = master.draft([torch.arange(16), torch.arange(12)], 2)
    draft.origins[0][3] = -1  # unlocked
    first, first_bias, second, second_bias = draft.held()
    assert first.mask.expand_as(first.param).sum() == 15 * 25
    assert first_bias.mask.sum() == 15
    # Every neuron of the second layer is old; what it reads from the unlocked one is free.
    assert not second.mask[:, 3].any() and second.mask.sum() == 12 * 15
    assert second_bias.mask.all()


def test_an_unlocked_neuron_is_a_copy_and_the_original_stays():
    master, _ = made(SKELETONS["linear"])
    draft = master.draft([torch.arange(16), torch.arange(12)], 2)
    draft.origins[0][3] = -1
    with torch.no_grad():
        weights_of(draft.network[0]).weight[3] += 1.0
    original = master.weights[0][3].clone()
    master.add(draft)
    assert master.widths == [17, 12]
    assert torch.equal(master.weights[0][3], original)
    assert torch.equal(master.weights[0][16], original + 1.0)
    assert master.masks[1][0].tolist() == [place != 3 for place in range(17)]


def test_a_mask_is_binary_and_its_gradient_passes():
    scores = nn.Parameter(torch.tensor([0.01, 0.004, 0.006]))
    mask = binary(scores)
    assert mask.tolist() == [1.0, 0.0, 1.0]
    (mask * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert scores.grad.tolist() == [1.0, 2.0, 3.0]
    assert binary(torch.tensor([0.001, 0.002])).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("name", ["linear", "convolution with batch norm"])
def test_a_masked_network_is_the_network_of_the_neurons_that_stay(name):
    """Multiplying by the mask and leaving the neurons out are the same function."""
    skeleton = SKELETONS[name]
    master, _ = made(skeleton)
    full = master.draft([torch.arange(width) for width in master.widths], 2)
    masked = MaskedNetwork(full.network, full.widths).eval()
    with torch.no_grad():
        masked.scores[0][::2] = 0.0
    kept = [torch.arange(1, master.widths[0], 2), torch.arange(master.widths[1])]
    compact = master.draft(kept, 2)
    with torch.no_grad():
        weights_of(compact.network[-1]).load_state_dict(weights_of(full.network[-1]).state_dict())
    x = torch.randn(4, 1, 5, 5).double()
    torch.testing.assert_close(masked.double()(x), compact.network.eval().double()(x), rtol=1e-12, atol=1e-12)


def test_the_best_candidates_of_all_layers_are_chosen():
    picks = _best([torch.tensor([3.0, -1.0, 0.5]), torch.tensor([4.0, 0.0])], 3)
    assert [pick.tolist() for pick in picks] == [[True, False, True], [True, False]]
    assert sum(int(pick.sum()) for pick in _best([torch.tensor([-1.0, 0.0])], 2)) == 0


@pytest.mark.parametrize("name", SKELETONS)
def test_a_growth_lowers_the_loss_and_leaves_the_rest_locked(name):
    skeleton, stream = SKELETONS[name], make_stream()
    master, _ = made(skeleton)
    data = stream[0].dataset.train
    draft = master.draft([torch.arange(width) for width in master.widths], 2)
    draft.network.eval()
    before = cross_entropy(draft.network(data.x), data.y).item()
    grown, counts = grow_draft(
        copy.deepcopy(draft),
        data,
        SETTINGS,
        seed=0,
        num_new=3,
        num_chosen=5,
        candidate_epochs=3,
        saves=Saves(),
        phase="test",
    )
    assert counts["unlocked"] + counts["new"] == 5
    assert sum(int((origin < 0).sum()) for origin in grown.origins) == 5
    assert sum(grown.widths) == sum(draft.widths) + counts["new"]
    assert cross_entropy(grown.network.eval()(data.x), data.y).item() < before
    for place, origin in enumerate(grown.origins):
        locked = origin >= 0
        weights = weights_of(grown.network[place]).weight
        rows = master.weights[place][origin[locked]]
        inputs = grown.locked_in(place)
        own = grown.origins[place - 1] if place else torch.arange(1)
        if place:
            rows = rows[:, columns(own[own >= 0], skeleton.spread(place))]
            assert torch.equal(weights[locked][:, inputs], rows)
        else:
            assert torch.equal(weights[locked], rows)


@pytest.mark.parametrize("name", SKELETONS)
def test_candidates_are_brought_back_into_their_bounds(name):
    """Neuron by neuron, against norms that are taken by hand; a second time changes nothing."""
    master, _ = made(SKELETONS[name])
    draft = master.draft([torch.arange(width) for width in master.widths], 2)
    locked = [origin >= 0 for origin in draft.origins]
    locked[0][0] = False  # one neuron is the task's own already
    wide = widened(draft, 2, seed=0)
    before = {key: param.detach().clone() for key, param in wide.network.named_parameters()}
    names = [key for key, _ in wide.network.named_children()]
    with torch.no_grad():
        for layer in wide.network:
            weights_of(layer).weight.add_(torch.randn_like(weights_of(layer).weight))
            weights_of(layer).bias.add_(3.0)
    far = {key: param.detach().clone() for key, param in wide.network.named_parameters()}
    bound_candidates(wide, before, locked, 2, epsilon=0.25)
    bounded = copy.deepcopy(wide)
    bound_candidates(wide, before, locked, 2, epsilon=0.25)
    for place, layer in enumerate(wide.network):
        spread = wide.skeleton.spread(place)
        weight, bias = weights_of(layer).weight.detach(), weights_of(layer).bias.detach()
        old, old_bias = before[f"{names[place]}.weights.weight"], before[f"{names[place]}.weights.bias"]
        torch.testing.assert_close(weight, weights_of(bounded.network[place]).weight.detach())
        end = weight.shape[1] - (2 * spread if place else 0)
        num_old = len(weight) - (2 if place < len(locked) else 0)
        for row in range(num_old):
            moved = torch.cat([(weight[row, :end] - old[row, :end]).flatten(), bias[row : row + 1] - old_bias[row]])
            if place < len(locked) and locked[place][row]:
                assert float(moved.norm()) == pytest.approx(0.25, rel=1e-4)
            else:
                assert torch.equal(weight[row, :end], far[f"{names[place]}.weights.weight"][row, :end])
        for row in range(num_old, len(weight)):
            assert float(torch.cat([weight[row].flatten(), bias[row : row + 1]]).norm()) == pytest.approx(1, rel=1e-4)
        for unit in range(2 if place else 0):
            outgoing = weight[:num_old, end + unit * spread : end + (unit + 1) * spread]
            assert float(outgoing.norm()) == pytest.approx(0.25, rel=1e-4)


def test_a_growth_with_an_epsilon_stays_near():
    """Every unlocked neuron of the growth; without bounds the same training goes further."""
    data, moves = make_stream()[0].dataset.train, {}
    for epsilon in (0.0, 0.01):
        master, _ = made(SKELETONS["linear"])
        draft = master.draft([torch.arange(width) for width in master.widths], 2)
        options = {"num_new": 1, "num_chosen": 20, "candidate_epochs": 3, "saves": Saves(), "phase": "test"}
        grown, counts = grow_draft(copy.deepcopy(draft), data, SETTINGS, seed=0, epsilon=epsilon, **options)
        own = grown.origins[0][:16] < 0
        assert counts["unlocked"] and bool(own.any())
        moved = weights_of(grown.network[0]).weight[:16][own] - weights_of(draft.network[0]).weight[own]
        moves[epsilon] = float(moved.detach().norm(dim=1).max())
    assert moves[0.01] <= 0.01 * (1 + 1e-5) < moves[0.0]


def test_a_task_that_the_mask_solves_adds_nothing():
    stream, method = make_stream(), started(lambda: make_method("firefly", goal=0.01, neurons=4))
    learn_next(method, stream)
    size = method.master.widths
    notes = learn_next(method, stream)
    assert notes["growths"] == notes["new"] == notes["unlocked"] == 0 and notes["solved"]
    assert method.master.widths == size
    assert "adds 0 in 0 growths; solved" in method.explain()[1]


def test_growth_ends_with_its_budget():
    stream, method = make_stream(), started(lambda: make_method("firefly", goal=1.0, neurons=4, rounds=2))
    method.settings = SETTINGS
    learn_next(method, stream)
    before = sum(method.master.widths)
    learn_next(method, stream)
    assert sum(method.master.widths) - before <= 2 * 4


@pytest.mark.parametrize(
    "options", [{"goal": 0.0}, {"neurons": 0}, {"rounds": -1}, {"start_share": 1.5}, {"epsilon": -0.1}]
)
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ConfigError):
        make_method("firefly", **options)


@pytest.mark.parametrize("name", SKELETONS)
def test_weights_between_neurons_of_no_common_task_are_neither_counted_nor_stored(name):
    skeleton = SKELETONS[name]
    master, first = made(skeleton)
    torch.manual_seed(3)
    strangers = Draft(
        skeleton, skeleton.make_network(2, 5), [torch.full((layer.width,), -1) for layer in skeleton.layers]
    )
    master.add(strangers)
    # Two networks that have nothing in common: the master is both, whatever its matrices look like.
    both = sum(param.numel() for draft in (first, strangers) for param in draft.network.parameters())
    assert master.num_parameters() == both
    state = master.state()
    stored = sum(values.numel() for values in state["weights"])
    assert stored == sum(
        weights_of(layer).weight.numel() for draft in (first, strangers) for layer in draft.network[:-1]
    )
    read = Master(skeleton, "cpu")
    read.load_state(state)
    dense = Master(skeleton, "cpu")
    dense.load_state({**state, "weights": master.weights})  # as earlier versions stored it
    for other in (read, dense):
        assert all(torch.equal(a, b) for a, b in zip(master.weights, other.weights, strict=True))
        assert other.num_parameters() == both
    x = torch.randn(6, 1, 5, 5)
    for place in range(2):
        assert torch.equal(read.network(place, 2)(x), master.network(place, 2)(x))


def test_a_limit_of_reuse_keeps_the_best_neurons():
    assert kept(torch.tensor([0.02, 0.0, 0.01, 0.03, 0.02]), 3).tolist() == [0, 3, 4]
    assert kept(torch.tensor([0.0, -1.0]), 5).tolist() == [0]  # a layer must have a neuron
    stream = make_stream(size=3)
    method = started(lambda: make_method("firefly", reuse=0.25, goal=1.0, rounds=1, neurons=6))
    for _ in stream:
        learn_next(method, stream)
    widths = [layer.width for layer in method.skeleton.layers]
    for place in (1, 2):
        reused = [sum(counts[:-1]) for counts in method.master.uses(place)]
        limits = [round(0.25 * width) for width in widths]
        assert all(number <= limit for number, limit in zip(reused, limits, strict=True))
    assert reused == limits  # the third task could have had more
    with pytest.raises(ConfigError, match="reuse must not be negative"):
        make_method("firefly", reuse=-1)
