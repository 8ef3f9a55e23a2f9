"""What every guard promises, as checks that an author can run over a guard of their own.

    import pytest
    from ramet.testing.guards import GUARD_CHECKS

    @pytest.mark.parametrize("check", GUARD_CHECKS, ids=lambda check: check.__name__)
    def test_my_guard(check):
        check(MyGuard)

Each check takes a function that makes a fresh guard, trains a small two-path network with it, and raises an
``AssertionError`` that says which promise was broken.
"""

from __future__ import annotations

import contextlib
import copy
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ramet.guards import Guard, NoGuard, chain, diagonal_fisher
from ramet.params import named_params

MakeGuard = Callable[[], Guard]
LEARNING_RATE = 0.05


class TwoPaths(nn.Module):
    """A convolution that two models share, and a branch and a head for each; ``path`` is 0 or 1."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Conv2d(1, 4, 3, padding=1)
        self.branches = nn.ModuleList([nn.Linear(4, 6), nn.Linear(4, 6, bias=False)])
        self.heads = nn.ModuleList([nn.Linear(6, 3), nn.Linear(6, 3)])

    def forward(self, x: Tensor, path: int = 0) -> Tensor:
        """Logits, [batch, 3]."""
        features = self.shared(x).relu().mean((2, 3))
        logits: Tensor = self.heads[path](self.branches[path](features).relu())
        return logits


def make_network(dtype: torch.dtype = torch.float32) -> TwoPaths:
    """The same network each time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return TwoPaths().to(dtype)


