"""Every way to grow passes one suite; each formula is compared with a slow, obvious twin."""

import copy

import growth_networks
import pytest
import torch
from growth_networks import GROUPS
from torch import nn

from ramet.errors import ConfigError, RunError
from ramet.growth.base import Edit, Growth, Proposal
from ramet.growth.budget import Budget
from ramet.growth.meter import Meter, select
from ramet.growth.methods.autogrow import AutoGrow
from ramet.growth.methods.candidate_network import CandidateNetwork
from ramet.growth.methods.even import Even
from ramet.growth.methods.firefly import Firefly, integrated_gradients, integrated_separately, train_candidates
from ramet.growth.methods.gradmax import GradMax
from ramet.growth.methods.nash import Nash
from ramet.growth.methods.net2net import Net2Net
from ramet.growth.methods.random_choice import RandomChoice
from ramet.growth.methods.redrawn import Redrawn
from ramet.growth.methods.splitting import Splitting, hessian_product, random_blocks, smallest_eigenpairs
from ramet.growth.surgery.layers import Deepening, Site, deepen
from ramet.testing.growths import check_growth, choose, grow_once, make_context
from ramet.tracing.axes import Axis
from ramet.tracing.probing import largest_change, outputs

METHODS = {
    "firefly": (lambda e: Firefly(num_new=3, layer_width=3, epsilon=e, num_steps=3, num_score_batches=1), {}),
    "firefly-separate": (
        lambda e: Firefly(num_new=1, epsilon=e, num_steps=2, num_score_batches=1, separate=True),
        {"budget": Budget("neurons", 1e9, 3.0)},
    ),
    "splitting": (lambda e: Splitting(epsilon=e, num_batches=1), {}),
    "net2net": (lambda e: Net2Net(noise=e), {}),
    "even": (lambda e: Even(), {}),
    "random": (lambda e: RandomChoice(epsilon=e), {}),
    "random-new": (lambda e: RandomChoice(num_new=3, epsilon=e), {}),
    "random-best": (lambda e: RandomChoice(num_tries=2, num_steps=2, epsilon=e), {"trains_candidates": True}),
    "nash": (lambda e: Nash(num_neighbours=2, num_steps=2, noise=e), {"trains_candidates": True}),
    "nash-untrained": (lambda e: Nash(num_neighbours=2, num_steps=0, noise=e), {}),
    "autogrow": (lambda e: AutoGrow(), {}),
    "gradmax": (lambda e: GradMax(num_new=3, epsilon=e, num_batches=1), {}),
    "redrawn": (lambda e: Redrawn(Net2Net()), {"keeps_function": False}),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_conform(name):
    make, options = METHODS[name]
    check_growth(make, **options)


def test_even_growth_keeps_proportions_and_can_learn_from_zeros():
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    nn.init.zeros_(net[2].weight)
    context = make_context(net, torch.randn(8, 4), budget=Budget("neurons", 24.0, 12.0))
    _, grown = grow_once(Even(), context)
    assert [grown[number].out_features for number in (0, 2)] == [8, 16]
    assert largest_change(outputs(net, context.x), outputs(grown, context.x)) < 1e-6
    assert bool((grown[2].weight[8:, :4].norm(dim=1) > 0).all()), "drawn, although what is there has no spread"


def test_even_growth_fills_its_step_although_groups_are_coarse():
    """Of four units an eighth is none or one: 165 weights, where the step of 215 has room for that and little else."""
    net = nn.Sequential(nn.Linear(100, 4), nn.ReLU(), nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2))
    context = make_context(net, torch.randn(8, 100), budget=Budget("params", 5000.0, 215.0))
    before, after = (sum(p.numel() for p in each.parameters()) for each in (net, grow_once(Even(), context)[1]))
    assert 0.9 * 215 <= after - before <= 215


@pytest.mark.parametrize("name", ["firefly", "splitting", "net2net", "gradmax", "even"])
@pytest.mark.parametrize("network", ["mobile", "language"])
def test_methods_conform_on_images_and_text(name, network):
    make, options = METHODS[name]
    net, inputs = growth_networks.build()[network]
    check_growth(make, net, inputs, budget=Budget("params", 1e9, 0.3), **options)


