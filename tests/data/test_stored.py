"""Inputs that are read as they are asked for have the same bits as in memory, read ahead or not."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from ramet.data.preparation import channel_statistics, standardise
from ramet.data.stored import DatasetPixels, MappedPixels, StoredInputs, in_batches
from ramet.errors import DataError
from ramet.training import Batches

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
    rows = torch.tensor([3, 29, 3, 0])
    for key in (rows, slice(2, 9), slice(None, 4), 7, [5, 1]):
        assert torch.equal(stored[key], whole[key])
    assert torch.equal(stored.subset(np.array([4, 2]))[:2], whole[[4, 2]])
    assert torch.equal(torch.cat(list(in_batches(stored, 7))), whole)
    assert torch.equal(torch.cat(list(in_batches(whole, 7))), whole)


@pytest.mark.parametrize("source", ["array", "random"])
def test_reading_ahead_changes_no_bit(source):
    pixels = PIXELS if source == "array" else DatasetPixels(Noisy(), "it")
    plain, ahead = (StoredInputs(pixels, ROWS, SIZE, MEAN, DEVIATION, workers=workers) for workers in (0, 2))
    batches = Batches(30, 8, seed=0)
    steps = [(step, batches[step]) for step in range(6)]
    ahead.expect(steps)
    for step, rows in steps:
        assert torch.equal(ahead[rows], plain.read(rows.tolist(), step))


def test_what_was_not_expected_is_read_all_the_same():
    stored = StoredInputs(PIXELS, ROWS, SIZE, MEAN, DEVIATION, workers=1)
    stored.expect([(0, torch.tensor([1, 2])), (1, torch.tensor([3]))])
    whole = in_memory()
    assert torch.equal(stored[[5, 6]], whole[[5, 6]])
    assert torch.equal(stored[[3]], whole[[3]])


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
    stored.expect([(0, torch.tensor([1, 2]))])
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
