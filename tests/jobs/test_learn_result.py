"""`ramet.learn`: texts or objects in, a typed result out, which is saved, shown and given again."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

import ramet
from ramet.continual import LearnPlan, LearnRecipe, Stream, learn, make_stream
from ramet.continual.methods import Naive, PackNet
from ramet.errors import ConfigError
from ramet.jobs.learn.result import LearnResult
from ramet.jobs.learn.specs import spec_of
from ramet.jobs.runner import resume
from ramet.runs import read_config, read_records

RECIPE = LearnRecipe(epochs=1)
SMALL = {"train_size": 60, "eval_size": 60}


def small_stream(seed: int = 0) -> Stream:
    return make_stream("split-digits:2", seed=seed, **SMALL)


@dataclass(kw_only=True, eq=False)
class Mine(Naive):
    """A method that no name stands for."""

    name = "mine"
    wisdom: int = 3


@pytest.fixture(scope="module")
def learned(tmp_path_factory) -> LearnResult:
    plan = LearnPlan(methods=("naive", PackNet(prune=0.5)), network="mlp:6")
    out = tmp_path_factory.mktemp("learn") / "run"
    return ramet.learn("split-digits:2", plan=plan, recipe=RECIPE, out=out, **SMALL)


def test_a_result_is_its_json_and_its_file(learned: LearnResult, tmp_path) -> None:
    assert LearnResult.from_json(learned.to_json()) == learned
    learned.save(tmp_path / "result.json")
    assert LearnResult.load(tmp_path / "result.json") == learned
    assert learned.folder is not None and LearnResult.load(learned.folder) == learned
    record = next(record for record in read_records(learned.folder) if record["key"] == "result")
    values = learned.to_json()
    left_out = {name: values[name] for name in values.keys() - record.keys()}
    usual = {"name": "accuracy", "higher_is_better": True, "is_share": True}
    assert record.keys() - {"key"} <= values.keys()
    assert left_out == {"metric": usual, "rows": "images"}, "records are as in earlier versions"
    assert record["methods"]["naive"].keys() <= learned.to_json()["methods"]["naive"].keys()


def test_a_result_shows_itself(learned: LearnResult) -> None:
    assert list(learned.methods) == ["individual", "naive", "packnet:prune=0.5"]
    assert learned.methods["naive"].figures.parameters.known > 0
    text = learned.summary()
    assert "packnet:prune=0.5" in text and "owns" in text and f"Report: {learned.report}" in text
    frame = learned.to_frame()
    assert list(frame["method"]) == [*learned.methods, *learned.controls]
    assert learned.report is not None and learned.report.exists()
    assert "<td>naive" in learned._repr_html_()


def test_the_same_call_goes_on_and_another_is_refused(tmp_path) -> None:
    calls = {"plan": LearnPlan(methods=Mine(), network="mlp:6"), "recipe": RECIPE, "out": tmp_path / "run"}
    stream = small_stream()
    first = ramet.learn(stream, **calls)
    assert ramet.learn(stream, **calls) == first
    with pytest.raises(ConfigError, match=r"its recipe\.epochs is another"):
        ramet.learn(stream, **calls | {"recipe": replace(RECIPE, epochs=2)})
    other = LearnPlan(methods=Mine(wisdom=4), network="mlp:6")
    with pytest.raises(ConfigError, match=r"its plan\.methods.* is another"):
        ramet.learn(stream, **calls | {"plan": other})
    with pytest.raises(ConfigError, match=r"its stream\.is is another"):
        ramet.learn(small_stream(1), **calls)
    with pytest.raises(ConfigError, match="goes on from Python"):
        resume(tmp_path / "run", ramet.execution.make_executor(1))


def test_a_method_that_is_an_object_is_known_by_its_class_and_its_options(learned: LearnResult) -> None:
    assert learned.folder is not None
    with pytest.raises(ConfigError, match=r"was given ramet\.continual\.methods\.packnet:PackNet"):
        resume(learned.folder, ramet.execution.make_executor(1))
    kept = read_config(learned.folder)["config"]["plan"]["methods"]
    assert kept[0] == "naive" and kept[1]["is"]["options"]["prune"] == 0.5


def test_objects_learn_as_their_names_do(tmp_path) -> None:
    """A stream for each seed and a method as an object give what their names give."""
    named = ramet.learn(
        "split-digits:2", plan=LearnPlan(methods="packnet:prune=0.5", network="mlp:6", seeds=2), recipe=RECIPE,
        out=tmp_path / "named", **SMALL,
    )  # fmt: skip
    method = PackNet(prune=0.5)
    given = ramet.learn(
        [small_stream(0), small_stream(1)], plan=LearnPlan(methods=[method], network="mlp:6", seeds=2), recipe=RECIPE,
        out=tmp_path / "given",
    )  # fmt: skip
    for name, outcome in named.methods.items():
        other = given.methods[name]
        assert outcome.matrix == other.matrix and outcome.figures.average_accuracy == other.figures.average_accuracy
    assert method.tasks == [], "a fresh copy learned, for each seed"


def test_objects_that_do_not_fit_are_refused(tmp_path) -> None:
    with pytest.raises(ConfigError, match="one for each of 2 seeds"):
        ramet.learn([small_stream()], plan=LearnPlan(methods="naive", seeds=2), out=tmp_path / "run")
    with pytest.raises(ConfigError, match="options are for streams by name"):
        ramet.learn(small_stream(), plan=LearnPlan(methods="naive"), out=tmp_path / "run", train_size=3)
    with pytest.raises(ConfigError, match="methods must differ, but naive is there twice"):
        ramet.learn(small_stream(), plan=LearnPlan(methods=("naive", Naive())), out=tmp_path / "run")
    with pytest.raises(ConfigError, match="at least one method"):
        LearnPlan(methods=())
    assert not (tmp_path / "run").exists()


def test_a_method_in_words_has_the_options_that_differ() -> None:
    assert spec_of(Naive()) == "naive" and spec_of(Mine(wisdom=3)) == "mine"
    assert spec_of(Mine(wisdom=4)) == "mine:wisdom=4"


def test_python_and_the_command_line_have_one_default() -> None:
    assert learn(small_stream(), network="mlp:4", settings=None).network.method.settings == LearnRecipe()
    assert ramet.jobs.job_class("learn")().recipe.learning_rate == LearnRecipe().learning_rate == 0.02
