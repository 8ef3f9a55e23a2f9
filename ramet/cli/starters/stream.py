"""A stream of your own: tasks in the order in which they arrive, listed in the file ``stream.json`` beside this one.

Try it:  ramet learn --stream stream.json --network mlp:32 --method naive,bind-and-grow --epochs 3 --trust

A task's data may also be a path: ``images/`` (class folders), ``mine.npz``, ``table.csv:target=COLUMN``. Code that a
``.json`` file names runs only with ``--trust``.
"""

from __future__ import annotations

from torch import Tensor
from torch.utils.data import TensorDataset

from ramet.data import load


def upright() -> TensorDataset:
    """The first task: images of shape [samples, channels, height, width] and labels from 0 on."""
    images, labels = digits()
    return TensorDataset(images, labels)


def mirrored() -> TensorDataset:
    """The second task: the same digits in a mirror."""
    images, labels = digits()
    return TensorDataset(images.flip(3), labels)


def digits() -> tuple[Tensor, Tensor]:
    """Images and labels; put your own in here."""
    data = load("digits")
    return data.train.x, data.train.y
