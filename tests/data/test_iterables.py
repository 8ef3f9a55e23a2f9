"""Iterable data sets and loaders of batches, read as far as they can be."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import (
    DataLoader,
    IterableDataset,
    RandomSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

import ramet
from ramet.data import iterables, load
from ramet.errors import DataError
from ramet.growth.budget import Ends
from ramet.growth.plan import GrowPlan
from ramet.training import Recipe

X = torch.randn(60, 1, 5, 5, generator=torch.Generator().manual_seed(0))
Y = torch.arange(60) % 3


class Rows(IterableDataset):
    """Images one after the other; it may say another number than it gives, or break off."""

    def __init__(self, count=60, says=None, breaks=None):
        self.count, self.says, self.breaks = count, says, breaks

    def __iter__(self):
        for number in range(self.count):
            if number == self.breaks:
                raise OSError("the line is dead")
            yield X[number], int(Y[number])

    def __len__(self):
        if self.says is None:
            raise TypeError("nobody knows")
        return self.says


def stacked(rows):
    return torch.stack([row[0] for row in rows]), torch.tensor([row[1] for row in rows])


@pytest.mark.parametrize(
    "source",
    [
        TensorDataset(X, Y),
        Rows(),
        DataLoader(TensorDataset(X, Y), batch_size=7),
        DataLoader(Rows(), batch_size=7),
        DataLoader(TensorDataset(X, Y), batch_size=7, collate_fn=stacked),
    ],
    ids=["data set", "iterable", "loader", "loader of an iterable", "loader with a function of its own"],
)
def test_every_form_is_the_same_data_set(source):
    expected, found = load((X.numpy(), Y.numpy()), name="it"), load(source, name="it")
    assert found.fingerprint() == expected.fingerprint()


def test_a_pair_of_loaders_trains_and_tests():
    parts = [DataLoader(TensorDataset(X[rows], Y[rows]), batch_size=8) for rows in (slice(0, 45), slice(45, 60))]
    assert len(load(parts).test) == 15


def test_a_loader_of_a_subset_has_no_other_rows():
    """Else two loaders of one data set, each with its sampler, would train on what they test."""
    data = TensorDataset(X, Y)
    parts = [DataLoader(data, sampler=SubsetRandomSampler(list(rows))) for rows in (range(45), range(45, 60))]
    expected = load((TensorDataset(X[:45], Y[:45]), TensorDataset(X[45:], Y[45:])), name="it")
    assert load(parts, name="it").fingerprint() == expected.fingerprint()
    assert load(DataLoader(data, shuffle=True), name="it").fingerprint() == load(data, name="it").fingerprint()


@pytest.mark.parametrize(
    "options",
    [
        {"sampler": WeightedRandomSampler(torch.ones(60), 60)},
        {"sampler": RandomSampler(range(60), replacement=True)},
        {"sampler": RandomSampler(range(60), num_samples=20)},
        {"batch_sampler": [[0, 1], [2, 3]]},
    ],
    ids=["by weights", "with replacement", "a part", "batches"],
)
def test_a_sampler_is_never_lost_without_a_word(options):
    with pytest.raises(DataError, match="sampler of a DataLoader must take every image once") as found:
        load(DataLoader(TensorDataset(X, Y), **options))
    assert "\n" not in str(found.value)


def test_the_readers_of_a_loader_are_kept():
    loader = DataLoader(TensorDataset(X, Y), batch_size=8, num_workers=2)
    assert load(loader, in_memory=False).train.x.workers == 2


class Strange(IterableDataset):
    def __init__(self, row):
        self.row = row

    def __iter__(self):
        return iter([self.row] * 30)


def wrong_labels(rows):
    return torch.stack([row[0] for row in rows]), torch.zeros(2)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (Rows(says=61), "as many images as it says, 61, but gives 60"),
        (Rows(breaks=7), "raises OSError after 7: the line is dead"),
        (Rows(count=0), "at least one image"),
        (Strange(torch.zeros(1, 5, 5)), r"must give \(image, label\), but number 0 is Tensor"),
        (Strange({"x": 1, "y": 2}), r"must give \(image, label\), but number 0 is dict"),
        (DataLoader(TensorDataset(X), batch_size=4, collate_fn=len), r"\(images, labels\), but batch 0 is int"),
        (DataLoader(TensorDataset(X, Y), batch_size=4, collate_fn=wrong_labels), "batch 0 has 4 and 2"),
        (iter([1, 2]), "a torch Dataset or DataLoader, but got list_iterator"),
    ],
)
def test_what_cannot_be_read_is_one_line(source, message):
    with pytest.raises(DataError, match=message) as found:
        load(source)
    assert "\n" not in str(found.value)


def test_what_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(iterables, "fits_in_memory", lambda shape: np.prod(shape) <= 16 * 25)
    with pytest.raises(DataError, match=r"must fit in half of the memory, .* spool=DIR"):
        load(Rows())


def test_a_verb_takes_a_loader(tmp_path):
    network = nn.Sequential(nn.Flatten(), nn.Linear(25, 3), nn.ReLU(), nn.Linear(3, 3))
    recipe, plan = Recipe(epochs=1, batch_size=8), GrowPlan(methods="net2net", ends=Ends(max_steps=1))
    loader = DataLoader(TensorDataset(X, Y), batch_size=8)
    result = ramet.grow(network, loader, recipe=recipe, plan=plan, out=tmp_path / "a", train_size=30)
    as_arrays = load((X.numpy(), Y.numpy()), train_size=30)
    again = ramet.grow(network, as_arrays, recipe=recipe, plan=plan, out=tmp_path / "b")
    assert result.methods["net2net"].validation == again.methods["net2net"].validation
    assert result.data == again.data
