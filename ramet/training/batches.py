"""Mini-batches as index lookups: which samples a step sees follows from the seed and the step's number alone."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from ramet.errors import ConfigError
from ramet.seeding import torch_generator


class Batches:
    """The mini-batches of a training, addressed by the number of the step.

    Each epoch is a fresh permutation of the samples, drawn from a generator of its own. There is no sampler state: a
    training resumed at step 1234 sees just what it would have seen.

    Args:
        num_samples: the samples in the training split.
        batch_size: the samples in a mini-batch; the last one of an epoch may have fewer. A last one of a single sample
            is left out, because batch norm cannot use it.
        seed: the seed of this training's batches.

    >>> batches = Batches(num_samples=10, batch_size=4, seed=0)
    >>> batches.steps_per_epoch
    3
    >>> sorted(torch.cat([batches[0], batches[1], batches[2]]).tolist())
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """

    def __init__(self, num_samples: int, batch_size: int, seed: int) -> None:
        if num_samples < 2:
            raise ConfigError(f"training needs at least 2 samples, but got {num_samples}.")
        self._num_samples = num_samples
        self._batch_size = batch_size
        self._seed = seed
        whole, rest = divmod(num_samples, batch_size)
        self.steps_per_epoch = whole + (rest > 1)
        self._epoch = -1
        self._permutation = torch.empty(0, dtype=torch.long)

    def __getitem__(self, step: int) -> Tensor:
        """The indices of the samples of a step, counted from 0 over all epochs; shape [batch]."""
        epoch, within = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            generator = torch_generator(self._seed, "epoch", epoch)
            self._permutation = torch.randperm(self._num_samples, generator=generator)
            self._epoch = epoch
        return self._permutation[within * self._batch_size : (within + 1) * self._batch_size]


def read_ahead(x: object, batches: Batches, first: int, last: int) -> None:
    """Tell inputs that are read as they are asked for what the steps of a training will ask for; not a tensor."""
    expect = getattr(x, "expect", None)
    if expect is not None:
        ahead = copy.copy(batches)  # it remembers the epoch that it is in, which is not that of the trainer
        expect(lambda: ((step, ahead[step]) for step in range(first, last)))
