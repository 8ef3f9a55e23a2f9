"""The binary version of CIFAR-10 and CIFAR-100: one or two label bytes and 3,072 pixels a record."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ramet.data.raw import Array, Labelled, RawData, read_bytes
from ramet.errors import DataError

CIFAR10_TRAIN = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
CIFAR10_TEST = "test_batch.bin"
CIFAR100_FILES = ("train.bin", "test.bin")

CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_CIFAR100_NAMES = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant flatfish
forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle
mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine
possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar
sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle wardrobe whale
willow_tree wolf woman worm
"""
CIFAR100_CLASSES = tuple(_CIFAR100_NAMES.split())

_PIXELS = 3 * 32 * 32


def read_records(path: Path, num_labels: int) -> tuple[Array, Array]:
    """One file of records: images ``[n, 3, 32, 32]`` and label bytes, 1 in CIFAR-10, 2 (coarse, fine) in CIFAR-100.

    Raises:
        DataError: If the file is missing or ends inside a record.
    """
    content = np.frombuffer(read_bytes(path), np.uint8)
    length = num_labels + _PIXELS
    if len(content) % length:
        raise DataError(
            f"{path} must hold whole records of {length} bytes, but its {len(content)} bytes "
            f"end {len(content) % length} bytes into a record."
        )
    records = content.reshape(-1, length)
    return records[:, num_labels:].reshape(-1, 3, 32, 32), records[:, :num_labels]


def read_cifar10(folder: Path) -> RawData:
    """Read CIFAR-10 with as many of the five training files as are there, and note which."""
    present = [file for file in CIFAR10_TRAIN if (folder / file).exists()]
    images, labels = zip(*(read_records(folder / file, 1) for file in present), strict=True)
    test_images, test_labels = read_records(folder / CIFAR10_TEST, 1)
    note = f"CIFAR-10's training images are those of {', '.join(present)}: {len(present)} of its 5 files."
    return RawData(
        "cifar10",
        train=Labelled(np.concatenate(images), np.concatenate(labels)[:, 0], "cifar10's training files"),
        test=Labelled(test_images, test_labels[:, 0], "cifar10's test file"),
        layout="NCHW",
        class_names=CIFAR10_CLASSES,
        notes=() if len(present) == len(CIFAR10_TRAIN) else (note,),
    )


def read_cifar100(folder: Path) -> RawData:
    """Read CIFAR-100 with its fine labels; the coarse ones become the groups of the classes."""
    (images, labels), (test_images, test_labels) = (read_records(folder / file, 2) for file in CIFAR100_FILES)
    groups = np.zeros(len(CIFAR100_CLASSES), np.int64)
    known = labels[labels[:, 1] < len(groups)]  # a label out of range is refused later, with all other checks
    groups[known[:, 1]] = known[:, 0]
    if (groups[known[:, 1]] != known[:, 0]).any():
        raise DataError(f"each class of {folder / CIFAR100_FILES[0]} must have one superclass, but some have several.")
    return RawData(
        "cifar100",
        train=Labelled(images, labels[:, 1], "cifar100's training file"),
        test=Labelled(test_images, test_labels[:, 1], "cifar100's test file"),
        layout="NCHW",
        class_names=CIFAR100_CLASSES,
        class_groups=tuple(groups.tolist()),
    )
