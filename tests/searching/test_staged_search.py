"""A staged search from end to end: it goes on after a kill, is the same everywhere, and says what its stages did."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ramet
from ramet.cli.main import main
from ramet.costs import count_flops
from ramet.data import load
from ramet.errors import ConfigError
from ramet.execution import Inline, Processes
from ramet.jobs.search import SearchRecipe
from ramet.jobs.search.result import SearchResult
from ramet.ranking.setup import SupernetSetup
from ramet.runs import Run, read_records
from ramet.searching import SearchPlan
from ramet.searching.staged import tasks
from ramet.searching.staged.agreement import Agreement
from ramet.searching.staged.options import StagedOptions
from ramet.searching.staged.search import StagedSearch
from ramet.spaces import Cells64
from ramet.training import Recipe

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
    assert names[:3] == ["scores", "short", "predictor"] and "halving" in names
    stages = {stage.stage: stage for stage in result.stages}
    assert stages["scores"].seen == 64 and stages["scores"].dropped == 64 - 12
    assert stages["short"].seen >= 6 and stages["short"].cost == stages["short"].seen
    assert 0 < sum(stage.cost for stage in result.stages) <= result.allowed == 16
    assert all(stage.agreement is None or -1 <= stage.agreement <= 1 for stage in result.stages)
    assert stages["scores"].compared >= 5 and stages["scores"].agreement is not None


def test_shared_weights_are_a_stage_that_may_be_asked_for(tmp_path: Path) -> None:
    options = replace(OPTIONS, stages="scores+shared+short+predictor+finalists")
    stages = {stage.stage: stage for stage in search(tmp_path / "run", plan=replace(PLAN, staged=options)).stages}
    assert list(stages)[:3] == ["scores", "shared", "short"]
    assert stages["shared"].compared >= 5 and stages["shared"].agreement is not None


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[StagedSearch]:
    """A search over all 64 that has trained nothing."""
    setup = SupernetSetup(Cells64(channels=2, num_cells=1), load("digits", train_size=40, eval_size=20), Recipe())
    plan = SearchPlan(staged=StagedOptions(evaluations=60, listed=40))
    with Run.create(tmp_path / "begun", "search", {}) as run:
        begun = StagedSearch(setup, plan, run, Inline())
        begun._scored.fill()
        begun._list_best()
        begun._measure_speed()
        yield begun


def in_spreads(values: list[float], of: list[float]) -> np.ndarray:
    """Values around their median, in units of how far others are spread."""
    distance = np.abs(np.array(of) - np.median(of))
    unit = 1.4826 * np.median(distance) or np.std(of) or 1.0
    return np.clip((np.array(values) - np.median(values)) / unit, -3, 3)


def test_a_long_search_begins_with_some_of_everywhere_and_goes_on_where_it_is_good(
    begun: StagedSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun.rungs, begun._num_affordable = [{}], 12
    assert begun._next(3) == begun.listed[:3], "a short one takes the best of the scores"
    begun._num_affordable = 24
    first = begun._next(8)
    places = [begun.listed.index(place) for place in first]
    assert places == [2, 7, 12, 17, 22, 27, 32, 37], "one of each eighth of the list"
    # Once there is a predictor that is believed, by what it says and by size, each in units of its spread.
    begun.rungs = [{place: float(number % 3) for number, place in enumerate(first)}]
    said = {place: float(place * 7 % 11) for place in begun.listed}
    monkeypatch.setattr(begun, "_predicted", lambda places: (np.array([said[place] for place in places]), np.zeros(8)))
    monkeypatch.setattr(
        begun, "_cheap_agreements", lambda: [Agreement("predictor", 0.9, 99), Agreement("scores", 0, 99)]
    )
    unit = in_spreads(list(said.values()), list(begun.rungs[0].values()))
    sizes = [begun._size(place) for place in begun.listed]
    merits = unit + 0.75 * in_spreads(sizes, [begun._size(place) for place in first])
    order = [begun.listed[place] for place in np.argsort(-merits, kind="stable")]
    assert begun._next(8) == [place for place in order if place not in first][:8]


def test_of_two_with_one_loss_the_larger_comes_first(begun: StagedSearch, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {place: begun._size(place) for place in begun.listed}
    small, *_, large = sorted(sizes, key=sizes.__getitem__)
    middle = sorted(sizes, key=sizes.__getitem__)[len(sizes) // 2]
    begun.rungs = [{small: -1.0, large: -1.0, middle: -1.5}]
    assert begun._verdict() == [large, small, middle]
    # By hand: losses and sizes around their medians, each in units of its spread among the short trainings.
    begun.rungs = [{small: -1.0, large: -1.2, middle: -1.5}, {small: -0.8, large: -0.9}]

    losses, logs = [-1.0, -1.2, -1.5], [sizes[small], sizes[large], sizes[middle]]
    expected = 0.5 * in_spreads([-1.0, -1.2], losses) + in_spreads([-0.8, -0.9], losses)
    expected += 0.75 * 1.5 * in_spreads(logs[:2], logs)
    assert (begun._verdict() == [small, large]) == bool(expected[0] > expected[1])
    # What the predictor says of short trainings understates the larger one as they do.
    said = {small: 0.9, large: 0.1}
    monkeypatch.setattr(begun, "_predicted", lambda places: (np.array([said[place] for place in places]), np.zeros(8)))
    monkeypatch.setattr(begun, "_cheap_agreements", lambda: [Agreement("predictor", 1.0, 10**6)])
    expected += in_spreads([0.9, 0.1], [0.9, 0.1]) + 0.75 * in_spreads(logs[:2], logs)
    assert (begun._verdict() == [small, large]) == bool(expected[0] > expected[1])


def test_size_does_not_make_up_for_a_loss_that_is_clearly_behind(begun: StagedSearch) -> None:
    """A search that has found where the good ones are trains networks of nearly one size: five per cent are a lot."""
    trained = begun.listed[:5]
    for place, flops in zip(trained, (100_000, 100_000, 100_100, 100_100, 105_000), strict=True):
        begun.costs.known["flops", begun.pool[place]] = float(flops)
    best, second, third, fourth, largest = trained
    losses = {best: 1.0, second: 1.05, third: 1.1, fourth: 1.15, largest: 1.2}
    begun.rungs = [{place: -loss for place, loss in losses.items()}]
    # The spread is 1.4826 x 0.05: more than 1.5 of it behind are the last two, of which the larger one comes first.
    assert begun._verdict() == [best, second, third, largest, fourth]
    begun.rungs = [{place: -loss for place, loss in (losses | {largest: 1.1}).items()}]
    assert begun._verdict()[0] == largest, "of about the same loss the larger one"


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


def test_sizes_are_those_of_the_networks_alone_and_are_paid_for(begun: StagedSearch) -> None:
    begun._scored.count_sizes([3, 1, 3])
    shape, space = begun.setup.data.train.x.shape[1:], begun.setup.space
    network = space.supernet(shape[0], 10)
    for place in (1, 3):
        arch = begun.pool[place]
        assert begun.costs.known["flops", arch] == count_flops(network.child(arch), shape)
    (record,) = [record for record in begun._work._run.records if record["key"].startswith("staged/sizes/")]
    assert len(record["flops"]) == 2 and record["seconds"] >= 0
    begun.budget.unit = "seconds"
    spent = begun.budget.spent.get("scores", 0.0)
    begun._scored.count_sizes([3, 1])  # what the records have is not counted again, but paid again
    assert begun.budget.spent["scores"] == spent + record["seconds"]


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
