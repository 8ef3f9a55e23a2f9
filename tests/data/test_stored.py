"""Inputs that are read as they are asked for have the same bits as in memory, read ahead or not."""

from __future__ import annotations

import mmap
import pickle

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from ramet.data import load, mapped_pages, preparation
from ramet.data.preparation import channel_statistics, standardise
from ramet.data.stored import DatasetPixels, MappedPixels, StoredInputs
from ramet.errors import DataError
from ramet.training import Batches, Recipe, accuracy, evaluation, fit
from ramet.training.evaluation import in_batches

PIXELS = np.random.default_rng(0).integers(0, 256, (40, 3, 6, 8), dtype=np.uint8)
ROWS = np.random.default_rng(1).permutation(40)[:30]
SIZE = (3, 4)
MEAN, DEVIATION = channel_statistics(PIXELS, ROWS, SIZE)


def in_memory() -> torch.Tensor:
    return standardise(PIXELS, ROWS, SIZE, MEAN, DEVIATION)


class Noisy(Dataset):
    """Draws from all three global generators."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, row: int):
        import random

        return torch.rand(3, 6, 8) + np.random.rand() + random.random(), row % 2


@pytest.fixture(params=["array", "mapped"])
def stored(request, tmp_path):
    pixels = PIXELS
    if request.param == "mapped":
        np.save(tmp_path / "x.npy", PIXELS)
        pixels = MappedPixels(np.load(tmp_path / "x.npy", mmap_mode="r"), None, "x")
    return StoredInputs(pixels, ROWS, SIZE, MEAN, DEVIATION)


def test_any_index_gives_the_same_bits(stored):
    whole = in_memory()
    assert stored.shape == whole.shape and len(stored) == 30 and stored.dtype == whole.dtype
    assert stored.is_floating_point() == whole.is_floating_point()
    rows = torch.tensor([3, 29, 3, 0])
    for key in (rows, slice(2, 9), slice(None, 4), 7, [5, 1]):
        assert torch.equal(stored[key], whole[key])
    assert torch.equal(stored.subset(np.array([4, 2]))[:2], whole[[4, 2]])
    labels = torch.arange(30)
    for inputs in (stored, whole):
        batches = list(in_batches(inputs, labels, 7))
        assert torch.equal(torch.cat([x for x, _ in batches]), whole)
        assert torch.equal(torch.cat([y for _, y in batches]), labels)


def test_pages_of_a_mapped_file_are_given_back(tmp_path, monkeypatch):
    """They would count as the process' own, up to the whole file."""
    np.save(tmp_path / "x.npy", PIXELS)
    monkeypatch.setattr(mapped_pages, "MOST_MAPPED", 3 * PIXELS[0].nbytes)
    monkeypatch.setattr(mapped_pages, "AROUND", 1)
    pixels = MappedPixels(np.load(tmp_path / "x.npy", mmap_mode="r"), None, "x")
    given = []

    class Watched:
        def madvise(self, advice, own=pixels._pages._map):
            given.append(advice)
            own.madvise(advice)

    pixels._pages._map = Watched()
    for rows in ([0, 1], [5, 6], [7], [0, 39, 3, 2]):
        assert np.array_equal(pixels[rows], PIXELS[rows])
    assert given == [mmap.MADV_DONTNEED] * 2
    monkeypatch.setattr(mapped_pages, "AROUND", 2**20)
    assert np.array_equal(pixels[[3]], PIXELS[[3]]) and len(given) == 3, "the pages around a row come with it"
    monkeypatch.setattr(mapped_pages, "MOST_MAPPED", PIXELS.nbytes)
    assert np.array_equal(pixels[[3]], PIXELS[[3]]) and len(given) == 3, "a small file is never too much"


def test_the_size_of_blocks_has_no_influence(monkeypatch):
    """Large images are converted a few at a time; the sums are taken in the same order."""
    generator = np.random.default_rng(2)
    pixels, rows = generator.normal(size=(700, 2, 4, 4)) * 1e3, generator.permutation(700)
    whole = channel_statistics(pixels, rows, (4, 4)), standardise(pixels, rows, (4, 4), *np.ones((2, 2)))
    for values in (1, 32 * 5, 32 * 100):
        monkeypatch.setattr(preparation, "_MOST_VALUES", values)
        found = channel_statistics(pixels, rows, (4, 4))
        assert all(np.array_equal(one, other) for one, other in zip(whole[0], found, strict=True))
        assert torch.equal(standardise(pixels, rows, (4, 4), *np.ones((2, 2))), whole[1])


def test_large_inputs_are_measured_a_few_at_a_time(monkeypatch):
    monkeypatch.setattr(evaluation, "MOST_VALUES", 20 * 12)
    x, y = torch.randn(50, 3, 4), torch.arange(50)
    assert [len(labels) for _, labels in in_batches(x, y)] == [20, 20, 10]
    assert [len(labels) for _, labels in in_batches(x, y, 7)] == [7] * 7 + [1]
    assert [len(labels) for _, labels in in_batches(torch.randn(50, 100), y)] == [16, 16, 16, 2]


