"""What a stream of many tasks costs besides learning: counted in rows, bytes and measurements, not in seconds."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from ramet.continual import JointNetwork, learn, loop, make_method, make_stream, stream_saves
from ramet.continual.methods.shared_body import SharedBody
from ramet.continual.networks.skeletons import make_skeleton
from ramet.continual.stream_saves import MOST_TIME, StreamSaves
from ramet.runs import Checkpoints, Run, pack_state, read_records
from ramet.training import Settings

ARGUMENTS: dict[str, Any] = {"network": "mlp:4", "settings": Settings(epochs=1), "seed": 1}


def stream_of(num_tasks: int) -> Any:
    return make_stream(f"permuted-digits:{num_tasks}", train_size=20, eval_size=10)


@pytest.mark.parametrize("method", ["naive", "individual"])
def test_a_row_is_packed_and_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """Although everything is saved after each task, and whatever the number of tasks."""
    packed: list[int] = []
    pack = stream_saves._packed
    monkeypatch.setattr(stream_saves, "_packed", lambda row: (packed.append(row["place"]), pack(row))[1])
    sizes: dict[int, list[int]] = {}
    save = Checkpoints.save

    def counted(self: Checkpoints, step: int, tensors: Any, state: Any = None) -> None:
        save(self, step, tensors, state)
        if self.folder.name == "stream":
            values = {key: value for key, value in state.items() if key != "network"}
            sizes.setdefault(num_tasks, []).append(len(json.dumps(values)))

    monkeypatch.setattr(Checkpoints, "save", counted)
    for num_tasks in (3, 6):
        packed.clear()
        learn(
            stream_of(num_tasks), method=method, folder=tmp_path / str(num_tasks), seconds_between_checkpoints=0,
            **ARGUMENTS,
        )  # fmt: skip
        assert packed == list(range(num_tasks))
        lines = (tmp_path / str(num_tasks) / "stream" / "rows.jsonl").read_text().splitlines()
        assert [json.loads(line)["place"] for line in lines] == packed
        assert len(sizes[num_tasks]) == num_tasks
    # Beside the network a checkpoint has a mark, whose length does not grow with the rows but for digits of numbers.
    assert max(sizes[6]) - min(sizes[6]) <= 10


@pytest.mark.parametrize(
    ("method", "number"), [("individual", lambda n: n + n - 1), ("naive", lambda n: n * (n + 1) // 2)]
)
def test_what_does_not_change_is_measured_when_it_is_learned_and_at_the_end(
    monkeypatch: pytest.MonkeyPatch, method: str, number: Any
) -> None:
    measured: list[object] = []
    measure = loop.measure
    monkeypatch.setattr(loop, "measure", lambda *given: (measured.append(given), measure(*given))[1])
    for num_tasks in (2, 5):
        measured.clear()
        learned = learn(stream_of(num_tasks), method=method, **ARGUMENTS)
        assert len(measured) == 2 * number(num_tasks)
        assert [len(row["test"]) for row in learned.rows] == list(range(1, num_tasks + 1))


def test_weights_are_not_copied_to_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The network of a task is taken out once, to count what it costs; it is measured once for each later task."""
    taken_out: list[str] = []
    network = SharedBody.network
    monkeypatch.setattr(SharedBody, "network", lambda self, name: (taken_out.append(name), network(self, name))[1])
    for num_tasks in (2, 5):
        taken_out.clear()
        stream = stream_of(num_tasks)
        learn(stream, method="naive", **ARGUMENTS)
        assert taken_out == stream.names


@pytest.mark.parametrize(
    "method", ["naive", "individual", "packnet", "progressive", "bind-and-grow:old_weights=frozen"]
)
def test_what_is_not_measured_again_is_what_it_would_have_been(method: str) -> None:
    stream = stream_of(3)
    taken: list[list[float]] = []

    class Measuring:
        """Measures all tasks so far, after each."""

        def __call__(self, row: dict[str, Any]) -> None:
            tasks = stream[: row["place"] + 1]
            sets = [(joint.task(task.name), task.dataset.test) for task in tasks]
            taken.append([loop.measure(module, data.x, data.y, metric) for module, data in sets])

    made = make_method(method)
    made.start(make_skeleton("mlp:4", in_channels=1, image_size=(8, 8)), ARGUMENTS["settings"], 1)
    joint = JointNetwork(made)
    metric = ARGUMENTS["settings"].metric_for(stream[0].dataset.train.y)
    learned = learn(stream, onto=joint, after_task=Measuring())
    assert [row["test"] for row in learned.rows] == taken


