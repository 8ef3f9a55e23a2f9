"""A stranger's parts, each in a file outside the repository, work without touching the package.

``FILES`` has one file for each kind of part; ``write`` puts it into a folder and gives its reference, which the tests
of Python and of the command line share.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
import torch

from ramet.continual import JointNetwork, learn, make_stream
from ramet.data import load
from ramet.errors import ConfigError
from ramet.execution import Inline
from ramet.growth import grow, load_network
from ramet.growth.making import make_network
from ramet.ranking import SCORES, Diagnosis, Plan, SupernetSetup
from ramet.registry import resolve_reference
from ramet.runs import Run
from ramet.searching import Search, SearchPlan
from ramet.spaces import Cells64, make_space
from ramet.testing.spaces import SPACE_CHECKS
from ramet.training import Settings

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
            for place in range(min(self.radius, len(arch))):
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
SETTINGS = Settings(epochs=1, batch_size=32)
SEARCH = SearchPlan(
    warmup_epochs=1,
    strategy="random",
    epochs=2,
    models_per_epoch=2,
    batches_per_model=1,
    strategy_steps=1,
    archs_per_step=2,
)


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Puts a stranger's file into a folder, and gives its reference; what it imported is forgotten afterwards."""

    def put(kind: str) -> str:
        name, code = FILES[kind]
        (tmp_path / f"strange_{kind}.py").write_text(code)
        return f"{tmp_path / f'strange_{kind}.py'}:{name}"

    before = set(sys.modules)
    yield put
    for module in set(sys.modules) - before:
        if module.startswith("strange_"):
            del sys.modules[module]


@pytest.fixture(scope="module")
def digits():
    return load("digits", train_size=96, eval_size=48)


@pytest.fixture
def setup(digits):
    return SupernetSetup(Cells64(channels=2, num_cells=1), digits, SETTINGS)


def made(reference):
    return resolve_reference(reference, trusted=True)


def searched(setup, **changes):
    records = {}
    loop = Search(setup, replace(SEARCH, **changes), record=lambda key, **fields: records.update({key: fields}))
    loop.run()
    return loop, records


def diagnosed(setup, tmp_path, **changes):
    plan = Plan(instances=2, last_steps=2, last_epochs=1, truth="none", fine_tune_steps=0, **changes)
    with Run.create(tmp_path / "run", "rank", {}) as run:
        full = replace(setup, folder=run.path / "checkpoints")
        return plan, Diagnosis(full, plan, run, Inline(), tmp_path / "cache")()


@pytest.mark.parametrize("form", ["text", "class", "object", "chain"])
def test_a_guard_in_a_search(write, setup, form):
    reference = write("guard")
    guard = {"text": f"{reference}:rate=0.5", "class": made(reference), "object": made(reference)(0.5)}
    guard["chain"] = f"none+{reference}:rate=0.5"
    loop, _ = searched(setup, guard=guard[form])
    slow = loop.guard.guards[-1] if form == "chain" else loop.guard
    assert type(slow).__name__ == "Slowing" and slow.rate == (0.1 if form == "class" else 0.5)
    assert slow.report()["slowed"] > 0 and slow is not guard["object"]
    assert not guard["object"]._slowed, "the guard that was given is copied"
    described = loop.plan.describe()["guard"]
    if form == "object":
        assert described == {"$object": "strange_guard:Slowing", "arguments": {"rate": 0.5}}


@pytest.mark.parametrize("form", ["text", "object"])
def test_a_guard_in_a_diagnosis(write, setup, tmp_path, form):
    reference = write("guard")
    guard = reference if form == "text" else made(reference)(0.5)
    plan, result = diagnosed(setup, tmp_path, guard=guard)
    assert result["guard"]["slowed"] > 0
    assert result["settings"]["plan"]["guard"] == plan.describe()["guard"]
    if form == "object":
        assert not guard._slowed, "every supernet has a copy"


@pytest.mark.parametrize("form", ["text", "class", "object"])
def test_a_strategy_in_a_search(write, setup, form):
    reference = write("strategy")
    forms = {
        "text": f"{reference}:radius=2",
        "class": made(reference),
        "object": made(reference)(setup.space, radius=2),
    }
    loop, records = searched(setup, strategy=forms[form])
    assert loop.strategy._best is not None and loop.strategy.radius == (1 if form == "class" else 2)
    assert len(records) == 2
    if form != "text":
        assert loop.plan.describe()["strategy"]["$object"] == "strange_strategy:Neighbours"


