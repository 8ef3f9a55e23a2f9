"""Class folders of photographs of many sizes: what is cut, and that draws follow from the seed and the step."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from ramet.data import ImageFolderStream, load
from ramet.data.image_stream import drawn_box
from ramet.errors import DataError


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Two classes, which differ in brightness; images of several sizes, some of them grey."""
    root, generator = tmp_path_factory.mktemp("photographs"), np.random.default_rng(0)
    for part, count in (("train", 12), ("val", 4)):
        for label, name in enumerate(("dark", "light")):
            (root / part / name).mkdir(parents=True)
            for number in range(count):
                shape = (20 + 3 * number, 40 - 2 * number, 3)[: 2 if number == 1 else 3]
                pixels = generator.integers(0, 60, shape, dtype=np.uint8) + np.uint8(150 * label)
                Image.fromarray(pixels).save(root / part / name / f"{number:02}.png")
    return root


def test_the_middle_is_cut_for_measuring(folder):
    stream = ImageFolderStream(folder / "val", 16, training=False)
    assert len(stream) == 8 and stream.classes == ["dark", "light"] and stream.targets == [0] * 4 + [1] * 4
    wide = np.zeros((16, 64, 3), dtype=np.uint8)
    wide[:, 24:40] = 200  # the middle 14 of 16 rows and as many columns, and one more that interpolation looks at
    assert (stream.cut(wide) == 200).all()
    wide[:, 28:] = 0
    assert (stream.cut(wide)[:, 5:] == 0).all(), "the square lies between columns 25 and 39"
    assert stream[1][0].shape == (16, 16, 3) and stream[1][0].dtype == np.uint8


def test_parts_that_are_drawn_have_the_stated_sizes_and_lie_inside():
    random.seed(0)
    boxes = [drawn_box(300, 200) for _ in range(2000)]
    areas = [across * down / 60000 for *_, across, down in boxes]
    ratios = [across / down for *_, across, down in boxes]
    # Of 300 x 200 pixels a part with sides of at most 4:3 covers at most 8/9.
    assert 0.08 <= min(areas) < 0.1 and 0.85 < max(areas) <= 8 / 9 + 1e-9
    assert min(ratios) + 1e-9 >= 3 / 4 and max(ratios) <= 4 / 3 + 1e-9
    assert all(left >= 0 and top >= 0 and left + a <= 300 and top + d <= 200 for left, top, a, d in boxes)
    assert drawn_box(1000, 1) == (499.5, 0.0, 1, 1), "where no attempt fits, the middle is taken"


def test_training_images_are_mirrored_half_of_the_time(folder):
    stream = ImageFolderStream(folder / "train", 8)
    ramp = np.repeat(np.linspace(0, 255, 64, dtype=np.uint8)[None, :, None], 64, axis=0).repeat(3, axis=2)
    random.seed(0)
    rising = [bool(np.diff(stream.cut(ramp)[4, :, 0].astype(int)).sum() > 0) for _ in range(400)]
    assert 160 < sum(rising) < 240  # 200, and four standard deviations of 10


@pytest.mark.parametrize("named", [True, False])
def test_a_data_set_reads_it_batch_by_batch(folder, named):
    source = f"image-folder:{folder}:size=16" if named else ImageFolderStream.pair(folder, 16)
    data = load(source, validation_fraction=0.25)
    assert (len(data.train), len(data.validation), len(data.test)) == (18, 6, 8) and data.num_classes == 2
    assert data.image_size == (16, 16) and not isinstance(data.train.x, torch.Tensor)
    first, again = data.train.x.read([3, 5], step=1), data.train.x.read([3, 5], step=1)
    other = data.train.x.read([3, 5], step=2)
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(data.test.x[[0, 1]], data.test.x[[0, 1]])
    bright = data.train.x[list(range(18))].mean((1, 2, 3))
    assert bright[data.train.y == 1].min() > bright[data.train.y == 0].max()


def test_what_is_refused(folder, tmp_path):
    with pytest.raises(DataError, match="must hold a folder called train, but has none"):
        ImageFolderStream.pair(tmp_path)
    with pytest.raises(DataError, match="at least 1, but got 0"):
        ImageFolderStream(folder / "val", 0)
    (tmp_path / "train" / "a").mkdir(parents=True)
    (tmp_path / "val" / "b").mkdir(parents=True)
    for part in ("train/a", "val/b"):
        Image.fromarray(np.zeros((4, 4, 3), dtype=np.uint8)).save(tmp_path / part / "one.png")
    with pytest.raises(DataError, match="must have the same classes, but 'a' is in one of them"):
        ImageFolderStream.pair(tmp_path)
