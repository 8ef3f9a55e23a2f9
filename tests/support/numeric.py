"""Images with numbers as targets, and metrics of one's own, each beside plain NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from ramet.data import DataSet, Split

METRICS = """
def spread(outputs, targets):
    return (outputs.flatten() - targets.flatten()).abs().max()

spread.higher_is_better = False

def tightness(outputs, targets):
    return -3.0 - (outputs.flatten() - targets.flatten()).abs().max()
"""


def metrics(folder: Path, name: str = "own_metrics") -> Path:
    """A file of metrics of one's own; its name becomes a module."""
    path = folder / f"{name}.py"
    path.write_text(METRICS)
    return path


def images(num: int = 120, seed: int = 0, scale: float = 1.0) -> DataSet:
    """Small images whose target is their mean, with some noise."""
    generator = torch.Generator().manual_seed(seed)
    parts = []
    for size in (num, num // 2, num // 2):
        x = torch.randn(size, 1, 4, 4, generator=generator)
        y = 4 * x.mean(dim=(1, 2, 3)) + 0.1 * torch.randn(size, generator=generator)
        parts.append(Split(x, scale * y))
    return DataSet("sums", *parts)


def archive(folder: Path) -> Path:
    """The same as an ``.npz`` file."""
    data = images()
    x = np.concatenate([split.x[:, 0].numpy() for split in (data.train, data.validation, data.test)])
    y = np.concatenate([split.y.numpy() for split in (data.train, data.validation, data.test)])
    np.savez(folder / "sums.npz", x=x, y=y)
    return folder / "sums.npz"


def outputs_of(network: torch.nn.Module, x: torch.Tensor) -> np.ndarray:
    """What a plain network gives, in double precision, flat."""
    network.eval()
    with torch.no_grad():
        return network(x).double().numpy().reshape(-1)


def r2(outputs: np.ndarray, y: torch.Tensor) -> float:
    """The share of the variance that is explained."""
    targets = y.double().numpy()
    return float(1 - ((targets - outputs) ** 2).sum() / ((targets - targets.mean()) ** 2).sum())


def squared_error(outputs: np.ndarray, y: torch.Tensor) -> float:
    """The mean squared error."""
    return float(((y.double().numpy() - outputs) ** 2).mean())


def largest_error(outputs: np.ndarray, y: torch.Tensor) -> float:
    """The largest absolute error, ``spread`` of the file."""
    return float(np.abs(y.double().numpy() - outputs).max())
