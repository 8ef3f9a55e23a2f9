"""Files that were damaged, or crafted with the right checksums, are read or refused in one line."""

from __future__ import annotations

import io
import itertools
import json
import random
from dataclasses import fields
from pathlib import Path
from typing import Any

import bad_data
import numpy as np
import pytest
import safetensors.torch

from campaigns.mutations import mutated_bytes, mutated_json, surprises
from ramet.cli.jobs import report
from ramet.continual import JointNetwork, learn, make_method, make_stream
from ramet.continual.joint import _digest
from ramet.continual.networks.skeletons import make_skeleton
from ramet.data import load
from ramet.errors import ConfigError
from ramet.growth import load_network, make_network, save_network, saving
from ramet.jobs import JOBS, job_class
from ramet.jobs.learn.result import StreamFigures
from ramet.runs import Checkpoints, Run, read_config, read_records
from ramet.runs.encoding import decode, encode
from ramet.training import Settings


def many(slow: int) -> Any:
    """So many mutations by default, and so many with the slow tests."""
    return pytest.mark.parametrize(
        ("seed", "count"), [(0, 40), pytest.param(1, slow, marks=pytest.mark.slow)], ids=["few", "many"]
    )


@many(400)
@pytest.mark.parametrize("method", ["naive", "bind-and-grow", "packnet"])
def test_crafted_joint_networks(tmp_path: Path, method: str, seed: int, count: int) -> None:
    made = make_method(method)
    made.start(make_skeleton("mlp:4", in_channels=1, image_size=(4, 4)), Settings(epochs=1), seed=0)
    path = tmp_path / "net.safetensors"
    JointNetwork(made).save(path)
    packed = decode(decode(_header(path)["ramet"])["network"])
    tensors = safetensors.torch.load_file(path)
    rng = random.Random(seed)

    def read(mutated: Any) -> None:
        text = encode(mutated)
        header = {"ramet": encode({"sha256": _digest(text, tensors), "network": text})}
        path.write_bytes(safetensors.torch.save(tensors, metadata=header))
        JointNetwork.load(path)

    assert surprises(read, (mutated_json(packed, rng) for _ in range(count))) == []
    whole = path.read_bytes()

    def read_bytes(content: bytes) -> None:
        path.write_bytes(content)
        JointNetwork.load(path)

    assert surprises(read_bytes, (mutated_bytes(whole, rng) for _ in range(count))) == []


def test_a_crafted_joint_network_that_makes_no_task_is_refused(tmp_path: Path) -> None:
    stream = make_stream("permuted-digits:1", train_size=20, eval_size=10)
    net = learn(stream, method="packnet", network="mlp:4", settings=Settings(epochs=1)).network
    net.method._owners = [owner.flatten()[:-1] for owner in net.method._owners]  # type: ignore[attr-defined]
    net.save(tmp_path / "net.safetensors")
    with pytest.raises(ConfigError, match="must hold what `save` wrote") as caught:
        JointNetwork.load(tmp_path / "net.safetensors")
    assert "\n" not in str(caught.value)


@many(400)
def test_crafted_networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, count: int) -> None:
    monkeypatch.setattr(saving, "write_network", lambda *args, **options: "")  # the export is not read here
    network = make_network("mlp", in_channels=1, image_size=(4, 4), num_classes=2)
    origin = {"network": "mlp", "in_channels": 1, "image_size": [4, 4], "num_classes": 2, "options": {}, "seed": 0}
    save_network(network, tmp_path, steps=[], origin=origin)
    path = tmp_path / "network.json"
    description, rng = json.loads(path.read_text()), random.Random(seed)

    def read(mutated: Any) -> None:
        path.write_text(json.dumps(mutated))
        load_network(tmp_path)

    assert surprises(read, (mutated_json(description, rng) for _ in range(count))) == []
    path.write_text(json.dumps(description))
    weights = (tmp_path / "weights.safetensors").read_bytes()

    def read_weights(content: bytes) -> None:
        (tmp_path / "weights.safetensors").write_bytes(content)
        load_network(tmp_path)

    assert surprises(read_weights, (mutated_bytes(weights, rng) for _ in range(count))) == []


@many(1000)
@pytest.mark.parametrize("kind", JOBS)
def test_crafted_configurations(kind: str, seed: int, count: int) -> None:
    job, rng = job_class(kind), random.Random(seed)
    values = json.loads(encode(job().to_json()))

    def read(mutated: Any) -> None:
        made = job.from_json(mutated if isinstance(mutated, dict) else {"x": mutated})
        made.code()

    assert surprises(read, (mutated_json(values, rng) for _ in range(count))) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in JOBS if kind != "study"])