def test_a_broken_promise_is_said(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The last row is measured, whatever is promised."""
    values = itertools.count()
    monkeypatch.setattr(loop, "measure", lambda *given: float(next(values)))  # nothing is ever the same again
    learned = learn(stream_of(3), method="individual", **ARGUMENTS)
    assert [row["test"] for row in learned.rows] == [[0.0], [0.0, 2.0], [4.0, 6.0, 8.0]]
    first, second, _ = stream_of(3).names
    assert caplog.messages == [f"The method individual promises to forget nothing, but changed: {first}, {second}."]


def test_saving_takes_a_share_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(stream_saves.time, "monotonic", lambda: clock[0])
    save = Checkpoints.save
    monkeypatch.setattr(
        Checkpoints, "save", lambda *given: (clock.__setitem__(0, clock[0] + 7.0), save(*given))[1]
    )  # seven seconds
    made = make_method("naive")
    made.start(make_skeleton("mlp:4", in_channels=1, image_size=(4, 4)), Settings(epochs=1), seed=0)
    saves = StreamSaves(tmp_path, 30.0, None)
    assert not saves.is_due
    clock[0] += 30
    assert saves.is_due
    saves.save(JointNetwork(made), [])
    clock[0] += 30
    assert not saves.is_due, "what takes seven seconds is done after seventy"
    clock[0] += 7.0 / MOST_TIME - 30
    assert saves.is_due
    assert StreamSaves(tmp_path, 0.0, None).is_due and not StreamSaves(None, 0.0, None).is_due


def test_a_stream_of_an_earlier_version_goes_on(tmp_path: Path) -> None:
    """Its rows are in the checkpoint."""
    stream, folder = stream_of(4), tmp_path / "saved"
    whole = learn(stream, method="naive", **ARGUMENTS)

    def stop(row: dict[str, Any]) -> None:
        if row["place"] == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn(stream, method="naive", folder=folder, seconds_between_checkpoints=0, after_task=stop, **ARGUMENTS)
    checkpoints = Checkpoints(folder / "stream", keep=1)
    found = checkpoints.load()
    assert found is not None and found.step == 2
    rows = [json.loads(line) for line in (folder / "stream" / "rows.jsonl").read_text().splitlines()]
    (folder / "stream" / "rows.jsonl").unlink()
    state = {"rows": pack_state({"rows": rows})[1], "network": found.state["network"]}
    checkpoints.save(2, found.tensors, state)
    seen: list[str] = []
    learned = learn(
        stream, method="naive", folder=folder, seconds_between_checkpoints=0,
        after_task=lambda row: seen.append(row["task"]), **ARGUMENTS,
    )  # fmt: skip
    assert seen == stream.names and str(learned.matrix()) == str(whole.matrix())
    assert learned.rows[:2] == rows
    assert learn(stream, method="naive", folder=folder, **ARGUMENTS).rows == learned.rows


def test_rows_that_are_damaged_let_a_stream_begin_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stream = stream_of(3)
    first = learn(stream, method="naive", folder=tmp_path, **ARGUMENTS)
    path = tmp_path / "stream" / "rows.jsonl"
    path.write_bytes(path.read_bytes().replace(b"place", b"piace", 1))
    again = learn(stream, method="naive", folder=tmp_path, **ARGUMENTS)
    assert "are not whole; it starts anew" in caplog.text
    assert str(again.matrix()) == str(first.matrix())


def test_records_of_a_run_stand_for_what_was_saved(tmp_path: Path) -> None:
    """A task that is learned again has other seconds, and records are repeated bit for bit."""
    stream, folder = stream_of(3), tmp_path / "run"

    def stop(row: dict[str, Any]) -> None:
        if row["place"] == 1:
            raise KeyboardInterrupt

    run = Run.create(folder, kind="mine", config={})
    with run, pytest.raises(KeyboardInterrupt):
        learn(stream, method="naive", run=run, seconds_between_checkpoints=1e9, after_task=stop, **ARGUMENTS)
    assert not [record for record in read_records(folder) if "task" in record]
    with Run.open(folder) as run:
        learned = learn(stream, method="naive", run=run, seconds_between_checkpoints=1e9, **ARGUMENTS)
    found = [record for record in read_records(folder) if record["key"].startswith("naive/1/task-")]
    assert [record["task"] for record in found] == stream.names
    assert [record["test"] for record in found] == [row["test"] for row in learned.rows]
