"""What every method of continual learning promises, as checks that an author can run over a method of their own.

    import pytest
    from ramet.testing.methods import METHOD_CHECKS

    @pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: check.__name__)
    def test_my_method(check):
        check(MyMethod)

Each check takes a function that makes a fresh method, lets it learn a small stream, and raises an ``AssertionError``
that says which promise was broken.
"""

from __future__ import annotations

import copy
import math
import pickle
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ramet.continual import JointNetwork, Layer, Method, Saves, Skeleton, Stream, Task, TaskData, TaskInfo
from ramet.continual.networks.template import Template
from ramet.costs import count_parameters
from ramet.data import DataSet, Split
from ramet.errors import ConfigError, DataError
from ramet.runs import JSON, Checkpoints, pack_state, unpack_state
from ramet.training import Settings, accuracy

MakeMethod = Callable[[], Method]
SETTINGS = Settings(epochs=6, batch_size=8, learning_rate=0.1, final_learning_rate=0.0, weight_decay=1e-3)
CLASSES = (2, 3, 2)


def make_stream(num_tasks: int = 3, size: int = 6) -> Stream:
    """Tasks of 2, 3 and 2 classes: images of 5 x 5 whose classes are noisy copies of a pattern."""
    generator = torch.Generator().manual_seed(0)
    tasks = []
    for place in range(num_tasks):
        classes = CLASSES[place % len(CLASSES)]
        patterns = torch.randn(classes, 1, 5, 5, generator=generator)

        def split(count: int, classes: int = classes, patterns: Tensor = patterns) -> Split:
            y = torch.arange(classes * count) % classes
            return Split(patterns[y] + 0.3 * torch.randn(len(y), 1, 5, 5, generator=generator), y)

        tasks.append(Task(f"task {place}", DataSet("patterns", split(2 * size), split(size), split(size), classes)))
    return Stream("patterns", tasks)


def make_skeletons() -> dict[str, Template]:
    """A plain chain, one with batch norm, and one with a convolution under batch norm."""
    linear = (Layer("layer1", "linear", 16), Layer("layer2", "linear", 12))
    conv = (Layer("conv1", "conv", 6, kernel=2, pool=True), Layer("layer2", "linear", 12))
    return {
        "linear": Skeleton(linear, 1, (5, 5)),
        "linear with batch norm": Skeleton(linear, 1, (5, 5), batch_norm=True),
        "convolution with batch norm": Skeleton(conv, 1, (5, 5), batch_norm=True),
    }


def started(make: MakeMethod, skeleton: Template | None = None) -> Method:
    """A fresh method, ready for its first task."""
    method = make()
    method.start(skeleton or make_skeletons()["linear"], SETTINGS, seed=0)
    return method


def learn_next(method: Method, stream: Stream, saves: Saves | None = None) -> dict[str, Any]:
    """Let a method learn the task that is next for it, in the scenario that it needs."""
    place = len(method.tasks)
    earlier = [task.data() if method.needs_earlier else task.gone() for task in stream[:place]]
    task = stream[place].data()
    notes = method.learn(task, earlier, saves)
    if not method.needs_earlier:
        task.close()
    return notes


def outputs(method: Method, stream: Stream) -> list[Tensor]:
    """The logits on the test images of each task learned so far."""
    with torch.no_grad():
        return [method.network(info.name)(stream[place].dataset.test.x) for place, info in enumerate(method.tasks)]


def check_it_learns(make: MakeMethod) -> None:
    """Each task is learned well above chance, whatever the layers are."""
    stream = make_stream()
    for name, skeleton in make_skeletons().items():
        method = started(make, skeleton)
        for place, task in enumerate(stream):
            learn_next(method, stream)
            score = accuracy(method.network(task.name), task.dataset.test.x, task.dataset.test.y)
            chance = 1 / CLASSES[place]
            assert score > chance + 0.25, f"{name}: {task.name} is at {score:.2f}, and chance is {chance:.2f}"


def check_the_seed_decides(make: MakeMethod) -> None:
    """The same seed gives the same network, bit for bit, whatever the global generator holds."""
    stream, states = make_stream(size=3), []
    for disturbance in (1, 2):
        torch.manual_seed(disturbance)
        method = started(make)
        for _ in stream:
            learn_next(method, stream)
        states.append(method.state())
    assert_same(*states)