def test_the_suite_can_fail():
    class Spoils(Growth):
        """Moves the network while it proposes."""

        def propose(self, context):
            with torch.no_grad():
                next(context.network.parameters()).add_(1.0)
            return Net2Net().propose(context)

        def score(self, context, proposal):
            return Net2Net().score(context, proposal)

        def apply(self, context, proposal, chosen):
            return Net2Net().apply(context, proposal, chosen)

    class Loud(Spoils):
        """Adds new units that are heard at once, however small the step."""

        def propose(self, context):
            return RandomChoice(num_new=3, epsilon=1.0).propose(context)

        def apply(self, context, proposal, chosen):
            return RandomChoice(epsilon=1.0).apply(context, proposal, chosen)

    class Forgets(Loud):
        def apply(self, context, proposal, chosen):
            return Net2Net(noise=0).apply(context, proposal, chosen[1:])

    with pytest.raises(AssertionError, match="leave the network as it is"):
        check_growth(lambda e: Spoils())
    with pytest.raises(AssertionError, match="about a tenth"):
        check_growth(lambda e: Loud())
    with pytest.raises(AssertionError, match="just the chosen units"):
        check_growth(lambda e: Forgets())


def scene_of(hidden=3, budget=None, activation=nn.Tanh):
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(2, hidden), activation(), nn.Linear(hidden, 2)).double()
    return make_context(network, torch.randn(4, 2).double(), budget=budget)


def test_the_over_grown_network_is_the_formula():
    """f = sum of half the copies at +- eps delta, plus eps sigma(delta): Section 2.2, written out."""
    context = scene_of()
    over = CandidateNetwork(context, num_new=2)
    generator = torch.Generator().manual_seed(5)
    epsilon = 0.3 * torch.randn(5, generator=generator, dtype=torch.float64)
    first, _, second = context.network
    split, new = over.parts
    x = context.x[:7]
    expected = second.bias.expand(7, 2).clone()
    for i in range(3):
        step, bias = epsilon[i] * split.incoming["0.weight"].value[i], epsilon[i] * split.incoming["0.bias"].value[i]
        for sign in (1, -1):
            activation = torch.tanh(x @ (first.weight[i] + sign * step) + first.bias[i] + sign * bias)
            expected = expected + 0.5 * activation[:, None] * second.weight[:, i]
    for j in range(2):
        activation = torch.tanh(x @ new.incoming["0.weight"].value[j] + new.incoming["0.bias"].value[j])
        expected = expected + epsilon[3 + j] * activation[:, None] * new.outgoing["2.weight"].value[:, j]
    assert torch.allclose(over(x, epsilon), expected, atol=1e-12)
    # And the edit of a choice is the same network with the others switched off.
    grown = context.grown(over.edit([0, 2, 4], epsilon))
    kept = torch.tensor([1.0, 0, 1, 0, 1], dtype=torch.float64)
    assert torch.allclose(grown(x), over(x, epsilon * kept), atol=1e-12)
    assert grown[0].out_features == 6


def test_a_layer_is_the_formula():
    context = scene_of(budget=Budget("neurons", 1e9, 4.0, layers=1))
    over = CandidateNetwork(context, split=False, layer_width=2)
    epsilon = torch.tensor([0.3, -0.2], dtype=torch.float64)
    (part,) = over.parts
    inner, bias = part.incoming["1.1.inner.weight"].value, part.incoming["1.1.inner.bias"].value
    outer = part.outgoing["1.1.outer.weight"].value
    hidden = torch.tanh(context.network[0](context.x))
    expected = context.network[2](hidden + torch.tanh(hidden @ inner.T + bias) * epsilon @ outer.T)
    assert torch.allclose(over(context.x, epsilon), expected, atol=1e-12)
    grown = context.grown(over.edit([1], epsilon))
    assert torch.allclose(grown(context.x), over(context.x, torch.tensor([0.0, -0.2]).double()), atol=1e-12)


def test_a_copy_of_a_deepened_network_gets_further_layers_in_the_same_place():
    network = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
    site = Site("1", 0, ((Axis(3),),), nn.Tanh(), normalised=False, positions=1)
    deepen(network, site, Deepening("1", 2))
    copied = copy.deepcopy(network)
    assert deepen(copied, site, Deepening("1", 5)) == deepen(network, site, Deepening("1", 5)) == "1.2"
    assert copied.state_dict().keys() == network.state_dict().keys()


