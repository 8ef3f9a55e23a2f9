"""Bad data, one row each: a name, what makes the arguments of ``ramet.data.load``, and a phrase of the refusal.

``make`` writes under the folder that it is given and returns keyword arguments. Where the source is a string, the row
can be tried on the command line as well.
"""

from __future__ import annotations

import gzip
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch


class BadData(NamedTuple):
    name: str
    make: Callable[[Path], dict[str, Any]]
    phrase: str


ROWS: list[BadData] = []
Maker = Callable[[Path], dict[str, Any]]


def row(name: str, phrase: str) -> Callable[[Maker], Maker]:
    def keep(make: Maker) -> Maker:
        ROWS.append(BadData(name, make, phrase))
        return make

    return keep


def images(n: int = 12, shape: tuple[int, ...] = (4, 4), dtype: Any = np.uint8) -> np.ndarray:
    return (np.arange(n * int(np.prod(shape))) % 251).reshape(n, *shape).astype(dtype)


def labels(n: int = 12, num_classes: int = 2) -> np.ndarray:
    return np.arange(n) % num_classes


def npz(folder: Path, name: str = "own.npz", **arrays: Any) -> dict[str, Any]:
    path = folder / name
    np.savez(path, **arrays)
    return {"source": str(path)}


def npz_row(name: str, phrase: str, **arrays: Callable[[], Any]) -> None:
    ROWS.append(BadData(name, lambda folder: npz(folder, **{key: make() for key, make in arrays.items()}), phrase))


def option_row(name: str, phrase: str, **options: Any) -> None:
    ROWS.append(BadData(name, lambda folder: {"source": "digits", **options}, phrase))


# Names and paths


option_row("unknown name", "did you mean digits?", source="digit")
option_row("unknown name, nothing near", "must be one of digits, mnist", source="qqqqqqqq")
option_row("empty name", "must have a name or a path", source="")
option_row("name beyond all measure", "must be readable", source="x" * 5000)
option_row("layout of a named set", "layout is for arrays of your own", layout="NHWC")


@row("missing npz", "there is no file or folder")
def _(folder: Path) -> dict[str, Any]:
    return {"source": str(folder / "nowhere.npz")}


@row("wrong suffix", "must be an .npz file or a folder")
def _(folder: Path) -> dict[str, Any]:
    (folder / "own.xlsx").write_text("1,2,3\n")
    return {"source": str(folder / "own.xlsx")}


@row("missing named set", "fetch it with: ramet data fetch mnist")
def _(folder: Path) -> dict[str, Any]:
    return {"source": "mnist", "data_dir": str(folder)}


@row("missing set without an address", "from a mirror with: ramet data fetch usps")
def _(folder: Path) -> dict[str, Any]:
    return {"source": "usps", "data_dir": str(folder)}


@row("data folder that does not exist", "there is no usps.npz in")
def _(folder: Path) -> dict[str, Any]:
    return {"source": "usps", "data_dir": str(folder / "nowhere")}


# Options

option_row("image_size 0", "image_size must be a whole number of at least 1, but got 0", image_size=0)
option_row("image_size negative", "image_size must be a whole number of at least 1, but got -8", image_size=-8)
option_row("image_size fractional", "image_size must be a whole number", image_size=4.5)
option_row("image_size above the image", "at most the 8 x 8 of the images, but got 16 x 16", image_size=16)
option_row("image_size of three numbers", "one number or a height and a width", image_size=(4, 4, 4))
option_row("validation_fraction 0", "validation_fraction must lie between 0 and 1", validation_fraction=0.0)
option_row("validation_fraction 1", "validation_fraction must lie between 0 and 1", validation_fraction=1.0)
option_row("validation_fraction NaN", "validation_fraction must lie between 0 and 1", validation_fraction=float("nan"))
option_row("validation_fraction text", "validation_fraction must lie between 0 and 1", validation_fraction="half")
option_row("test_fraction above 1", "test_fraction must lie between 0 and 1", test_fraction=1.5)
option_row("train_size negative", "train_size must be a whole number of at least 1, but got -5", train_size=-5)
option_row("train_size 0", "train_size must be a whole number of at least 1, but got 0", train_size=0)
option_row("train_size too large", "at most the 1151 images of the train split, but got 5000", train_size=5000)
option_row("train_size below the classes", "train_size must be at least the 10 classes, but got 9", train_size=9)
option_row("eval_size too large", "at most the 287 images of the validation split", eval_size=300)
option_row("eval_size negative", "eval_size must be a whole number of at least 1, but got -1", eval_size=-1)