@pytest.mark.parametrize("source", ["array", pytest.param("random", marks=pytest.mark.slow)])
def test_reading_ahead_changes_no_bit(source):
    pixels = PIXELS if source == "array" else DatasetPixels(Noisy(), "it")
    plain, ahead = (StoredInputs(pixels, ROWS, SIZE, MEAN, DEVIATION, workers=workers) for workers in (0, 2))
    batches = Batches(30, 8, seed=0)
    steps = [(step, batches[step]) for step in range(6)]
    ahead.expect(lambda: iter(steps))
    for step, rows in steps:
        assert torch.equal(ahead[rows], plain.read(rows.tolist(), step))


def test_pixels_that_are_not_finite_are_refused_when_they_are_read():
    pixels = np.random.default_rng(0).normal(size=(40, 3, 6, 8))
    pixels[ROWS[4], 1, 2, 3] = np.inf
    stored = StoredInputs(pixels, ROWS, SIZE, MEAN, DEVIATION)
    assert stored[[0, 1, 2, 3]].isfinite().all()
    with pytest.raises(DataError, match=f"must be finite, but image {ROWS[4]} has others"):
        stored[[3, 4, 5]]


class Broken(Dataset):
    """Its images cannot be read, but for the first."""

    def __len__(self):
        return 40

    def __getitem__(self, row):
        if row:
            raise OSError("the disk is gone")
        return torch.zeros(3, 6, 8), 0


@pytest.mark.slow
def test_what_a_reading_process_refuses_is_one_line():
    stored = StoredInputs(DatasetPixels(Broken(), "it"), ROWS, SIZE, MEAN, DEVIATION, workers=1)
    stored.expect(lambda: iter([(0, torch.tensor([1, 2]))]))
    with pytest.raises(DataError) as caught:
        stored[torch.tensor([1, 2])]
    assert str(caught.value) == f"it must give every image, but raises OSError for {ROWS[1]}: the disk is gone"


def test_what_was_not_expected_is_read_all_the_same():
    stored = StoredInputs(PIXELS, ROWS, SIZE, MEAN, DEVIATION, workers=1)
    stored.expect(lambda: iter([(0, torch.tensor([1, 2])), (1, torch.tensor([3]))]))
    whole = in_memory()
    for rows in ([5, 6], [1, 2], [7], [3], [4]):
        assert torch.equal(stored[rows], whole[rows])


def test_random_transforms_follow_from_seed_step_and_row():
    pixels = DatasetPixels(Noisy(), "it")
    stored = StoredInputs(pixels, ROWS, SIZE, MEAN, DEVIATION, seed=3)
    before = torch.get_rng_state()
    first = stored.read([0, 1], step=4)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(stored.read([1, 0], step=4), first.flip(0))
    assert not torch.equal(stored.read([0, 1], step=5), first)
    assert not torch.equal(StoredInputs(pixels, ROWS, SIZE, MEAN, DEVIATION, seed=4).read([0, 1], step=4), first)


def test_it_can_be_sent_to_another_process(stored):
    stored.expect(lambda: iter([(0, torch.tensor([1, 2]))]))
    assert torch.equal(pickle.loads(pickle.dumps(stored))[:3], in_memory()[:3])


def test_a_mapped_file_is_sent_by_its_name(tmp_path):
    np.save(tmp_path / "x.npy", PIXELS)
    whole = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert len(pickle.dumps(MappedPixels(whole, None, "x"))) < 1000 < PIXELS.nbytes
    for part in (whole[:5], np.array(whole)):
        with pytest.raises(DataError, match=r"must be a whole \.npy file"):
            MappedPixels(part, None, "x")


def test_what_a_data_set_may_not_give():
    class Odd(Noisy):
        def __getitem__(self, row: int):
            return torch.zeros(3, 6, 8 + row % 2), 0

    class NoPair(Noisy):
        def __getitem__(self, row: int):
            return torch.zeros(3, 6, 8)

    with pytest.raises(DataError, match=r"image 0 has .* and image 1 has"):
        DatasetPixels(Odd(), "it")[[0, 1]]
    with pytest.raises(DataError, match=r"must give \(image, label\) for each index, but 0 gives Tensor"):
        DatasetPixels(NoPair(), "it")


# Through the front door: the same splits, labels and bits, read as they are asked for


class Grey(Dataset):
    """Pillow-free images and labels, one of them coloured by its index."""

    def __init__(self, targets: bool) -> None:
        if targets:
            self.targets = [row % 4 for row in range(40)]

    def __len__(self) -> int:
        return 40

    def __getitem__(self, row: int):
        return PIXELS[row], torch.tensor(row % 4)


def folder_of_arrays(path):
    for row in range(40):
        place = path / "images" / f"class {row % 4}"
        place.mkdir(parents=True, exist_ok=True)
        np.save(place / f"{row}.npy", PIXELS[row])
    return path / "images"


def mapped_files(path):
    np.save(path / "x.npy", PIXELS)
    np.save(path / "y.npy", np.arange(40) % 4)
    return path


