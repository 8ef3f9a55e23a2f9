"""`ramet.grow` from Python: its result is typed, is kept, shows itself, and takes a module of one's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import ramet
from ramet.data import load
from ramet.errors import ConfigError
from ramet.growth import Budget, Ends, GrowPlan, load_network
from ramet.jobs.grow import GrowRecipe
from ramet.jobs.grow.result import GrowResult, MethodFigures, StepFigures
from ramet.jobs.runner import resume
from ramet.runs import Checkpoints, read_config, read_records
from ramet.training import accuracy

PLAN = GrowPlan(methods=("net2net:noise=0", "random"), budget="neurons=10, step=2", against=(), ends=Ends(max_steps=1))
RECIPE = GrowRecipe(epochs=1, batch_size=20, begin=0.0)
DATA = {"train_size": 60, "eval_size": 30}


def network(width: int = 3) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))


def grown(out: Path, subject: str | nn.Module = "mlp:width=3,depth=1", **changes: object) -> GrowResult:
    options: dict = {"plan": PLAN, "recipe": RECIPE, "out": out} | DATA | changes
    return ramet.grow(subject, "digits", **options)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> GrowResult:
    return grown(tmp_path_factory.mktemp("grow") / "run")


def test_figures_are_attributes(result: GrowResult) -> None:
    assert list(result.methods) == ["net2net", "random"] and isinstance(result.methods["random"], MethodFigures)
    for method in result.methods.values():
        assert isinstance(method.steps[0], StepFigures) and [step.number for step in method.steps] == [0, 1]
        assert method.params == method.steps[-1].sizes.params > method.steps[0].sizes.params
        assert method.neurons == 5 and method.stopped == "the number of steps is reached"
    assert result.budget == Budget("neurons", 10.0, 2.0) and [layer.units for layer in result.layers] == [3, 10]
    assert [refusal.name for refusal in result.refusals] == ["3"]
    assert result.methods[result.best].validation == max(each.validation for each in result.methods.values())
    assert [len(steps) for steps in result.seconds().values()] == [2, 2]


def test_the_page_says_why_only_of_what_was_scored(tmp_path: Path) -> None:
    firefly, even = "Why these: they had the best scores", "Why these: nothing was scored"
    for name, said in {"firefly": firefly, "even": even}.items():
        page = grown(tmp_path / name, plan=replace(PLAN, methods=(name,))).page({}).html()
        assert said in page and ({firefly, even} - {said}).pop() not in page


def test_its_networks_load(result: GrowResult) -> None:
    test = load("digits", **DATA).test
    for name, folder in result.networks.items():
        loaded = load_network(folder)
        assert loaded[1].out_features == 5 and accuracy(loaded, test.x, test.y) == result.methods[name].test


def test_it_is_saved_and_loaded(result: GrowResult, tmp_path: Path) -> None:
    result.save(tmp_path / "result.json")
    assert GrowResult.load(tmp_path / "result.json") == result
    assert result.folder is not None and GrowResult.load(result.folder) == result
    record = next(record for record in read_records(result.folder) if record["key"] == "result")
    values = result.to_json()
    assert record.keys() - {"key"} <= values.keys()
    left_out = {name: values[name] for name in values.keys() - record.keys()}
    usual = {"name": "accuracy", "higher_is_better": True, "is_share": True}
    unasked = {"against": {}, "num_validation": 0}
    assert left_out == {"start": None, "metric": usual, "rows": "images", **unasked}, (
        "records are as in earlier versions"
    )
    steps = result.to_json()["methods"]["random"]["steps"]
    assert [step.keys() for step in steps] == [step.keys() for step in record["methods"]["random"]["steps"]]


def test_it_shows_itself(result: GrowResult) -> None:
    text = result.summary()
    assert "- left alone: 3: it is the network's output" in text
    assert all(f"- network: {folder}" in text for folder in result.networks.values())
    assert list(result.to_frame()["method"]) == ["net2net", "random"]
    assert "net2net" in result._repr_html_() and result.report is not None and result.report.is_file()


def test_a_second_call_goes_on(result: GrowResult) -> None:
    assert result.folder is not None
    before = read_records(result.folder)
    assert grown(result.folder) == result and read_records(result.folder) == before
    with pytest.raises(ConfigError, match=r"its plan\.ends\.max_steps is another"):
        grown(result.folder, plan=replace(PLAN, ends=Ends(max_steps=2)))


def test_a_module_of_ones_own_grows_from_its_weights(tmp_path: Path) -> None:
    """The module stays as it is; its copies start with its weights, and another module is refused later on."""
    own = network()
    before = {name: value.clone() for name, value in own.state_dict().items()}
    result = grown(tmp_path / "run", own)
    assert (
        all(torch.equal(value, before[name]) for name, value in own.state_dict().items()) and own[1].out_features == 3
    )
    assert result.network == "Sequential" and [layer.units for layer in result.layers] == [3, 10]
    described = read_config(tmp_path / "run")["config"]["network"]
    assert described["$object"].endswith(":Sequential") and "out_features=3" in described["is"]
    start = Checkpoints(tmp_path / "run" / "checkpoints" / "start").load()
    assert start is not None and all(torch.equal(value, before[name]) for name, value in start.tensors.items())

    assert grown(tmp_path / "run", own) == result
    other = network()
    with torch.no_grad():
        other[1].weight[0, 0] += 1
    with pytest.raises(ConfigError, match=r"the weights for .* changed"):
        grown(tmp_path / "run", other)
    with pytest.raises(ConfigError, match=r"its network\.is is another"):
        grown(tmp_path / "run", network(4))
    with pytest.raises(ConfigError, match="goes on from Python"):
        resume(tmp_path / "run", None)  # type: ignore[arg-type]

    folder = result.networks["random"]
    with pytest.raises(ConfigError, match="given as an object is loaded with that object"):
        load_network(folder)
    test = load("digits", **DATA).test
    assert accuracy(load_network(folder, other), test.x, test.y) == result.methods["random"].test


def test_a_module_starts_as_its_name_does(result: GrowResult, tmp_path: Path) -> None:
    """The network of a name, given as an object, grows to the same figures."""
    from ramet.growth.making import make_network

    options = {"width": 3, "depth": 1}
    made = make_network("mlp", in_channels=1, image_size=(8, 8), num_classes=10, options=options, seed=0)
    assert grown(tmp_path / "run", made).methods == result.methods


def test_a_data_set_of_ones_own(result: GrowResult, tmp_path: Path) -> None:
    options: dict = {"plan": PLAN, "recipe": RECIPE, "out": tmp_path / "run"}
    again = ramet.grow("mlp:width=3,depth=1", load("digits", **DATA), **options)
    assert again.methods == result.methods and again.data == result.data