# IDX

IDX = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)


def idx_bytes(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


def write_idx(folder: Path, n: int = 40, **replaced: bytes) -> dict[str, Any]:
    """A small MNIST; ``replaced`` gives other raw bytes for a file, by ``images`` or ``labels`` of training."""
    (folder / "mnist").mkdir()
    x, y = images(n, (28, 28)), labels(n, 10)
    contents = [gzip.compress(idx_bytes(array), 1) for array in (x, y, x[:20], y[:20])]
    contents[0] = replaced.get("images", contents[0])
    contents[1] = replaced.get("labels", contents[1])
    for file, content in zip(IDX, contents, strict=True):
        (folder / "mnist" / file).write_bytes(content)
    return {"source": "mnist", "data_dir": str(folder)}


@row("IDX file missing", "mnist/t10k-labels-idx1-ubyte.gz is missing from")
def _(folder: Path) -> dict[str, Any]:
    arguments = write_idx(folder)
    (folder / "mnist" / IDX[3]).unlink()
    return arguments


@row("IDX file empty", "must not be empty")
def _(folder: Path) -> dict[str, Any]:
    return write_idx(folder, images=b"")


@row("IDX file a folder", "is a folder")
def _(folder: Path) -> dict[str, Any]:
    arguments = write_idx(folder)
    (folder / "mnist" / IDX[0]).unlink()
    (folder / "mnist" / IDX[0]).mkdir()
    return arguments


@row("IDX not gzipped", "must be a whole gzip file")
def _(folder: Path) -> dict[str, Any]:
    return write_idx(folder, images=idx_bytes(images(40, (28, 28))))


@row("gzip cut short", "must be a whole gzip file")
def _(folder: Path) -> dict[str, Any]:
    return write_idx(folder, images=gzip.compress(idx_bytes(images(40, (28, 28))))[:-50])


@row("gzip damaged inside", "must be a whole gzip file")
def _(folder: Path) -> dict[str, Any]:
    content = bytearray(gzip.compress(idx_bytes(images(40, (28, 28)))))
    content[-5] ^= 0xFF  # of the checksum
    return write_idx(folder, images=bytes(content))


@row("IDX cut short", "must hold 31360 bytes after its header")
def _(folder: Path) -> dict[str, Any]:
    return write_idx(folder, images=gzip.compress(idx_bytes(images(40, (28, 28)))[:-1]))


@row("IDX cut inside its header", "ends after 8 bytes")
def _(folder: Path) -> dict[str, Any]:
    return write_idx(folder, images=gzip.compress(idx_bytes(images(40, (28, 28)))[:8]))


@row("IDX too long", "but holds more")
def _(folder: Path) -> dict[str, Any]:
    return write_idx(folder, images=gzip.compress(idx_bytes(images(40, (28, 28))) + b"\0"))


@row("IDX wrong magic", "must begin with the magic number 00000803, but has 00000d03")
def _(folder: Path) -> dict[str, Any]:
    return write_idx(folder, images=gzip.compress(b"\0\0\x0d\x03" + idx_bytes(images(40, (28, 28)))[4:]))


@row("IDX labels in place of images", "must begin with the magic number 00000803, but has 00000801")
def _(folder: Path) -> dict[str, Any]:
    return write_idx(folder, images=gzip.compress(idx_bytes(labels(40, 10))))


@row("IDX label out of range", "must lie between 0 and 9, but one is 10")
def _(folder: Path) -> dict[str, Any]:
    return write_idx(folder, labels=gzip.compress(idx_bytes(labels(40, 11))))


@row("IDX lengths differ", "but there are 40 images and 39 labels")
def _(folder: Path) -> dict[str, Any]:
    return write_idx(folder, labels=gzip.compress(idx_bytes(labels(39, 10))))


@row("IDX without images", "must hold at least one image")
def _(folder: Path) -> dict[str, Any]:
    none = np.zeros((0, 28, 28), np.uint8)
    return write_idx(folder, images=gzip.compress(idx_bytes(none)), labels=gzip.compress(idx_bytes(none[:, 0, 0])))


@row("IDX class without images", "2 of 10 have none, '8' first")
def _(folder: Path) -> dict[str, Any]:
    return write_idx(folder, labels=gzip.compress(idx_bytes(labels(40, 8))))


# CIFAR


def write_cifar10(folder: Path, train: bytes | None = None, test: bytes | None = None) -> dict[str, Any]:
    path = folder / "cifar-10-batches-bin"
    path.mkdir()
    good = b"".join(bytes([i % 10]) + bytes([i]) * 3072 for i in range(40))
    (path / "data_batch_2.bin").write_bytes(good if train is None else train)
    (path / "test_batch.bin").write_bytes(good if test is None else test)
    return {"source": "cifar10", "data_dir": str(folder)}


@row("CIFAR record cut short", "end 3072 bytes into a record")
def _(folder: Path) -> dict[str, Any]:
    return write_cifar10(folder, train=bytes(3073 * 5 - 1))


@row("CIFAR label out of range", "must lie between 0 and 9, but one is 77")
def _(folder: Path) -> dict[str, Any]:
    return write_cifar10(folder, test=bytes([77]) + bytes(3072))


@row("CIFAR empty file", "must not be empty")
def _(folder: Path) -> dict[str, Any]:
    return write_cifar10(folder, train=b"")


@row("CIFAR without training files", "data_batch_1.bin is missing")
def _(folder: Path) -> dict[str, Any]:
    arguments = write_cifar10(folder)
    (folder / "cifar-10-batches-bin" / "data_batch_2.bin").unlink()
    return arguments


@row("CIFAR-100 classes in two superclasses", "must have one superclass")
def _(folder: Path) -> dict[str, Any]:
    (folder / "cifar-100-binary").mkdir()
    for file in ("train.bin", "test.bin"):
        content = b"".join(bytes([i % 3, i % 100]) + bytes(3072) for i in range(200))
        (folder / "cifar-100-binary" / file).write_bytes(content)
    return {"source": "cifar100", "data_dir": str(folder)}


# An .npz of the user's own

npz_row("npz without x", "but x is missing", y=labels)
npz_row("npz with other names", "but x, y are missing", data=images, target=labels)
npz_row("npz with half a test set", "but y_test is missing", x_train=images, y_train=labels, x_test=images)
npz_row("npz in both forms", "must be x and y or x_train to y_test", x=images, y=labels, x_train=images)
npz_row("npz with objects", "holds Python objects", x=lambda: np.array([None] * 12), y=labels)
npz_row("npz with object labels", "holds Python objects", x=images, y=lambda: np.array([0, "a"] * 6, dtype=object))
npz_row("lengths differ", "but there are 12 images and 11 labels", x=images, y=lambda: labels(11))
npz_row("rows without axes", "must have the axes [n, height, width]", x=lambda: images(12, ()), y=labels)
npz_row("five axes", "must have the axes [n, height, width]", x=lambda: images(12, (2, 2, 2, 2)), y=labels)
npz_row("both layouts fit", "fits both orders; say layout=", x=lambda: images(12, (3, 8, 3)), y=labels)
npz_row("no layout fits", "fits neither order; say layout=", x=lambda: images(12, (8, 8, 8)), y=labels)
npz_row("pixels without extent", "must have at least one pixel", x=lambda: images(12, (0, 4)), y=labels)
npz_row("no images", "must hold at least one image", x=lambda: images(0), y=lambda: labels(0))
npz_row("complex pixels", "but are complex128", x=lambda: images(dtype=complex), y=labels)
npz_row("text pixels", "must be uint8, integers or floats, but are <U", x=lambda: images().astype(str), y=labels)
npz_row("dates as pixels", "but are datetime64", x=lambda: images().astype("datetime64[s]"), y=labels)
npz_row(
    "NaN pixel", "image 7 has nan", x=lambda: np.where(np.arange(12)[:, None, None] == 7, np.nan, images()), y=labels
)
npz_row(
    "infinite pixel",
    "image 3 has -inf",
    x=lambda: np.where(np.arange(12)[:, None, None] == 3, -np.inf, images()),
    y=labels,
)
npz_row("pixels beyond all measure", "and at most 1e30", x=lambda: images(dtype=float) * 1e200, y=labels)
npz_row("labels with two axes", "must have one axis", x=images, y=lambda: np.eye(12))
npz_row("NaN labels", "but one is nan", x=images, y=lambda: np.full(12, np.nan))
npz_row("complex labels", "must be integers, text or whole floats", x=images, y=lambda: labels().astype(complex))
npz_row("labels beyond 64 bits", "must fit into 64 bits", x=images, y=lambda: np.array([0, 2**64 - 1] * 6, np.uint64))
npz_row("one class", "must have at least 2 classes, but has only '0'", x=images, y=lambda: labels(12, 1))
npz_row("a single sample", "must have at least 2 classes", x=lambda: images(1), y=lambda: labels(1))
npz_row(
    "too few to split", "at least 3 images to be split, but class '1' has 2", x=lambda: images(5), y=lambda: labels(5)
)
npz_row(
    "too few to validate", "at least 2 images to be split, but class '1' has 1",
    x_train=lambda: images(3), y_train=lambda: labels(3), x_test=images, y_test=labels,
)  # fmt: skip
npz_row(
    "class only in the test set", "must have training images, but 1 of 3 have none, '2' first",
    x_train=images, y_train=labels, x_test=images, y_test=lambda: labels(12, 3),
)  # fmt: skip
npz_row(
    "numbers to train and text to test", "must be all numbers or all text",
    x_train=images, y_train=labels, x_test=images, y_test=lambda: labels().astype(str),
)  # fmt: skip
npz_row(
    "test images of another size", "must have one shape",
    x_train=images, y_train=labels, x_test=lambda: images(12, (5, 5)), y_test=labels,
)  # fmt: skip
npz_row(
    "bytes to train and floats to test", "must both be bytes or both not",
    x_train=images, y_train=labels, x_test=lambda: images() / 255, y_test=labels,
)  # fmt: skip
npz_row(
    "no test images", "must hold at least one image",
    x_train=images, y_train=labels, x_test=lambda: images(0), y_test=lambda: labels(0),
)  # fmt: skip


@row("empty npz", "must not be empty")
def _(folder: Path) -> dict[str, Any]:
    (folder / "own.npz").write_bytes(b"")
    return {"source": str(folder / "own.npz")}


@row("npz that is text", "must be a whole .npz file")
def _(folder: Path) -> dict[str, Any]:
    (folder / "own.npz").write_text("not an archive")
    return {"source": str(folder / "own.npz")}


@row("npz cut short", "must be a whole .npz file")
def _(folder: Path) -> dict[str, Any]:
    arguments = npz(folder, x=images(), y=labels())
    path = Path(arguments["source"])
    path.write_bytes(path.read_bytes()[:-100])
    return arguments


@row("npz with a flipped byte", "must be a whole")
def _(folder: Path) -> dict[str, Any]:
    arguments = npz(folder, x=images(), y=labels())
    path = Path(arguments["source"])
    content = bytearray(path.read_bytes())
    content[content.index(images()[3].tobytes())] ^= 0xFF
    path.write_bytes(bytes(content))
    return arguments


@row("npz that is a single array", "but is a single array")
def _(folder: Path) -> dict[str, Any]:
    with (folder / "own.npz").open("wb") as file:
        np.save(file, images())
    return {"source": str(folder / "own.npz")}


def array_bytes(shape: tuple[int, ...], descr: str = "|u1", content: bytes = b"") -> bytes:
    """A ``.npy`` file whose header says what it likes."""
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + content


def zipped(folder: Path, **members: bytes) -> dict[str, Any]:
    with zipfile.ZipFile(folder / "own.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return {"source": str(folder / "own.npz")}


def header_row(name: str, phrase: str, shape: Any, descr: Any = "|u1") -> None:
    content = array_bytes(shape, descr, bytes(144))
    good = array_bytes((12,), "|u1", bytes([0, 1] * 6))
    ROWS.append(BadData(name, lambda folder: zipped(folder, x=content, y=good), phrase))


header_row("npz of a million million values", "must be as long as its header says", (10**12,))
header_row("npz beyond 64 bits", "must be as long as its header says", (10**30, 4))
header_row("npz with a negative size", "must be a whole array", (-3, 4, 4))
header_row("npz with a size that is true", "must be a whole array", (True, 4, 4))
header_row("npz with a size that is text", "must be a whole array", ("a",))
header_row("npz of nothing, often", "must be a whole array", (10**12,), "|V0")
header_row("npz of an unknown type", "must be a whole array", (12, 4, 3), "qqq")
header_row("npz with a type that is a list", "must be a whole array", (12, 4, 3), [1])


@row("npz with a header that is nested without end", "must be a whole array")
def _(folder: Path) -> dict[str, Any]:
    text = b"(" * 5000
    content = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
    return zipped(folder, x=content, y=content)


@row("npz with an array packed as NumPy does not", "must be stored or deflated")
def _(folder: Path) -> dict[str, Any]:
    with zipfile.ZipFile(folder / "own.npz", "w", zipfile.ZIP_LZMA) as archive:
        for name in "xy":
            archive.writestr(f"{name}.npy", array_bytes((12,), content=bytes(12)))
    return {"source": str(folder / "own.npz")}


@row("unknown layout", "layout must be NHWC, NCHW or NHW, but got 'HWC'")
def _(folder: Path) -> dict[str, Any]:
    return {**npz(folder, x=images(12, (4, 4, 3)), y=labels()), "layout": "HWC"}


@row("layout of another number of axes", "layout NHWC needs 4 axes")
def _(folder: Path) -> dict[str, Any]:
    return {**npz(folder, x=images(), y=labels()), "layout": "NHWC"}


@row("prepared set without its arrays", "alphabet is missing")
def _(folder: Path) -> dict[str, Any]:
    npz(folder, "omniglot_28.npz", x=images(), y=labels())
    return {"source": "omniglot", "data_dir": str(folder)}


# Folders


def class_folders(folder: Path, n: int = 4) -> Path:
    for name in ("cat", "dog"):
        (folder / "own" / name).mkdir(parents=True)
        for i, image in enumerate(images(n, (4, 4))):
            np.save(folder / "own" / name / f"{i}.npy", image)
    return folder / "own"


@row("folder without classes", "must hold a folder for each class")
def _(folder: Path) -> dict[str, Any]:
    (folder / "own").mkdir()
    return {"source": str(folder / "own")}


@row("empty class folder", "must have at least one image")
def _(folder: Path) -> dict[str, Any]:
    (class_folders(folder) / "emu").mkdir()
    return {"source": str(folder / "own")}


@row("one class folder", "must have at least 2 classes, but has only 'cat'")
def _(folder: Path) -> dict[str, Any]:
    own = class_folders(folder)
    (own / "dog").rename(folder / "elsewhere")
    return {"source": str(own)}


@row("file that is no image", "notes.txt cannot be read as one")
def _(folder: Path) -> dict[str, Any]:
    (class_folders(folder) / "dog" / "notes.txt").write_text("a good dog")
    return {"source": str(folder / "own")}


@row("image cut short", "broken.png cannot be read as one")
def _(folder: Path) -> dict[str, Any]:
    from PIL import Image

    path = class_folders(folder) / "cat" / "broken.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3)).astype(np.uint8)).save(path)
    path.write_bytes(path.read_bytes()[:2000])
    for other in path.parent.glob("*.npy"):
        other.unlink()  # of another size
    return {"source": str(folder / "own")}


@row("npy of objects", "holds Python objects")
def _(folder: Path) -> dict[str, Any]:
    np.save(class_folders(folder) / "dog" / "x.npy", np.array([None]), allow_pickle=True)
    return {"source": str(folder / "own")}


@row("npy of many images", "must hold one image")
def _(folder: Path) -> dict[str, Any]:
    np.save(class_folders(folder) / "dog" / "x.npy", images(2, (4, 4, 3)))
    return {"source": str(folder / "own")}


@row("images of several sizes", "all images must have one size")
def _(folder: Path) -> dict[str, Any]:
    np.save(class_folders(folder) / "dog" / "x.npy", images(1, (5, 4))[0])
    return {"source": str(folder / "own")}


@row("images of several dtypes", "all images must have one dtype")
def _(folder: Path) -> dict[str, Any]:
    np.save(class_folders(folder) / "dog" / "x.npy", images(1, (4, 4), float)[0])
    return {"source": str(folder / "own")}


@row("folder in a class folder", "deeper is a folder")
def _(folder: Path) -> dict[str, Any]:
    (class_folders(folder) / "dog" / "deeper").mkdir()
    return {"source": str(folder / "own")}


@row("image beside the class folders", "must lie in the folder of its class")
def _(folder: Path) -> dict[str, Any]:
    np.save(class_folders(folder) / "stray.npy", images(1)[0])
    return {"source": str(folder / "own")}


@row("third folder beside train and test", "must hold no other folder, but")
def _(folder: Path) -> dict[str, Any]:
    for name in ("train", "test", "val"):
        (folder / "splits" / name).mkdir(parents=True)
    return {"source": str(folder / "splits")}


@row("class folder only in test", "must have training images")
def _(folder: Path) -> dict[str, Any]:
    class_folders(folder / "a")
    class_folders(folder / "b")
    both = folder / "both"
    both.mkdir()
    (folder / "a" / "own").rename(both / "train")
    (folder / "b" / "own").rename(both / "test")
    (both / "test" / "dog").rename(both / "test" / "emu")
    return {"source": str(both)}


# Python objects


@row("source of another type", "but got int")
def _(folder: Path) -> dict[str, Any]:
    return {"source": 7}


@row("ragged lists", "must be an array with rows of one shape")
def _(folder: Path) -> dict[str, Any]:
    return {"source": ([[1, 2], [3]], [0, 1])}


class Rows(torch.utils.data.Dataset):
    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        return self.rows[index]


@row("data set of several sizes", "image 0 has (1, 4, 4) and image 1 has (1, 5, 5)")
def _(folder: Path) -> dict[str, Any]:
    return {"source": Rows([(torch.zeros(1, 4 + i, 4 + i), i % 2) for i in range(12)])}


@row("data set without labels", "must give (image, label)")
def _(folder: Path) -> dict[str, Any]:
    return {"source": Rows([torch.zeros(1, 4, 4)] * 12)}


@row("empty data set", "must hold at least one image")
def _(folder: Path) -> dict[str, Any]:
    return {"source": Rows([])}


@row("data set of single numbers", "must have 1, 2 or 3 axes")
def _(folder: Path) -> dict[str, Any]:
    return {"source": Rows([(torch.tensor(0.5), i % 2) for i in range(12)])}


# Vectors, numbers and tables


def numbers(n: int = 12, value: float = 0.5) -> np.ndarray:
    return np.where(np.arange(n) == 4, value, np.arange(n) / 4)


@row("fractional labels", "must be whole numbers where they are floats, but one is 0.5")
def _(folder: Path) -> dict[str, Any]:
    return {**npz(folder, x=images(), y=labels() / 2), "targets": "classes"}


@row("another kind of targets", "targets must be classes or numbers, but got 'ranks'")
def _(folder: Path) -> dict[str, Any]:
    return {**npz(folder, x=images(), y=labels()), "targets": "ranks"}


option_row("numbers of a set of classes", "the targets of digits are classes, but got targets=", targets="numbers")
npz_row(
    "NaN among numbers", "must be finite, and at most 1e30, but one is nan", x=images, y=lambda: numbers(value=np.nan)
)
npz_row(
    "infinite number", "must be finite, and at most 1e30, but one is inf", x=images, y=lambda: numbers(value=np.inf)
)
npz_row("fewer numbers than rows", "12 rows and 11 targets", x=images, y=lambda: numbers(11))
npz_row("numbers with three axes", "must have the axes [n] or [n, k]", x=images, y=lambda: np.full((12, 2, 2), 0.5))
npz_row(
    "two rows of numbers", "there must be 3 rows to split, but own has 2", x=lambda: images(2), y=lambda: numbers(2)
)
npz_row("NaN in a vector", "vector 7 has nan among its features", y=labels,
        x=lambda: np.where(np.arange(12)[:, None] == 7, np.nan, images(12, (5,))))  # fmt: skip
npz_row("test vectors of another length", "must have as many features",
        x_train=lambda: images(12, (5,)), y_train=labels, x_test=lambda: images(12, (4,)), y_test=labels)  # fmt: skip
npz_row("test numbers of another shape", "must have as many numbers a row", x_train=images, y_train=numbers,
        x_test=images, y_test=lambda: np.full((12, 2), 0.5))  # fmt: skip
npz_row("negative tokens", "must be numbers from 0, but one is -1", x=lambda: np.ones((12, 4), int) - 2,
        y=lambda: np.ones((12, 4), int))  # fmt: skip


@row("image size of vectors", "image_size is for images, but own has rows of 5 numbers")
def _(folder: Path) -> dict[str, Any]:
    return {**npz(folder, x=images(12, (5,)), y=labels()), "image_size": 2}


TABLE = "size,age,price\n" + "".join(f"{row},{row % 3},{row / 2}\n" for row in range(12))


def table_row(name: str, phrase: str, columns: str, content: str = TABLE) -> None:
    def make(folder: Path) -> dict[str, Any]:
        (folder / "houses.csv").write_text(content)
        return {"source": f"{folder / 'houses.csv'}{columns}"}

    ROWS.append(BadData(name, make, phrase))


table_row("table without a target", "a table is named as FILE.csv:target=COLUMN", "")
table_row("table with a bare column", "a table is named as FILE.csv:target=COLUMN", ":price")
table_row("table with a target and a label", "a table is named as FILE.csv:target=COLUMN", ":target=price,label=age")
table_row("table with another option", "a table is named as FILE.csv:target=COLUMN", ":target=price,sep=;")
table_row("unknown column", "must be one of size, age, price, but 'cost' is none", ":target=cost")
table_row("two columns of labels", "a label is one column", ":label=[age,size]")
table_row("nothing but targets", "must have columns besides its targets", ":target=price,without=[size,age]")
table_row(
    "cell that is no number", "row 14 has 'old'; without=[age] leaves it out", ":target=price", TABLE + "1,old,3\n"
)
table_row("row that is too short", "but row 14", ":target=price", TABLE + "1,2\n")
table_row("column twice", "has 'age' twice", ":target=price", TABLE.replace("size", "age", 1))
table_row("names alone", "a line of names and rows below it", ":target=price", "size,age,price\n")
table_row("row without a label", "line 14 of", ":label=age", TABLE + "1,,3\n")
table_row("NaN in a table", "must be finite, and at most 1e30, but one is nan", ":target=price", TABLE + "1,2,nan\n")


@row("missing table", "there is no")
def _(folder: Path) -> dict[str, Any]:
    return {"source": f"{folder / 'nowhere.csv'}:target=price"}


# Text


def text_row(name: str, phrase: str, options: str, content: str = "one two three\n" * 100, **more: Any) -> None:
    def make(folder: Path) -> dict[str, Any]:
        (folder / "story.txt").write_text(content)
        return {"source": f"text:{folder / 'story.txt'}{options}", **more}

    ROWS.append(BadData(name, make, phrase))


text_row("text shorter than a window", "has 0 windows of 64 words", "", "one two three\n" * 10)
text_row("window without words", "window must be at least 1", ":length=0")
text_row("window that is no number", "length of a text must be a whole number, but got 'long'", ":length=long")
text_row("text with another option", "a text is named as text:FILE", ":size=3")
text_row("tokenizer that is not there", "there is no file nowhere.json", ":tokens=nowhere.json,length=8")
text_row("images of a text", "a text has neither images nor labels, but got image_size", ":length=8", image_size=4)
text_row("more windows than there are", "but got 999", ":length=8", train_size=999)


@row("iterable data set", "must hold at least one image")
def _(folder: Path) -> dict[str, Any]:
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self) -> Any:
            return iter(())

    return {"source": Stream()}
