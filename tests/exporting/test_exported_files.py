"""What is exported holds a network and nothing of the images that it was trained with."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import textwrap
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ramet.cli import main
from ramet.continual import JointNetwork, Stream, Task, learn
from ramet.data import DataSet, load
from ramet.errors import RunError
from ramet.exporting import export, write_network
from ramet.exporting.card import Card
from ramet.exporting.program import export_for_batches
from ramet.runs import read_config, read_records
from ramet.training import Settings

SIDE = 8
# A few sums of 64 products of order 1, each off by at most 64 * 2**-24 times the sum of their sizes.
ROUNDING = 4 * 64 * 64 * 2**-24


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of noise: no weight has the bits of a row of them by chance."""
    draw = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("data") / "own.npz"
    np.savez(path, x=draw.normal(size=(160, SIDE, SIDE)).astype("float32"), y=np.arange(160) % 4)
    return path


TEXT_OPTIONS = ("tokens", "window", "vocabulary")


def data_of(run: Path) -> DataSet:
    """The images as a run saw them: split and standardised as its options say."""
    config = read_config(run)["config"]
    options = {name: value for name, value in config["data_options"].items() if name not in TEXT_OPTIONS}
    data = load(config["data"], **options | {"seed": config["seed"]})
    (setting,) = [record for record in read_records(run) if record["key"] == "setting"]
    assert setting["data"] == data.fingerprint()
    return data


def traces(data: DataSet) -> list[bytes]:
    """Every row of pixels of every image, and every eight labels in a row, as they lie in memory."""
    found = []
    for split in (data.train, data.validation, data.test):
        found += [row.numpy().tobytes() for row in split.x.reshape(-1, SIDE)]
        found += [labels.numpy().tobytes() for labels in split.y.split(8) if len(labels) == 8]
    return found


def members(path: Path) -> dict[str, bytes]:
    """The content of a file; that of an archive part by part, and of archives in it, because these may be packed."""
    found, waiting = {}, [(str(path), path.read_bytes())]
    while waiting:
        name, content = waiting.pop()
        found[name] = content
        if zipfile.is_zipfile(io.BytesIO(content)):
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                waiting += [(f"{name}/{part}", archive.read(part)) for part in archive.namelist()]
    return found


def holds_data(content: bytes, data: DataSet) -> bool:
    return any(trace in content for trace in traces(data))


