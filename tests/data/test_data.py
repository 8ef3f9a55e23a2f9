"""Data sets: splits, standardising, pooling, layouts, labels, readers and the fingerprint."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import bad_data
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ramet.data import DataSet, Split, describe, load
from ramet.data.cifar import CIFAR10_CLASSES, CIFAR100_CLASSES
from ramet.data.preparation import average_pool
from ramet.data.splits import hold_out, permutation, share_out, subset
from ramet.errors import DataError, MissingExtraError


def own_arrays(n: int = 60, shape: tuple[int, ...] = (6, 5, 3), num_classes: int = 3, seed: int = 0) -> tuple[Any, Any]:
    generator = np.random.default_rng(seed)
    return generator.integers(0, 256, (n, *shape)).astype(np.uint8), np.arange(n) % num_classes


def same(a: DataSet, b: DataSet) -> bool:
    pairs = [(a.train, b.train), (a.validation, b.validation), (a.test, b.test)]
    return all(torch.equal(one.x, other.x) and torch.equal(one.y, other.y) for one, other in pairs)


# Digits and the splits


def test_digits_are_split_without_loss_or_overlap() -> None:
    from sklearn.datasets import load_digits

    digits = load("digits")
    assert (digits.num_classes, digits.in_channels, digits.image_size) == (10, 1, (8, 8))
    splits = (digits.train, digits.validation, digits.test)
    back = torch.cat([split.x for split in splits]) * digits.deviation[0] + digits.mean[0]
    rows = {
        (tuple(x), y)
        for x, y in zip(back.round().flatten(1).int().tolist(), torch.cat([s.y for s in splits]).tolist(), strict=True)
    }
    bunch = load_digits()
    assert rows == {(tuple(map(int, x)), int(y)) for x, y in zip(bunch.data, bunch.target, strict=True)}
    assert sum(map(len, splits)) == len(bunch.target)
    for split in splits:  # stratified: each class within one image of its share
        shares = torch.bincount(split.y) / len(split)
        assert torch.allclose(shares, torch.from_numpy(np.bincount(bunch.target) / 1797).float(), atol=1.0 / len(split))


def test_the_seed_decides_the_splits() -> None:
    assert same(load("digits", seed=3), load("digits", seed=3))
    assert not same(load("digits", seed=3), load("digits", seed=4))


def test_test_images_do_not_depend_on_the_other_choices() -> None:
    x, y = own_arrays()
    names = ["0", "1", "2"]
    _, test = hold_out(y, 0.2, seed=0, role="test", class_names=names, min_kept=2)
    for options in ({"validation_fraction": 0.4}, {"train_size": 10}, {"validation_fraction": 0.1, "train_size": 20}):
        data = load((x, y), layout="NHWC", **options)
        pixels = data.test.x * torch.tensor(data.deviation)[:, None, None] + torch.tensor(data.mean)[:, None, None]
        expected = torch.from_numpy(x[test].transpose(0, 3, 1, 2) / 255).float()
        torch.testing.assert_close(pixels, expected, atol=1e-5, rtol=0)


def test_an_own_test_set_is_the_test_set_in_its_order() -> None:
    x, y = own_arrays()
    u, v = own_arrays(20, seed=1)
    data = load({"x_train": x, "y_train": y, "x_test": u, "y_test": v}, layout="NHWC")
    assert data.test.y.tolist() == v.tolist()
    assert len(data.train) + len(data.validation) == len(x)
    mean, deviation = np.array(data.mean)[:, None, None], np.array(data.deviation)[:, None, None]
    expected = (u.transpose(0, 3, 1, 2) / 255 - mean) / deviation
    np.testing.assert_allclose(data.test.x.numpy(), expected, atol=1e-6)


@settings(deadline=None)
@given(st.lists(st.integers(3, 30), min_size=2, max_size=6), st.floats(0.01, 0.99), st.integers(0, 9))
def test_hold_out_keeps_both_sides_of_every_class(counts: list[int], fraction: float, seed: int) -> None:
    labels = permuted_labels(counts, seed)
    kept, cut = hold_out(labels, fraction, seed=seed, role="test", class_names=[str(c) for c in range(len(counts))])
    assert sorted([*kept, *cut]) == list(range(len(labels)))
    for label, count in enumerate(counts):
        num_cut = int((labels[cut] == label).sum())
        assert 1 <= num_cut <= count - 1
        assert abs(num_cut - fraction * count) <= 1 or num_cut in (1, count - 1)


@settings(deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.floats(0, 1), st.booleans())
def test_share_out_is_exact_and_near_the_proportions(counts: list[int], part: float, every_class: bool) -> None:
    total = np.array(counts)
    least = 1 if every_class else 0
    size = max(int(part * total.sum()), least * len(counts))
    quotas = share_out(total, size, least=least)
    assert quotas.sum() == size
    assert (quotas >= least).all() and (quotas <= total).all()
    if not every_class:
        assert (np.abs(quotas - total * size / total.sum()) < 1 + 1e-9).all()


def permuted_labels(counts: list[int], seed: int) -> np.ndarray:
    labels = np.repeat(np.arange(len(counts)), counts)
    return labels[permutation(len(labels), seed, "labels")]


def test_subsets_have_their_size_and_every_class() -> None:
    digits = load("digits", train_size=37, eval_size=20)
    assert (len(digits.train), len(digits.validation), len(digits.test)) == (37, 20, 20)
    assert set(digits.train.y.tolist()) == set(range(10))
    counts = torch.bincount(digits.train.y)
    assert counts.min() >= 3 and counts.max() <= 4
    labels = np.repeat(np.arange(30), 2)  # fewer places than classes is fine for evaluation
    assert len(subset(labels, 7, seed=0, role="test", num_classes=30, every_class=False)) == 7


def test_a_permutation_is_the_same_for_ever() -> None:
    """A literal: a change here moves test images into training sets of runs that are resumed."""
    assert permutation(10, 0, "test").tolist() == PERMUTATION


PERMUTATION = [3, 5, 8, 7, 2, 9, 4, 0, 1, 6]


# Standardising and pooling


def test_the_training_split_has_mean_zero_and_deviation_one() -> None:
    data = load(own_arrays(), layout="NHWC")
    flat = data.train.x.double().transpose(0, 1).flatten(1)
    torch.testing.assert_close(flat.mean(1), torch.zeros(3, dtype=torch.float64), atol=1e-6, rtol=0)
    torch.testing.assert_close(flat.std(1, correction=0), torch.ones(3, dtype=torch.float64), atol=1e-6, rtol=0)
    assert abs(float(data.test.x.mean())) > 1e-4  # the others are measured by the training split, not by themselves


def test_statistics_are_those_of_the_kept_training_images() -> None:
    data = load("digits", train_size=50)
    assert abs(float(data.train.x.mean())) < 1e-6
    assert data.mean != load("digits").mean


@pytest.mark.parametrize("value", [0, 7, 255])
def test_a_constant_channel_becomes_zero(value: int) -> None:
    x, y = own_arrays()
    x[..., 1] = value
    data = load((x, y), layout="NHWC")
    assert data.deviation[1] == 1.0
    assert float(data.train.x[:, 1].abs().max()) < 1e-6
    assert torch.isfinite(data.test.x).all()


def test_floats_are_taken_as_they_are_and_tiny_ones_count() -> None:
    x, y = own_arrays()
    as_floats = load((x / 255, y), layout="NHWC")
    assert same(as_floats, load((x, y), layout="NHWC"))
    tiny = load((x * 1e-12, y), layout="NHWC")
    torch.testing.assert_close(tiny.train.x, as_floats.train.x)
    half = load((torch.from_numpy(x / 255).to(torch.bfloat16), torch.from_numpy(y)), layout="NHWC")
    torch.testing.assert_close(half.train.x, as_floats.train.x, atol=0.05, rtol=0)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.data())
def test_pooling_equals_torch(height: int, width: int, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, height)), data.draw(st.integers(1, width))
    images = np.random.default_rng(0).normal(size=(3, 2, height, width))
    expected = torch.nn.functional.adaptive_avg_pool2d(torch.from_numpy(images), size)
    np.testing.assert_allclose(average_pool(images, size), expected.numpy(), atol=1e-12)


def test_image_size_pools_before_standardising() -> None:
    data = load("digits", image_size=(4, 2))
    assert data.image_size == (4, 2)
    assert abs(float(data.train.x.std(correction=0)) - 1) < 1e-5
    whole = load("digits")
    raw = whole.train.x.double() * whole.deviation[0] + whole.mean[0]
    pooled = torch.nn.functional.adaptive_avg_pool2d(raw, (4, 2))
    torch.testing.assert_close(
        data.train.x.double(), (pooled - pooled.mean()) / pooled.std(correction=0), atol=1e-5, rtol=0
    )


# Layouts and labels


def test_layouts_of_the_same_images_agree() -> None:
    x, y = own_arrays()
    first = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    assert same(load((x, y)), load((first, y)))
    wide = np.random.default_rng(0).integers(0, 256, (60, 7, 9, 5)).astype(np.uint8)  # 5 channels: the smallest axis
    assert same(load((wide, y)), load((wide.transpose(0, 3, 1, 2), y)))
    assert load((x[..., 0], y)).in_channels == 1


def test_layout_decides_what_the_shape_leaves_open() -> None:
    x, y = own_arrays(shape=(3, 8, 3))
    assert load((x, y), layout="NCHW").image_size == (8, 3)
    assert load((x, y), layout="NHWC").image_size == (3, 8)


def test_the_training_images_decide_the_layout_of_the_test_images() -> None:
    x, y = own_arrays()
    data = load({"x_train": x, "y_train": y, "x_test": x[:9], "y_test": y[:9]})
    assert data.test.x.shape == (9, 3, 6, 5)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (np.array([-5, 40, 7]), ("-5", "7", "40")),
        (np.array([2.0, 0.0, 10.0]), ("0", "2", "10")),
        (np.array(["owl", "ant", "bee"]), ("ant", "bee", "owl")),
        (np.array([b"owl", b"ant", b"bee"]), ("ant", "bee", "owl")),
        (np.array([[2], [0], [1]], np.uint8), ("0", "1", "2")),
    ],
)
def test_labels_become_classes_with_names(labels: np.ndarray, names: tuple[str, ...]) -> None:
    x, order = own_arrays()
    data = load((x, labels[order]), layout="NHWC")
    assert data.class_names == names
    assert same(data, load((x, np.argsort(np.argsort(labels.ravel()))[order]), layout="NHWC"))


def test_true_and_false_are_two_classes() -> None:
    x, y = own_arrays(num_classes=2)
    assert same(load((x, y.astype(bool)), layout="NHWC"), load((x, y), layout="NHWC"))


# The user's own


def test_sources_of_the_same_images_agree(tmp_path: Path) -> None:
    x, y = own_arrays()
    np.savez(tmp_path / "own.npz", x=x, y=y)
    rows = [(torch.from_numpy(image).permute(2, 0, 1), int(label)) for image, label in zip(x, y, strict=True)]
    expected = load((x, y))
    assert same(load(tmp_path / "own.npz"), expected)
    assert same(load(str(tmp_path / "own.npz")), expected)
    assert same(load(bad_data.Rows(rows)), expected)
    tensors = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    assert same(load(tensors), expected)
    assert load(tmp_path / "own.npz").name == "own"
    assert load(tensors, name="mine").name == "mine"


def test_two_data_sets_train_and_test() -> None:
    x, y = own_arrays()
    train, test = (
        torch.utils.data.TensorDataset(torch.from_numpy(x[part]), torch.from_numpy(y[part]))
        for part in (slice(0, 42), slice(42, 60))
    )
    data = load((train, test))
    assert same(data, load({"x_train": x[:42], "y_train": y[:42], "x_test": x[42:], "y_test": y[42:]}))


def write_classes(folder: Path, x: np.ndarray, y: np.ndarray, suffix: str) -> None:
    from PIL import Image

    for index, (image, label) in enumerate(zip(x, y, strict=True)):
        path = folder / f"class{label}" / f"{index:03d}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        if suffix == ".npy":
            np.save(path, image)
        else:
            Image.fromarray(image).save(path)


@pytest.mark.parametrize("suffix", [".png", ".npy"])
@pytest.mark.parametrize("shape", [(6, 5, 3), (6, 5)])
def test_class_folders(tmp_path: Path, suffix: str, shape: tuple[int, ...]) -> None:
    pytest.importorskip("PIL")
    x, y = own_arrays(shape=shape)
    write_classes(tmp_path / "train", x, y, suffix)
    write_classes(tmp_path / "test", x[:9], y[:9], suffix)
    (tmp_path / "train" / ".hidden").mkdir()
    (tmp_path / "train" / "class0" / "Thumbs.db").write_text("litter")
    by_class, test_by_class = np.argsort(y, kind="stable"), np.argsort(y[:9], kind="stable")
    arrays = {
        "x_train": x[by_class],
        "y_train": y[by_class],
        "x_test": x[test_by_class],
        "y_test": y[:9][test_by_class],
    }
    data = load(tmp_path)
    assert same(data, load(arrays))
    assert data.class_names == ("class0", "class1", "class2")
    assert same(load(tmp_path / "train"), load((x[by_class], y[by_class])))


def test_grey_images_among_coloured_ones_become_coloured(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    x, y = own_arrays(12)
    write_classes(tmp_path, x[:6], y[:6], ".png")
    grey, _ = own_arrays(6, shape=(6, 5))
    for index, image in enumerate(grey):
        write_classes(tmp_path / "grey", image[None], np.array([index % 3]), ".png")
        (tmp_path / "grey" / f"class{index % 3}" / "000.png").rename(tmp_path / f"class{index % 3}" / f"g{index}.png")
    for folder in sorted((tmp_path / "grey").rglob("*"), reverse=True):
        folder.rmdir()
    (tmp_path / "grey").rmdir()
    assert load(tmp_path).in_channels == 3


def test_a_folder_of_images_names_the_extra_that_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "0.png").write_bytes(b"png")
    with pytest.raises(MissingExtraError, match=r"ramet\[images\]"):
        load(tmp_path)


# Named sets in small files of their form


def test_idx_files(tmp_path: Path) -> None:
    data = load(**bad_data.write_idx(tmp_path))
    assert data.name == "mnist"
    assert data.test.y.tolist() == bad_data.labels(20, 10).tolist()
    pixels = data.test.x[:, 0] * data.deviation[0] + data.mean[0]
    expected = torch.from_numpy(bad_data.images(40, (28, 28))[:20] / 255).float()
    torch.testing.assert_close(pixels, expected, atol=1e-6, rtol=0)


def test_cifar10_says_which_training_files_it_used(tmp_path: Path) -> None:
    arguments = bad_data.write_cifar10(tmp_path)
    data = load(**arguments)
    assert data.notes == ("CIFAR-10's training images are those of data_batch_2.bin: 1 of its 5 files.",)
    assert data.class_names == CIFAR10_CLASSES
    folder = tmp_path / "cifar-10-batches-bin"
    for i in (1, 3, 4, 5):
        (folder / f"data_batch_{i}.bin").write_bytes((folder / "data_batch_2.bin").read_bytes())
    data = load(**arguments)
    assert data.notes == ()
    assert len(data.train) + len(data.validation) == 200


def test_cifar100_binary_and_npz_agree(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    fine = np.arange(300) % 100
    coarse, x = (fine * 7) % 20, generator.integers(0, 256, (300, 3, 32, 32)).astype(np.uint8)
    records = np.concatenate([coarse[:, None], fine[:, None], x.reshape(300, -1)], axis=1).astype(np.uint8)
    (tmp_path / "binary" / "cifar-100-binary").mkdir(parents=True)
    (tmp_path / "binary" / "cifar-100-binary" / "train.bin").write_bytes(records.tobytes())
    (tmp_path / "binary" / "cifar-100-binary" / "test.bin").write_bytes(records[:50].tobytes())
    last = x.transpose(0, 2, 3, 1)
    groups = (np.arange(100) * 7) % 20
    np.savez(
        tmp_path / "cifar100_12k.npz",
        x_train=last,
        y_train=fine,
        x_test=last[:50],
        y_test=fine[:50],
        fine_to_coarse=groups,
    )
    binary, prepared = load("cifar100", data_dir=tmp_path / "binary"), load("cifar100", data_dir=tmp_path)
    assert same(binary, prepared)
    assert binary.class_groups == prepared.class_groups == tuple(groups.tolist())
    assert binary.class_names == CIFAR100_CLASSES
    assert len(set(CIFAR100_CLASSES)) == 100 and list(CIFAR100_CLASSES) == sorted(CIFAR100_CLASSES)


def test_describe_says_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAMET_DATA", str(tmp_path))
    assert [line.name for line in describe() if line.present] == ["digits"]
    bad_data.write_idx(tmp_path)
    present = {line.name: line for line in describe() if line.present}
    assert set(present) == {"digits", "mnist"}
    assert present["mnist"].location == str(tmp_path / "mnist")
    (tmp_path / "mnist" / bad_data.IDX[0]).unlink()
    assert [line.name for line in describe() if line.present] == ["digits"]


# The fingerprint


def test_the_fingerprint_is_of_the_content() -> None:
    x, y = own_arrays()
    print_of = load((x, y), name="a").fingerprint()
    assert print_of == load((x, y), name="b").fingerprint()
    assert len(print_of) == 64
    others = [load((x, y), seed=1), load((x, y), train_size=30), load((x, y), image_size=4), load((x[:-1], y[:-1]))]
    x = x.copy()
    x[5, 0, 0, 0] ^= 1
    others.append(load((x, y)))
    assert len({print_of, *(data.fingerprint() for data in others)}) == 6


def test_the_fingerprint_is_the_same_on_every_platform() -> None:
    """A literal, of images from integer arithmetic: whatever changes it throws away everybody's cached truth."""
    x = (np.arange(30 * 6 * 6 * 3, dtype=np.int64) * 2654435761 % 2**32 >> 24).astype(np.uint8).reshape(30, 6, 6, 3)
    y = np.arange(30) % 3
    assert load((x, y)).fingerprint() == FINGERPRINT
    assert load((x / 255, y), image_size=4).fingerprint() == POOLED_FINGERPRINT


