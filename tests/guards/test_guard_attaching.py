"""A guard on an optimizer: the order within a step, and what must not happen."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from guarded_loops import (
    GUARDS,
    Loop,
    assert_same,
    batches,
    by_hand,
    expected,
    first_task,
    optimizer_of,
    remembering,
    samples,
    values,
)
from torch import nn
from torch.nn.functional import cross_entropy

from ramet.errors import ConfigError, RunError
from ramet.guards import (
    ElasticConsolidation,
    KroneckerPlasticity,
    NoGuard,
    NoveltyConstraints,
    WeightPlasticity,
    attach,
    chain,
    diagonal_fisher,
    remember_batches,
)
from ramet.guards.turns import VoidGuardWarning
from ramet.params import named_params


def attached(network, guard, parts, *, closure=False):
    """An epoch in a loop that knows no guard."""
    optimizer, schedule = optimizer_of(network)
    with attach(guard, network, optimizer):
        for batch in parts:

            def loss(batch=batch):
                optimizer.zero_grad()
                value = network(**batch)["loss"]
                value.backward()
                return value

            if closure:
                optimizer.step(loss)
            else:
                loss()
                optimizer.step()
            schedule.step()
    return optimizer


@pytest.mark.parametrize("closure", [False, True])
@pytest.mark.parametrize("guard", GUARDS)
def test_it_equals_a_step_around_the_optimizers(guard, closure):
    start, rows = first_task(), samples(1, 20)
    network = copy.deepcopy(start)
    optimizer = attached(network, remembering(guard, network), batches(rows), closure=closure)
    assert_same(values(network), expected(start, guard, Loop(), rows))
    assert not optimizer._optimizer_step_pre_hooks and not optimizer._optimizer_step_post_hooks


def test_a_closure_as_a_keyword():
    weight = nn.Parameter(torch.tensor([1.0]))
    guard, holder = WeightPlasticity(3.0), nn.ParameterDict({"w": weight})
    optimizer = torch.optim.SGD(holder.parameters(), lr=1.0)
    weight.grad = torch.tensor([1.0])
    guard.remember(named_params(holder))

    def closure():
        weight.grad = torch.tensor([1.0])
        return weight.sum()

    with attach(guard, holder, optimizer):
        optimizer.step(closure=closure)
    assert weight.item() == 0.75, "a quarter of the way"


def test_two_optimizers_have_each_their_own_parameters():
    start, rows = first_task(), samples(1, 12)
    networks = [copy.deepcopy(start) for _ in range(2)]
    guards = [remembering("plasticity", network) for network in networks]
    by_hand(networks[0], guards[0], batches(rows), Loop())
    network, guard = networks[1], guards[1]
    kinds = [list(network.head.parameters()), [p for n, p in network.named_parameters() if not n.startswith("head")]]
    optimizers = [torch.optim.AdamW(kind, lr=3e-3, weight_decay=0.1) for kind in kinds]
    attachments = [attach(guard, network, optimizer) for optimizer in optimizers]
    schedules = [torch.optim.lr_scheduler.LambdaLR(each, lambda step: 1 / (1 + step)) for each in optimizers]
    for batch in batches(rows):
        network.zero_grad()
        network(**batch)["loss"].backward()
        for each in (*optimizers, *schedules):
            each.step()
    for attachment in attachments:
        attachment.detach()
    assert_same(values(network), values(networks[0]))


def test_a_scaled_step_equals_the_unscaled_one_and_a_skipped_one_does_nothing():
    start, (batch,) = first_task(), batches(samples(1, 4))
    found = []
    for scale in (1.0, 1024.0):  # a power of two: scaling and unscaling lose no bit
        network = copy.deepcopy(start)
        guard, (optimizer, _) = remembering("both", network), optimizer_of(network)
        scaler = torch.amp.GradScaler("cpu", init_scale=scale)
        with attach(guard, network, optimizer):
            scaler.scale(network(**batch)["loss"]).backward()
            scaler.step(optimizer)  # unscales by itself
            scaler.update()
            found.append(values(network))
            network.zero_grad()
            (scaler.scale(network(**batch)["loss"]) * float("inf")).backward()
            scaler.step(optimizer)
        assert_same(values(network), found[-1])
    assert_same(*found)


def test_gradients_that_are_scaled_within_the_step_are_refused():
    network = first_task()
    optimizer = torch.optim.AdamW(network.parameters(), fused=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    with attach(NoGuard(), network, optimizer):
        scaler.scale(network(**batches(samples(1, 4))[0])["loss"]).backward()
        with pytest.raises(ConfigError, match="unscaled before the step, but AdamW unscales"):
            scaler.step(optimizer)
        optimizer.grad_scale = None  # as after unscale_
        optimizer.found_inf = None
        optimizer.step()


def test_an_optimizer_that_evaluates_the_loss_again_is_refused():
    network, (batch,) = first_task(), batches(samples(1, 4))
    optimizer = torch.optim.LBFGS(network.parameters(), max_iter=3)

    def closure():
        optimizer.zero_grad()
        loss = network(**batch)["loss"]
        loss.backward()
        return loss

    with (
        attach(NoGuard(), network, optimizer),
        pytest.raises(ConfigError, match="once in a step, but LBFGS does so again"),
    ):
        optimizer.step(closure)


class Failing(torch.optim.SGD):
    """Fails as long as it is told to."""

    fails = True

    def step(self, closure=None):
        if self.fails:
            raise FloatingPointError
        return super().step(closure)


@pytest.mark.parametrize("new_gradients", [False, True])
def test_a_failed_step_leaves_the_gradients_of_the_loss(new_gradients):
    """Powers of two, so that the penalty's gradient is added and taken back without rounding."""
    holder = nn.ParameterDict({"w": nn.Parameter(torch.tensor([1.0]))})
    weight, guard = holder["w"], ElasticConsolidation(2.0)
    weight.grad = torch.tensor([2.0])
    guard.remember(named_params(holder))
    optimizer = Failing(holder.parameters(), lr=0.5)
    weight.data.fill_(3.0)  # the penalty's gradient is 2 * 4 * 2 = 16
    weight.grad = torch.tensor([4.0])
    with attach(guard, holder, optimizer):
        with pytest.raises(FloatingPointError):
            optimizer.step()
        if new_gradients:
            weight.grad = torch.tensor([4.0])
        optimizer.fails = False
        optimizer.step()  # the penalty counts once: 3 - 0.5 * (4 + 16)
        assert weight.item() == -7.0
        optimizer.fails = True
        with pytest.raises(FloatingPointError):
            optimizer.step()
    assert weight.grad.item() == 4.0


