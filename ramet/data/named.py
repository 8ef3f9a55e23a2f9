"""Reading the named data sets from the data folder, each in the forms in which people have it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ramet.data.cifar import CIFAR10_CLASSES, CIFAR10_TEST, CIFAR10_TRAIN, CIFAR100_CLASSES, CIFAR100_FILES
from ramet.data.cifar import read_cifar10 as _read_cifar10
from ramet.data.cifar import read_cifar100 as _read_cifar100
from ramet.data.idx import FILES as IDX_FILES
from ramet.data.idx import read_idx_folder
from ramet.data.npz import from_npz, read_npz
from ramet.data.raw import Labelled, RawData
from ramet.data.sources import SOURCES, find_source
from ramet.errors import DataError

DIGITS = tuple("0123456789")
FASHION = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")


@dataclass(frozen=True)
class Form:
    """One layout of a data set on disk: the file or folder, relative to the data folder, and how it is read.

    It needs all of the files ``needs``, or ``path`` itself where there are none, and one of ``any_of``.
    """

    path: str
    read: Callable[[Path], RawData]
    needs: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()

    def missing(self, folder: Path) -> list[str]:
        """What is not there, relative to the data folder."""
        needed = [f"{self.path}/{file}" for file in self.needs] or [self.path]
        lacking = [path for path in needed if not (folder / path).exists()]
        if self.any_of and not any((folder / self.path / file).exists() for file in self.any_of):
            lacking.append(f"{self.path}/{self.any_of[0]}")
        return lacking


@dataclass(frozen=True)
class Description:
    """A line of ``ramet data list``: a ``Source``, and whether and where ``load`` would find it.

    ``location`` is where it is, or where it was looked for; ``fetchable`` is one with a public address.
    """

    name: str
    title: str
    num_classes: int
    shape: tuple[int, int, int]
    present: bool
    location: str
    fetchable: bool
    licence: str
    citation: str


def data_folder(data_dir: str | Path | None = None) -> Path:
    """Where named data sets lie: the argument, or ``RAMET_DATA``, or ``ramet/data`` in the user's cache."""
    chosen = data_dir or os.environ.get("RAMET_DATA")
    if chosen:
        return Path(chosen).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path("~/.cache").expanduser()) / "ramet" / "data"


def describe(data_dir: str | Path | None = None) -> list[Description]:
    """Every named data set, and whether it is there."""
    folder = data_folder(data_dir)
    lines = []
    for source in SOURCES.values():
        form = _find_form(source.name, folder)
        bundled = source.name == "digits"
        own = {name: getattr(source, name) for name in ("name", "title", "num_classes", "shape", "licence", "citation")}
        location = "scikit-learn" if bundled else str(folder / form.path) if form else str(folder)
        present, fetchable = bundled or form is not None, bool(source.addresses)
        lines.append(Description(**own, present=present, location=location, fetchable=fetchable))
    return lines


def read_named(name: str, data_dir: str | Path | None = None) -> RawData:
    """Read a named data set; a ``DataError`` if there is none, it is not there, or its files are damaged."""
    source = find_source(name)
    if name == "digits":
        return _read_digits()
    folder = data_folder(data_dir)
    form = _find_form(name, folder)
    if form is not None:
        return form.read(folder / form.path)
    forms = FORMS[name]
    # Of a set that is half there, what is missing says more than where it was looked for.
    half = next((form for form in forms if form.needs and (folder / form.path).is_dir()), None)
    if half is not None:
        state = f"{half.missing(folder)[0]} is missing from {folder}"
    else:
        state = f"there is no {' or '.join(form.path for form in forms)} in {folder}"
    if source.addresses:
        remedy = f"fetch it with: ramet data fetch {name}"
    else:
        remedy = f"fetch it from a mirror with: ramet data fetch {name} --mirror ADDRESS"
    raise DataError(f"{name} must be in the data folder (--data-dir or RAMET_DATA), but {state}; {remedy}")


def _find_form(name: str, folder: Path) -> Form | None:
    return next((form for form in FORMS.get(name, ()) if not form.missing(folder)), None)