def test_layers_and_widenings_of_the_same_place_go_together():
    context = scene_of(budget=Budget("neurons", 1e9, 40.0, layers=1))
    over = CandidateNetwork(context, num_new=2, layer_width=2)
    for epsilon, bound in ((1e-2, 2e-2), (0.0, 1e-13)):
        step = torch.full((len(over.candidates),), epsilon, dtype=torch.float64)
        grown = context.grown(over.edit(range(len(over.candidates)), step))
        assert largest_change(outputs(context.network, context.x), outputs(grown, context.x)) < bound
    assert grown[1][1].inner.in_features == grown[0].out_features == 8


def test_step_one_lowers_the_loss_and_keeps_its_bounds():
    context = scene_of()
    over = CandidateNetwork(context, num_new=4)
    epsilon = torch.full((7,), 0.05, dtype=torch.float64, requires_grad=True)
    before = context.loss(over(context.x, epsilon), context.y).item()
    train_candidates(context, over, epsilon, 0.1, 60, 0.02)
    assert context.loss(over(context.x, epsilon), context.y).item() < before
    assert epsilon.abs().max() <= 0.1
    for part in over.parts:
        for directions in (part.incoming, part.outgoing):
            if directions:
                norms = sum(d.norms().square() for d in directions.values()).sqrt()
                assert norms.max() <= 1 + 1e-9


@pytest.mark.parametrize("name", GROUPS)
def test_directions_start_at_norm_one_over_all_tensors_of_a_unit(name):
    """Also where a unit's weights do not lie side by side (flattened images): the twin gathers them as rows."""
    network, inputs = growth_networks.build()[name]
    over = CandidateNetwork(make_context(network, inputs), num_new=2)
    for part in over.parts:
        steps_in = part.kind == "split" or part.steps_in
        for directions, exactly in ((part.incoming, steps_in), (part.outgoing, not part.steps_in)):
            if not directions:
                continue
            rows = torch.cat([d.rows(d.value.detach()) for d in directions.values()], dim=1)
            norms = torch.linalg.vector_norm(rows, dim=1)
            together = torch.stack([d.norms().detach() for d in directions.values()]).square().sum(0).sqrt()
            assert torch.allclose(together, norms, atol=1e-12)
            assert torch.allclose(norms, torch.ones_like(norms)) if exactly else (norms <= 1 + 1e-9).all()


def test_weights_that_two_layers_share_are_shared_in_the_over_grown_network():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.again, self.last = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 2)
            self.again.weight, self.again.bias = self.first.weight, self.first.bias

        def forward(self, x):
            return self.last(torch.tanh(self.again(x)) + torch.tanh(self.first(x.flip(1))))

    torch.manual_seed(0)
    context = make_context(Twice().double(), torch.randn(4, 3).double())
    over = CandidateNetwork(context, num_new=2)
    epsilon = over.step_sizes(0.3)
    chosen = list(range(len(over.candidates)))
    assert torch.allclose(over(context.x, 0 * epsilon), context.network(context.x), atol=1e-12)
    assert torch.allclose(over(context.x, epsilon), context.grown(over.edit(chosen, epsilon))(context.x), atol=1e-12)


def test_scores_are_the_integral():
    """With many points, eps_i s_i is what the loss changes by when candidate i alone is turned on (Eq. 5)."""
    context = scene_of()
    over = CandidateNetwork(context, num_new=2)
    epsilon = torch.linspace(0.05, 0.3, 5, dtype=torch.float64)
    batches = [(context.x, context.y)]
    scores = integrated_separately(context, over, epsilon, batches, 64)
    for i in range(5):
        off = epsilon.clone()
        off[i] = 0.0
        with torch.no_grad():
            change = context.loss(over(context.x, epsilon), context.y) - context.loss(over(context.x, off), context.y)
        assert float(epsilon[i] * scores[i]) == pytest.approx(float(change), rel=1e-3)


def test_scores_along_the_common_path_add_up_to_the_change_of_the_loss():
    context = scene_of()
    over = CandidateNetwork(context, num_new=2)
    epsilon = torch.linspace(0.05, 0.3, 5, dtype=torch.float64)
    scores = integrated_gradients(context, over, epsilon, [(context.x, context.y)], 64)
    with torch.no_grad():
        change = context.loss(over(context.x, epsilon), context.y) - context.loss(
            over(context.x, 0 * epsilon), context.y
        )
    assert float((epsilon * scores).sum()) == pytest.approx(float(change), rel=1e-3)
    middle = (epsilon / 2).requires_grad_()
    (gradient,) = torch.autograd.grad(context.loss(over(context.x, middle), context.y), middle)
    assert torch.allclose(integrated_gradients(context, over, epsilon, [(context.x, context.y)], 1), gradient)