def test_a_strategy_of_another_space_is_refused(write, setup):
    other = made(write("strategy"))(Cells64(num_nodes=1))
    with pytest.raises(ConfigError, match="of the space that is searched, of 64 architectures, but its own has 4"):
        Search(setup, replace(SEARCH, strategy=other))


def test_a_space_in_a_search_and_a_diagnosis(write, digits, tmp_path):
    reference = write("space")
    space = make_space(f"{reference}:num_widths=4")
    assert len(space) == 4 and make_space(space) is space and len(make_space(type(space), num_widths=5)) == 5
    setup = SupernetSetup(space, digits, SETTINGS)
    loop, _ = searched(setup)
    assert loop.strategy.derive(1)[0] in space
    _, result = diagnosed(setup, tmp_path)
    assert len(result["recommendation"]) > 0


@pytest.mark.parametrize("check", SPACE_CHECKS, ids=lambda check: check.__name__)
def test_the_spaces_suite(write, check, monkeypatch):
    reference = write("space")
    monkeypatch.syspath_prepend(reference.rpartition("/")[0])
    check(make_space(reference), (3, 8, 8), 4)


@pytest.mark.parametrize("form", ["text", "class", "object"])
def test_a_sharing_in_a_search_and_a_diagnosis(write, setup, tmp_path, form):
    reference = write("sharing")
    sharing = {"text": f"{reference}:1", "class": made(reference), "object": made(reference)(1)}[form]
    loop, _ = searched(setup, sharing=sharing)
    offset = 0 if form == "class" else 1
    assert [loop.network.group_of(arch) for arch in setup.space] == [(place + offset) % 2 for place in range(64)]
    _, result = diagnosed(setup, tmp_path, sharing=sharing)
    assert result["groups"][0][0] == setup.space.name(setup.space[offset])


@pytest.mark.parametrize("form", ["text", "class", "object"])
def test_a_growth(write, digits, form):
    reference = write("growth")
    forms = {"text": f"{reference}:eager=false", "class": made(reference), "object": made(reference)()}
    network = make_network("mlp:4,4", in_channels=1, image_size=(8, 8), num_classes=10)
    grown, history = grow(network, digits, "neurons=12,step=2", method=forms[form], settings=SETTINGS)
    assert history.stopped == "the budget is reached" and grown[1].out_features + grown[3].out_features == 12


@pytest.mark.parametrize("form", ["text", "class", "object"])
def test_a_continual_method(write, tmp_path, form):
    reference = write("method")
    forms = {"text": f"{reference}:note=gently", "class": made(reference), "object": made(reference)(note="gently")}
    stream = make_stream("split-digits:2", train_size=100, eval_size=50)
    learned = learn(stream, method=forms[form], network="mlp:8", settings=SETTINGS)
    assert learned.network.method.note == ("slowly" if form == "class" else "gently")
    file = tmp_path / "net.safetensors"
    learned.network.save(file)
    if form == "text":
        with pytest.raises(ConfigError, match=r"would run '.*strange_method.py:Cautious'"):
            JointNetwork.load(file)
        assert JointNetwork.load(file, trust=True).method.note == "gently"
    assert JointNetwork.load(file, {learned.network.method.source or "cautious": made(reference)}).names == stream.names


def test_a_network_that_grows_and_is_loaded_with_trust(write, digits, tmp_path):
    from ramet.growth import save_network

    reference = write("network")
    origin = {"network": reference, "in_channels": 1, "image_size": [8, 8], "num_classes": 10, "options": {"hidden": 4}}
    network = make_network(**origin)
    assert network[1].out_features == 4
    save_network(network, tmp_path / "net", steps=[], origin=origin)
    with pytest.raises(ConfigError, match=r"would run '.*strange_network.py:tiny'"):
        load_network(tmp_path / "net")
    loaded = load_network(tmp_path / "net", trust=True)
    assert torch.equal(loaded[1].weight, network[1].weight)


def test_a_score(write, setup):
    network = setup.new_supernet(0)
    score = SCORES.make(write("score"), network, setup.data.train.x[:4])
    assert score(setup.space[0]) > 0


@pytest.mark.parametrize("options", ["", ":60", ":size=60"])
def test_data(write, options):
    data = load(write("data") + options)
    assert data.num_classes == 3 and len(data.train) + len(data.validation) + len(data.test) == (60 if options else 90)
    assert data.in_channels == 1