FINGERPRINT = "679d73133fe159851c72e0fa6aa56aa6054fcfdcb5e331923a05ddaa0849b8c7"
POOLED_FINGERPRINT = "181df2d718f63a3a299b2408076334c12970b83730b0e7d3c52308b3ebc2296f"


def test_the_fingerprint_does_not_depend_on_memory_order() -> None:
    data = load(own_arrays(), layout="NHWC")
    turned = Split(data.train.x.contiguous(memory_format=torch.channels_last), data.train.y)
    assert DataSet("x", turned, data.validation, data.test, 3).fingerprint() == data.fingerprint()


def test_splits_refuse_other_shapes_and_dtypes() -> None:
    x, y = torch.zeros(4, 1, 2, 2), torch.zeros(4, dtype=torch.int64)
    for images, labels in ((x[:, 0, 0, 0], y), (x.double(), y), (x, y[:3]), (x, y.double())):
        with pytest.raises(DataError, match="of a split"):
            Split(images, labels)


def test_load_leaves_the_global_generators_alone() -> None:
    torch.manual_seed(5)
    np.random.seed(5)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    load("digits")
    assert torch.equal(before[0], torch.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()


def test_ramet_alone_does_not_import_the_data_package() -> None:
    code = "import ramet, sys; assert 'torch' not in sys.modules and 'ramet.data' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# Real data


@pytest.mark.realdata
@pytest.mark.parametrize("line", describe(), ids=lambda line: line.name)
def test_real_data(line: Any) -> None:
    if not os.environ.get("RAMET_DATA"):
        pytest.skip("RAMET_DATA is not set")
    if not line.present:
        pytest.skip(f"{line.name} is not in {line.location}")
    data = load(line.name, train_size=max(200, line.num_classes), eval_size=100)
    assert (data.in_channels, *data.image_size) == line.shape
    assert data.num_classes == line.num_classes == len(data.class_names)
    assert len(data.train) == max(200, line.num_classes)
    assert torch.isfinite(data.train.x).all()
