"""Widening: the same function at epsilon 0, a change of order epsilon otherwise, and all that grows along."""

import copy
import gc

import growth_networks
import pytest
import torch
from growth_networks import GROUPS
from torch import nn
from torch.optim.swa_utils import AveragedModel

from ramet.errors import ConfigError
from ramet.growth.surgery.widening import Widening, WideningPlan, slot_shape
from ramet.growth.surgery.writing import widen
from ramet.growth.tracing.checking import find_coupling
from ramet.tracing.probing import largest_change, outputs

NETWORKS = growth_networks.build()


def case(name):
    network, inputs = NETWORKS[name]
    return copy.deepcopy(network), inputs


def random_widenings(coupling, epsilon, seed=0, splits=True, new=2):
    """Every group split in half of its units and given new ones, with random directions."""
    generator = torch.Generator().manual_seed(seed)
    widenings = {}
    for group in coupling.groups.values():
        order = torch.randperm(group.size, generator=generator)
        sources = order[: (group.size + 1) // 2 if splits and not group.norms else 0]

        def draw(role, units, scale, group=group):
            return {
                slot.tensor: scale
                * torch.randn(
                    slot_shape(coupling, group, slot.tensor, slot.dim, units), generator=generator, dtype=torch.float64
                )
                for slot in group.slots
                if slot.role == role
            }

        # What reads a unit behind its norm is free, and what makes it is not.
        scales = (epsilon, 1.0) if group.norms else (1.0, epsilon)
        widenings[group.name] = Widening(
            sources=sources,
            steps=draw("out", len(sources), epsilon) if splits else {},
            num_new=new,
            incoming=draw("out", new, scales[0]),
            outgoing=draw("in", new, scales[1]),
        )
    return widenings


@pytest.mark.parametrize("name", GROUPS)
def test_groups_are_those_worked_out_by_hand(name):
    network, inputs = case(name)
    coupling = find_coupling(network, inputs)
    assert {group.name: group.size for group in coupling.groups.values()} == GROUPS[name]
    named = {refusal.name for refusal in coupling.refusals}
    for module_name, module in network.named_modules():
        if isinstance(module, nn.Linear | nn.modules.conv._ConvNd | nn.Embedding):
            own = {f"{module_name}.weight", f"{module_name}.in_proj_weight"}
            tensors = [tensor for tensor, names in coupling.aliases.items() if own & set(names)]
            grown = any(slot.tensor in tensors for group in coupling.groups.values() for slot in group.slots)
            assert grown or module_name in named, f"{module_name} is neither grown nor named"


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", GROUPS)
def test_epsilon_zero_is_exact(name, training):
    network, inputs = case(name)
    coupling = find_coupling(network, inputs)
    for module in network.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0
    wide = copy.deepcopy(network)
    widen(wide, coupling, random_widenings(coupling, 0.0))
    sizes = [sum(p.numel() for p in net.parameters()) for net in (network, wide)]
    assert sizes[1] > sizes[0]
    if training:
        network.train(), wide.train()
        before, after = [network(inputs).detach()], [wide(inputs).detach()]
    else:
        before, after = outputs(network, inputs), outputs(wide, inputs)
    assert largest_change(before, after) < 1e-12


@pytest.mark.parametrize("kind", ["split", "new"])
@pytest.mark.parametrize("name", GROUPS)
def test_the_change_is_of_the_right_order_in_epsilon(name, kind):
    """Halving epsilon halves the change for new units, and quarters it for symmetric splits."""
    network, inputs = case(name)
    coupling = find_coupling(network, inputs)
    changes = []
    for epsilon in (2e-4, 1e-4):
        wide = copy.deepcopy(network)
        new = 0 if kind == "split" else 2
        widen(wide, coupling, random_widenings(coupling, epsilon, splits=kind == "split", new=new))
        changes.append(largest_change(outputs(network, inputs), outputs(wide, inputs)))
    if kind == "split":
        # Second order; where a kink of ReLU lies inside the step, first order; between kinks, nothing at all.
        assert changes[1] <= changes[0] * 0.51 + 1e-14
    else:
        assert changes[0] / changes[1] == pytest.approx(2.0, rel=0.02)


def test_a_split_of_a_smooth_network_changes_it_in_second_order():
    network, inputs = case("shared")
    coupling = find_coupling(network, inputs)
    changes = []
    for epsilon in (2e-3, 1e-3):
        wide = copy.deepcopy(network)
        widen(wide, coupling, random_widenings(coupling, epsilon, new=0))
        changes.append(largest_change(outputs(network, inputs), outputs(wide, inputs)))
    assert changes[0] / changes[1] == pytest.approx(4.0, rel=0.05)


def test_a_split_by_hand():
    """Two inputs, one unit, one output: incoming w +- s, outgoing halved."""
    network = nn.Sequential(nn.Linear(2, 1), nn.Tanh(), nn.Linear(1, 1))
    network.load_state_dict(
        {
            "0.weight": torch.tensor([[1.0, 2.0]]),
            "0.bias": torch.tensor([3.0]),
            "2.weight": torch.tensor([[4.0]]),
            "2.bias": torch.tensor([5.0]),
        }
    )
    coupling = find_coupling(network, torch.randn(3, 2))
    step = {"0.weight": torch.tensor([[0.1, 0.2]]), "0.bias": torch.tensor([0.3])}
    new = {"0.weight": torch.tensor([[7.0, 8.0]]), "0.bias": torch.tensor([9.0])}
    widening = Widening(torch.tensor([0]), step, 1, new, {"2.weight": torch.tensor([[0.5]])})
    widen(network, coupling, {"0": widening})
    assert torch.allclose(network[0].weight, torch.tensor([[1.1, 2.2], [0.9, 1.8], [7.0, 8.0]]))
    assert torch.allclose(network[0].bias, torch.tensor([3.3, 2.7, 9.0]))
    assert torch.allclose(network[2].weight, torch.tensor([[2.0, 2.0, 0.5]]))
    assert (network[0].out_features, network[2].in_features) == (3, 3)


@pytest.mark.parametrize("name", [name for name in GROUPS if name not in ("encoder", "vision")])
def test_gradients_map_as_the_optimizer_state_does(name):
    """The wide network's own gradient equals the old gradient grown by ``grow_state``: momentum stays true.

    Not so for channels under a layer norm (vision): what every channel has in common goes to the new ones too.
    """
    network, inputs = case(name)
    network.eval()
    coupling = find_coupling(network, inputs)
    widenings = random_widenings(coupling, 0.0)
    wide = copy.deepcopy(network)
    plan = WideningPlan(coupling, widenings)
    widen(wide, coupling, widenings)
    for net in (network, wide):
        net(inputs).square().sum().backward()
    grads = dict(network.named_parameters())
    for parameter_name, parameter in wide.named_parameters():
        old = grads[parameter_name].grad
        expected = plan.grow_state(parameter_name, old) if parameter_name in plan.tensors else old
        # New units have gradients of their own (that is why they are chosen), and start without momentum.
        known = plan.grow_state(parameter_name, torch.ones_like(old)) != 0 if parameter_name in plan.tensors else ...
        assert torch.allclose(parameter.grad[known], expected[known], atol=1e-10), parameter_name


@pytest.mark.parametrize(
    "make",
    [
        lambda params: torch.optim.SGD(params, lr=0.05, momentum=0.9, nesterov=True),
        lambda params: torch.optim.SGD(params, lr=0.05),
        lambda params: torch.optim.Adam(params, lr=0.01, amsgrad=True),
        lambda params: torch.optim.RMSprop(params, lr=0.01, momentum=0.5),
    ],
)
def test_optimizer_state_grows_along(make):
    network, inputs = case("residual")
    optimizer = make(network.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        network(inputs).square().sum().backward()
        optimizer.step()
    coupling = find_coupling(network, inputs)
    old_state = {name: dict(optimizer.state[p]) for name, p in network.named_parameters()}
    widenings = random_widenings(coupling, 0.0)
    plan = widen(network, coupling, widenings, optimizer=optimizer)
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    assert held == {id(p) for p in network.parameters()}
    assert set(map(id, optimizer.state)) <= held
    for name, parameter in network.named_parameters():
        for key, value in optimizer.state[parameter].items():
            if torch.is_tensor(value) and value.dim():
                assert value.shape == parameter.shape
                power = 2.0 if "sq" in key else 1.0
                if name in plan.tensors:
                    assert torch.equal(value, plan.grow_state(name, old_state[name][key], power))
    before = [parameter.detach().clone() for parameter in network.parameters()]
    network(inputs).square().sum().backward()
    optimizer.step()
    assert all(not torch.equal(old, new) for old, new in zip(before, network.parameters(), strict=True))


def test_averages_grow_along():
    network, inputs = case("residual")
    average = AveragedModel(network, avg_fn=lambda mean, new, count: 0.5 * mean + 0.5 * new)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1)
    average.update_parameters(network)
    coupling = find_coupling(network, inputs)
    before = outputs(average, inputs)
    widen(network, coupling, random_widenings(coupling, 0.0), averages=[average])
    assert largest_change(before, outputs(average, inputs)) < 1e-12
    average.update_parameters(network)
    with pytest.raises(ConfigError, match="must have the network's tensors"):
        widen(network, find_coupling(network, inputs), {}, averages=[nn.Linear(2, 2)])


def test_batch_statistics_are_copied_for_splits():
    network, inputs = case("residual")
    coupling = find_coupling(network, inputs)
    old = network.norm.running_mean.clone()
    widen(network, coupling, {"a": Widening(sources=torch.tensor([4, 1]), num_new=1)})
    assert torch.equal(network.norm.running_mean, torch.cat([old, old[[4, 1]], torch.zeros(1)]))
    assert network.norm.num_features == 9 and float(network.norm.running_var[-1]) == 1.0


def test_several_copies_of_one_unit_share_its_outgoing_weights():
    network, inputs = case("mlp")
    coupling = find_coupling(network, inputs)
    incoming, old = network[0].weight.detach().clone(), network[2].weight.detach().clone()
    before = outputs(network, inputs)
    steps = {"0.weight": torch.arange(12.0).view(2, 6).double()}
    stepped = copy.deepcopy(network)
    widen(network, coupling, {"0": Widening(sources=torch.tensor([2, 2]))})
    assert torch.allclose(network[2].weight[:, [2, 5, 6]], old[:, [2, 2, 2]] / 3)
    assert largest_change(before, outputs(network, inputs)) < 1e-12
    widen(stepped, coupling, {"0": Widening(sources=torch.tensor([2, 2]), steps=steps)})
    first, second = steps["0.weight"]
    expected = incoming[2] + torch.stack([first + second, -first, -second])
    assert torch.allclose(stepped[0].weight[[2, 5, 6]], expected)


@pytest.mark.parametrize("name", GROUPS)
def test_steps_and_new_units_that_are_placed_at_once_are_those_placed_one_by_one(name):
    network, inputs = case(name)
    coupling = find_coupling(network, inputs)
    both = random_widenings(coupling, 0.5)
    for widening in both.values():  # a unit with two copies, whose steps add up
        widening.sources[-1:] = widening.sources[:1]
    tensors = {n: t.detach() for n, t in [*network.named_parameters(), *network.named_buffers()]}

    def grown(steps, new):
        parts = {
            name: Widening(
                sources=w.sources,
                steps=w.steps if steps else {},
                num_new=w.num_new,
                incoming=w.incoming if new else {},
                outgoing=w.outgoing if new else {},
            )
            for name, w in both.items()
        }
        plan = WideningPlan(coupling, parts)
        return {name: plan.grow_weight(name, tensors[name]) for name in plan.tensors}

    neither, whole = grown(False, False), grown(True, True)
    for name, tensor in whole.items():
        apart = grown(True, False)[name] + grown(False, True)[name] - neither[name]
        assert torch.allclose(tensor, apart, rtol=0, atol=1e-12), name


def test_a_wide_network_is_plain_and_loads_without_ramet(tmp_path):
    from safetensors.torch import load_file, save_file

    network, inputs = case("mobile")
    coupling = find_coupling(network, inputs)
    widen(network, coupling, random_widenings(coupling, 0.1))
    assert not any(type(module).__module__.startswith("ramet") for module in network.modules())
    save_file(network.state_dict(), tmp_path / "wide.safetensors")
    again = copy.deepcopy(network)
    for parameter in again.parameters():
        parameter.data.zero_()
    again.load_state_dict(load_file(tmp_path / "wide.safetensors"))
    assert largest_change(outputs(network, inputs), outputs(again, inputs)) == 0
    # Its modules say the right things about themselves, and it can grow again.
    assert network.features[3].groups == network.features[3].in_channels == network.features[0].out_channels
    assert find_coupling(network, inputs).groups.keys() == GROUPS["mobile"].keys()


def test_bad_widenings_are_refused():
    network, inputs = case("mlp")
    coupling = find_coupling(network, inputs)
    with pytest.raises(ConfigError, match="must be among"):
        widen(network, coupling, {"nothing": Widening(num_new=1)})
    with pytest.raises(ConfigError, match="below the 5 of 0"):
        widen(network, coupling, {"0": Widening(sources=torch.tensor([5]))})


def test_a_plan_that_was_carried_out_holds_no_weights():
    """Of a large network it would hold every weight twice more, as it was and as it is."""
    network = nn.Sequential(nn.Linear(7, 101), nn.ReLU(), nn.Linear(101, 5))
    coupling = find_coupling(network, torch.randn(2, 7))
    plan = widen(network, coupling, {"0": Widening(num_new=2, incoming={"0.weight": torch.randn(2, 7)})})
    gc.collect()
    shapes = [tuple(value.shape) for value in gc.get_objects() if type(value) in (torch.Tensor, nn.Parameter)]
    assert plan.tensors and (101, 7) not in shapes and shapes.count((103, 7)) == 1