def check_folder(folder: Path, data: DataSet) -> list[Path]:
    """Look for data in every file of a folder; gives the exported programs."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    for path in files:
        for name, content in members(path).items():
            assert not holds_data(content, data), f"{name} holds images or labels"
    programs = [path for path in files if path.suffix == ".pt2"]
    for path in programs:
        check_example(path.read_bytes())
    return programs


def check_example(program: bytes) -> None:
    """The example in a program is zeros that lie alone, and so does every weight."""
    loaded = torch.export.load(io.BytesIO(program))
    assert loaded.example_inputs is not None
    (example,), _ = loaded.example_inputs
    assert not example.any() and example.untyped_storage().nbytes() == example.nbytes
    with zipfile.ZipFile(io.BytesIO(program)) as archive:
        stored = sum(i.file_size for i in archive.infolist() if "/weight_" in i.filename or "/tensor_" in i.filename)
    tensors = {id(tensor): tensor for tensor in (*loaded.state_dict.values(), *loaded.constants.values())}
    assert stored <= sum(tensor.nbytes for tensor in tensors.values() if isinstance(tensor, Tensor))


def test_the_search_for_data_finds_it(own: Path) -> None:
    """The images behind a view are in a file that torch makes of it; a search that misses them would prove nothing."""
    data, buffer = load(str(own)), io.BytesIO()
    program = torch.export.export(nn.Flatten(), (data.train.x[:2],))
    torch.export.save(program, buffer)
    archive = members_of(buffer.getvalue())
    assert any(data.train.x[-1].numpy().tobytes() in content for content in archive.values())
    assert any(holds_data(content, data) for content in archive.values())
    with pytest.raises(AssertionError):
        check_example(buffer.getvalue())


def test_the_changelog_says_how_an_old_file_is_cleaned(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data, network = load(str(own)), nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, 3))
    shapes = ({0: torch.export.Dim.AUTO},)
    torch.export.save(
        torch.export.export(network, (data.train.x[:2],), dynamic_shapes=shapes), tmp_path / "network.pt2"
    )
    said = (Path(__file__).parents[2] / "CHANGELOG.md").read_text().split("### Security")[1]
    monkeypatch.chdir(tmp_path)
    exec(textwrap.dedent(re.findall(r"^  ```python\n(.*?)^  ```$", said, re.MULTILINE | re.DOTALL)[0]), {})
    behind, before = map(int, capsys.readouterr().out.split())
    assert behind == data.train.x.nbytes > before, "the two numbers differ"
    clean = (tmp_path / "clean.pt2").read_bytes()
    assert not any(holds_data(content, data) for content in members_of(clean).values())
    images = data.test.x[:5]
    cleaned = torch.export.load(tmp_path / "clean.pt2").module()(images)
    torch.testing.assert_close(cleaned, network(images), atol=ROUNDING, rtol=0)


def members_of(program: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(program)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize("workers", [pytest.param("1", marks=pytest.mark.slow), "2"])
def test_grown_networks(own: Path, tmp_path: Path, workers: str) -> None:
    main(
        [
            "grow", "--network", "mlp", "--data", str(own), "--batch-size", "20", "--epochs", "1", "--method",
            "net2net,random", "--budget", "params=2k,step=30%", "--max-steps", "1", "--checkpoint-every", "0",
            "--workers", workers, "--out", str(tmp_path / "run"),
        ]
    )  # fmt: skip
    programs = check_folder(tmp_path / "run", data_of(tmp_path / "run"))
    assert len(programs) == 3 and (tmp_path / "run" / "networks" / "random" / "weights.safetensors").exists()


@pytest.mark.parametrize("workers", [pytest.param("1", marks=pytest.mark.slow), "2"])
def test_a_network_that_was_searched(own: Path, tmp_path: Path, workers: str) -> None:
    main(
        [
            "search", "--space", "cells64", "--channels", "2", "--cells", "1", "--data", str(own), "--epochs", "1",
            "--warmup-epochs", "0", "--models-per-epoch", "1", "--batches-per-model", "1", "--strategy-steps", "1",
            "--archs-per-step", "1", "--batch-size", "8", "--final-epochs", "1", "--candidates", "2",
            "--checkpoint-every", "0", "--workers", workers, "--out", str(tmp_path / "run"),
        ]
    )  # fmt: skip
    assert len(check_folder(tmp_path / "run", data_of(tmp_path / "run"))) == 1


@pytest.mark.parametrize("method", ["naive", "firefly", "packnet", "bind-and-grow"])
def test_a_task_of_a_joint_network(own: Path, tmp_path: Path, method: str) -> None:
    data = load(str(own))
    stream = Stream("own", [Task("first", data), Task("second", data)])
    learned = learn(stream, method=method, settings=Settings(epochs=1, batch_size=16))
    network: JointNetwork = learned.network
    network.save(tmp_path / "joint.safetensors")
    for name in network.names:
        network.export(name, tmp_path / f"{name}.pt2")
    assert network.export_tasks(tmp_path / "tasks") == {}
    assert len(check_folder(tmp_path, data)) == 4


def test_tasks_that_a_command_learned(own: Path, tmp_path: Path) -> None:
    tasks = [{"name": name, "data": str(own)} for name in ("first", "second")]
    (tmp_path / "mine.json").write_text(json.dumps(tasks))
    main(
        [
            "learn", "--stream", str(tmp_path / "mine.json"), "--network", "mlp:6", "--method", "packnet", "--epochs",
            "1", "--batch-size", "16", "--checkpoint-every", "0", "--out", str(tmp_path / "run"),
        ]
    )  # fmt: skip
    assert len(check_folder(tmp_path / "run", load(str(own)))) == 2


class Prototypes(nn.Module):
    """A network of the user's own that keeps a view of its data: one image as a buffer, one as a plain attribute."""

    def __init__(self, images: Tensor) -> None:
        super().__init__()
        self.body = nn.Linear(SIDE * SIDE, 3)
        self.body.bias = nn.Parameter(images.flatten()[:3])
        self.register_buffer("first", images[0])
        self.second = images[1]
        self.tied = self.body.weight
        self.dropout = nn.Dropout(0.5)
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x: Tensor) -> Tensor:
        centred = self.dropout((x - self.first - self.second).flatten(1))
        return self.norm(self.body(centred)) + centred @ self.tied.T


