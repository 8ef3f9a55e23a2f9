"""What a file unpacks to is known from its header, and refused, before anything is decoded."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import bad_data
import numpy as np
import pytest
from PIL import Image

from ramet.data import load, memory, preparation
from ramet.data.preparation import average_pool
from ramet.errors import DataError

MEGABYTE = 2**20


@pytest.fixture
def small_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "machine_memory", lambda: 2 * MEGABYTE)


def refusal(action: Callable[[], object]) -> tuple[str, int]:
    """What an action is refused with, and how much memory it had at most."""
    tracemalloc.start()
    try:
        with pytest.raises(DataError) as caught:
            action()
        return str(caught.value), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_packed_idx_file_that_is_longer_than_its_header_says(tmp_path: Path) -> None:
    header = bytes([0, 0, 8, 3]) + struct.pack(">3I", 10, 8, 8)
    arguments = bad_data.write_idx(tmp_path, images=gzip.compress(header + bytes(32 * MEGABYTE), 1))
    message, peak = refusal(lambda: load(**arguments))
    assert "must hold 640 bytes after its header" in message
    assert peak < 4 * MEGABYTE


def test_a_packed_array_that_is_longer_than_its_header_says(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((20, 1, 8, 8), np.float32))
    with zipfile.ZipFile(tmp_path / "long.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("x", "y"):
            archive.writestr(f"{name}.npy", (tmp_path / "x.npy").read_bytes() + bytes(32 * MEGABYTE))
    message, peak = refusal(lambda: load(tmp_path / "long.npz"))
    assert "must be as long as its header says, 5,120 bytes" in message and "but has 33,559,552" in message
    assert peak < 4 * MEGABYTE


def test_arrays_that_lack_a_name_are_not_unpacked(tmp_path: Path) -> None:
    images, labels = np.zeros((32, 1024, 1024), np.uint8), np.zeros(32, np.int64)
    np.savez_compressed(tmp_path / "half.npz", x_train=images, y_train=labels)
    message, peak = refusal(lambda: load(tmp_path / "half.npz"))
    assert "but x_test, y_test are missing" in message
    assert peak < 4 * MEGABYTE


@pytest.mark.usefixtures("small_machine")
def test_an_idx_file_that_says_more_than_the_machine_has(tmp_path: Path) -> None:
    header = bytes([0, 0, 8, 3]) + struct.pack(">3I", 2**31, 2**15, 2**15)
    message, peak = refusal(lambda: load(**bad_data.write_idx(tmp_path, images=gzip.compress(header))))
    assert "must fit into half of this machine's memory, 1,048,576 bytes" in message
    assert peak < 4 * MEGABYTE


def test_an_idx_file_of_nothing_times_more_than_any_array(tmp_path: Path) -> None:
    """The bytes of such a shape are none, and are there."""
    header = bytes([0, 0, 8, 3]) + struct.pack(">3I", 2**32 - 1, 2**32 - 1, 0)
    message, _ = refusal(lambda: load(**bad_data.write_idx(tmp_path, images=gzip.compress(header))))
    assert "must fit into half of this machine's memory" in message and "18,446,744,065,119,617,025" in message


def test_an_array_whose_header_says_a_million_millions(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "own.npz", "w") as archive:
        archive.writestr("x.npy", bad_data.array_bytes((10**12, 8, 8)) + bytes(640))
        archive.writestr("y.npy", bad_data.array_bytes((10,), content=bytes(10)))
    message, peak = refusal(lambda: load(str(tmp_path / "own.npz")))
    assert "64,000,000,000,000 bytes for the shape (1000000000000, 8, 8), but ends after" in message
    assert peak < 4 * MEGABYTE


@pytest.mark.usefixtures("small_machine")
def test_a_zip_bomb(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", bad_data.array_bytes((32, 1024, 1024)) + bytes(32 * MEGABYTE))
        archive.writestr("y.npy", bad_data.array_bytes((32,), content=bytes(range(32))))
    message, peak = refusal(lambda: load(str(path)))
    assert "must fit into half of this machine's memory" in message
    assert peak < 4 * MEGABYTE


@pytest.mark.usefixtures("small_machine")
@pytest.mark.parametrize("suffix", ["npy", "png"])
def test_a_folder_of_large_images(tmp_path: Path, suffix: str) -> None:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for number in range(4):
            image = np.zeros((512, 512), np.uint8)
            path = tmp_path / name / f"{number}.{suffix}"
            np.save(path, image) if suffix == "npy" else Image.fromarray(image).save(path)
    message, peak = refusal(lambda: load(str(tmp_path), in_memory=True))
    assert f"{tmp_path} must fit into half of this machine's memory" in message
    assert peak < 4 * MEGABYTE


def test_an_image_whose_header_says_more_than_pillow_finds_decent(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.pgm").write_bytes(b"P5 13000 13000 255\n")
    for in_memory in (True, False, None):
        message, _ = refusal(lambda kept=in_memory: load(str(tmp_path), in_memory=kept))
        assert "an image must have at most 89,478,485 pixels" in message


def test_an_image_of_another_size_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    for name, size in (("cat", (4, 4)), ("dog", (8000, 8000))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.pgm").write_bytes(b"P5 %d %d 255\n" % size + bytes(16))
    message, _ = refusal(lambda: load(str(tmp_path)))
    assert "0.pgm has 4 x 4 and" in message and "8000 x 8000" in message


@pytest.mark.usefixtures("small_machine")
def test_a_sparse_file_of_records(tmp_path: Path) -> None:
    arguments = bad_data.write_cifar10(tmp_path)
    with (tmp_path / "cifar-10-batches-bin" / "data_batch_2.bin").open("r+b") as file:
        file.truncate(3073 * 10**6)
    message, _ = refusal(lambda: load(**arguments))
    assert "data_batch_2.bin must fit into half" in message


@pytest.mark.usefixtures("small_machine")
def test_what_is_standardised_must_fit_beside_its_source() -> None:
    bytes_each = np.zeros((40, 100, 100), np.uint8)  # 0.4 MB; 1.6 MB in float32
    labels = np.arange(40) % 2
    assert load((bytes_each, labels)).train.x.shape == (26, 1, 100, 100)
    larger = np.zeros((44, 100, 100), np.uint8)
    message, _ = refusal(lambda: load((larger, np.arange(44) % 2)))
    assert "must fit into this machine's memory of 2,097,152 bytes, but takes 1,760,000 bytes" in message
    load((larger, np.arange(44) % 2), image_size=50)


def test_pooling_in_strips_has_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    images = np.random.default_rng(0).random((2, 3, 17, 23))
    whole = average_pool(images, (5, 7))
    monkeypatch.setattr(preparation, "_MOST_VALUES", 100)
    assert np.array_equal(average_pool(images, (5, 7)), whole)


def test_mapped_tokens_that_do_not_fit(tmp_path: Path, small_machine: None) -> None:
    """They are eight bytes each in memory, and two in the file, where they stay."""
    for name in ("x", "y"):
        np.save(tmp_path / f"{name}.npy", np.ones((5000, 64), dtype=np.uint16))
    tracemalloc.start()
    try:
        assert load(tmp_path, train_size=10).form.shape == (64,)
        assert tracemalloc.get_traced_memory()[1] < 2 * MEGABYTE
    finally:
        tracemalloc.stop()
    said, peak = refusal(lambda: load(tmp_path, in_memory=True))
    assert "must fit into half of this machine's memory" in said and peak < MEGABYTE
