"""Every parser that content from outside reaches, with small valid inputs to begin from."""

from __future__ import annotations

import gzip
import io
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

NESTED = [b"[" * 100_000, b'{"a":' * 100_000]
"""Deeper than any reader's stack."""

_CLAIMS = b'{"a":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4000000000000]}}'
HUGE = struct.pack("<Q", len(_CLAIMS)) + _CLAIMS
"""A file of tensors whose header claims four terabytes."""


@dataclass(frozen=True)
class Parser:
    """Something that reads: ``read`` is given a damaged input and a folder; ``inputs`` are whole ones."""

    name: str
    inputs: list[bytes]
    read: Callable[[bytes, Path], object]
    extra: tuple[bytes, ...] = ()
    """Inputs that are tried as they are: headers that claim terabytes, bombs."""


def _written(name: str, read: Callable[[Path], object]) -> Callable[[bytes, Path], object]:
    """Puts the input into a file of that name, and lets the file be read."""

    def reading(content: bytes, folder: Path) -> object:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return read(path)

    return reading


def _as_text(parse: Callable[[str], object]) -> Callable[[bytes, Path], object]:
    return lambda content, folder: parse(content.decode("utf-8", errors="surrogateescape"))


def parsers(folder: Path) -> list[Parser]:
    """All of them; ``folder`` gets the files that inputs are made from."""
    return [*_data(folder), *_tables(folder), *_texts(folder), *_runs(folder), *_networks(folder)]


def _data(folder: Path) -> list[Parser]:
    from ramet.data import load

    x, y = (np.arange(12 * 16) % 251).reshape(12, 4, 4).astype(np.uint8), np.arange(12) % 2
    npz, bomb = io.BytesIO(), io.BytesIO()
    np.savez(npz, x=x, y=y)
    np.savez_compressed(bomb, x=np.zeros((2_000, 100, 100), np.uint8), y=np.zeros(3))
    claims = np.lib.format.MAGIC_PREFIX if hasattr(np.lib.format, "MAGIC_PREFIX") else b"\x93NUMPY"
    shapes = [
        f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}" for shape in ("(10**12,)", "(1000000000000,)")
    ]
    headers = [claims + b"\x01\x00" + struct.pack("<H", len(text)) + text.encode() for text in shapes]
    return [
        Parser("npz", [npz.getvalue()], _written("own.npz", lambda path: load(str(path))), (bomb.getvalue(),)),
        Parser("npy header", headers, _read_member),
        Parser("IDX", _idx(), _read_idx, (b"\0\0\x08\x03" + b"\xff" * 12,)),
        Parser("CIFAR binaries", [bytes([3]) + bytes(3072)], _read_cifar),
        Parser("images", _images(), _read_images, _large_images()),
        Parser(
            "JSON streams",
            [json.dumps([{"name": "a", "data": "digits", "train_size": 40, "eval_size": 20}]).encode()],
            _written("stream.json", _read_stream),
            tuple(NESTED),
        ),
    ]


def _read_member(content: bytes, folder: Path) -> object:
    import zipfile

    from ramet.data import load

    with zipfile.ZipFile(folder / "member.npz", "w") as archive:
        archive.writestr("x.npy", content)
        archive.writestr("y.npy", content)
    return load(str(folder / "member.npz"))


def _idx() -> list[bytes]:
    return [b"\0\0\x08\x03" + struct.pack(">3I", 4, 28, 28) + bytes(4 * 784)]


def _read_idx(content: bytes, folder: Path) -> object:
    from ramet.data.idx import read_idx

    path = folder / "train-images-idx3-ubyte.gz"
    # Damage inside, whose checksum is right, and outside.
    path.write_bytes(gzip.compress(content, 1) if content[:1] != b"\x1f" else content)
    return read_idx(path, 3)


def _read_cifar(content: bytes, folder: Path) -> object:
    from ramet.data import load

    place = folder / "cifar-10-batches-bin"
    place.mkdir(exist_ok=True)
    for number in range(1, 6):
        (place / f"data_batch_{number}.bin").write_bytes(content * 4)
    (place / "test_batch.bin").write_bytes(content)
    return load("cifar10", data_dir=str(folder))


