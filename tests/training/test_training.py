"""The training loop, its batches and its evaluation against loops written out by hand."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from exactness import same_bits
from torch import Tensor, nn

from ramet.errors import ConfigError, RunError
from ramet.runs import Checkpoints
from ramet.seeding import derive_seed
from ramet.training import EVALUATION_BATCH, Batches, Settings, accuracy, evaluating, fit, reestimated_batch_norm

SETTINGS = Settings(epochs=3, batch_size=8, learning_rate=0.1, final_learning_rate=0.01, weight_decay=0.01)


def make_network(dropout: float = 0.5) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(dropout), nn.Linear(6, 3), nn.Identity()
    )


@pytest.fixture(scope="module")
def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(30, 4, generator=generator), torch.randint(3, (30,), generator=generator)


def assert_same(a: nn.Module, b: nn.Module) -> None:
    ours, theirs = a.state_dict(), b.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(same_bits(ours[name], theirs[name]) for name in ours)


# The loop


def trained_by_hand(network: nn.Module, x: Tensor, y: Tensor, settings: Settings, seed: int, stop: int = 999) -> list:
    """Nesterov-free SGD with momentum, weight decay and a cosine, one parameter at a time."""
    steps_per_epoch = math.ceil(len(x) / settings.batch_size)  # no batch of one in these tests
    num_steps = settings.epochs * steps_per_epoch
    velocity: dict[str, Tensor] = {}
    losses = []
    network.train()
    for step in range(min(num_steps, stop)):
        epoch, place = divmod(step, steps_per_epoch)
        generator = torch.Generator().manual_seed(derive_seed(seed, "epoch", epoch))
        chosen = torch.randperm(len(x), generator=generator)[place * settings.batch_size :][: settings.batch_size]
        loss = nn.functional.cross_entropy(network(x[chosen]), y[chosen])
        network.zero_grad()
        loss.backward()
        low, high = settings.final_learning_rate, settings.learning_rate
        rate = low + (high - low) * (1 + math.cos(math.pi * step / num_steps)) / 2
        with torch.no_grad():
            for name, param in network.named_parameters():
                gradient = param.grad + settings.weight_decay * param
                velocity[name] = gradient + settings.momentum * velocity.get(name, torch.zeros_like(param))
                param -= rate * velocity[name]
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("stop", [None, 5])
def test_fit_is_sgd_with_momentum_on_a_cosine(data: tuple[Tensor, Tensor], stop: int | None) -> None:
    # In double precision: in single precision one rounding may turn a ReLU on in one of them and not in the other.
    ours, theirs = (make_network(dropout=0.0).double() for _ in range(2))
    data = (data[0].double(), data[1])
    losses: list[float] = []
    fit(ours, *data, SETTINGS, seed=7, after_step=lambda step, loss: losses.append(loss), stop_after=stop)
    expected = trained_by_hand(theirs, *data, SETTINGS, 7, stop or 999)
    assert losses == pytest.approx(expected, rel=1e-10)
    for (name, a), b in zip(ours.state_dict().items(), theirs.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10, msg=lambda text, name=name: f"{name}: {text}")


class KilledError(Exception):
    """Stands for a kill."""


def train(folder: Path | None, data: tuple[Tensor, Tensor], log: dict, die_in: int = -1) -> nn.Module:
    network = make_network()
    torch.manual_seed(2)  # dropout's own

    def after_step(step: int, loss: float) -> None:
        if step == die_in:
            raise KilledError
        log.setdefault("losses", []).append(loss)

    checkpoints = None if folder is None else Checkpoints(folder)
    fit(
        network, *data, SETTINGS, seed=7, after_step=after_step, checkpoints=checkpoints, log=log,
        seconds_between_checkpoints=0.0,
    )  # fmt: skip
    return network


@pytest.mark.parametrize("steps", [[0], [1], [5], [11], [3, 3, 8]], ids=str)
def test_a_killed_training_ends_as_if_it_had_never_stopped(
    tmp_path: Path, data: tuple[Tensor, Tensor], steps: list[int]
) -> None:
    whole_log: dict = {}
    whole = train(None, data, whole_log)
    assert len(whole_log["losses"]) == 12
    for step in steps:
        with pytest.raises(KilledError):
            train(tmp_path, data, {}, die_in=step)
    log: dict = {"stale": True}
    resumed = train(tmp_path, data, log)
    assert log.pop("stale", None) is (True if steps == [0] else None), "a checkpoint's log replaces what was there"
    assert log == whole_log
    assert_same(resumed, whole)


def test_momentum_and_dropout_matter_to_the_test_above(tmp_path: Path, data: tuple[Tensor, Tensor]) -> None:
    """A checkpoint that lost either would be seen."""
    whole = train(None, data, {})
    for lost in ("optimizer", "generators"):
        with pytest.raises(KilledError):
            train(tmp_path / lost, data, {}, die_in=5)
        checkpoints = Checkpoints(tmp_path / lost)
        checkpoint = checkpoints.load()
        assert checkpoint is not None
        checkpoint.state[lost] = {"state": {}, "param_groups": checkpoint.state["optimizer"]["param_groups"]}
        if lost == "generators":
            checkpoint.state[lost] = {}
        checkpoints.save(checkpoint.step, checkpoint.tensors, checkpoint.state)
        resumed = train(tmp_path / lost, data, {})
        assert not torch.equal(resumed[0].weight, whole[0].weight), lost


def test_a_finished_training_is_not_trained_again(tmp_path: Path, data: tuple[Tensor, Tensor]) -> None:
    log: dict = {}
    whole = train(tmp_path, data, log)
    again: dict = {}
    assert_same(train(tmp_path, data, again, die_in=0), whole)
    assert again == log


def test_save_last_decides_whether_a_short_training_is_kept(tmp_path: Path, data: tuple[Tensor, Tensor]) -> None:
    for save_last in (True, False):
        checkpoints = Checkpoints(tmp_path / str(save_last))
        fit(make_network(), *data, SETTINGS, seed=0, checkpoints=checkpoints, save_last=save_last)
        assert (checkpoints.load() is not None) == save_last


def test_a_loss_that_is_not_finite_is_refused_and_not_saved(tmp_path: Path, data: tuple[Tensor, Tensor]) -> None:
    x = data[0].clone()
    bad_step = 2
    x[Batches(len(x), SETTINGS.batch_size, 7)[bad_step][0]] = math.nan
    seen: list[int] = []
    checkpoints = Checkpoints(tmp_path)
    with pytest.raises(RunError, match=f"but is nan in step {bad_step}; a lower learning rate may help"):
        fit(
            make_network(), x, data[1], SETTINGS, seed=7, after_step=lambda step, loss: seen.append(step),
            checkpoints=checkpoints, seconds_between_checkpoints=0.0,
        )  # fmt: skip
    assert seen == [0, 1]
    checkpoint = checkpoints.load()
    assert checkpoint is not None and checkpoint.step == bad_step
    assert all(torch.isfinite(tensor).all() for tensor in checkpoint.tensors.values())


def test_the_gradient_is_clipped(data: tuple[Tensor, Tensor]) -> None:
    settings = Settings(epochs=1, batch_size=30, learning_rate=1.0, final_learning_rate=0.0, momentum=0.0,
                        weight_decay=0.0, clip_norm=0.01)  # fmt: skip
    network = make_network()
    before = [param.clone() for param in network.parameters()]
    fit(network, *data, settings, seed=0)
    moved = torch.cat([(a - b).flatten() for a, b in zip(network.parameters(), before, strict=True)])
    assert moved.norm().item() == pytest.approx(0.01, rel=1e-3)


class Notes:
    """A guard that writes down what it is told, and takes the whole gradient away."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    @contextmanager
    def watch(self, module: nn.Module) -> Iterator[None]:
        self.calls.append("watch")
        yield

    @contextmanager
    def step(self, params: dict[str, Tensor], step_sizes: float) -> Iterator[None]:
        for param in params.values():
            param.grad.zero_()
        yield
        self.calls.append(f"step {step_sizes:.3f}")

    def remember(self, params: dict[str, Tensor]) -> None:
        self.calls.append("remember")

    def start_epoch(self, epoch: int) -> None:
        self.calls.append(f"epoch {epoch}")

    def state_dict(self) -> dict[str, Tensor]:
        return {"calls": torch.tensor(list("\n".join(self.calls).encode()), dtype=torch.uint8)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.calls = bytes(state["calls"].tolist()).decode().split("\n")


def test_the_guard_sees_every_step_and_its_state_is_kept(tmp_path: Path, data: tuple[Tensor, Tensor]) -> None:
    settings = Settings(epochs=2, batch_size=16, learning_rate=0.1, final_learning_rate=0.1, weight_decay=0.0)
    network, guard = make_network(), Notes()
    before = copy.deepcopy(network)
    fit(network, *data, settings, seed=0, guard=guard, turn=1, checkpoints=Checkpoints(tmp_path))
    step = ["step 1.000", "remember"]  # with a momentum of 0.9 a step goes ten times as far as the learning rate
    assert guard.calls == ["watch", "epoch 0", *step, "watch", *step, "watch", "epoch 1", *step, "watch", *step]
    assert torch.equal(network[0].weight, before[0].weight), "the guard took the whole gradient away"
    later = Notes()
    fit(network, *data, settings, seed=0, guard=later, turn=1, checkpoints=Checkpoints(tmp_path))
    assert later.calls == guard.calls


@pytest.mark.parametrize(("turn", "steps"), [(None, []), (3, [3])])
def test_the_guard_remembers_after_a_turn(turn: int | None, steps: list[int], data: tuple[Tensor, Tensor]) -> None:
    settings = Settings(epochs=2, batch_size=16, learning_rate=0.1, final_learning_rate=0.1, weight_decay=0.0)
    guard = Notes()
    fit(make_network(), *data, settings, seed=0, guard=guard, turn=turn)
    order = [call for call in guard.calls if call.startswith(("step", "remember"))]
    places = [place for place, call in enumerate(order) if call == "remember"]
    assert len(order) - len(places) == 4
    assert places == steps


def test_the_learning_rate_falls_by_a_cosine() -> None:
    settings = Settings(learning_rate=0.3, final_learning_rate=0.1)
    rates = [settings.learning_rate_at(step, 10) for step in range(11)]
    assert rates[0] == 0.3 and rates[5] == pytest.approx(0.2) and rates[10] == pytest.approx(0.1)
    assert rates == sorted(rates, reverse=True)
    assert [rates[k] + rates[10 - k] for k in range(11)] == pytest.approx([0.4] * 11)


# Batches


@pytest.mark.parametrize(("num_samples", "batch_size"), [(2, 2), (3, 2), (7, 3), (64, 64), (65, 64), (66, 64), (5, 99)])
def test_an_epoch_has_each_sample_once_and_no_batch_of_one(num_samples: int, batch_size: int) -> None:
    batches = Batches(num_samples, batch_size, seed=3)
    for epoch in range(3):
        steps = range(epoch * batches.steps_per_epoch, (epoch + 1) * batches.steps_per_epoch)
        sizes = [len(batches[step]) for step in steps]
        seen = torch.cat([batches[step] for step in steps]).tolist()
        assert min(sizes) >= 2 and max(sizes) <= batch_size
        assert len(set(seen)) == len(seen)
        assert len(seen) == num_samples - (num_samples % batch_size == 1)


def test_a_batch_follows_from_the_seed_and_the_step_alone() -> None:
    forward = [Batches(20, 6, seed=1)[step].tolist() for step in range(12)]
    one = Batches(20, 6, seed=1)
    backward = [one[step].tolist() for step in reversed(range(12))][::-1]
    assert forward == backward
    assert forward[:4] != forward[4:8], "each epoch has an order of its own"
    assert forward != [Batches(20, 6, seed=2)[step].tolist() for step in range(12)]


def test_a_single_sample_cannot_be_trained_on() -> None:
    with pytest.raises(ConfigError, match="at least 2 samples, but got 1"):
        Batches(1, 8, seed=0)


# Batch norm


def test_reestimated_statistics_are_the_mean_over_batches(data: tuple[Tensor, Tensor]) -> None:
    network = make_network(dropout=0.0)
    fit(network, *data, SETTINGS, seed=0)
    batches = [data[0][:8], data[0][8:16], data[0][16:30]]
    with torch.no_grad():
        inside = [network[0](batch) for batch in batches]
    mean = sum(values.mean(dim=0) for values in inside) / 3
    variance = sum(values.var(dim=0, unbiased=True) for values in inside) / 3
    with reestimated_batch_norm(network, batches):
        assert network.training, "the modes are as they were, also inside the block"
        torch.testing.assert_close(network[1].running_mean, mean)
        torch.testing.assert_close(network[1].running_var, variance)


@pytest.mark.parametrize("fails", [False, True])
def test_everything_is_put_back_after_reestimating(data: tuple[Tensor, Tensor], fails: bool) -> None:
    network = make_network()
    network[1].momentum = 0.3
    fit(network, *data, SETTINGS, seed=0)
    network.eval()
    network[3].train()
    before = copy.deepcopy(network)
    try:
        with reestimated_batch_norm(network, [data[0]]):
            assert not torch.equal(network[1].running_mean, before[1].running_mean)
            if fails:
                raise KilledError
    except KilledError:
        assert fails
    assert_same(network, before)
    assert network[1].momentum == 0.3
    assert [module.training for module in network.modules()] == [module.training for module in before.modules()]
    assert all(param.grad is None or not param.grad.requires_grad for param in network.parameters())


# Evaluation


def test_accuracy_counts_the_right_answers() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2 * EVALUATION_BATCH + 1, 3, generator=generator)
    y = torch.randint(3, (len(x),), generator=generator)
    by_hand = sum(
        max(range(3), key=lambda k, row=row: row[k]) == label for row, label in zip(x.tolist(), y.tolist(), strict=True)
    )
    assert accuracy(nn.Identity(), x, y) == by_hand / len(x)


def test_accuracy_uses_evaluation_mode_and_leaves_the_modes_alone(data: tuple[Tensor, Tensor]) -> None:
    network = make_network()
    network[3].eval()
    modes = [module.training for module in network.modules()]
    before = copy.deepcopy(network)
    score = accuracy(network, *data)
    assert accuracy(network, *data) == score, "dropout would give another one"
    assert [module.training for module in network.modules()] == modes
    assert_same(network, before)
    with pytest.raises(KilledError), evaluating(network):
        assert not any(module.training for module in network.modules())
        raise KilledError
    assert [module.training for module in network.modules()] == modes
