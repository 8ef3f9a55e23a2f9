"""`ramet.search` from Python: its result is typed, is kept, shows itself, and a second call goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sample_runs import search_result

import ramet
from ramet.data import load
from ramet.errors import ConfigError
from ramet.jobs.runner import resume
from ramet.jobs.search import SearchRecipe
from ramet.jobs.search.result import FoundArchitecture, SearchBaseline, SearchResult, SearchStage, TrainedArchitecture
from ramet.progress import progress
from ramet.runs import read_records
from ramet.searching import SearchPlan
from ramet.spaces import Cells64

PLAN = SearchPlan(
    epochs=2,
    warmup_epochs=1,
    models_per_epoch=2,
    batches_per_model=1,
    strategy_steps=1,
    archs_per_step=2,
    num_candidates=3,
    final_epochs=1,
)
RECIPE = SearchRecipe(batch_size=8)


def found(out: Path, **changes: object) -> SearchResult:
    options: dict = {"plan": PLAN, "recipe": RECIPE, "out": out, "train_size": 40, "eval_size": 16} | changes
    return ramet.search("cells64:channels=2,num_cells=1", "digits", **options)


_LABELS: list[str] = []
"""What the progress of the search below said."""


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> SearchResult:
    def telling(label: str, total: float):
        _LABELS.append(label)
        return progress("", total)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("ramet.execution.executor.progress", telling)
        return found(tmp_path_factory.mktemp("search") / "run")


def test_figures_are_attributes(result: SearchResult) -> None:
    assert isinstance(result.candidates[0], FoundArchitecture) and isinstance(result.chosen, TrainedArchitecture)
    assert result.best == result.chosen.name and len(result.chosen.tests) == 1
    assert [entry.error for entry in result.candidates] == sorted(entry.error for entry in result.candidates)
    assert result.network is not None and result.network.is_file()
    assert result.plan["seed"] == 0 and result.strategy == "enas" and result.guard == "none"


def test_the_course_is_read_from_the_records(result: SearchResult) -> None:
    course = result.course()
    assert [epoch.number for epoch in course] == [0, 1] and result.epochs == 2
    assert course[0].reward is None and course[1].reward is not None and len(course[1].archs) == 2
    assert replace(result, folder=None).course() == []


def test_it_is_saved_and_loaded(result: SearchResult, tmp_path: Path) -> None:
    result.save(tmp_path / "result.json")
    assert SearchResult.load(tmp_path / "result.json") == result
    assert result.folder is not None and SearchResult.load(result.folder) == result
    assert SearchResult.from_json(result.to_json()) == result
    record = next(record for record in read_records(result.folder) if record["key"] == "result")
    assert record.keys() - {"key"} == result.to_json().keys() - {"measure"}, "of an error nothing more is said"


def test_it_shows_itself(result: SearchResult) -> None:
    text = result.summary()
    assert "Trained alone" in text and f"Found: {result.best}" in text
    assert str(result.network) in text and str(result.report) in text
    frame = result.to_frame()
    assert list(frame["architecture"]) == [entry.name for entry in result.trained]
    assert result.best in result._repr_html_()


def test_what_needs_no_search_stands_beside_the_answer(result: SearchResult, tmp_path: Path) -> None:
    assert [entry.name for entry in result.baselines] == ["random", "largest that fits", "training-free best"]
    assert result.baselines[1].architecture == "333" and result.chosen is not None
    assert all(entry.found == result.chosen.validation for entry in result.baselines)
    assert "each trained alone once for 1 epoch: found" in result.summary() and result.folder is not None
    keys = [record["key"] for record in read_records(result.folder)]
    distinct = {entry.architecture for entry in result.baselines} - {result.best}
    assert sum(key.startswith("baseline/") for key in keys) == len(distinct), "each is trained once"
    assert "Beside what needs no search" in result.page({}).html()
    alone = found(tmp_path / "run", plan=replace(PLAN, without_baselines=True))
    assert alone.baselines == [] and alone.best == result.best and "Beside" not in alone.summary()


def test_the_largest_keeps_the_budget(tmp_path: Path) -> None:
    limited = found(tmp_path / "run", plan=replace(PLAN, budget="params=700"))
    assert all(entry.parameters <= 700 for entry in limited.baselines)
    assert limited.found is not None and limited.found.parameters <= 700
    assert "the budget is params=700" in limited.summary() and "params=700" in limited.page({}).html()


def test_curves_of_another_search_are_drawn_beside(result: SearchResult) -> None:
    assert "mean, beside it" not in result.page({}).html()
    assert "mean, beside it" in result.page({}, beside=result).html()


def test_a_second_call_goes_on(result: SearchResult) -> None:
    assert result.folder is not None
    before = read_records(result.folder)
    assert found(result.folder) == result and read_records(result.folder) == before
    with pytest.raises(ConfigError, match="its seed is another"):
        found(result.folder, seed=1)
    with pytest.raises(ConfigError, match=r"its plan\.final_epochs is another"):
        found(result.folder, plan=replace(PLAN, final_epochs=2))


def test_objects_are_taken_and_resumed_from_python_only(result: SearchResult, tmp_path: Path) -> None:
    """A space and a data set as objects give what their names give."""
    space = Cells64(channels=2, num_cells=1)
    data = load("digits", train_size=40, eval_size=16, validation_fraction=0.4)
    options: dict = {"plan": PLAN, "recipe": RECIPE, "out": tmp_path / "objects"}
    objects = ramet.search(space, data, **options)
    assert objects == result and ramet.search(space, data, **options) == objects
    page = objects.report.read_text(encoding="utf-8")
    assert "Cells64(channels=2, num_cells=1" in page.partition("</h1>")[2][:300] and "$object" not in page[:3000]
    with pytest.raises(ConfigError, match="goes on from Python"):
        resume(tmp_path / "objects", None)  # type: ignore[arg-type]


def test_final_epochs_are_the_final_trainings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def train(setup, *, arch, seed, epochs, final_network, recipe):
        seen.append((epochs, final_network["cutout"], recipe))
        return {"validation": 0.5, "test": 0.5, "parameters": 1}

    monkeypatch.setattr("ramet.jobs.search.stages.train_final", train)
    train.__module__, train.__qualname__ = "ramet.jobs.search.stages", "train_final"
    plan = replace(PLAN, final_epochs=3, final_network=replace(PLAN.final_network, cutout=2), exports=False)
    plan = replace(plan, without_baselines=True)
    assert found(tmp_path / "run", plan=plan, recipe=replace(RECIPE, epochs=99)).trained[0].test == 0.5
    plan = replace(plan, final_recipe="darts")
    found(tmp_path / "other", plan=plan, recipe=RECIPE)
    assert seen == [(3, 2, None), (3, 2, "darts")]


def test_long_names_are_short_in_tables_and_have_a_legend(result: SearchResult) -> None:
    long = {entry.name: f"S{place}" for place, entry in enumerate(result.candidates)}
    shown = replace(result, short_names=long, legend=["1 (layer0): 0 conv"])
    assert [row[0] for row in shown.table().rows] == [long[entry.name] for entry in result.trained]
    assert f"Found: {result.best} (in tables {long[result.best]})" in shown.words()
    assert "Places of a short name: 1 (layer0): 0 conv." in shown.words()


def test_who_did_better_without_a_search_is_said_on_the_terminal_and_on_the_page():
    def beside(error):
        baselines = [
            SearchBaseline(name=name, architecture="b", parameters=1, flops=1, error=value, found=0.3)
            for name, value in (("random", error), ("largest that fits", 0.31), ("training-free best", None))
        ]
        return replace(search_result({"a": 0.3}), baselines=baselines, compared="each trained alone once")

    words = "At this length random did better: the find is not firm."
    assert words in beside(0.29).words() and words in beside(0.29).page({}).html()
    assert beside(0.3).doubt() == "" and "did better" not in beside(0.3).summary()


def test_in_a_notebook_the_best_is_bold_and_lists_are_lists():
    shown = search_result({"a": 0.3, "<b>": 0.2})._repr_html_()
    shown = shown.replace("\N{NO-BREAK SPACE}", " ")
    assert "<td><b>20.0 %</b></td>" in shown and "<td>30.0 %</td>" in shown and "<td>&lt;b&gt;</td>" in shown
    assert "<p><small>The test split was used once a seed.</small></p>" in shown and "<p>Found: &lt;b&gt;</p>" in shown
    assert "<p></p>" not in shown


def test_the_front_speaks_of_multiply_adds_and_per_cent_as_the_tables_do():
    result = search_result({"a": 0.3, "b": 0.2})
    page = replace(result, pareto={"parameters": ["a"], "flops": ["a", "b"]}).page({}).html()
    assert ">multiply-adds<" in page and "flops" not in page
    assert ">error, shared weights, %<" in page


def test_a_search_in_stages_says_what_its_order_follows() -> None:
    stage = SearchStage(stage="short", about="36 steps each", cost=4.0, agreement=1.0, compared=4, seen=4, dropped=2)
    found = search_result({"a": 0.3, "b": 0.2})
    scored = [replace(entry, synflow=1.0, jacobian=2.0) for entry in found.candidates]
    page = replace(found, stages=[stage], unit="evaluations", candidates=scored).page({}).html()
    assert "It was the best on validation data of the first 2, trained alone, of what 1 stages left" in page
    assert "one error alone may order them otherwise" in page
    alone = replace(found, stages=[stage], unit="evaluations", trained=found.trained[:1]).page({}).html()
    assert "It comes first, by validation losses at every length of training" in alone


def test_what_is_trained_is_said(result: SearchResult) -> None:
    assert _LABELS == ["training the best candidates alone", "training what needed no search, alone"]
