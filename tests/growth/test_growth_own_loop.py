"""Growth in a loop of the user's own: AdamW with groups, a schedule, augmentation and an average of the weights."""

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, Dataset

from ramet.errors import ConfigError
from ramet.growth import Firefly, Grower


class Noisy(Dataset):
    """An augmentation of the user's own: what it gives differs from draw to draw."""

    def __init__(self, num=48):
        self.x = torch.randn(num, 4, generator=torch.Generator().manual_seed(0))
        self.y = (self.x[:, 0] * self.x[:, 1] > 0).long()

    def __len__(self):
        return len(self.y)

    def __getitem__(self, place):
        return self.x[place] + 0.1 * torch.randn(4), self.y[place]


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2))


def loader():
    return DataLoader(Noisy(), batch_size=16, shuffle=True)


def epoch(net, optimizer, schedule, average, batches):
    net.train()
    for x, y in batches:
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
        schedule.step()
        average.update_parameters(net)


def test_a_loop_with_adamw_a_schedule_augmentation_and_an_average():
    net = network()
    optimizer = torch.optim.AdamW(
        [{"params": net[0].parameters(), "lr": 1e-3}, {"params": net[1:].parameters()}], lr=0.01
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=12)
    average = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
    batches = loader()
    grower = Grower(net, batches, "neurons=20, step=4", Firefly(num_new=3, num_steps=2), optimizer=optimizer,
                    averages=[average], epochs=1)  # fmt: skip
    epoch(net, optimizer, schedule, average, batches)
    for expected in (15, 19, 20):
        before = {name: value.clone() for name, value in net.state_dict().items()}
        rates = [group["lr"] for group in optimizer.param_groups]
        moments = {name: optimizer.state[param]["exp_avg"].clone() for name, param in net.named_parameters()}
        candidates, scores = grower.propose(), grower.score()
        assert len(candidates) == len(scores) and {candidate.kind for candidate in candidates} == {"split", "new"}
        assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items()), "not yet"
        chosen = grower.choose()
        step = grower.apply()
        assert grower.size == net[0].out_features + net[3].out_features == expected
        assert sum(len(group.split) + group.new for group in step.widened.values()) == len(chosen)
        assert [group["lr"] for group in optimizer.param_groups] == rates == schedule.get_last_lr()
        # Units that were not split keep their moments; every parameter of the optimizer is one of the network.
        kept = [unit for unit in range(len(moments["0.weight"])) if unit not in step.widened.get("0", _NONE).split]
        assert torch.equal(optimizer.state[net[0].weight]["exp_avg"][kept], moments["0.weight"][kept])
        assert {id(p) for g in optimizer.param_groups for p in g["params"]} == {id(p) for p in net.parameters()}
        shapes = {name: value.shape for name, value in net.state_dict().items()}
        assert {name: value.shape for name, value in average.module.state_dict().items()} == shapes
        epoch(net, optimizer, schedule, average, batches)
        assert all(optimizer.state[param]["exp_avg"].shape == param.shape for param in net.parameters())
    grower.propose(), grower.score()
    assert grower.choose() == [] and not grower.apply().grew, "the budget is reached"
    assert [step.number for step in grower.steps] == [1, 2, 3, 4]


class _NONE:
    split = ()


def test_what_is_drawn_follows_from_the_seed_and_leaves_the_loop_alone():
    scores = []
    for seed in (0, 0, 1):
        net = network()
        torch.manual_seed(5)
        grower = Grower(net, loader(), "neurons=20, step=4", "firefly:num_new=3,num_steps=2", seed=seed)
        grower.propose()
        scores.append(grower.score())
        assert torch.equal(torch.rand(3), torch.rand(3, generator=torch.Generator().manual_seed(5)))
    assert torch.equal(scores[0], scores[1]) and not torch.equal(scores[0], scores[2])


def test_the_users_own_choice_is_taken():
    net = network()
    grower = Grower(net, [next(iter(loader()))], "neurons=20, step=1", "firefly:num_new=2,num_steps=1")
    candidates = grower.propose()
    grower.score()
    new = [number for number, candidate in enumerate(candidates) if (candidate.kind, candidate.where) == ("new", "3")]
    step = grower.apply(new)
    assert net[3].out_features == 7 and net[0].out_features == 6 and step.widened["3"].new == 2


@pytest.mark.parametrize("method", ["net2net", "nash:num_neighbours=2,num_steps=1", "random:num_tries=2,num_steps=1"])
def test_other_methods_go_through_the_same_door(method):
    net = network()
    grower = Grower(net, loader(), "neurons=14, step=3", method, validation=loader())
    grower.propose(), grower.score(), grower.apply()
    assert 11 < grower.size <= 14


def test_steps_out_of_their_order_and_data_that_are_none_are_refused():
    grower = Grower(network(), loader(), "neurons=20", "net2net")
    for call, said in ((grower.score, "propose"), (grower.choose, "score"), (grower.apply, "score")):
        with pytest.raises(ConfigError, match=rf"{said}\(\) was not called"):
            call()
    grower.propose(), grower.score()
    with pytest.raises(ConfigError, match="places below 11, but got 11"):
        grower.apply([11])
    with pytest.raises(ConfigError, match="this one is empty"):
        Grower(network(), [], "neurons=20").propose()
    with pytest.raises(ConfigError, match="mini-batches"):
        Grower(network(), [torch.zeros(3)], "neurons=20").propose()
    with pytest.raises(ConfigError, match="must have something that can grow"):
        Grower(nn.Linear(4, 2), loader(), "neurons=20").propose()
    with pytest.raises(ConfigError, match="neurons, params or flops here"):
        Grower(network(), loader(), "latency=2ms").propose()
