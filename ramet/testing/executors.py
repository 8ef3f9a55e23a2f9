"""The conformance suite of executors: what every one of them promises, as tests to inherit.

A new executor is tested by::

    class TestMine(ExecutorSuite):
        def make(self) -> Executor:
            return Mine(workers=2)

Tasks stand at the top of this module, because workers import them by name.
"""

from __future__ import annotations

import os
import signal
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ramet.errors import ConfigError, DataError, MissingExtraError, RunError
from ramet.execution import Executor, Inline, WorkItem, pulse


def train(context: dict[str, Any], width: int) -> dict[str, Any]:
    """Train a small network, with dropout and without a seed of its own, and tell its weights to the last bit."""
    x, y = context["x"], context["y"]  # [32, 1, 8, 8], [32]
    body = [nn.Conv2d(1, width, 3), nn.BatchNorm2d(width), nn.ReLU(), nn.Dropout()]
    network = nn.Sequential(*body, nn.Flatten(), nn.Linear(36 * width, 3))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    for step in range(3):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        pulse((step + 1) / 3)
    weights = torch.cat([param.detach().reshape(-1) for param in network.parameters()])
    return {"width": width, "threads": torch.get_num_threads(), "weights": [value.hex() for value in weights.tolist()]}


def describe(context: dict[str, Any]) -> dict[str, Any]:
    """Tell what has arrived of the context."""
    module: nn.Module = context["module"]
    tensor: Tensor = context["tensor"]
    return {
        "sum": float(tensor.double().sum()),
        "stride": list(tensor.stride()),
        "is_view": tensor.untyped_storage().data_ptr() == context["view"].untyped_storage().data_ptr(),
        "is_tied": context["tied"][0] is context["tied"][1],
        "grads": [param.requires_grad for param in module.parameters()],
        "dtypes": [str(item.dtype) for item in context["dtypes"]],
        "plain": context["plain"],
    }


def note(context: str, name: str) -> str:
    """Leave a file that says the task has begun, in the folder that is the context."""
    (Path(context) / f"{name}.{os.getpid()}").touch()
    return name


def fail(context: str, kind: str) -> None:
    """Raise an exception of some kind."""
    if kind == "missing":
        raise MissingExtraError("library", "extra")
    raise {"config": ConfigError, "data": DataError, "run": RunError, "value": ValueError}[kind](f"a {kind} error")


def echo(context: object, value: int) -> int:
    """Give the argument back."""
    return value


def give_tensor(context: object) -> Any:
    """Give something that is not JSON."""
    return torch.ones(2)


def die(context: str, name: str, times: int) -> str:
    """Kill the own process, the first times that the task is run."""
    before = len(list(Path(context).glob(f"{name}.*")))
    (Path(context) / f"{name}.{before}").touch()
    if before < times:
        os.kill(os.getpid(), signal.SIGKILL)
    return name


def sleep(context: str, name: str) -> str:
    """Take longer than any test, after a sign of having begun that holds the process's id."""
    (Path(context) / f"{name}.{os.getpid()}").touch()
    time.sleep(1000)
    return name


def raise_sometimes(context: str, name: str, times: int) -> str:
    """Raise, the first times that the task is run."""
    before = len(list(Path(context).glob(f"{name}.*")))
    (Path(context) / f"{name}.{before}").touch()
    if before < times:
        raise OSError(28, "No space left on device")
    return name