def test_only_some_groups_may_grow():
    network, inputs = growth_networks.build()["mlp"]
    context = make_context(network, inputs)
    assert {
        c.where for c in Firefly(num_steps=0, num_new=1, layer_width=0, only=["2"]).propose(context).candidates
    } == {"2"}
    with pytest.raises(ConfigError, match="must be among"):
        Firefly(num_steps=0, only=["nothing"]).propose(context)


def test_the_common_path_agrees_with_separate_ones_to_first_order():
    context = scene_of()
    over = CandidateNetwork(context, num_new=2)
    batches = [(context.x, context.y)]
    differences = []
    for size in (2e-3, 1e-3):
        epsilon = torch.full((5,), size, dtype=torch.float64)
        together = integrated_gradients(context, over, epsilon, batches, 3)
        alone = integrated_separately(context, over, epsilon, batches, 3)
        differences.append(float((together - alone).abs().max()))
    assert differences[1] < 0.55 * differences[0]


def test_a_split_has_a_score_at_the_midpoints_but_no_derivative_at_zero():
    context = scene_of()
    over = CandidateNetwork(context)
    zero = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(context.loss(over(context.x, zero), context.y), zero)
    assert gradient.abs().max() < 1e-15
    scores = integrated_gradients(context, over, torch.full((3,), 0.1).double(), [(context.x, context.y)], 3)
    assert scores.abs().min() > 1e-8


@pytest.mark.parametrize("steps", ["trained", "full"])
def test_firefly_goes_against_the_gradient_and_lowers_the_loss(steps):
    context = scene_of(budget=Budget("neurons", 1e9, 3.0))
    method = Firefly(num_new=8, epsilon=0.05, num_steps=40, learning_rate=0.02, steps=steps, apart=False)
    proposal, scores, chosen = choose(method, context)
    assert steps == "trained" or scores.min() >= 0, "magnitudes"
    edit = method.apply(context, proposal, chosen)
    grown = context.grown(edit)
    assert context.validation_loss(grown) < context.validation_loss(context.network)
    best = sorted(range(len(scores)), key=lambda i: -float(scores[i]))[:3]
    assert sorted(chosen) == sorted(best)


def test_splitting_matrices_are_those_of_the_paper():
    """S = E[dL/dsigma d2 sigma/d theta^2], formed densely for a two-layer network, against the implicit products."""
    context = scene_of(hidden=3)
    over = CandidateNetwork(context)
    over.big.eval()
    batches = [(context.x, context.y)]
    first, _, second = context.network
    x = torch.cat([context.x, torch.ones(len(context.x), 1).double()], 1)
    dense = []
    prediction = context.network(context.x)
    residual = 2 * (prediction - context.y) / prediction.numel()
    for i in range(3):
        z = context.x @ first.weight[i] + first.bias[i]
        curvature = -2 * torch.tanh(z) * (1 - torch.tanh(z) ** 2)  # second derivative of tanh
        weight = (residual @ second.weight[:, i]) * curvature
        dense.append((x * weight[:, None]).T @ x)
    dense = torch.stack(dense).detach()
    vectors = random_blocks(over, torch.Generator().manual_seed(0))
    (implicit,) = hessian_product(context, over, batches, vectors)
    assert torch.allclose(implicit, torch.einsum("uij,uj->ui", dense, vectors[0]), atol=1e-12)
    values, (found,) = smallest_eigenpairs(lambda v: hessian_product(context, over, batches, v), vectors, 3)
    expected, expected_vectors = torch.linalg.eigh(dense)
    assert torch.allclose(values, expected[:, 0], atol=1e-10)
    assert torch.allclose((found * expected_vectors[:, :, 0]).sum(1).abs(), torch.ones(3).double(), atol=1e-8)


def test_lanczos_finds_the_smallest_eigenpair_of_many_matrices():
    generator = torch.Generator().manual_seed(0)
    matrices = [torch.randn(4, n, n, generator=generator, dtype=torch.float64) for n in (1, 3, 9)]
    matrices = [m + m.mT for m in matrices]
    start = [torch.randn(4, m.shape[1], generator=generator, dtype=torch.float64) for m in matrices]

    def product(vectors):
        return [torch.einsum("uij,uj->ui", m, v) for m, v in zip(matrices, vectors, strict=True)]

    values, vectors = smallest_eigenpairs(product, start, 9)
    expected = torch.cat([torch.linalg.eigvalsh(m)[:, 0] for m in matrices])
    negative = expected < 0  # a space that is used up adds a zero, which is never worth a split
    assert torch.allclose(values[negative], expected[negative], atol=1e-9)
    for matrix, vector, value in zip(matrices, vectors, values.split(4), strict=True):
        image = torch.einsum("uij,uj->ui", matrix, vector)
        assert torch.allclose(image[value < 0], (value[:, None] * vector)[value < 0], atol=1e-7)


