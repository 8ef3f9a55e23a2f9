"""Data that stay on disk: how busy a trainer is while others read for it, and the memory of a run over 4 GB.

The first is wall-clock time, so it needs a quiet machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.rows import Row
from benchmarks.timing import remark_on_others
from ramet.data import load
from ramet.training import Recipe, Step, fit, make_optimizer

SIDE, NUM_CLASSES = 224, 10
NUM_IMAGES, BATCH, NUM_STEPS, READERS = 2_000, 32, 16, 4
MAPPED = (28_000, 3, SIDE, SIDE)  # 4.2 GB of bytes
SECONDS_BETWEEN_LOOKS = 0.02
NETWORK = """
from torch import nn


def network():
    return nn.Sequential(nn.AvgPool2d(32), nn.Flatten(), nn.Linear(147, 8), nn.ReLU(), nn.Linear(8, 10))
"""


def run() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        busy = busy_row(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        return [busy, memory_row(Path(folder))]


class Block(nn.Module):
    """Two convolutions and a way around them, as in ResNet-18."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(inputs, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width),
        )  # fmt: skip
        self.around: nn.Module = nn.Identity()
        if stride > 1:
            self.around = nn.Sequential(nn.Conv2d(inputs, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: Tensor) -> Tensor:
        return (self.inner(x) + self.around(x)).relu()


def residual_network() -> nn.Module:
    """ResNet-18, 1.8 billion multiply-adds an image: what people train on images of this size, and the smallest."""
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    layers.append(nn.MaxPool2d(3, 2, 1))
    for inputs, width, stride in ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)):
        layers += [Block(inputs, width, stride), Block(width, width, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, NUM_CLASSES))


def write_images(folder: Path) -> None:
    """Class folders of JPEG files as cameras make them in size: smooth, with some noise."""
    from PIL import Image

    generator = np.random.default_rng(0)
    for number in range(NUM_IMAGES):
        place = folder / f"class {number % NUM_CLASSES}"
        place.mkdir(parents=True, exist_ok=True)
        coarse = Image.fromarray(generator.integers(0, 256, (14, 14, 3), dtype=np.uint8)).resize((SIDE, SIDE))
        pixels = np.asarray(coarse, dtype=np.int16) + generator.integers(-12, 13, (SIDE, SIDE, 3))
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(place / f"{number}.jpg", quality=90)


class Waiting:
    """Inputs that count the time in which a trainer waits for a batch."""

    def __init__(self, inputs: Any) -> None:
        self.inputs, self.seconds = inputs, 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inputs, name)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, rows: Any) -> Tensor:
        start = time.perf_counter()
        found: Tensor = self.inputs[rows]
        self.seconds += time.perf_counter() - start
        return found


def busy_row(folder: Path) -> Row:
    """The share of the time in which a trainer does not wait, while four processes read images from class folders."""
    remark = remark_on_others()
    write_images(folder)
    data = load(folder, in_memory=False, readers=READERS)
    network, recipe = residual_network(), Recipe(epochs=1, batch_size=BATCH, learning_rate=0.01)
    x, marks = Waiting(data.train.x), []
    torch.set_num_threads(os.cpu_count() or 1)

    def look(step: int, loss: float) -> None:
        marks.append((time.perf_counter(), x.seconds))

    fit(network, x, data.train.y, recipe, seed=0, after_step=look, stop_after=NUM_STEPS)  # type: ignore[arg-type]
    # The first step waits for processes to start, once in a training.
    seconds, waited = (last - first for first, last in zip(marks[0], marks[-1], strict=True))
    fed = seconds / (NUM_STEPS - 1)
    detail = (
        f"{waited:.2f} of {seconds:.1f} s waited in {NUM_STEPS - 1} steps of {BATCH} with {READERS} readers; ResNet-18 "
        f"on {torch.get_num_threads()} threads, {fed:.2f} s a step, {alone(network, data, recipe):.2f} s alone{remark}"
    )
    torch.set_num_threads(1)
    name = f"trainer busy, {SIDE}x{SIDE} from folders"
    return Row(name=name, value=1 - waited / seconds, limit=0.9, at_least=True, detail=detail)


def alone(network: nn.Module, data: Any, recipe: Recipe) -> float:
    """Seconds of a step whose batch is in memory while nobody reads."""
    x, y, seconds = data.train.x[:BATCH], data.train.y[:BATCH], []
    step = Step(network, make_optimizer(network, recipe), recipe)
    for number in range(3):
        start = time.perf_counter()
        step(number, 0.01, lambda x, y: cross_entropy(network(x), y), x, y)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def memory_row(folder: Path) -> Row:
    """`ramet grow` over a mapped file of more than 4 GB, which is sparse, so that the disk need not hold it.

    What counts is the largest resident memory that the system has seen of the process, pages of the set included.
    """
    (folder / "set").mkdir()
    np.lib.format.open_memmap(folder / "set" / "x.npy", mode="w+", dtype=np.uint8, shape=MAPPED)
    np.save(folder / "set" / "y.npy", np.arange(MAPPED[0]) % NUM_CLASSES)
    (folder / "mine.py").write_text(NETWORK)
    options = ["--network", f"{folder}/mine.py:network", "--data", f"{folder}/set", "--no-in-memory", "--epochs", "1"]
    options += ["--max-steps", "1", "--method", "net2net", "--out", f"{folder}/run", "--json"]
    peak = own = 0
    with open(folder / "result.json", "wb") as result:
        process = subprocess.Popen([sys.executable, "-m", "ramet", "grow", *options], stdout=result)
        while process.poll() is None:
            peak, own = max(peak, kilobytes(process.pid, "VmHWM")), max(own, kilobytes(process.pid, "RssAnon"))
            time.sleep(SECONDS_BETWEEN_LOOKS)
    if process.returncode != 0:
        raise RuntimeError(f"ramet grow ended with exit code {process.returncode}.")
    size = os.path.getsize(folder / "set" / "x.npy") / 1e9
    detail = (
        f"ramet grow, two trainings of an epoch over {size:.1f} GB: peak resident memory, pages of files included; "
        f"without them {own * 1024 / 1e9:.2f} GB"
    )
    return Row(name="memory of a run on a mapped set", value=peak * 1024 / 1e9, limit=1.5, unit=" GB", detail=detail)


def kilobytes(pid: int, name: str) -> int:
    """A figure of /proc/PID/status; 0 if the process has ended. Linux only."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), 0)
