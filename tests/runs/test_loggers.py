"""The numbers of a run in the tools of others, each read back by the tool's own library."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from ramet.errors import ConfigError, MissingExtraError
from ramet.runs import Run
from ramet.runs.loggers import LOGGERS, Mirror, RunLogger, make_loggers

EXPECTED = [
    ("epoch/loss", 1, 0.5),
    ("epoch/loss", 2, 0.25),
    ("epoch/accuracy", 2, 1.0),
    ("final/loss", 3, 0.125),
    ("evaluated/loss", 9, 2.0),
]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with Run.create(tmp_path / "run", "search", {"seed": 0}) as made:
        yield made


def record(run: Run, names: str) -> None:
    """A run that was interrupted after its first record, and one record after the end of the copy."""
    run.records.append("epoch/1", loss=0.5, name="text", done=True)
    with Mirror(run, make_loggers(names)):
        run.records.append("epoch/2", loss=0.25, accuracy=1)
        run.records.append("final", loss=0.125)
        run.records.append("final", loss=0.125)
        run.records.append("evaluated", step=9, loss=2.0)
    run.records.append("epoch/3", loss=0.0)


def read_tensorboard(folder: Path) -> list[tuple[str, int, float]]:
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    (file,) = (folder / "tensorboard").iterdir()
    assert file.name == "events.out.tfevents.ramet", "no host's name"
    return [
        (value.tag, event.step, value.tensor.float_val[0] if value.HasField("tensor") else value.simple_value)
        for event in EventFileLoader(str(file)).Load()
        for value in event.summary.value
    ]


def read_mlflow(folder: Path) -> list[tuple[str, int, float]]:
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{folder}/mlflow/mlflow.db")
    (found,) = client.search_runs([client.get_experiment_by_name("ramet").experiment_id])
    assert found.info.status == "FINISHED" and set(found.data.tags) == {"ramet.kind", "mlflow.runName"}
    return [
        (name, point.step, point.value)
        for name in found.data.metrics
        for point in client.get_metric_history(found.info.run_id, name)
    ]


READERS: dict[str, Callable[[Path], list[tuple[str, int, float]]]] = {
    "tensorboard": read_tensorboard,
    "mlflow": read_mlflow,
}


@pytest.mark.parametrize("name", READERS)
def test_the_numbers_follow_the_records(run, name, monkeypatch):
    pytest.importorskip(name)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    record(run, name)
    assert sorted(READERS[name](run.path)) == sorted(EXPECTED)
    # A run that is resumed makes the copy anew, with what the records hold by then.
    with Mirror(run, make_loggers(name)):
        pass
    assert sorted(READERS[name](run.path)) == sorted([*EXPECTED, ("epoch/loss", 3, 0.0)])


def test_weights_and_biases_offline(run, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "online")  # what the user's shell says sends nothing
    record(run, "wandb")
    (folder,) = (run.path / "wandb").glob("offline-run-*")
    (file,) = folder.glob("run-*.wandb")
    # Its own process writes the file, and goes on with that for a moment after the run is finished.
    wanted = [tag.encode() for tag, _, _ in EXPECTED] + [b"epoch/step"]
    for _ in range(1200):
        missing = [tag for tag in wanted if tag not in file.read_bytes()]
        if not missing:
            break
        time.sleep(0.1)
    assert missing == []


@pytest.mark.slow
def test_mlflow_goes_where_the_user_says(run, monkeypatch, tmp_path):
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/shared.db")
    record(run, "mlflow")
    assert not (run.path / "mlflow").exists() and (tmp_path / "shared.db").exists()


@pytest.mark.parametrize(
    ("name", "module"),
    [("tensorboard", "tensorboard.compat.proto.event_pb2"), ("mlflow", "mlflow.entities"), ("wandb", "wandb")],
)
def test_a_missing_library_is_refused_before_anything_is_written(run, name, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"ramet\[{name}\]"):
        make_loggers(name)
    assert not (run.path / name).exists()


class Told(RunLogger):
    """A logger of one's own."""

    def __init__(self, fails: bool = False) -> None:
        self.fails, self.told, self.closed = fails, [], 0

    def begin(self, run: Run) -> None:
        self.told.append(run.kind)

    def log(self, group: str, step: int, scalars: Mapping[str, float]) -> None:
        if self.fails:
            raise OSError("the tool is gone")
        self.told.append((group, step, dict(scalars)))

    def close(self) -> None:
        self.closed += 1


def test_the_rows_of_a_record_are_a_course(run):
    """`ramet learn` records a method when its last task is learned: a row a task, with the tests of all so far."""
    rows = [{"task": "a", "test": [0.5], "work": 3}, {"task": "b", "test": [0.25, 0.75], "work": 4, "done": True}]
    logger = Told()
    with Mirror(run, [logger]):
        run.records.append("naive/0", rows=rows, explanation=["words"])
        run.records.append("even/step-001", score=0.5)
        run.records.append("even/step-001/seconds", training=2.0)
    assert logger.told[1:] == [
        ("naive/0", 1, {"work": 3.0, "test": 0.5, "test/1": 0.5}),
        ("naive/0", 2, {"work": 4.0, "test": 0.5, "test/1": 0.25, "test/2": 0.75}),
        ("even", 1, {"score": 0.5}),
        ("even/seconds", 1, {"training": 2.0}),
    ]


def test_every_method_of_a_stream_is_told(tmp_path):
    import ramet
    from ramet.continual import LearnPlan, LearnRecipe

    plan = LearnPlan(methods="naive", network="mlp:8", controls="none", exports=False)
    logger = Told()
    ramet.learn(
        "split-digits:2", plan=plan, recipe=LearnRecipe(epochs=1), out=tmp_path / "run", train_size=60, eval_size=30
    )
    with Run.open(tmp_path / "run") as run, Mirror(run, [logger]):
        pass
    steps = [(group, step) for group, step, scalars in logger.told[1:] if "test" in scalars]
    assert steps == [("individual/0", 1), ("individual/0", 2), ("naive/0", 1), ("naive/0", 2)]


def test_several_are_told_the_same_and_closed_once(run):
    loggers = [Told(), Told()]
    run.records.append("epoch/1", loss=0.5)
    with Mirror(run, loggers):
        run.records.append("epoch/2", words="nothing to tell")
    assert [logger.told for logger in loggers] == [["search", ("epoch", 1, {"loss": 0.5})]] * 2
    assert [logger.closed for logger in loggers] == [1, 1]


def test_a_logger_that_fails_at_the_start_leaves_none_open(run):
    loggers = [Told(), Told(fails=True)]
    run.records.append("epoch/1", loss=0.5)
    with pytest.raises(OSError, match="gone"):
        Mirror(run, loggers)
    assert [logger.closed for logger in loggers] == [1, 1]


def test_names():
    assert set(LOGGERS) >= {"tensorboard", "mlflow", "wandb"} and make_loggers(None) == make_loggers("") == []
    with pytest.raises(ConfigError, match="tensorbord"):
        make_loggers("tensorbord")