def _images() -> list[bytes]:
    from PIL import Image

    found = []
    for kind in ("png", "jpeg", "gif", "bmp"):
        file = io.BytesIO()
        Image.fromarray((np.arange(192) % 251).reshape(8, 8, 3).astype(np.uint8)).save(file, kind)
        found.append(file.getvalue())
    return found


def _large_images() -> tuple[bytes, ...]:
    """A picture whose header says 60,000 x 60,000 pixels."""
    import zlib

    head = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", len(head)) + b"IHDR" + head + struct.pack(">I", zlib.crc32(b"IHDR" + head))
    return (b"\x89PNG\r\n\x1a\n" + chunk,)


def _read_images(content: bytes, folder: Path) -> object:
    from ramet.data import load

    for place in ("one", "two"):
        for number in range(3):
            path = folder / "pictures" / place / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return load(str(folder / "pictures"))


def _read_stream(path: Path) -> object:
    from ramet.continual import make_stream

    return make_stream(str(path), train_size=40, eval_size=20)


def _tables(folder: Path) -> list[Parser]:
    from ramet.data import load
    from ramet.ranking.prediction_files import read_predictions
    from ramet.ranking.truth import read_table
    from ramet.spaces import Cells64

    space = Cells64(channels=2, num_cells=1)
    rows = "\n".join(f"{number},{number % 7},{number % 2}" for number in range(30))
    truth = "arch,score\n" + "\n".join(f"{space.name(arch)},{place}" for place, arch in enumerate(space)) + "\n"
    npz = io.BytesIO()
    np.savez(npz, archs=np.array([space.name(arch) for arch in space]), score=np.arange(64.0))
    return [
        Parser(
            "CSV of data",
            [f"a,b,label\n{rows}\n".encode()],
            _written("own.csv", lambda path: load(f"{path}:label=label")),
        ),
        Parser(
            "CSV of truths",
            [truth.encode()],
            _written("truth.csv", lambda path: read_table(str(path), space, range(64))),
        ),
        Parser(
            "npz of truths",
            [npz.getvalue()],
            _written("truth.npz", lambda path: read_table(f"{path}:score", space, range(64))),
        ),
        Parser(
            "CSV of predictions",
            [f"prediction,label\n{rows.replace(',1', '')}\n".encode(), b"prediction,label\n0.1,1\n0.2,0\n"],
            _written("predictions.csv", lambda path: read_predictions(str(path))),
        ),
    ]


def _texts(folder: Path) -> list[Parser]:
    from ramet.growth.budget import Budget
    from ramet.registry import KINDS, registry_of
    from ramet.registry.specs import parse_chain, parse_list, parse_options, parse_spec
    from ramet.searching.costs import parse_limits
    from ramet.spaces import Cells64, Darts, EnasMicro, NasBench201, Recurrent

    specs = [
        b"plasticity:60",
        b"a:key=1,other=[x,y]",
        b"groups:8:similar",
        b"evolution:population_size=3",
        b"a+b:c=1e4",
        b"x.py:f",
    ]
    readers: list[tuple[str, Callable[[str], object]]] = [
        (f"spec strings: {function.__name__}", function)
        for function in (parse_spec, parse_chain, parse_list, parse_options)
    ]
    readers += [(f"names of kind {kind}", registry_of(kind).parse) for kind in KINDS]
    found = [Parser(name, specs, _as_text(read)) for name, read in readers]
    found += [
        Parser("budgets", [b"params=200k,step=0.3", b"neurons=60,layers=2"], _as_text(Budget.parse)),
        Parser("limits", [b"params=200k,flops=3M"], _as_text(parse_limits)),
    ]
    for space in (Cells64(), NasBench201(), Darts(), EnasMicro(), Recurrent()):
        names = [space.name(space[place]).encode() for place in (0, 7)]
        found.append(Parser(f"genotypes: {type(space).__name__}", names, _as_text(space.parse), (b"(" * 10_000,)))
    return found


