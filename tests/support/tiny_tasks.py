"""Tasks of a few dozen images of 2 x 6 x 6, for tests of continual learning."""

import torch

from ramet.continual import Task
from ramet.data import DataSet, Split


def make_task(name, seed, classes=3, samples=36):
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(classes, 2, 6, 6, generator=generator)

    def split(count):
        y = torch.arange(count) % classes
        return Split(centres[y] + 0.5 * torch.randn(count, 2, 6, 6, generator=generator), y)

    return Task(name, DataSet(name, split(samples), split(24), split(24), classes))
