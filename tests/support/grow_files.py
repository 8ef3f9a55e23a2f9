"""What the tests of `ramet grow` share: a network of the user's own, and arguments that take seconds."""

from __future__ import annotations

import zlib
from pathlib import Path

# Dropout and batch norm, because a resumed training has to go on with the same draws and statistics.
CODE = """
from torch import nn

def network(in_channels, num_classes, width=3):
    return nn.Sequential(
        nn.Conv2d(in_channels, width, 3), nn.BatchNorm2d(width), nn.ReLU(), nn.Dropout(0.2),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * width, 4), nn.ReLU(), nn.Linear(4, num_classes),
    )
"""


def arguments(folder: Path, name: str, method: str, *more: str) -> list[str]:
    """A growth of a tiny network on a few digits; the run is ``folder/name``."""
    # A file of one's own is a module by its name, so each folder's has another.
    code = folder / f"network_to_grow_{zlib.crc32(str(folder).encode())}.py"
    if not code.exists():
        code.write_text(CODE)
    method = method.replace("firefly", "firefly:num_new=2,layer_width=3")
    return [
        "grow", "--network", f"{code}:network", "--train-size", "100", "--eval-size", "40", "--batch-size", "20",
        "--epochs", "2", "--budget", "params=400,step=40%,layers=1", "--max-steps", "2", "--checkpoint-every", "0",
        "--method", method, "--out", str(folder / name), *more,
    ]  # fmt: skip
