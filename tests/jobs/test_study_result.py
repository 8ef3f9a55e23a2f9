"""`ramet.study`: a stream by name or as an object, a typed result, which is saved, shown and given again."""

from __future__ import annotations

from dataclasses import replace

import pytest

import ramet
from ramet.continual import BindAndGrow, LearnRecipe, SequenceSpace, Stream, StudyPlan, make_stream
from ramet.errors import ConfigError
from ramet.execution import make_executor
from ramet.jobs.runner import resume
from ramet.jobs.study.job import StudyJob
from ramet.jobs.study.result import StudyResult
from ramet.runs import read_config, read_records

RECIPE = LearnRecipe(epochs=1)
SMALL = {"train_size": 60, "eval_size": 60}
PLAN = StudyPlan(num_trials=2, batch=1, network="mlp:6", method="bind-and-grow:num_samples=12")


def small_stream(seed: int = 0) -> Stream:
    return make_stream("split-digits:2", seed=seed, **SMALL)


@pytest.fixture(scope="module")
def studied(tmp_path_factory) -> StudyResult:
    out = tmp_path_factory.mktemp("study") / "run"
    return ramet.study("split-digits:2", plan=PLAN, recipe=RECIPE, out=out, **SMALL)


def test_a_result_is_its_json_and_its_file(studied: StudyResult, tmp_path) -> None:
    assert StudyResult.from_json(studied.to_json()) == studied
    studied.save(tmp_path / "result.json")
    assert StudyResult.load(tmp_path / "result.json") == studied
    assert studied.folder is not None and StudyResult.load(studied.folder) == studied
    record = next(record for record in read_records(studied.folder) if record["key"] == "result")
    told = {key: value for key, value in studied.to_json().items() if key != "metric"}
    assert told == {key: value for key, value in record.items() if key != "key"}, "of accuracies nothing more is said"


def test_a_result_shows_itself(studied: StudyResult) -> None:
    assert len(studied.trials) == studied.num_trials == 2
    assert studied.space == SequenceSpace() and studied.recommended in studied.front
    text = studied.summary()
    assert studied.words()[0] in text and f"Report: {studied.report}" in text
    assert list(studied.to_frame()["parameters"]) == [point.parameters for point in studied.front]
    assert studied.report is not None and studied.report.exists()
    assert f"<td>trial {studied.front[0].trial}" in studied._repr_html_()


def test_objects_are_studied_as_their_names_are(studied: StudyResult, tmp_path) -> None:
    calls = {"plan": replace(PLAN, method=BindAndGrow(num_samples=12)), "recipe": RECIPE, "out": tmp_path / "run"}
    stream = small_stream()
    given = ramet.study(stream, **calls)
    assert given.trials == studied.trials and given.alone == studied.alone
    assert ramet.study(stream, **calls) == given, "the second call gives the same result"
    with pytest.raises(ConfigError, match=r"its stream\.is is another"):
        ramet.study(small_stream(1), **calls)
    with pytest.raises(ConfigError, match=r"its plan\.method\.is\.options\.num_samples is another"):
        ramet.study(stream, **calls | {"plan": replace(PLAN, method=BindAndGrow(num_samples=13))})


def test_what_a_study_searches_cannot_be_given(tmp_path) -> None:
    for method in (BindAndGrow(delta=0.25), BindAndGrow(bindings={"a": "b"})):
        with pytest.raises(ConfigError, match="is what a study searches"):
            ramet.study(small_stream(), plan=replace(PLAN, method=method), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_finished_study_needs_neither_its_storage_nor_its_password(tmp_path, monkeypatch) -> None:
    """Its address had a password, which is in no file, and the database is gone."""
    monkeypatch.delenv("RAMET_STORAGE", raising=False)
    database = tmp_path / "study.db"
    address = f"sqlite:///{database}?password=s3cret"
    plan = replace(PLAN, storage=f"sqlite:///{database}", num_trials=1)
    first = ramet.study("split-digits:2", plan=plan, recipe=RECIPE, out=tmp_path / "run", **SMALL)
    text = (tmp_path / "run" / "config.json").read_text()
    masked = StudyJob(plan=replace(plan, storage=address)).to_json()["plan"]["storage"]
    (tmp_path / "run" / "config.json").write_text(text.replace(f"sqlite:///{database}", masked))
    database.unlink()
    assert "***" in read_config(tmp_path / "run")["config"]["plan"]["storage"] and "s3cret" not in masked
    assert resume(tmp_path / "run", make_executor(1)) == first


def test_the_storage_of_the_environment_is_taken_where_none_is_given(monkeypatch) -> None:
    monkeypatch.setenv("RAMET_STORAGE", "sqlite:////data/study.db")
    assert StudyJob().anchored().plan.storage == "sqlite:////data/study.db"
    assert StudyJob(plan=StudyPlan(storage="")).anchored().plan.storage == ""
    monkeypatch.delenv("RAMET_STORAGE")
    assert StudyJob().anchored().plan.storage == ""
    assert StudyJob().recipe == LearnRecipe()