def check_nothing_is_forgotten(make: MakeMethod) -> None:
    """Where a method says so, a task's outputs stay the same after every later task, batch norm included."""
    if not make().forgets_nothing:
        return
    stream = make_stream(size=3)
    for name, skeleton in make_skeletons().items():
        method = started(make, skeleton)
        before: list[Tensor] = []
        for place in range(len(stream)):
            learn_next(method, stream)
            now = outputs(method, stream)
            for old, (then, after) in enumerate(zip(before, now, strict=False)):
                assert torch.equal(then, after), f"{name}: the outputs of task {old} changed when task {place} came"
            before = now


def check_a_saved_network_takes_a_new_task(make: MakeMethod) -> None:
    """A network that was saved and read again gives the same outputs, and learns the next task to the same bits."""
    stream, method = make_stream(size=3), started(make, make_skeletons()["linear with batch norm"])
    learn_next(method, stream)
    learn_next(method, stream)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.safetensors"
        JointNetwork(method).save(path)
        loaded = JointNetwork.load(path, {method.source or method.name: type(method)}, trust=True).method
    assert loaded.options == method.options and loaded.tasks == method.tasks
    assert_same(method.state(), loaded.state())
    for one, other in zip(outputs(method, stream), outputs(loaded, stream), strict=True):
        assert torch.equal(one, other), "a saved network gives other outputs"
    learn_next(method, stream)
    learn_next(loaded, stream)
    assert_same(method.state(), loaded.state())


def check_it_goes_on_after_a_kill(make: MakeMethod) -> None:
    """Killed within a phase of a task or between two, and called again from the saved state, it ends the same."""
    stream, whole = make_stream(size=3), started(make)
    for _ in range(2):
        tensors, packed = pack_state(whole.state())
        tensors = {name: tensor.clone() for name, tensor in tensors.items()}
        learned = list(whole.tasks)
        learn_next(whole, stream)
        # In every step and killed at the second; at the end of phases only, and killed after the first or the second.
        for seconds, kill_after in ((0.0, 2), (math.inf, 1), (math.inf, 2)):
            method = _restored(make, learned, unpack_state(tensors, packed))
            with tempfile.TemporaryDirectory() as folder:
                try:
                    learn_next(method, stream, _KillingSaves(Path(folder), seconds, kill_after))
                except _Killed:
                    method = _restored(make, learned, unpack_state(tensors, packed))
                    learn_next(method, stream, Saves(Path(folder), math.inf))
            assert_same(whole.state(), method.state())


def _restored(make: MakeMethod, tasks: list[TaskInfo], state: dict[str, Any]) -> Method:
    method = started(make)
    method.tasks = list(tasks)
    method.load_state(copy.deepcopy(state))
    return method


def check_the_export_is_plain(make: MakeMethod) -> None:
    """A task's network is in evaluation mode, has weights of its own, and is made of torch's classes alone."""
    stream, skeletons = make_stream(size=3), make_skeletons()
    for skeleton in (skeletons["linear"], skeletons["convolution with batch norm"]):
        method = started(make, skeleton)
        learn_next(method, stream)
        learn_next(method, stream)
        for task in method.tasks:
            network = method.network(task.name)
            for module in network.modules():
                assert not type(module).__module__.startswith("ramet"), f"{type(module)} is not of torch"
                assert not module.training, "a network must come in evaluation mode"
            assert re.search(rb"\bramet\b", pickle.dumps(network)) is None, "an export refers to ramet"
        before = outputs(method, stream)
        network = method.network(stream[0].name)
        with torch.no_grad():
            for param in network.parameters():
                param.add_(1.0)
        for one, other in zip(before, outputs(method, stream), strict=True):
            assert torch.equal(one, other), "an export must have weights of its own"


