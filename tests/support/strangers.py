"""A stranger's parts, each in a file outside the repository: one for each kind.

The fixture ``stranger`` puts such a file into a folder and gives its reference, for Python and the command line alike.
"""

from __future__ import annotations

from pathlib import Path

FILES = {
    "guard": (
        "Slowing",
        '''
import torch
from ramet.errors import ConfigError
from ramet.guards import Guard

class Slowing(Guard):
    """Weights that a finished model uses move more slowly."""

    def __init__(self, rate: float = 0.1) -> None:
        self.rate, self._slowed, self._before = rate, set(), {}

    def before_step(self, path):
        self._before = {name: param.detach().clone() for name, param in path.items() if name in self._slowed}

    def after_step(self, path, step_sizes):
        if self._before:
            after = [path[name] for name in self._before]
            torch._foreach_lerp_(after, list(self._before.values()), 1 - self.rate)
            self._before = {}

    def consolidate(self, path, fisher):
        self._slowed |= set(path)

    def forget(self):
        self._slowed.clear()

    def report(self):
        return {"slowed": float(len(self._slowed))}

    def state_dict(self):
        return {f"slowed.{name}": torch.ones(1) for name in sorted(self._slowed)}

    def load_state_dict(self, state):
        if any(not key.startswith("slowed.") for key in state):
            raise ConfigError(f"the state has keys slowed.NAME, but got {sorted(state)[0]!r}.")
        self._slowed = {key.removeprefix("slowed.") for key in state}
''',
    ),
    "strategy": (
        "Neighbours",
        '''
import torch
from ramet.searching.strategies import Strategy

class Neighbours(Strategy):
    """Walks from the best seen to a neighbour."""

    def __init__(self, space, *, seed: int = 0, radius: int = 1) -> None:
        super().__init__(space, seed=seed)
        self.radius, self._best = radius, None

    def draw(self, n):
        drawn = []
        for _ in range(n):
            arch = list(self.sample() if self._best is None else self._best[0])
            for place in torch.randperm(len(arch), generator=self.generator)[: self.radius].tolist():
                arch[place] = self.sample()[place]
            drawn.append(tuple(arch))
        return drawn

    def learn(self, archs, rewards):
        for arch, reward in zip(archs, rewards):
            if self._best is None or reward > self._best[1]:
                self._best = (tuple(arch), reward)

    def state(self):
        return {"generator": self.generator.get_state(), "best": self._best}

    def load_state(self, state):
        self.generator.set_state(state["generator"])
        self._best = None if state["best"] is None else (tuple(state["best"][0]), state["best"][1])
''',
    ),
    "space": (
        "Widths",
        '''
import copy
from torch import nn
from ramet.errors import ConfigError
from ramet.spaces import Space, Supernet

class Widths(Space):
    """A linear layer of one of several widths."""

    def __init__(self, num_widths: int = 3) -> None:
        super().__init__([num_widths])
        self.num_widths = num_widths

    def supernet(self, in_channels, num_classes):
        return Net(self, in_channels, num_classes)

    def name(self, arch):
        return f"w{self.check(arch)[0]}"

    def parse(self, text):
        for arch in self:
            if self.name(arch) == text:
                return arch
        raise ConfigError(f"an architecture reads w0, w1, ..., but got {text!r}.")

    def describe(self):
        return {"kind": "strange_space:Widths", "num_widths": self.num_widths}

class Body(nn.Module):
    def __init__(self, space, inputs):
        super().__init__()
        self.options = nn.ModuleList(nn.Linear(inputs, 4) for _ in range(space.num_widths))

    def forward(self, x, arch):
        return self.options[arch[0]](x).relu()

class Stem(nn.Module):
    def forward(self, x, arch):
        return x.mean((2, 3))

class Head(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.linear = nn.Linear(4, num_classes)

    def forward(self, x, arch):
        return self.linear(x)

class Net(Supernet):
    def __init__(self, space, in_channels, num_classes):
        super().__init__()
        self.space = space
        self.stages = nn.ModuleList([Stem(), Body(space, in_channels), Head(num_classes)])

    def forward(self, x, arch):
        return super().forward(x, self.space.check(arch))

    def child(self, arch):
        self.space.check(arch)
        return Child(copy.deepcopy(self.stages[1].options[arch[0]]), copy.deepcopy(self.stages[2].linear))

class Child(nn.Module):
    def __init__(self, body, head):
        super().__init__()
        self.body, self.head = body, head

    def forward(self, x):
        return self.head(self.body(x.mean((2, 3))).relu())
''',
    ),
    "sharing": (
        "Evens",
        '''
from ramet.sharing import Sharing

class Evens(Sharing):
    """Every second child is in the other group."""

    def __init__(self, offset: int = 0) -> None:
        self.num_groups, self.offset = 2, offset

    def group_of(self, place, num_children, seed):
        return (place + self.offset) % 2
''',
    ),
    "growth": (
        "Widest",
        '''
import torch
from ramet.growth import Net2Net

class Widest(Net2Net):
    """Splits units of the widest group first."""

    def __init__(self, *, eager: bool = True) -> None:
        super().__init__(noise=0.0, depth=False)
        self.eager = eager

    def score(self, context, proposal):
        sizes = {name: group.size for name, group in context.coupling.groups.items()}
        sign = 1.0 if self.eager else -1.0
        return torch.tensor([sign * sizes[candidate.where] for candidate in proposal.candidates])
''',
    ),
    "method": (
        "Cautious",
        '''
from dataclasses import dataclass
from typing import ClassVar
from ramet.continual.methods.naive import Naive

@dataclass(kw_only=True, eq=False)
class Cautious(Naive):
    """Shared layers, plain training, and a note.

    Attributes:
        note: what it says of every task.
    """

    name: ClassVar[str] = "cautious"
    note: str = "slowly"

    def _learn(self, task, earlier, saves):
        return {**super()._learn(task, earlier, saves), "note": self.note}
''',
    ),
    "network": (
        "tiny",
        '''
from torch import nn

def tiny(in_channels, num_classes, hidden: int = 3):
    """A linear network."""
    return nn.Sequential(nn.Flatten(), nn.Linear(in_channels * 64, hidden), nn.ReLU(), nn.Linear(hidden, num_classes))
''',
    ),
    "score": (
        "Parameters",
        '''
import copy
from ramet.ranking import TrainingFreeScore

class Parameters(TrainingFreeScore):
    """The number of parameters."""

    def __init__(self, network, x) -> None:
        self.network = copy.deepcopy(network)

    def __call__(self, *arguments):
        return float(sum(param.numel() for param in self.network.child(*arguments).parameters()))
''',
    ),
    "data": (
        "blobs",
        '''
import torch
from torch.utils.data import TensorDataset

def blobs(size: int = 90):
    """Three classes of images of noise."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(size) % 3
    return TensorDataset(torch.rand(size, 1, 8, 8, generator=generator) + y[:, None, None, None], y)
''',
    ),
}


def put(kind: str, folder: Path) -> str:
    """Write a stranger's file into a folder; the reference to its part."""
    name, code = FILES[kind]
    (folder / f"strange_{kind}.py").write_text(code)
    return f"{folder / f'strange_{kind}.py'}:{name}"
