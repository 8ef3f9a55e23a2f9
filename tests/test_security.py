"""Each door of docs/security.md: what comes from somebody else names code in every place, and none of it runs."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ramet.cli import main
from ramet.continual import JointNetwork, make_method
from ramet.continual.networks.skeletons import make_skeleton
from ramet.errors import RametError
from ramet.execution import Processes, ray_executor
from ramet.jobs import JOBS, job_class
from ramet.runs import Run
from ramet.runs.encoding import encode
from ramet.training import Settings

DOORS = {
    "rank": ["space", "data", "plan.guard", "plan.sharing", "plan.training", "recipe.loss", "recipe.augment"],
    "search": ["space", "data", "plan.guard", "plan.sharing", "plan.strategy", "recipe.schedule"],
    "grow": ["network", "data", "plan.methods", "recipe.metric"],
    "learn": ["plan.network", "plan.methods", "recipe.loss"],
    "study": ["plan.network", "plan.method", "recipe.loss"],
    "scores": [],
    "tour": [],  # it names nothing
}
"""For each job the fields of its config.json that name parts; all other fields are tried by the slow test."""


@pytest.fixture
def evil(tmp_path: Path) -> Iterator[str]:
    """A reference to code that leaves a mark when it is imported, and the proof that it was not."""
    mark = tmp_path / "it-ran"
    text = f"open({str(mark)!r}, 'w').close()\ndef Part(*args, **options): ...\n"
    (tmp_path / "evil_code.py").write_text(text)
    yield f"{tmp_path}/evil_code.py:Part"
    assert not mark.exists()


def configuration(kind: str) -> Any:
    return json.loads(encode(job_class(kind)().to_json()))


def leaves(values: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The places of a configuration that hold a text, a list or nothing."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from leaves(value, (*place, name))
        elif value is None or isinstance(value, str | list):
            yield (*place, name)


def changed(values: Any, place: tuple[str, ...], value: str) -> Any:
    values = copy.deepcopy(values)
    holder = values
    for name in place[:-1]:
        holder = holder[name]
    holder[place[-1]] = [value] if isinstance(holder[place[-1]], list) else value
    return values


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("kind", JOBS)
def test_a_run_directory_that_is_resumed_or_reported_on(
    kind: str, evil: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for door in DOORS[kind]:
        folder = tmp_path / door
        Run.create(folder, kind, changed(configuration(kind), tuple(door.split(".")), evil)).close()
        line = refused(["resume", str(folder)], capsys)
        assert "only with --trust (trust=True), but this would run" in line and "evil_code.py:Part" in line, door
        refused(["report", str(folder)], capsys)


@pytest.mark.slow
@pytest.mark.parametrize("kind", JOBS)
def test_no_other_field_of_a_configuration_runs_code(kind: str, evil: str) -> None:
    values, job = configuration(kind), job_class(kind)
    for place in leaves(values):
        try:
            made = job.from_json(changed(values, place, evil))
            if not made.code():
                made.build(trust=False)
        except RametError:
            continue


@pytest.mark.parametrize("executor", ["processes", "ray"])
def test_no_worker_is_started_for_what_is_not_trusted(
    executor: str, evil: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker is sent objects and never decides: the process that reads the file does, before there is a worker."""
    if executor == "ray":
        pytest.importorskip("ray")
    started = []
    monkeypatch.setattr(ray_executor, "connect", lambda *address, **options: started.append("a cluster"))
    monkeypatch.setattr(Processes, "_stream", lambda *given, **options: started.append("a process"))
    Run.create(tmp_path / "run", "rank", changed(configuration("rank"), ("space",), evil)).close()
    line = refused(["resume", str(tmp_path / "run"), "--executor", executor, "--workers", "1"], capsys)
    assert "would run" in line and not started


@pytest.mark.parametrize("by", ["load", pytest.param("--onto", marks=pytest.mark.slow)])
def test_a_joint_network(by: str, evil: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    method = make_method("naive")
    method.start(make_skeleton("mlp:4", in_channels=1, image_size=(8, 8)), Settings(epochs=1), seed=0)
    method.source = evil
    JointNetwork(method).save(tmp_path / "net.safetensors")
    if by == "load":
        with pytest.raises(RametError, match="would run"):
            JointNetwork.load(tmp_path / "net.safetensors")
        return
    arguments = ["learn", "--stream", "split-digits:5", "--onto", str(tmp_path / "net.safetensors")]
    assert "would run" in refused([*arguments, "--out", str(tmp_path / "run")], capsys)


@pytest.mark.parametrize("verb", ["learn", "study"])
def test_a_streams_file(verb: str, evil: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "stream.json").write_text(json.dumps([{"name": "one", "data": evil}, {"name": "two", "data": evil}]))
    line = refused([verb, "--stream", str(tmp_path / "stream.json"), "--out", str(tmp_path / "run")], capsys)
    assert "would run" in line and not (tmp_path / "run").exists()