def is_alive(pid: int) -> bool:
    """Whether there is a process of this number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class ExecutorSuite(ABC):
    """Tests that every executor has to pass; inherit, and say how one is made."""

    max_in_flight = 4
    """At most so many tasks may have begun beyond those whose results were taken."""

    @abstractmethod
    def make(self) -> Executor:
        """An executor; with two workers, if it has workers."""

    def test_results_equal_the_inline_ones_bit_for_bit(self) -> None:
        """The same tasks give the same bits, each once, whoever has drawn random numbers or set threads before."""
        generator = torch.Generator().manual_seed(0)
        context = {"x": torch.randn(32, 1, 8, 8, generator=generator), "y": torch.arange(32) % 3}
        tasks = [WorkItem(f"train/{width}", train, {"width": width}, cost=width) for width in (3, 5, 8, 4, 6, 7)]
        expected = {task.key: result for task, result in Inline().run(tasks, context)}
        torch.randn(17)
        with torch.no_grad():
            found = [(task.key, result) for task, result in self.make().run(tasks, context)]
        assert len(found) == len(tasks) and dict(found) == expected
        assert len({result["weights"][0] for result in expected.values()}) == len(tasks)

    def test_the_context_arrives_as_it_was(self) -> None:
        """Strides, views, ties, dtypes and modules survive the way to a worker, where there is one."""
        tensor = torch.arange(24.0).reshape(1, 2, 3, 4).to(memory_format=torch.channels_last)
        tied = torch.ones(3)
        module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
        module[0].requires_grad_(False)
        context = {
            "tensor": tensor,
            "view": tensor[0, 1],
            "tied": [tied, tied],
            "module": module,
            "dtypes": [torch.ones(3, dtype=dtype) for dtype in (torch.bool, torch.uint8, torch.bfloat16, torch.int64)]
            + [torch.empty(0), torch.tensor(1.0)],
            "plain": [1, "text", None],
        }
        ((_, result),) = self.make().run([WorkItem("describe", describe)], context)
        assert result == describe(context)

    def test_no_tasks_give_no_results(self) -> None:
        """Nothing to do is done at once."""
        assert list(self.make().run([], None)) == []

    def test_repeated_keys_are_refused(self) -> None:
        """Two tasks of one key could not be told apart, and are refused before anything runs."""
        with pytest.raises(ConfigError, match="'a' occurs twice"):
            self.make().run([WorkItem("a", note, {"name": "a"})] * 2, "")

    def test_few_tasks_begin_before_results_are_taken(self, tmp_path: Path) -> None:
        """Tasks do not pile up, and those left when the iterator is closed never begin."""
        tasks = [WorkItem(str(index), note, {"name": str(index)}) for index in range(50)]
        results = self.make().run(tasks, str(tmp_path))
        taken = [next(results)[1] for _ in range(3)]
        time.sleep(0.2)  # time to pile up, where they would
        results.close()  # type: ignore[attr-defined]
        begun = {path.stem for path in tmp_path.iterdir()}
        assert set(taken) <= begun and len(begun) <= len(taken) + self.max_in_flight
        time.sleep(0.2)  # time to begin, where those left would
        assert {path.stem for path in tmp_path.iterdir()} == begun

    def test_an_error_keeps_its_type_and_message(self) -> None:
        """An exit code does not depend on where a task ran, and the task is named."""
        with pytest.raises(DataError, match="a data error") as caught:
            list(self.make().run([WorkItem("bad", fail, {"kind": "data"})], ""))
        assert str(caught.value) == "a data error" and "'bad'" in "".join(caught.value.__notes__)

    def test_a_failed_task_does_not_keep_the_others_from_their_results(self) -> None:
        """The failure is told when it happens, and raised when all the rest is done."""
        told: list[tuple[str, str]] = []
        found = []
        tasks = [WorkItem("bad", fail, {"kind": "run"}, cost=9)]
        tasks += [WorkItem(str(index), echo, {"value": index}) for index in range(5)]
        with pytest.raises(RunError, match="a run error") as caught:
            for task, _ in self.make().run(tasks, "", on_failure=lambda key, error: told.append((key, str(error)))):
                found.append(task.key)
        assert sorted(found) == ["0", "1", "2", "3", "4"] and told == [("bad", "a run error")]
        assert "'bad'" in "".join(caught.value.__notes__)

    def test_several_failures_are_counted(self) -> None:
        """One line says how many failed, and why the first did."""
        tasks = [WorkItem("good", echo, {"value": 1}, cost=9)]
        tasks += [WorkItem(str(index), fail, {"kind": "value"}) for index in range(2)]
        with pytest.raises(RunError, match=r"all 3 tasks must finish, but 2 failed; the first, '.': a value error"):
            list(self.make().run(tasks, ""))

    def test_a_run_whose_first_tasks_all_fail_ends(self, tmp_path: Path) -> None:
        """What is wrong with every task is not tried with hundreds of them."""
        tasks = [WorkItem(str(index), raise_sometimes, {"name": str(index), "times": 99}) for index in range(40)]
        with pytest.raises(RunError, match="but 3 failed"):
            list(self.make().run(tasks, str(tmp_path)))
        assert len({path.stem for path in tmp_path.iterdir()}) < 12

    def test_a_result_that_is_not_json_is_refused(self) -> None:
        """A tensor would be stored by nobody, and is refused where it was made."""
        with pytest.raises(TypeError, match="result of task 'tensor'"):
            list(self.make().run([WorkItem("tensor", give_tensor)], None))


class WorkerSuite(ExecutorSuite):
    """More tests, for executors whose tasks run in processes of their own on this machine."""

    seconds_to_end = 0.0
    """How long a process may still be there after the iterator was closed; longer if somebody else has to bury it."""

    def test_a_worker_that_dies_is_replaced_and_its_task_run_again(self, tmp_path: Path) -> None:
        """Nothing is lost and nothing doubled when workers die."""
        tasks = [WorkItem(str(index), die, {"name": str(index), "times": index % 3}) for index in range(4)]
        results = sorted(result for _, result in self.make().run(tasks, str(tmp_path)))
        assert results == ["0", "1", "2", "3"]

    def test_a_task_that_raises_is_tried_three_times(self, tmp_path: Path) -> None:
        """What the outside world refuses now it may grant later; bad input is refused once."""
        tasks = [WorkItem(str(times), raise_sometimes, {"name": str(times), "times": times}) for times in (1, 2)]
        assert len(list(self.make().run(tasks, str(tmp_path)))) == 2 and len(list(tmp_path.iterdir())) == 5
        with pytest.raises(OSError, match="No space left"):
            task = WorkItem("full", raise_sometimes, {"name": "full", "times": 99})
            list(self.make().run([task], str(tmp_path)))
        assert len(list(tmp_path.glob("full.*"))) == 3

    def test_a_task_whose_workers_always_die_is_named(self, tmp_path: Path) -> None:
        """Three attempts are enough."""
        with pytest.raises(RunError, match=r"'doomed' died 3 times"):
            list(self.make().run([WorkItem("doomed", die, {"name": "doomed", "times": 99})], str(tmp_path)))
        assert len(list(tmp_path.iterdir())) == 3

    def test_closing_ends_the_workers_at_once(self, tmp_path: Path) -> None:
        """Work that nobody waits for does not go on, and no process is left."""
        tasks = [WorkItem("note", note, {"name": "note"}, cost=9)]
        tasks += [WorkItem(str(index), sleep, {"name": str(index)}) for index in range(2)]
        results = self.make().run(tasks, str(tmp_path))
        next(results)
        while not (sleeping := [path for path in tmp_path.iterdir() if path.stem != "note"]):
            time.sleep(0.01)
        pids = [int(path.suffix[1:]) for path in sleeping]
        results.close()  # type: ignore[attr-defined]
        deadline = time.monotonic() + self.seconds_to_end
        while (alive := [pid for pid in pids if is_alive(pid)]) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not alive
