"""A staged search from end to end: it goes on after a kill, is the same everywhere, and says what its stages did."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ramet
from ramet.cli.main import main
from ramet.errors import ConfigError
from ramet.execution import Inline, Processes
from ramet.jobs.search import SearchRecipe
from ramet.jobs.search.result import SearchResult
from ramet.runs import read_records
from ramet.searching import SearchPlan
from ramet.searching.staged import tasks
from ramet.searching.staged.options import StagedOptions

OPTIONS = StagedOptions(evaluations=16, short_epochs=1.0, listed=12)
PLAN = SearchPlan(staged=OPTIONS, num_final=1, final_epochs=1, num_candidates=6, exports=False)
TIMES = ("seconds",)


def search(out: Path, *, plan: SearchPlan = PLAN, **options: Any) -> SearchResult:
    chosen: dict[str, Any] = {"recipe": SearchRecipe(batch_size=10), "train_size": 40, "eval_size": 20} | options
    return ramet.search("cells64:channels=2,num_cells=1", "digits", plan=plan, out=out, **chosen)


def records(folder: Path) -> dict[str, Any]:
    """What a run holds, without what was timed."""
    return {
        record["key"]: {name: value for name, value in record.items() if name not in TIMES}
        for record in read_records(folder)
        if record["key"] != "run"
    }


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> SearchResult:
    return search(tmp_path_factory.mktemp("staged") / "run")


def test_the_stages_say_what_they_did(result: SearchResult) -> None:
    names = [stage.stage for stage in result.stages]
    assert names[:3] == ["scores", "shared", "short"] and "halving" in names and "predictor" in names
    stages = {stage.stage: stage for stage in result.stages}
    assert stages["scores"].seen == 64 and stages["scores"].dropped == 64 - 12
    assert stages["short"].seen >= 6 and stages["short"].cost == stages["short"].seen
    assert 0 < sum(stage.cost for stage in result.stages) <= result.allowed == 16
    assert all(stage.agreement is None or -1 <= stage.agreement <= 1 for stage in result.stages)
    assert stages["shared"].compared >= 5 and stages["shared"].agreement is not None


def test_baselines_and_cost_stand_beside_the_answer(result: SearchResult) -> None:
    names = [entry.name for entry in result.baselines]
    assert names == ["random", "largest that fits", "training-free best"]
    assert result.baselines[1].architecture == "333", "two 5x5 separable convolutions have most multiply-adds"
    assert all(entry.found == result.baselines[0].found and entry.error is not None for entry in result.baselines)
    text = result.summary()
    assert f"{result.found.parameters:,} parameters" in text and "largest that fits" in text and "How sure: " in text
    page = result.page({}).html()
    assert "The stages" in page and "Beside what needs no search" in page and "halving" in page


def test_the_answer_is_the_best_of_the_longest_trainings(result: SearchResult) -> None:
    assert result.folder is not None
    longest: dict[int, list[int]] = {}
    for key in records(result.folder):
        if key.startswith("staged/alone/"):
            _, _, rung, index = key.split("/")
            longest.setdefault(int(rung), []).append(int(index))
    best = result.candidates[0]
    assert ramet.spaces.Cells64().index(tuple(best.arch)) in longest[max(longest)]
    assert [set(longest[rung]) >= set(longest[rung + 1]) for rung in range(max(longest))] == [True] * max(longest)


class Killed(BaseException):
    """The process is gone."""


class Mortal(Inline):
    """Dies when it is asked for the result of some task."""

    def __init__(self, lives: int) -> None:
        super().__init__()
        self.lives = lives

    def _stream(self, tasks, context, on_pulse):
        for found in super()._stream(tasks, context, on_pulse):
            if self.lives == 0:
                raise Killed
            self.lives -= 1
            yield found


@pytest.mark.parametrize("lives", [4, *(pytest.param(lives, marks=pytest.mark.slow) for lives in (0, 1, 9, 12))])
def test_a_kill_changes_nothing(result: SearchResult, tmp_path: Path, lives: int) -> None:
    with pytest.raises(Killed):
        search(tmp_path / "run", executor=Mortal(lives))
    again = search(tmp_path / "run")
    assert again == result and records(tmp_path / "run") == records(result.folder)


@pytest.mark.slow
def test_worker_processes_find_the_same(result: SearchResult, tmp_path: Path) -> None:
    found = search(tmp_path / "run", executor=Processes(2))
    ignored = {"staged/workers", "staged/report"}
    mine, others = records(tmp_path / "run"), records(result.folder)
    assert found.best == result.best and found.candidates == result.candidates and found.stages == result.stages
    assert {k: v for k, v in mine.items() if k not in ignored} == {k: v for k, v in others.items() if k not in ignored}


def test_with_minutes_nothing_is_decided_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the second part is another; what the first part decided stays, and is not done again."""
    ticks = [0.0]

    def ticking(pace: float) -> Any:
        def clock() -> float:
            ticks[0] += pace
            return ticks[0]

        return lambda device: clock

    plan = replace(PLAN, staged=StagedOptions(minutes=4, listed=12), num_final=0)
    monkeypatch.setattr(tasks, "clock_of", ticking(1.0))
    with pytest.raises(Killed):
        search(tmp_path / "run", plan=plan, executor=Mortal(8))
    before = records(tmp_path / "run")
    trained = [key for key in before if key.startswith("staged/alone/0")]
    assert trained, "it was killed among the short trainings"
    monkeypatch.setattr(tasks, "clock_of", ticking(2.0))
    search(tmp_path / "run", plan=plan)
    after = records(tmp_path / "run")
    assert {key: after[key] for key in before} == before
    assert list(after)[: len(before)] == list(before)