def _read_digits() -> RawData:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return RawData("digits", Labelled(bunch.images, bunch.target, "digits"), layout="NHW", class_names=DIGITS)


def _prepared(name: str, class_names: tuple[str, ...], *more: str) -> tuple[Form, ...]:
    """An ``.npz`` in the same form as a user's own, read under the set's own name and class names."""

    def read(path: Path) -> RawData:
        return replace(from_npz(path), name=name, class_names=class_names)

    return tuple(Form(file, read) for file in (f"{name}.npz", *more))


def _read_prepared_cifar100(path: Path) -> RawData:
    raw = replace(from_npz(path), name="cifar100", class_names=CIFAR100_CLASSES)
    groups = read_npz(path, ("fine_to_coarse",)).get("fine_to_coarse", np.empty(0, np.int64))
    if len(groups) not in (0, len(CIFAR100_CLASSES)):
        raise DataError(f"fine_to_coarse of {path} must name the superclass of 100 classes, but has {len(groups)}.")
    whole = {"x_train": 50000, "x_test": 10000}
    found = {"x_train": len(raw.train.images), "x_test": len(raw.test.images) if raw.test else 0}
    notes = () if found == whole else (f"CIFAR-100 is the subset of {path.name}: {found['x_train']} training images.",)
    return replace(raw, class_groups=tuple(int(group) for group in groups), notes=notes)


def _read_omniglot(path: Path) -> RawData:
    """Each character is a class, and its alphabet is its group; the drawers are mixed when the set is split."""
    names = ("x", "alphabet", "character", "alphabets")
    arrays = read_npz(path, names)
    if missing := [name for name in names if name not in arrays]:
        raise DataError(f"{path} must hold {', '.join(names)}, but {missing[0]} is missing.")
    alphabet, character = (arrays[name].astype(np.int64) for name in ("alphabet", "character"))
    if not alphabet.shape == character.shape == arrays["x"].shape[:1]:
        raise DataError(f"{path} must have an alphabet and a character for each image, but their lengths differ.")
    if alphabet.min(initial=0) < 0 or alphabet.max(initial=0) >= len(arrays["alphabets"]):
        raise DataError(f"alphabet of {path} must lie between 0 and {len(arrays['alphabets']) - 1}, but does not.")
    pairs, labels = np.unique(np.stack([alphabet, character], axis=1), axis=0, return_inverse=True)
    return RawData(
        "omniglot",
        Labelled(arrays["x"], labels.reshape(-1), str(path)),
        layout="NHW",
        class_names=tuple(f"{arrays['alphabets'][group]}/{number:02d}" for group, number in pairs),
        class_groups=tuple(int(group) for group in pairs[:, 0]),
    )


FORMS: dict[str, tuple[Form, ...]] = {
    "mnist": (
        Form("mnist", lambda folder: read_idx_folder(folder, "mnist", DIGITS), needs=IDX_FILES),
        *_prepared("mnist", DIGITS),
    ),
    "fashion-mnist": (
        Form("fashion-mnist", lambda folder: read_idx_folder(folder, "fashion-mnist", FASHION), needs=IDX_FILES),
        *_prepared("fashion-mnist", FASHION),
    ),
    "cifar10": (
        Form("cifar-10-batches-bin", _read_cifar10, needs=(CIFAR10_TEST,), any_of=CIFAR10_TRAIN),
        *_prepared("cifar10", CIFAR10_CLASSES),
    ),
    "cifar100": (
        Form("cifar-100-binary", _read_cifar100, needs=CIFAR100_FILES),
        *(Form(file, _read_prepared_cifar100) for file in ("cifar100.npz", "cifar100_12k.npz")),
    ),
    "usps": _prepared("usps", DIGITS),
    "notmnist": _prepared("notmnist", tuple("ABCDEFGHIJ"), "notmnist_10k.npz"),
    "omniglot": (Form("omniglot.npz", _read_omniglot), Form("omniglot_28.npz", _read_omniglot)),
    "gtsrb": _prepared("gtsrb", tuple(map(str, range(43))), "gtsrb_32.npz"),
}
"""The forms in which each named set is looked for, in this order."""
