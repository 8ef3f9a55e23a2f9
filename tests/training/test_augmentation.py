"""Augmentations on a batch, against twins that go image by image."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from ramet.errors import ConfigError
from ramet.training import Recipe
from ramet.training.augmentation import augmentation_of

IMAGES = torch.arange(2.0 * 3 * 6 * 8).view(2, 3, 6, 8) + 1
LABELS = torch.tensor([2, 0])


def applied(text, x=IMAGES, y=LABELS, seed=0):
    return augmentation_of(text)(x, y, torch.Generator().manual_seed(seed))


def test_a_crop_is_a_window_of_the_padded_image():
    seen = set()
    padded = functional.pad(IMAGES, (2, 2, 2, 2))
    for seed in range(60):
        x, y = applied("crop:2", seed=seed)
        for image, whole in zip(x, padded, strict=True):
            places = [
                (row, column)
                for row in range(5)
                for column in range(5)
                if torch.equal(whole[:, row : row + 6, column : column + 8], image)
            ]
            assert len(places) == 1
            seen.add(places[0])
        assert y is LABELS
    assert {row for row, _ in seen} == {column for _, column in seen} == set(range(5))


def test_flips_are_mirror_images_of_about_half():
    many = IMAGES[:1].repeat(1000, 1, 1, 1)
    x, _ = applied("flip", many, torch.zeros(1000))
    flipped = torch.tensor([torch.equal(image, IMAGES[0].flip(-1)) for image in x])
    assert all(torch.equal(image, IMAGES[0]) for image in x[~flipped])
    assert abs(int(flipped.sum()) - 500) < 5 * 1000**0.5 / 2  # five deviations
    assert torch.equal(applied("flip:0")[0], IMAGES) and torch.equal(applied("flip:1.0")[0], IMAGES.flip(-1))


def test_cutout_is_one_square_of_zeros():
    sizes = set()
    for seed in range(60):
        for image in applied("cutout:4", seed=seed)[0]:
            hole = image[0] == 0
            assert torch.equal(hole.expand(3, -1, -1), image == 0)
            rows, columns = hole.any(1).nonzero(), hole.any(0).nonzero()
            assert hole.sum() == len(rows) * len(columns) and rows[-1] - rows[0] + 1 == len(rows) <= 4
            sizes.add((len(rows), len(columns)))
    assert (4, 4) in sizes and len(sizes) > 3  # whole ones, and some over the edge


def test_mixup_mixes_inputs_and_targets_alike():
    x, y = applied("mixup:1.0,classes=4")
    assert y.shape == (2, 4) and y.sum(1).tolist() == pytest.approx([1, 1])
    own = y[0, 2]  # the share of the first label in the first image, unless it is its own partner
    twin = IMAGES[0] if own == 1 else own * IMAGES[0] + (1 - own) * IMAGES[1]
    assert torch.allclose(x[0], twin)
    numbers, mixed = applied("mixup", torch.randn(8, 3), torch.arange(8.0))
    assert numbers.shape == (8, 3) and mixed.shape == (8,)


def test_mixups_shares_are_of_a_beta_distribution():
    labels = torch.arange(4000)
    _, y = applied("mixup:0.2,classes=4000", torch.zeros(4000, 1), labels)
    shares = y[labels, labels].double()
    # Beta(a, a) has the mean 1/2 and the variance 1 / (4 (2a + 1)); 5 deviations of a mean of 4000.
    deviation = (1 / (4 * 1.4)) ** 0.5
    assert abs(float(shares.mean()) - 0.5) < 5 * deviation / 4000**0.5
    assert abs(float(shares.var()) - deviation**2) < 5 * 0.25 / 4000**0.5


def test_soft_targets_train_and_equal_the_mean_of_two_losses():
    outputs, share = torch.randn(2, 5), torch.tensor([[0.25, 0.75], [1.0, 0.0]])
    loss = Recipe().loss_for(torch.zeros(2, dtype=torch.long))
    single = -outputs.log_softmax(1)
    assert float(loss(outputs, share)) == pytest.approx(
        float((0.25 * single[0, 0] + 0.75 * single[0, 1] + single[1, 0]) / 2), rel=1e-5
    )


def test_a_chain_is_one_after_the_other_and_follows_the_generator():
    together = applied("crop:1+flip+noise:0.5")
    generator = torch.Generator().manual_seed(0)
    x, y = IMAGES, LABELS
    for text in ("crop:1", "flip", "noise:0.5"):
        x, y = augmentation_of(text)(x, y, generator)
    assert torch.equal(together[0], x) and torch.equal(together[0], applied("crop:1+flip+noise:0.5")[0])
    assert not torch.equal(together[0], applied("crop:1+flip+noise:0.5", seed=1)[0])


@pytest.mark.parametrize("name", ["crop", "flip", "cutout"])
def test_what_is_no_image_is_refused(name):
    with pytest.raises(ConfigError, match=rf"{name} is for images, .* but got shape \[2, 3\]"):
        applied(name, torch.zeros(2, 3))


def test_mixup_needs_a_positive_alpha():
    with pytest.raises(ConfigError, match="alpha must be positive, but got 0"):
        applied("mixup:0")