@pytest.mark.parametrize(
    "stages",
    ["scores", "shared", "short", "scores+shared", "scores+short", "shared+short+predictor", "scores+short+finalists"],
)
def test_every_stage_can_be_switched_off(tmp_path: Path, stages: str) -> None:
    plan = replace(PLAN, staged=replace(OPTIONS, stages=stages), num_final=0)
    result = search(tmp_path / "run", plan=plan)
    names = {stage.stage for stage in result.stages}
    assert names <= {*stages.split("+"), "halving"} and set(stages.split("+")) - {"predictor", "finalists"} <= names
    assert len(result.candidates) == 6 and result.best == result.candidates[0].name
    has_scores = any(key.startswith("staged/scores") for key in records(tmp_path / "run"))
    assert has_scores == ("scores" in stages)
    assert ("staged/shared" in records(tmp_path / "run")) == ("shared" in stages)
    result.page({}).html()


def test_a_limit_is_kept(tmp_path: Path) -> None:
    result = search(tmp_path / "run", plan=replace(PLAN, budget="params=700", num_final=0))
    assert all(entry.parameters <= 700 for entry in [*result.candidates, *result.baselines])
    assert "the budget is params=700" in result.summary()


def test_a_large_space_is_drawn_from_and_changed(tmp_path: Path) -> None:
    plan = replace(PLAN, staged=replace(OPTIONS, pool=40, stages="scores+short"), num_final=0)
    result = search(tmp_path / "run", plan=plan)
    assert result.stages[0].seen <= 4 * 4 + 1 and len(result.candidates) == 6
    assert result.baselines[1].architecture == "333", "the largest is found although it was not drawn"


def test_from_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    sizes = ["--channels", "2", "--cells", "1", "--train-size", "40", "--eval-size", "20", "--batch-size", "10"]
    options = [*sizes, "--evaluations", "8", "--short-epochs", "1", "--listed", "6", "--final-epochs", "1"]
    with pytest.raises(SystemExit) as ended:
        main(["search", *options, "--out", str(tmp_path / "run"), "--json"])
        raise SystemExit(0)
    assert ended.value.code == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["unit"] == "evaluations" and printed["allowed"] == 8 and printed["stages"][0]["stage"] == "scores"


def test_a_recipe_of_few_epochs_is_no_matter_of_warm_ups() -> None:
    """Stages have no epochs: a recipe with as many as the default warm-up is refused only where there is one."""
    assert SearchPlan(epochs=1, staged=StagedOptions(evaluations=4)).is_staged
    for refused in ({"epochs": 1}, {"warmup_epochs": -1, "staged": StagedOptions(evaluations=4)}):
        with pytest.raises(ConfigError, match=r"^warmup_epochs must be below"):
            SearchPlan(**refused)


def test_scores_that_do_not_suit_are_refused_by_name(tmp_path: Path) -> None:
    plan = replace(PLAN, staged=replace(OPTIONS, scores="layers+luck", stages="scores"), num_final=0)
    with pytest.raises(ramet.errors.ConfigError, match="a score is one of"):
        search(tmp_path / "run", plan=plan)
    assert not (tmp_path / "run").exists()


def test_a_latency_is_not_measured_anew_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = replace(PLAN, staged=replace(OPTIONS, stages="scores+short"), budget="latency=1s", num_final=0)
    seconds = {"latency": 0.5}
    monkeypatch.setattr("ramet.searching.costs.measure_latency", lambda *a, **b: seconds["latency"])
    with pytest.raises(Killed):
        search(tmp_path / "run", plan=plan, executor=Mortal(3))
    before = records(tmp_path / "run")
    monkeypatch.setattr(
        "ramet.searching.costs.measure_latency", lambda network, shape, arch, **b: 2.0 if 3 in arch else 0.5
    )
    result = search(tmp_path / "run", plan=plan)
    assert result.stages[0].seen == 64 and records(tmp_path / "run").items() >= before.items()