def _runs(folder: Path) -> list[Parser]:
    from ramet.errors import ConfigError
    from ramet.runs import Checkpoints, Run, read_config, read_records
    from ramet.runs.tensor_file import read_tensors

    place = folder / "whole"
    with Run.create(place, "rank", {"seed": 1}) as run:
        run.records.append("a", value=1.5, text="x")
        run.records.append("b", value=float("nan"))
        import torch

        run.checkpoints("part").save(1, {"weight": torch.ones(3)}, {"epoch": 1})
    records, config = (place / "records.jsonl").read_bytes(), (place / "config.json").read_bytes()
    part = place / "checkpoints" / "part"
    (body,), (tensors,) = part.glob("*.json"), part.glob("*.safetensors")

    def with_config(content: bytes, here: Path) -> object:
        (here / "config.json").write_bytes(config)
        (here / "records.jsonl").write_bytes(content)
        return read_records(here)

    def checkpoint(file: Path) -> Callable[[bytes, Path], object]:
        def read(content: bytes, here: Path) -> object:
            for other in (body, tensors):
                (here / other.name).write_bytes(other.read_bytes())
            (here / file.name).write_bytes(content)
            return Checkpoints(here).load()

        return read

    def tensor_file(content: bytes, here: Path) -> object:
        try:
            return read_tensors(io.BytesIO(content), len(content))
        except ValueError as error:  # whoever calls it says what the file is
            raise ConfigError(str(error)) from None

    return [
        Parser("files of tensors", [tensors.read_bytes()], tensor_file, (HUGE, struct.pack("<Q", 2**62))),
        Parser("records", [records], with_config, tuple(NESTED)),
        Parser("config.json", [config], _written("config.json", lambda path: read_config(path.parent)), tuple(NESTED)),
        Parser("checkpoints: JSON", [body.read_bytes()], checkpoint(body), tuple(NESTED)),
        Parser("checkpoints: tensors", [tensors.read_bytes()], checkpoint(tensors)),
    ]


def _networks(folder: Path) -> list[Parser]:
    import safetensors.torch
    import torch

    from ramet.continual import JointNetwork, make_method
    from ramet.continual.networks.skeletons import make_skeleton
    from ramet.growth import load_network, make_network, save_network
    from ramet.ranking.prediction_files import read_predictions
    from ramet.training import Settings
    from ramet.training.weights import read_weights

    method = make_method("naive")
    method.start(make_skeleton("mlp:4", in_channels=1, image_size=(4, 4)), Settings(epochs=1), seed=0)
    JointNetwork(method).save(folder / "joint.safetensors")
    network = make_network("mlp", in_channels=1, image_size=(4, 4), num_classes=2)
    origin: dict[str, Any] = {"network": "mlp", "in_channels": 1, "image_size": [4, 4], "num_classes": 2, "options": {}}
    save_network(network, folder / "grown", steps=[], origin={**origin, "seed": 0})
    description = (folder / "grown" / "network.json").read_bytes()
    weights = (folder / "grown" / "weights.safetensors").read_bytes()
    plain, saved = safetensors.torch.save({"values": torch.ones(4)}), io.BytesIO()
    torch.save({"weight": torch.ones(3)}, saved)

    def grown(name: str) -> Callable[[bytes, Path], object]:
        def read(content: bytes, here: Path) -> object:
            (here / "network.json").write_bytes(description)
            (here / "weights.safetensors").write_bytes(weights)
            (here / name).write_bytes(content)
            return load_network(here)

        return read

    return [
        Parser(
            "safetensors: weights", [plain], _written("w.safetensors", read_weights), (HUGE, struct.pack("<Q", 2**62))
        ),
        Parser("torch's weights", [saved.getvalue()], _written("w.pt", read_weights)),
        Parser(
            "safetensors: predictions",
            [plain],
            _written("p.safetensors", lambda path: read_predictions(str(path))),
            (HUGE,),
        ),
        Parser(
            "joint networks",
            [(folder / "joint.safetensors").read_bytes()],
            _written("net.safetensors", lambda path: JointNetwork.load(path)),
            (HUGE,),
        ),
        Parser("grown networks: JSON", [description], grown("network.json"), tuple(NESTED)),
        Parser("grown networks: weights", [weights], grown("weights.safetensors"), (HUGE,)),
    ]