def make_batch(seed: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """A batch of 8 images of 5 x 5 in 3 classes."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(8, 1, 5, 5, generator=generator).to(dtype), torch.randint(3, (8,), generator=generator)


def make_optimizer(network: nn.Module, kind: str = "sgd") -> torch.optim.Optimizer:
    """SGD with momentum and weight decay, or AdamW."""
    if kind == "adamw":
        return torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE, weight_decay=0.1)
    return torch.optim.SGD(network.parameters(), lr=LEARNING_RATE, momentum=0.9, weight_decay=0.01)


def train(
    guard: Guard,
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    path: int = 0,
    steps: int = 3,
    seed: int = 0,
    remember: bool = False,
    dtype: torch.dtype = torch.float32,
) -> None:
    """The loop that a user would write, for one path of the network."""
    for step in range(steps):
        x, y = make_batch(seed + step, dtype)
        optimizer.zero_grad()
        with guard.watch(network):
            torch.autograd.backward(cross_entropy(network(x, path), y))
        with guard.step(named_params(network), LEARNING_RATE):
            optimizer.step()
    if remember:
        guard.remember(named_params(network))


def _guarded(make_guard: MakeGuard) -> tuple[Guard, TwoPaths, torch.optim.Optimizer]:
    """A guard that has remembered the first path of a network, and what trained it."""
    guard, network = make_guard(), make_network()
    optimizer = make_optimizer(network)
    train(guard, network, optimizer, remember=True)
    return guard, network, optimizer


def _values(network: nn.Module) -> dict[str, Tensor]:
    return {
        name.replace("_orig_mod.", "").replace("module.", ""): param.detach().clone()
        for name, param in network.named_parameters()
    }


def _assert_same(one: dict[str, Tensor], other: dict[str, Tensor], promise: str) -> None:
    for name, value in one.items():
        assert torch.equal(value, other[name]), f"{promise}: {name} differs."


def _assert_finite(network: nn.Module, guard: Guard, promise: str) -> None:
    for name, value in {**_values(network), **guard.state_dict()}.items():
        assert bool(torch.isfinite(value).all()), f"{promise}: {name} is not finite."


def check_fresh_guard_changes_nothing(make_guard: MakeGuard) -> None:
    """Before anything is remembered, training is bit for bit plain training."""
    for kind in ("sgd", "adamw"):
        results = []
        for guard in (make_guard(), NoGuard()):
            network = make_network()
            train(guard, network, make_optimizer(network, kind), steps=4)
            results.append(_values(network))
        _assert_same(results[0], results[1], f"a fresh guard must change nothing under {kind}")


def check_other_paths_are_left_alone(make_guard: MakeGuard) -> None:
    """A parameter without a gradient is never changed, whatever is remembered about it."""
    guard, network, optimizer = _guarded(make_guard)
    before = _values(network)
    train(guard, network, optimizer, path=1, seed=10)
    for name in ("branches.0.weight", "branches.0.bias", "heads.0.weight", "heads.0.bias"):
        assert torch.equal(before[name], _values(network)[name]), f"{name} is off the path but has changed."


def check_gradients_are_given_back(make_guard: MakeGuard) -> None:
    """After a step, parameters hold the gradients of their loss, which ``remember`` may be asked to learn from."""
    guard, network, optimizer = _guarded(make_guard)
    train(guard, network, optimizer, path=1)
    x, y = make_batch(50)
    optimizer.zero_grad()
    torch.autograd.backward(cross_entropy(network(x, 1), y))
    before = {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}
    with guard.step(named_params(network), LEARNING_RATE):
        optimizer.step()
    for name, param in network.named_parameters():
        assert (param.grad is not None) == (name in before), f"the gradient of {name} came or went."
        if param.grad is not None:
            torch.testing.assert_close(param.grad, before[name], rtol=1e-3, atol=1e-5)


def check_a_failed_step_is_undone(make_guard: MakeGuard) -> None:
    """When the optimizer raises, its error goes on; parameters are as before, and gradients are those of the loss."""
    guard, network, optimizer = _guarded(make_guard)
    train(guard, network, optimizer, path=1)
    x, y = make_batch(50)
    optimizer.zero_grad()
    torch.autograd.backward(cross_entropy(network(x, 1), y))
    gradients = {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}
    before = _values(network)
    try:
        with guard.step(named_params(network), LEARNING_RATE):
            raise _FailingStepError
    except _FailingStepError:
        pass
    else:
        raise AssertionError("a guard must not swallow the error of a step.")
    _assert_same(before, _values(network), "a step that failed must leave the parameters")
    for name, gradient in gradients.items():
        torch.testing.assert_close(network.get_parameter(name).grad, gradient, rtol=1e-3, atol=1e-5)


class _FailingStepError(Exception):
    """What an optimizer raises."""


def check_discarding_drops_what_was_gathered(make_guard: MakeGuard) -> None:
    """A model that came to nothing and was discarded leaves no trace in the guard."""
    states = []
    for comes_to_nothing in (True, False):
        guard, network, _ = _guarded(make_guard)
        kept = copy.deepcopy(network.state_dict())
        if comes_to_nothing:
            with guard.watch(network):
                torch.autograd.backward(cross_entropy(network(make_batch(70)[0], 1), make_batch(70)[1]))
            guard.discard()
            network.load_state_dict(kept)
        train(guard, network, make_optimizer(network), path=1, seed=10, remember=True)
        states.append(guard.state_dict())
    assert states[0].keys() == states[1].keys(), "a discarded model must not be in the state"
    _assert_same(states[0], states[1], "a discarded model must leave no trace")


def check_state_survives_a_file(make_guard: MakeGuard) -> None:
    """A guard restored from safetensors goes on bit for bit, also from the middle of a model."""
    guard, network = make_guard(), make_network()
    optimizer = make_optimizer(network)
    guard.start_epoch(1)
    train(guard, network, optimizer, path=0, remember=True)
    train(guard, network, optimizer, path=1, seed=10)  # inputs gathered, and not remembered yet
    twin, restored = copy.deepcopy(network), make_guard()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "guard.safetensors"
        save_file(guard.state_dict(), file)
        restored.load_state_dict(load_file(file))
    twin_optimizer = make_optimizer(twin)
    twin_optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for one, net, opt in ((guard, network, optimizer), (restored, twin, twin_optimizer)):
        train(one, net, opt, path=1, seed=20, remember=True)
        train(one, net, opt, path=0, seed=30)
    _assert_same(_values(network), _values(twin), "a restored guard must go on as if it had never stopped")
    _assert_same(guard.state_dict(), restored.state_dict(), "a restored guard must have the same state")


def check_state_is_its_own(make_guard: MakeGuard) -> None:
    """A state is flat, needs no gradient, and does not change when training goes on."""
    guard, network, optimizer = _guarded(make_guard)
    state = guard.state_dict()
    kept = {name: tensor.clone() for name, tensor in state.items()}
    train(guard, network, optimizer, seed=10, remember=True)
    for name, tensor in state.items():
        assert not tensor.requires_grad, f"the state's {name} holds on to a graph."
        assert tensor.is_contiguous(), f"the state's {name} is not contiguous."
    _assert_same(kept, state, "a state must not change after it was taken")


def check_foreign_state_is_refused(make_guard: MakeGuard) -> None:
    """The state of something else is refused with a ``ValueError`` (``ConfigError`` is one)."""
    try:
        make_guard().load_state_dict({"something else": torch.zeros(1)})
    except ValueError:
        return
    raise AssertionError("a foreign state must be refused.")


def check_forgetting_frees(make_guard: MakeGuard) -> None:
    """After ``forget``, training is plain training again."""
    results = []
    for guard in (make_guard(), NoGuard()):
        network = make_network()
        train(NoGuard(), network, make_optimizer(network))
        train(guard, network, torch.optim.SGD(network.parameters(), lr=0.0), remember=True)
        guard.forget()
        train(guard, network, make_optimizer(network), path=1, seed=10)
        results.append(_values(network))
    _assert_same(results[0], results[1], "a guard that forgot must change nothing")


def check_held_names(make_guard: MakeGuard) -> None:
    """A guard that says by which names it knows parameters says those of finished models, and no others."""
    fresh, (guard, network, _) = make_guard(), _guarded(make_guard)
    if (held := guard.held()) is None:
        return
    assert fresh.held() == set(), "held: a fresh guard knows no parameter"
    on_path = {name for name, param in network.named_parameters() if param.grad is not None}
    assert held and held <= on_path, "held: names are those of parameters that a finished model uses"
    fresh.load_state_dict(guard.state_dict())
    assert fresh.held() == held, "held: a loaded guard knows what the saved one knew"
    guard.forget()
    assert guard.held() == set(), "held: a guard that has forgotten knows no parameter"


def check_chain_of_one(make_guard: MakeGuard) -> None:
    """A guard chained with one that does nothing is that guard, bit for bit."""
    results = []
    for guard in (make_guard(), chain(NoGuard(), make_guard(), NoGuard())):
        network = make_network()
        optimizer = make_optimizer(network)
        train(guard, network, optimizer, remember=True)
        train(guard, network, optimizer, path=1, seed=10)
        results.append(_values(network))
    _assert_same(results[0], results[1], "chaining with NoGuard must change nothing")


def check_wrapped_names(make_guard: MakeGuard) -> None:
    """What was remembered of a plain module guards it when compiled or wrapped for several ranks, and back."""
    wrappers: list[Callable[[nn.Module], nn.Module]] = [lambda net: torch.compile(net, backend="eager")]  # type: ignore[list-item,return-value]
    if torch.distributed.is_available():
        wrappers.append(lambda net: nn.parallel.DistributedDataParallel(net, find_unused_parameters=True))
    results = []
    with _one_rank():
        for wrap in [lambda net: net, *wrappers]:
            network, guard = make_network(), make_guard()
            train(guard, network, make_optimizer(network), path=0, remember=True)
            train(guard, wrap(network), make_optimizer(network), path=1, seed=10, remember=True)
            twin = make_network()  # the reducer of a wrapped network stays with its parameters
            twin.load_state_dict(network.state_dict())
            train(guard, twin, make_optimizer(twin), path=0, seed=20)
            results.append(_values(twin))
    for other in results[1:]:
        for name, value in results[0].items():
            torch.testing.assert_close(other[name], value, rtol=1e-5, atol=1e-6, msg=f"{name} differs when wrapped.")


@contextlib.contextmanager
def _one_rank() -> Iterator[None]:
    """A process group of this process alone, unless there is one."""
    if not torch.distributed.is_available() or torch.distributed.is_initialized():
        yield
        return
    store = torch.distributed.HashStore()  # type: ignore[attr-defined]
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def check_parameters_added_later(make_guard: MakeGuard) -> None:
    """A branch that is added after ``remember`` trains freely, and what was there stays guarded."""
    guard, network, _ = _guarded(make_guard)
    network.branches.append(nn.Linear(4, 6))
    network.heads.append(nn.Linear(6, 3))
    before = _values(network)
    train(guard, network, make_optimizer(network), path=2, seed=10, remember=True)
    train(guard, network, make_optimizer(network), path=2, seed=20)
    assert not torch.equal(before["branches.2.weight"], _values(network)["branches.2.weight"])
    _assert_finite(network, guard, "training a new branch")


def check_half_precision(make_guard: MakeGuard) -> None:
    """Parameters and gradients in float16 and bfloat16 stay finite."""
    for dtype in (torch.float16, torch.bfloat16):
        guard, network = make_guard(), make_network(dtype)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
        train(guard, network, optimizer, remember=True, dtype=dtype)
        train(guard, network, optimizer, path=1, seed=10, remember=True, dtype=dtype)
        train(guard, network, optimizer, path=0, seed=20, dtype=dtype)
        _assert_finite(network, guard, f"training in {dtype}")
        assert all(param.dtype == dtype for param in network.parameters()), f"a guard must keep {dtype}."


def check_scaler_skips_a_step(make_guard: MakeGuard) -> None:
    """A step that the gradient scaler skips after an overflow leaves every parameter as it is."""
    guard, network, _ = _guarded(make_guard)
    train(guard, network, make_optimizer(network), seed=5)
    optimizer, scaler = make_optimizer(network), torch.amp.GradScaler("cpu", init_scale=4.0)
    x, y = make_batch(10)
    before = _values(network)
    for overflow in (True, False):
        optimizer.zero_grad()
        scaler.scale(cross_entropy(network(x), y)).backward()  # type: ignore[no-untyped-call]
        if overflow:
            assert network.shared.weight.grad is not None
            network.shared.weight.grad.fill_(float("inf"))
        scaler.unscale_(optimizer)
        with guard.step(named_params(network), LEARNING_RATE):
            scaler.step(optimizer)
        scaler.update()
        if overflow:
            _assert_same(before, _values(network), "a skipped step must leave the parameters")
            guard.remember(named_params(network))  # an overflowed gradient must do no harm
    _assert_finite(network, guard, "training with a gradient scaler")


def check_extreme_inputs(make_guard: MakeGuard) -> None:
    """Zero, huge, duplicate and non-finite inputs and gradients never make a NaN."""
    for scale in (0.0, 1e-30, 1e12, 1e30):
        guard, network = make_guard(), make_network()
        x, y = make_batch(0)
        for _ in range(2):
            with guard.watch(network):
                torch.autograd.backward(
                    cross_entropy(network(torch.cat([x, x]) * scale).clamp(-1e3, 1e3), torch.cat([y, y]))
                )
            for param in network.parameters():
                if param.grad is not None:
                    param.grad.nan_to_num_()
            guard.remember(named_params(network))
        optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
        for step in range(3):
            optimizer.zero_grad()
            torch.autograd.backward(cross_entropy(network(make_batch(step)[0]), y))
            with guard.step(named_params(network), 1e-3):
                optimizer.step()
        _assert_finite(network, guard, f"inputs of scale {scale}")


def check_device_moves(make_guard: MakeGuard) -> None:
    """A guard follows its network to another device: to a GPU where there is one, else to torch's meta device."""
    device = "cuda" if torch.cuda.is_available() else "meta"
    guard, network, _ = _guarded(make_guard)
    network.to(device)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for param in (*network.shared.parameters(), *network.branches[0].parameters(), *network.heads[0].parameters()):
        param.grad = torch.ones_like(param)
    with guard.step(named_params(network), LEARNING_RATE):
        optimizer.step()
    for name, param in network.named_parameters():
        assert param.device.type == device, f"{name} left its device."


def check_global_randomness_is_left_alone(make_guard: MakeGuard) -> None:
    """A guard draws nothing from torch's global generator."""
    guard, network = make_guard(), make_network()
    optimizer = make_optimizer(network)
    state = torch.random.get_rng_state()
    train(guard, network, optimizer, remember=True)
    train(guard, network, optimizer, path=1)
    assert torch.equal(state, torch.random.get_rng_state()), "a guard must not draw from the global generator."


def check_no_hooks_remain(make_guard: MakeGuard) -> None:
    """Outside ``watch`` the network is as it was: copying it copies no guard."""
    _, network, _ = _guarded(make_guard)
    for name, module in network.named_modules():
        hooks: list[Any] = [module._forward_hooks, module._forward_pre_hooks, module._backward_hooks]
        assert not any(hooks), f"a hook remains on {name or 'the network'}."


def check_it_protects(make_guard: MakeGuard) -> None:
    """Training the second model moves the first one's outputs less than without the guard (not for ``NoGuard``)."""
    moved = []
    for guard in (make_guard(), NoGuard()):
        network = make_network()
        train(NoGuard(), network, make_optimizer(network), steps=20)
        x, y = make_batch(0)
        network.zero_grad()
        with guard.watch(network):
            torch.autograd.backward(cross_entropy(network(x), y))
        guard.remember(named_params(network), diagonal_fisher(copy.deepcopy(network).eval(), cross_entropy, x, y))
        before = network(x).detach()
        train(guard, network, make_optimizer(network), path=1, steps=60, seed=30)
        moved.append(float((network(x).detach() - before).norm()))
    assert moved[0] < 0.9 * moved[1], f"guarded outputs moved by {moved[0]:.4f}, and unguarded by {moved[1]:.4f}."


GUARD_CHECKS: tuple[Callable[[MakeGuard], None], ...] = tuple(
    check for name, check in globals().items() if name.startswith("check_")
)
"""Every check; ``check_it_protects`` is the only one that a guard which does nothing fails."""