def test_what_is_no_optimizer_of_the_network_is_refused():
    network = first_task()
    with pytest.raises(ConfigError, match="steps none of the"):
        attach(NoGuard(), network, torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1))
    with pytest.raises(ConfigError, match="an optimizer of torch, but got str"):
        attach(NoGuard(), network, "adam")


def test_parameters_that_are_divided_among_processes_are_refused():
    holder = nn.Module()
    holder._flat_param = nn.Parameter(torch.ones(3))
    with pytest.raises(ConfigError, match=r"whole parameters on every process \(DDP\), but _flat_param is divided"):
        attach(NoGuard(), holder, torch.optim.SGD(holder.parameters(), lr=0.1))


def test_tensors_of_several_processes_are_refused(tmp_path):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import distribute_module

    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        layer = distribute_module(nn.Linear(2, 2), init_device_mesh("cpu", (1,)))
        with pytest.raises(ConfigError, match=r"but weight is divided among them \(FSDP\)"):
            attach(NoGuard(), layer, torch.optim.SGD(layer.parameters(), lr=0.1))
    finally:
        torch.distributed.destroy_process_group()


def test_single_samples_give_the_empirical_fisher_information():
    network = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    x, y = torch.randn(10, 4, dtype=torch.float64), torch.randint(3, (10,))
    guard = ElasticConsolidation(1.0)
    rows = list(zip(x.split(1), y.split(1), strict=True))
    remember_batches(guard, network, rows, lambda row: cross_entropy(network(row[0]), row[1]))
    wanted = diagonal_fisher(network.eval(), cross_entropy, x, y)
    assert guard.fisher.keys() == wanted.keys()
    for name, fisher in wanted.items():
        torch.testing.assert_close(guard.fisher[name], fisher, rtol=1e-9, atol=1e-15)


def test_remembering_leaves_mode_gradients_and_statistics():
    network = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout(0.5))
    network.train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    remember_batches(ElasticConsolidation(), network, [torch.randn(4, 2)], lambda x: network(x).square().mean())
    assert network.training and all(param.grad is None for param in network.parameters())
    assert_same(dict(network.state_dict()), before)


def test_nothing_to_remember_and_losses_that_are_not_finite_are_refused():
    layer = nn.Linear(2, 1)
    with pytest.raises(ConfigError, match="none of 0 mini-batches gave a gradient"):
        remember_batches(ElasticConsolidation(), layer, [], lambda x: layer(x).mean())
    with pytest.raises(RunError, match=r"mini-batch 0 of the old data gave -?inf"):
        remember_batches(ElasticConsolidation(), layer, [torch.ones(1, 2)], lambda x: layer(x).mean() * float("inf"))
    assert layer.training and layer.weight.grad is None


EVERY_GUARD = {**GUARDS, "kronecker": KroneckerPlasticity}


@pytest.mark.parametrize("guard", EVERY_GUARD)
def test_a_guard_that_knows_none_of_what_is_trained_says_so(guard):
    """It remembered the module inside, as is easily done with Lightning; by other names it would do nothing."""
    inside = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    around = nn.ModuleDict({"network": inside})
    keeper, batch = EVERY_GUARD[guard](), [(torch.randn(8, 3), torch.randint(2, (8,)))]
    optimizer = torch.optim.SGD(inside.parameters(), lr=0.1)
    assert keeper.held() == set()
    with attach(keeper, around, optimizer):  # it may remember later
        pass
    remember_batches(keeper, inside, batch)
    assert keeper.held() == {"0.weight", "0.bias", "2.weight", "2.bias"}
    with pytest.warns(VoidGuardWarning, match=r"names such as '0.bias', but ModuleDict trains none .*'network.0.bias'"):
        attach(keeper, around, optimizer).detach()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        attach(keeper, inside, torch.optim.SGD(inside[2].parameters(), lr=0.1)).detach()  # one of several optimizers
        attach(keeper, nn.DataParallel(inside), optimizer).detach()


def test_a_guard_that_goes_by_no_names_is_not_judged_by_them():
    assert NoGuard().held() is None and chain(ElasticConsolidation(), NoveltyConstraints()).held() is None