def test_a_network_takes_along_what_it_uses_and_not_what_lies_behind(own: Path) -> None:
    data = load(str(own))
    network = Prototypes(data.train.x)
    network.norm.eval()
    exported = export(network, data.train.x.shape[1:])
    assert [part.training for part in network.modules()] == [True, True, True, False], "modes are given back"
    for content in members_of(exported).values():
        assert data.train.x[2].numpy().tobytes() not in content and data.test.x[0].numpy().tobytes() not in content
    check_example(exported)
    module, images = torch.export.load(io.BytesIO(exported)).module(), data.validation.x[:5]
    network.eval()
    for batch in (images, images[:1]):
        torch.testing.assert_close(module(batch), network(batch), atol=ROUNDING, rtol=0)


class Pooling(nn.Module):
    """torch names its functions for pooling by their addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(nn.functional.max_pool2d(x, 2).flatten(1))


def test_a_file_names_neither_addresses_nor_folders() -> None:
    """So that the same network is the same file, in whatever process it was written."""
    exported = export(Pooling(), (1, 4, 4))
    with zipfile.ZipFile(io.BytesIO(exported)) as archive:
        texts = [archive.read(name).decode("latin-1") for name in archive.namelist()]
    for word in ("graph_id", "from_node", " at 0x", "stack_trace", str(Path(__file__).parent), str(Path.cwd())):
        assert not any(word in text for text in texts), word
    again = torch.export.load(io.BytesIO(exported)).module()
    assert again(torch.ones(3, 1, 4, 4)).shape == (3, 2)


def test_a_full_disk_ends_an_export_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is made in memory: torch's own writer ends the whole process where the disk is full."""

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(RunError, match=r"cannot write .*network\.pt2: No space left on device"):
        write_network(nn.Linear(3, 2), tmp_path / "network", input_shape=(3,))
    assert list(tmp_path.iterdir()) == []


def test_words_are_exported_as_words() -> None:
    exported = export(nn.Embedding(10, 4), (7,), torch.int64)
    words = torch.arange(7).expand(3, 7)
    assert torch.export.load(io.BytesIO(exported)).module()(words).shape == (3, 7, 4)
    check_example(exported)


class OneByOne(nn.Module):
    """Runs its examples one after the other, by a Python loop over as many as there are."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([self.layer(x[number]) for number in range(len(x))])


def test_a_forward_that_counts_its_examples_is_exported_for_one_of_them_and_the_card_says_so(tmp_path: Path) -> None:
    network, card = OneByOne(), Card(title="A network", network={}, data={}, figures={}, made={})
    assert write_network(network, tmp_path / "network", input_shape=(3,), card=card) == ""
    x = torch.randn(1, 3)
    torch.testing.assert_close(torch.export.load(tmp_path / "network.pt2").module()(x), network(x))
    assert "for batches of 1 only" in (tmp_path / "network.md").read_text()
    write_network(nn.Linear(3, 2), tmp_path / "plain", input_shape=(3,), card=card)
    assert "for batches" not in (tmp_path / "plain.md").read_text()


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_recurrent_layers_are_exported_for_batches_of_any_size(kind: type[nn.RNNBase]) -> None:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.head = kind(3, 4, batch_first=True), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.layer(x)[0][:, -1])

    network = Last()
    program, only = export_for_batches(network, (6, 3))
    assert only is None
    for batch in (1, 2, 5):
        x = torch.randn(batch, 6, 3)
        torch.testing.assert_close(torch.export.load(io.BytesIO(program)).module()(x), network(x))
