"""A data set on the device that its networks are on."""

from __future__ import annotations

from dataclasses import replace

import torch

from ramet.data.dataset import DataSet, Split
from ramet.errors import ConfigError


def on_device(data: DataSet, device: str) -> DataSet:
    """The data set with its tensors on a device.

    Raises:
        ConfigError: torch cannot use the device here.
    """

    def moved(split: Split) -> Split:
        return replace(split, x=split.x.to(device), y=split.y.to(device))  # also for a kind of split of its own

    try:
        torch.zeros(1, device=device).cpu()  # to and fro, because the device called meta takes values and gives none
    except (RuntimeError, AssertionError) as error:
        first_line = str(error).splitlines()[0]
        raise ConfigError(f"device must be one that torch can use here, but {device!r} is not: {first_line}") from None
    if device == "cpu":
        return data
    return replace(data, train=moved(data.train), validation=moved(data.validation), test=moved(data.test))