def check_a_view_is_the_network(make: MakeMethod) -> None:
    """What is measured gives what the task's network gives, bit for bit, and running it changes nothing."""
    stream, method = make_stream(size=3), started(make, make_skeletons()["convolution with batch norm"])
    for _ in range(2):
        learn_next(method, stream)
        before = pack_state(method.state())[0]
        for task in method.tasks:
            x = stream[method.place(task.name)].dataset.test.x
            with torch.no_grad():
                seen, taken_out = method.view(task.name)(x), method.network(task.name)(x)
            assert torch.equal(seen, taken_out), "a view gives other outputs"
        after = pack_state(method.state())[0]
        assert all(torch.equal(before[name], after[name]) for name in before), "a view that was run changed the method"


def check_the_counts_add_up(make: MakeMethod) -> None:
    """All tasks together have at least the parameters of each, and what is stored holds them all."""
    stream, method = make_stream(size=3), started(make)
    sizes = []
    for _ in stream:
        learn_next(method, stream)
        networks = [count_parameters(method.network(task.name)) for task in method.tasks]
        total = method.num_parameters()
        sizes.append(total)
        assert total >= max(networks), f"{total} parameters in all, but a task has {max(networks)}"
        tensors, _ = pack_state(method.state())
        stored = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        assert method.stored_bytes() == stored, f"{method.stored_bytes()} bytes stored, but the state has {stored}"
        assert stored >= 4 * total, f"{stored} bytes cannot hold {total} parameters"
    assert sizes == sorted(sizes), f"a network must not shrink, but had {sizes} parameters"


def check_gone_data_stay_gone(make: MakeMethod) -> None:
    """In the streaming scenario a method does not touch earlier data, or says that it needs them."""
    stream, method = make_stream(), started(make)
    method.learn(stream[0].data())
    task, gone = stream[1].data(), stream[0].gone()
    if method.needs_earlier:
        try:
            method.learn(task, [gone])
        except ConfigError:
            return
        raise AssertionError("a method that needs earlier data must refuse the streaming scenario")
    method.learn(task, [gone])


def check_bad_tasks_are_refused(make: MakeMethod) -> None:
    """A repeated name, and images of another shape, are refused, and change nothing."""
    stream, method = make_stream(), started(make)
    learn_next(method, stream)
    before = pack_state(method.state())[0]
    before = {name: tensor.clone() for name, tensor in before.items()}
    data = stream[1].dataset
    wide = Split(data.train.x.repeat(1, 2, 1, 1), data.train.y)
    other = Task("wide", DataSet("wide", wide, wide, wide, data.num_classes))
    bad: list[tuple[TaskData, type[Exception]]] = [(stream[0].data(), ConfigError), (other.data(), DataError)]
    for task, kind in bad:
        try:
            method.learn(task, [stream[0].data()])
        except kind:
            pass
        else:
            raise AssertionError(f"{task.info.name!r} must be refused")
    assert [task.name for task in method.tasks] == [stream[0].name]
    after = pack_state(method.state())[0]
    assert all(torch.equal(before[name], after[name]) for name in before), "a refused task changed the method"


METHOD_CHECKS: list[Callable[[MakeMethod], None]] = [
    check for name, check in globals().items() if name.startswith("check_")
]


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Two states are equal, bit for bit."""
    (tensors, packed), (others, other_packed) = pack_state(one), pack_state(other)
    assert packed == other_packed, "two states that should be one differ"
    for name, tensor in tensors.items():
        assert torch.equal(tensor, others[name]), f"{name} differs"


class _Killed(Exception):  # noqa: N818 - not an error
    """Stands for a process that was killed."""


class _KillingSaves(Saves):
    """Is killed after some saves."""

    def __init__(self, folder: Path, seconds: float, kill_after: int) -> None:
        super().__init__(folder, seconds)
        object.__setattr__(self, "left", [kill_after])

    def phase(self, name: str) -> Checkpoints | None:
        """Checkpoints that count."""
        assert self.folder is not None
        left: list[int] = self.__dict__["left"]
        return _KillingCheckpoints(self.folder / name, left)


class _KillingCheckpoints(Checkpoints):
    def __init__(self, folder: Path, left: list[int]) -> None:
        super().__init__(folder)
        self._left = left

    def save(self, step: int, tensors: Mapping[str, Tensor], state: JSON = None) -> None:
        """Save, and be killed if it was the last one."""
        super().save(step, tensors, state)
        self._left[0] -= 1
        if self._left[0] == 0:
            raise _Killed
