"""A stranger's parts, each in a file outside the repository, work from Python without touching the package."""

from __future__ import annotations

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
from ramet.testing.growths import check_growth
from ramet.testing.guards import GUARD_CHECKS
from ramet.testing.methods import METHOD_CHECKS
from ramet.testing.scores import SCORE_CHECKS
from ramet.testing.spaces import SPACE_CHECKS
from ramet.testing.strategies import STRATEGY_CHECKS
from ramet.training import Settings

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


@pytest.fixture(scope="module")
def digits():
    return load("digits", train_size=96, eval_size=48)


@pytest.fixture
def setup(digits):
    return SupernetSetup(Cells64(channels=2, num_cells=1, num_nodes=1), digits, SETTINGS)


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
def test_a_guard_in_a_search(stranger, setup, form):
    reference = stranger("guard")
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
def test_a_guard_in_a_diagnosis(stranger, setup, tmp_path, form):
    reference = stranger("guard")
    guard = reference if form == "text" else made(reference)(0.5)
    plan, result = diagnosed(setup, tmp_path, guard=guard)
    assert result["guard"]["slowed"] > 0
    assert result["settings"]["plan"]["guard"] == plan.describe()["guard"]
    if form == "object":
        assert not guard._slowed, "every supernet has a copy"


@pytest.mark.parametrize("form", ["text", "class", "object"])
def test_a_strategy_in_a_search(stranger, setup, form):
    reference = stranger("strategy")
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


def test_a_strategy_of_another_space_is_refused(stranger, setup):
    other = made(stranger("strategy"))(Cells64())
    with pytest.raises(ConfigError, match="of the space that is searched, of 4 architectures, but its own has 64"):
        Search(setup, replace(SEARCH, strategy=other))


def test_a_space_in_a_search_and_a_diagnosis(stranger, digits, tmp_path):
    reference = stranger("space")
    space = make_space(f"{reference}:num_widths=4")
    assert len(space) == 4 and make_space(space) is space and len(make_space(type(space), num_widths=5)) == 5
    setup = SupernetSetup(space, digits, SETTINGS)
    loop, _ = searched(setup)
    assert loop.strategy.derive(1)[0] in space
    _, result = diagnosed(setup, tmp_path)
    assert len(result["recommendation"]) > 0


SUITES = [
    ("guard", GUARD_CHECKS),
    ("strategy", STRATEGY_CHECKS),
    ("score", SCORE_CHECKS),
    ("growth", [check_growth]),
    ("method", METHOD_CHECKS),
]
MAKERS = {
    "strategy": lambda part: lambda space, seed: part(space, seed=seed),
    "growth": lambda part: lambda step: part(),
}


@pytest.mark.parametrize(("kind", "checks"), SUITES, ids=[kind for kind, _ in SUITES])
def test_the_conformance_suites(stranger, kind, checks):
    make = MAKERS.get(kind, lambda part: part)(made(stranger(kind)))
    for check in checks:
        check(make)


@pytest.mark.parametrize("check", SPACE_CHECKS, ids=lambda check: check.__name__)
def test_the_spaces_suite(stranger, check, monkeypatch):
    reference = stranger("space")
    monkeypatch.syspath_prepend(reference.rpartition("/")[0])
    check(make_space(reference), (3, 8, 8), 4)


@pytest.mark.parametrize("form", ["text", "class", "object"])
def test_a_sharing_in_a_search_and_a_diagnosis(stranger, setup, tmp_path, form):
    reference = stranger("sharing")
    sharing = {"text": f"{reference}:1", "class": made(reference), "object": made(reference)(1)}[form]
    loop, _ = searched(setup, sharing=sharing)
    offset = 0 if form == "class" else 1
    assert [loop.network.group_of(arch) for arch in setup.space] == [(place + offset) % 2 for place in range(4)]
    _, result = diagnosed(setup, tmp_path, sharing=sharing)
    assert result["groups"][0][0] == setup.space.name(setup.space[offset])


@pytest.mark.parametrize("form", ["text", "class", "object"])
def test_a_growth(stranger, digits, form):
    reference = stranger("growth")
    forms = {"text": f"{reference}:eager=false", "class": made(reference), "object": made(reference)()}
    network = make_network("mlp:4,4", in_channels=1, image_size=(8, 8), num_classes=10)
    grown, history = grow(network, digits, "neurons=12,step=2", method=forms[form], settings=SETTINGS)
    assert history.stopped == "the budget is reached" and grown[1].out_features + grown[3].out_features == 12


@pytest.mark.parametrize("form", ["text", "class", "object"])
def test_a_continual_method(stranger, tmp_path, form):
    reference = stranger("method")
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


def test_a_network_that_grows_and_is_loaded_with_trust(stranger, digits, tmp_path):
    from ramet.growth import save_network

    reference = stranger("network")
    origin = {"network": reference, "in_channels": 1, "image_size": [8, 8], "num_classes": 10, "options": {"hidden": 4}}
    network = make_network(**origin)
    assert network[1].out_features == 4
    save_network(network, tmp_path / "net", steps=[], origin=origin)
    with pytest.raises(ConfigError, match=r"would run '.*strange_network.py:tiny'"):
        load_network(tmp_path / "net")
    loaded = load_network(tmp_path / "net", trust=True)
    assert torch.equal(loaded[1].weight, network[1].weight)


def test_a_score(stranger, setup):
    network = setup.new_supernet(0)
    score = SCORES.make(stranger("score"), network, setup.data.train.x[:4])
    assert score(setup.space[0]) > 0


@pytest.mark.parametrize("options", ["", ":60", ":size=60"])
def test_data(stranger, options):
    data = load(stranger("data") + options)
    assert data.num_classes == 3 and len(data.train) + len(data.validation) + len(data.test) == (60 if options else 90)
    assert data.in_channels == 1
