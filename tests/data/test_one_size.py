"""Photographs of several sizes in class folders, brought to one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ramet.data import load
from ramet.data.one_size import brought_to, middle_part, several_sizes
from ramet.errors import DataError

Image = pytest.importorskip("PIL.Image")


def photographs(folder: Path, sizes: list[tuple[int, int]], suffix: str = ".png") -> Path:
    """Class folders of images, [height, width], dark or bright by their class."""
    for number, (height, width) in enumerate(sizes):
        label = number % 2
        path = folder / ("dark", "bright")[label] / f"{number}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((height, width, 3), 40 + 160 * label, np.uint8)).save(path)
    return folder


SEVERAL = [(20 + number, 30 - number) for number in range(16)]


def test_several_sizes_become_the_one_that_is_asked_for(tmp_path: Path) -> None:
    data = load(photographs(tmp_path / "mine", SEVERAL), image_size=12)
    assert data.in_channels == 3 and data.image_size == (12, 12) and len(data.train) == 10
    assert "scaled and cut in the middle to 12 x 12" in data.facts()["notes"]  # for the cards of networks
    # Each image is of one colour, and stays it: bright above the mean, dark below it.
    bright = data.class_names.index("bright")
    assert ((data.test.x > 0) == (data.test.y == bright)[:, None, None, None]).all()


def test_small_ones_are_enlarged_and_a_height_may_differ_from_the_width(tmp_path: Path) -> None:
    assert load(photographs(tmp_path / "mine", SEVERAL), image_size=(40, 50)).image_size == (40, 50)


def test_without_a_size_the_error_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"must have one size, but .*image_size \(--image-size\) brings them to one\.$"):
        load(photographs(tmp_path / "mine", SEVERAL))


def test_images_of_one_size_are_pooled_as_ever(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (20, 8, 8, 3), dtype=np.uint8), np.repeat(["a", "b"], 10)
    for number, (image, label) in enumerate(zip(x, y, strict=True)):
        path = tmp_path / "mine" / label / f"{number:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    own, arrays = load(tmp_path / "mine", image_size=4), load((x, y), image_size=4)
    assert own.notes == () and own.fingerprint() == arrays.fingerprint()


def test_training_and_test_folders_are_looked_at_together(tmp_path: Path) -> None:
    photographs(tmp_path / "mine" / "train", [(10, 10)] * 8)
    photographs(tmp_path / "mine" / "test", [(14, 14)] * 4)
    data = load(tmp_path / "mine", image_size=6)
    assert data.image_size == (6, 6) and len(data.test) == 4 and data.notes


def test_on_disk_and_in_memory_are_the_same(tmp_path: Path) -> None:
    folder = photographs(tmp_path / "mine", SEVERAL, ".jpg")
    memory, disk = (load(folder, image_size=12, in_memory=whether) for whether in (True, False))
    assert (memory.test.x == disk.test.x[list(range(len(disk.test)))]).all()


def test_arrays_of_several_sizes_are_still_refused(tmp_path: Path) -> None:
    for number in range(8):
        path = tmp_path / "mine" / "ab"[number % 2] / f"{number}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, np.zeros((4 + number, 4), np.uint8))
    assert not several_sizes(list((tmp_path / "mine").rglob("*.npy")))
    with pytest.raises(DataError, match="all images must have one size"):
        load(tmp_path / "mine", image_size=4)


def test_a_damaged_image_among_them_is_named(tmp_path: Path) -> None:
    folder = photographs(tmp_path / "mine", SEVERAL)
    (folder / "dark" / "0.png").write_bytes(b"no image")
    with pytest.raises(DataError, match="cannot be read as one"):
        load(folder, image_size=12)


def test_nothing_is_squeezed_and_the_middle_is_kept() -> None:
    image = np.zeros((10, 40), np.uint8)
    image[:, 15:25] = 200  # the square in the middle
    assert (brought_to(image, (10, 10)) == 200).all()
    left, top, right, bottom = middle_part(30, 20, 6, 8)
    assert (right - left) / (bottom - top) == pytest.approx(8 / 6) and right - left == 20 and top + bottom == 30


def test_a_folder_that_is_called_nearly_so_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photographs(tmp_path / "signs", SEVERAL)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"or a path, but got 'sings'; did you mean signs\?$"):
        load("sings")
    (tmp_path / ".git").mkdir()
    (tmp_path / "Digs").mkdir()
    with pytest.raises(DataError, match=r"but got 'digit'; did you mean digits\?$"):  # the nearest, hidden ones apart
        load("digit")