def test_crafted_configurations_are_built_or_refused(kind: str) -> None:
    job, rng = job_class(kind), random.Random(2)
    values = json.loads(encode(job().to_json()))
    mutated = (each for _ in range(100) if isinstance(each := mutated_json(values, rng), dict))
    assert surprises(lambda each: job.from_json(each).build(), mutated) == []


@many(1000)
def test_damaged_run_files(tmp_path: Path, seed: int, count: int) -> None:
    rng = random.Random(seed)
    config = encode({"format": 2, "ramet": "0.1.0", "kind": "rank", "config": {"seed": 1}}, indent=2).encode()
    (tmp_path / "records.jsonl").write_bytes(b"")

    def read_run(content: bytes) -> None:
        (tmp_path / "config.json").write_bytes(content)
        read_config(tmp_path)
        read_records(tmp_path)

    nested = [b"[" * 100_000, b'{"a":' * 100_000, b'{"format":' + b"[" * 100_000]
    assert surprises(read_run, [*nested, *(mutated_bytes(config, rng) for _ in range(count))]) == []
    (tmp_path / "config.json").write_bytes(config.replace(b'"format": 2', b'"format": 1'))

    def read_lines(content: bytes) -> None:
        (tmp_path / "records.jsonl").write_bytes(content + b"\n")
        read_records(tmp_path)

    lines = b'{"key":"a","value":1}\n{"key":"b","value":{"$float":"nan"}}'
    assert surprises(read_lines, [nested[0], *(mutated_bytes(lines, rng) for _ in range(count))]) == []


@many(400)
def test_crafted_results(tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int, count: int) -> None:
    """A report is made of a result with the right checksum, whatever is in it, or is refused in one line."""
    rng = random.Random(seed)
    figures = {field.name: {"mean": 0.5, "deviation": None, "values": [0.5]} for field in fields(StreamFigures)}
    node = {"id": "n0", "layer": "layer1", "task": "a", "parameters": 100}
    decision = {"task": "b", "bound_to": "a", "expanded": [0]}
    decision["conflicts"] = [{"task": "a", "total": 1.0, "layers": [0.5]}]
    outcome = {
        "figures": figures, "matrix": [[0.5, None], [0.5, 0.6]], "growth": [10.0, 20.0], "stored": [1.0, 2.0],
        "notes": [{}, {"decision": decision}], "explanation": ["'a' came first."],
        "graph": {"nodes": [node], "paths": {"a": ["n0"], "b": ["n0"]}},
        "units": {"unit": "neurons", "layers": ["layer1"], "uses": {"a": [[3]], "b": [[3, 1]]}},
    }  # fmt: skip
    methods = {"individual": outcome, "bind-and-grow": outcome}
    whole = json.loads(encode({"stream": "s", "tasks": ["a", "b"], "seeds": [0], "methods": methods}))

    def read(mutated: Any) -> None:
        folder = tmp_path / str(next(numbers))
        with Run.create(folder, kind="learn", config={}) as run:
            values = mutated if isinstance(mutated, dict) else {"x": mutated}
            run.records.append("result", **{str(key): value for key, value in values.items() if key != "key"})
        report(folder)

    numbers = itertools.count()
    read(whole)
    assert surprises(read, (mutated_json(whole, rng) for _ in range(count))) == []
    capsys.readouterr()


@many(1000)
def test_damaged_arrays(tmp_path: Path, seed: int, count: int) -> None:
    rng, file = random.Random(seed), io.BytesIO()
    np.savez(file, x=bad_data.images(), y=bad_data.labels())

    def read(content: bytes) -> None:
        (tmp_path / "own.npz").write_bytes(content or b"x")
        load(str(tmp_path / "own.npz"))

    assert surprises(read, (mutated_bytes(file.getvalue(), rng) for _ in range(count))) == []
    whole = bad_data.array_bytes((12, 4, 4), content=bad_data.images().tobytes())
    labels = bad_data.array_bytes((12,), content=bytes([0, 1] * 6))

    def read_header(content: bytes) -> None:
        load(bad_data.zipped(tmp_path, x=content, y=labels)["source"])

    headers = (mutated_bytes(whole[:80], rng) + whole[80:] for _ in range(count))
    assert surprises(read_header, headers) == []


@many(400)
def test_damaged_checkpoints(tmp_path: Path, seed: int, count: int) -> None:
    rng = random.Random(seed)
    Checkpoints(tmp_path).save(1, {}, {"epoch": 3})
    (path,) = tmp_path.glob("step-*.json")
    whole = path.read_bytes()

    def read(content: bytes) -> None:
        path.write_bytes(content)
        Checkpoints(tmp_path).load()

    assert surprises(read, [b"[" * 100_000, *(mutated_bytes(whole, rng) for _ in range(count))]) == []


def _header(path: Path) -> dict[str, str]:
    with safetensors.safe_open(path, "pt") as file:
        return dict(file.metadata())
