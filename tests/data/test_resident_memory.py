"""A training over data that stay on disk takes little memory of its own, whatever the size of the set."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import IterableDataset

from ramet.data import load
from ramet.training import Recipe, accuracy, fit

torch.set_num_threads(1)
SEEN = [0]


def look():
    lines = Path("/proc/self/status").read_text().splitlines()
    SEEN.append(next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) * 1024)


class Images(IterableDataset):
    def __iter__(self):
        random = np.random.default_rng(0)
        for number in range(200_000):
            if number % 2000 == 0:
                look()
            yield random.integers(0, 256, (3, 32, 32), dtype=np.uint8), number % 10


class Words(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.embed, self.head = nn.Embedding(words, 8), nn.Linear(8, words)

    def forward(self, x):
        return self.head(self.embed(x))


kind, folder = sys.argv[1:]
recipe = Recipe(epochs=1, batch_size=256 if kind == "images" else 32, learning_rate=0.01)
# What torch itself takes, when it is loaded and when it first computes, is not the data's.
warm = nn.Linear(4, 2)
fit(warm, torch.randn(8, 4), torch.arange(8) % 2, recipe, seed=0)
look()
first = SEEN[-1]
if kind == "images":
    data = load(Images(), in_memory=False, spool=folder + "/spool")
    network = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10))
else:
    data = load(f"text:{folder}/text.txt:length=32,vocabulary=200", in_memory=False, spool=folder + "/spool")
    network = Words(200)
look()
options = {"after_step": lambda step, loss: step % 20 or look(), "stop_after": 1000}
fit(network, data.train.x, data.train.y, recipe, seed=0, **options)
accuracy(network, data.validation.x, data.validation.y)
look()
print(max(SEEN) - first)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system says what memory is by another way")
@pytest.mark.parametrize(("kind", "megabytes"), [("images", 600), ("text", 60)])
def test_memory_stays_small_against_the_set(kind, megabytes, tmp_path):
    """Of 600 MB of images a sixth; of 60 MB of text, which takes 900 MB where it is cut in memory, a tenth of that."""
    if kind == "text":
        line = " ".join(f"word{number % 997}" for number in range(900))
        with (tmp_path / "text.txt").open("w") as file:
            for _ in range(megabytes * 10**6 // (len(line) + 1)):
                file.write(line + "\n")
    command = [sys.executable, "-c", SCRIPT, kind, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert ended.returncode == 0, ended.stderr[-2000:]
    limit = {"images": 100, "text": 90}[kind]
    assert int(ended.stdout) / 1e6 < limit, f"{int(ended.stdout) / 1e6:.0f} MB"