SOURCES = {
    "data set": lambda path: Grey(targets=False),
    "data set with targets": lambda path: Grey(targets=True),
    "pair of data sets": lambda path: (Grey(targets=True), Grey(targets=False)),
    "folder": folder_of_arrays,
    "mapped files": mapped_files,
    "mapped arrays": lambda path: tuple(
        np.load(mapped_files(path) / f"{name}.npy", mmap_mode="r") for name in ("x", "y")
    ),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_a_source_that_is_not_in_memory_has_the_same_bits(kind, tmp_path):
    source = SOURCES[kind](tmp_path)
    options = {"image_size": 4, "seed": 3, "train_size": 16}
    memory, stored = (load(source, in_memory=in_memory, **options) for in_memory in (True, False))
    assert isinstance(load(source, **options).train.x, torch.Tensor), "what fits is read by default"
    for role in ("train", "validation", "test"):
        ours, theirs = getattr(stored, role), getattr(memory, role)
        assert isinstance(ours.x, StoredInputs) and torch.equal(ours.x[:], theirs.x) and torch.equal(ours.y, theirs.y)
    assert stored.class_names == memory.class_names and stored.mean == memory.mean
    assert str(stored) == str(memory)
    assert stored.fingerprint() != load(source, in_memory=False, **{**options, "seed": 4}).fingerprint()


def test_training_and_evaluation_take_it(tmp_path):
    """A network that is trained by a recipe on stored inputs ends with the same bits, and has the same accuracy."""
    memory, stored = (load(Grey(True), in_memory=in_memory, readers=2) for in_memory in (True, False))
    ends = []
    for data in (memory, stored):
        torch.manual_seed(0)
        network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 6 * 8, 4))
        fit(network, data.train.x, data.train.y, Recipe(epochs=3, batch_size=8, augment="crop:1+flip"), seed=5)
        ends.append((network[1].weight, accuracy(network, data.validation.x, data.validation.y)))
    assert torch.equal(ends[0][0], ends[1][0]) and ends[0][1] == ends[1][1]


@pytest.mark.parametrize(
    "targets", [np.arange(40) % 4, np.random.default_rng(5).normal(size=40)], ids=["classes", "numbers"]
)
def test_vectors_that_are_mapped(targets, tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(4).normal(size=(40, 7)))
    np.save(tmp_path / "y.npy", targets)
    memory, stored = (load(tmp_path, in_memory=in_memory, seed=3) for in_memory in (True, False))
    assert isinstance(load(tmp_path).train.x, torch.Tensor), "what fits is read by default"
    ends = []
    for data in (memory, stored):
        torch.manual_seed(0)
        network = torch.nn.Sequential(torch.nn.Linear(7, data.num_outputs))
        fit(network, data.train.x, data.train.y, Recipe(epochs=2, batch_size=8), seed=5)
        ends.append(network[0].weight)
    assert torch.equal(*ends)
    for role in ("train", "validation", "test"):
        ours, theirs = getattr(stored, role), getattr(memory, role)
        assert isinstance(ours.x, StoredInputs) and torch.equal(ours.x[:], theirs.x) and torch.equal(ours.y, theirs.y)
        assert (ours.x.shape, ours.x.ndim) == (theirs.x.shape, theirs.x.ndim)
        assert torch.equal(ours.x[2], theirs.x[2]) and torch.equal(ours.x.subset(np.array([1, 0]))[:], theirs.x[[1, 0]])
    assert str(stored) == str(memory) and stored.mean == memory.mean and stored.form == memory.form
    assert torch.equal(pickle.loads(pickle.dumps(stored.train.x))[:], memory.train.x)


def test_mapped_vectors_that_cannot_be_read(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((40, 7), dtype=complex))
    np.save(tmp_path / "y.npy", np.arange(40) % 4)
    with pytest.raises(DataError, match=r"the features of .* must be uint8, integers or floats"):
        load(tmp_path, in_memory=False)
    parts = {"x_train": np.ones((40, 7)), "x_test": np.ones((40, 6)), "y_train": np.arange(40) % 4}
    (tmp_path / "parts").mkdir()
    for name, values in {**parts, "y_test": parts["y_train"]}.items():
        np.save(tmp_path / "parts" / f"{name}.npy", values)
    with pytest.raises(DataError, match="must have one shape"):
        load(tmp_path / "parts", in_memory=False)


def test_what_stored_data_do_not_take(tmp_path):
    with pytest.raises(DataError, match="pool is for data in memory"):
        load((Grey(True), Grey(True)), in_memory=False, pool=True)
    mapped_files(tmp_path)
    (tmp_path / "y.npy").write_bytes(b"no array")
    with pytest.raises(DataError, match="must be a whole array of NumPy's format"):
        load(tmp_path)
    (tmp_path / "y.npy").unlink()
    with pytest.raises(DataError, match="y is missing"):
        load(tmp_path)
    folder = folder_of_arrays(tmp_path)
    np.save(folder / "class 0" / "0.npy", PIXELS[0][:, :5])
    with pytest.raises(DataError, match="all images must have one size and dtype"):
        load(folder, in_memory=False)