def test_splitting_predicts_the_change_of_the_loss():
    """A split by eps along the eigenvector changes the loss by eps^2 lambda / 2."""
    context = scene_of(budget=Budget("neurons", 1e9, 1.0))
    method = Splitting(epsilon=1e-2, num_iterations=3, num_batches=2)
    proposal, scores, chosen = choose(method, context)
    before, after = (
        context.validation_loss(context.network),
        context.validation_loss(context.grown(method.apply(context, proposal, chosen))),
    )
    assert after < before
    assert after - before == pytest.approx(-0.5 * 1e-4 * float(scores[chosen[0]]), rel=0.05)


def test_gradmax_is_the_singular_value_decomposition():
    context = scene_of(hidden=3)
    method = GradMax(num_new=2, num_iterations=60, num_batches=2, epsilon=0.0)
    proposal = method.propose(context)
    scores = method.score(context, proposal)
    residual = 2 * (context.network(context.x) - context.y) / context.y.numel()
    x = torch.cat([context.x, torch.ones(len(context.x), 1).double()], 1)
    singular = torch.linalg.svdvals((residual.T @ x).detach())
    assert torch.allclose(scores, singular, rtol=1e-6)
    _, grown = grow_once(method, context)
    assert largest_change(outputs(context.network, context.x), outputs(grown, context.x)) < 1e-12


def test_gradmax_wants_activations_that_are_zero_at_zero():
    with pytest.raises(ConfigError, match="zero at zero"):
        choose(GradMax(num_new=2), scene_of(activation=nn.Sigmoid))
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(2, 3), nn.Sigmoid(), nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1)).double()
    edit, _ = grow_once(GradMax(num_new=2), make_context(network, torch.randn(4, 2).double()))
    assert list(edit.widenings) == ["2"]


def test_nash_keeps_the_best_not_the_last():
    context = scene_of()
    method = Nash(num_neighbours=4, num_steps=3)
    proposal, scores, chosen = choose(method, context)
    assert chosen == [int(scores.argmax())]
    losses = []
    for edit in proposal.notes["edits"]:
        losses.append(context.validation_loss(context.grown(edit)))
    assert losses.index(min(losses)) == chosen[0]
    grown = context.grown(method.apply(context, proposal, chosen))
    assert context.validation_loss(grown) == min(losses)


def test_net2net_grows_every_layer_by_the_same_share():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 20), nn.ReLU(), nn.Linear(20, 10), nn.ReLU(), nn.Linear(10, 2))
    context = make_context(network, torch.randn(4, 3), budget=Budget("neurons", 1e9, 0.3))
    edit, _ = grow_once(Net2Net(), context)
    assert {name: w.num_added for name, w in edit.widenings.items()} == {"0": 6, "2": 3}


def test_autogrow_takes_turns_and_stops_what_does_not_pay():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))
    context = make_context(network, torch.randn(4, 3), budget=Budget("neurons", 1e9, 99.0, layers=1))
    method = AutoGrow(threshold=0.01)
    turns = []
    for score in (0.5, 0.6, 0.601, 0.7):
        method.observe(score)
        edit, _ = grow_once(method, context)
        turns.append(edit.layers[0].site)
    assert turns == ["1", "3", "1", "1"]  # "3" grew before 0.601 and did not pay
    assert [layer.width for layer in edit.layers] == [4]
    method.observe(0.7)
    assert method.propose(context) == Proposal([])


def test_redrawn_has_the_size_and_nothing_else():
    context = scene_of()
    edit, grown = grow_once(Redrawn(), context)
    other, _ = grow_once(Net2Net(), context)
    assert edit.num_units == other.num_units and edit.reset
    assert not torch.equal(grown[0].weight[:3], context.network[0].weight)


def test_a_loss_that_is_not_a_number_is_reported():
    context = scene_of()
    context.y = context.y * float("nan")
    with pytest.raises(RunError, match="must stay finite, but is nan"):
        Firefly(num_new=2, num_steps=2).propose(context)
    with pytest.raises(RunError, match="must stay finite, but is nan"):
        choose(Nash(num_neighbours=1, num_steps=1), context)


@pytest.mark.parametrize("unit", ["params", "flops", "neurons"])
@pytest.mark.parametrize("name", ["mobile", "residual", "grouped", "language"])
def test_meters_agree_with_the_grown_network(unit, name):
    """What a meter adds up without building anything is what the built network has."""
    from ramet.growth.surgery.layers import find_sites
    from ramet.growth.tracing.checking import find_coupling

    network, inputs = growth_networks.build()[name]
    context = make_context(network, inputs, budget=Budget(unit, 1e12, 0.5, layers=2))
    over = CandidateNetwork(context, num_new=2, layer_width=2)
    meter = context.meter()
    scores = torch.rand(len(over.candidates), generator=torch.Generator().manual_seed(0))
    places = [(c.kind, c.where) for c in over.candidates]
    chosen = select(meter, places, scores, context.allowance, 2)
    grown = context.grown(over.edit(chosen, torch.zeros(len(over.candidates), dtype=torch.float64)))
    coupling = find_coupling(grown, inputs[:2])
    built = Meter(grown, coupling, find_sites(grown, coupling)[0], unit)
    assert meter.size == pytest.approx(built.size, rel=1e-9)
    assert meter.size <= context.meter().size + context.allowance
    if unit == "params":
        assert built.size == sum(p.numel() for p in grown.parameters())


def test_selection_by_hand():
    """Greedy by score; what does not fit is passed over; layers need two neurons and are limited in number."""
    context = scene_of(hidden=4, budget=Budget("neurons", 1e9, 3.0, layers=1))
    places = [("split", "0"), ("layer", "1"), ("new", "0"), ("layer", "1"), ("split", "0")]
    choice = select(context.meter(), places, torch.tensor([1.0, 5.0, 4.0, 0.5, 3.0]), 3.0, 1)
    assert choice == [2, 4, 0]  # the layer's first neuron is best, but a second one does not fit: the layer is dropped
    choice = select(context.meter(), places, torch.tensor([1.0, 5.0, 4.0, 4.5, 3.0]), 3.0, 1)
    assert choice == [1, 3, 2]
    assert select(context.meter(), places, torch.tensor([1.0, 5.0, 4.0, 4.5, 3.0]), 3.0, 0) == [2, 4, 0]
    assert select(context.meter(), places[:1], torch.tensor([-torch.inf]), 3.0, 0) == []


def test_budgets():
    assert Budget.parse("neurons=64, step=2").allowance(63.0) == 1.0
    assert Budget.parse("latency=2ms").total == pytest.approx(0.002)
    assert Budget.parse("flops=3M,step=10%").allowance(1e6) == pytest.approx(1e5)
    for text in ("params", "params=many", "width=3", "params=3,flops=4", "params=-3", "params=3q"):
        with pytest.raises(ConfigError):
            Budget.parse(text)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Firefly(split=False, num_new=0, layer_width=0),
        lambda: Firefly(epsilon=0),
        lambda: Firefly(num_points=0),
        lambda: Firefly(score_share=-0.1),
        lambda: Firefly(steps="half"),
        lambda: Splitting(num_iterations=0),
        lambda: Net2Net(noise=-1),
        lambda: RandomChoice(num_tries=0),
        lambda: Nash(num_neighbours=0),
        lambda: AutoGrow(width=0),
        lambda: GradMax(scale=0),
    ],
)
def test_bad_numbers_are_refused(make):
    with pytest.raises(ConfigError, match="but got"):
        make()


def test_an_edit_on_the_network_itself_carries_the_optimizer_along():
    from ramet.growth.base import carry_out

    context = scene_of(budget=Budget("neurons", 1e9, 40.0, layers=1))
    network = copy.deepcopy(context.network)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    context.loss(network(context.x), context.y).backward()
    optimizer.step()
    context.network.load_state_dict(network.state_dict())
    over = CandidateNetwork(context, num_new=2, layer_width=2)
    edit = over.edit(range(len(over.candidates)), torch.zeros(len(over.candidates), dtype=torch.float64))
    assert isinstance(edit, Edit)
    carry_out(network, context.coupling, context.sites, edit, seed=0, optimizer=optimizer)
    assert {id(p) for g in optimizer.param_groups for p in g["params"]} == {id(p) for p in network.parameters()}
    optimizer.zero_grad()
    context.loss(network(context.x), context.y).backward()
    optimizer.step()
