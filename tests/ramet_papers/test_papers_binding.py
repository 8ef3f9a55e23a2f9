"""The reproductions of *Learn to bind and grow* at a size for a test."""

import json
from dataclasses import replace

import pytest

from ramet.execution import Executor, Inline
from ramet.training import Settings
from ramet_papers import TARGETS, Workspace, read_claims
from ramet_papers.bind_and_grow import presets, trials
from ramet_papers.bind_and_grow.presets import StreamSetting
from ramet_papers.bind_and_grow.trials import BindingSetup, alone, compared, grown_at_random

STREAM_SETTING = StreamSetting(source="split-digits:2", network="mlp:16,16", stream={"train_size": 80, "eval_size": 60})
TINY = replace(
    presets.SMALL,
    name="tiny",
    split=STREAM_SETTING,
    traded=STREAM_SETTING,
    guided={
        "slow": STREAM_SETTING,
        "frozen": replace(STREAM_SETTING, source="rotated-digits:2", method={"old_weights": "frozen"}),
    },
    searched={"permuted": replace(STREAM_SETTING, source="permuted-digits:2", method={"heads": "shared"})},
    permuted=replace(STREAM_SETTING, source="permuted-digits:2", method={"heads": "shared"}),
    strangers=STREAM_SETTING,
    settings=Settings(epochs=1, batch_size=16, learning_rate=0.05, final_learning_rate=0.0, weight_decay=0.0),
    seeds=2,
    guided_seeds=2,
    traded_seeds=2,
    deltas=(0.0, 0.5, 1.0),
    matched=(0.5,),
    draws=1,
    trials=4,
    twins=2,
    methods=("individual", "naive", "random-growth", "bind-and-grow:delta=0.5"),
)
FIGURES = {"figure-2": ["B1"], "figure-6": ["B2"], "pareto": ["B3"], "comparison": [], "twins": []}


class Idle(Executor):
    """Refuses every task: nothing may be left to do."""

    def _stream(self, tasks, context, on_pulse):
        assert not tasks
        yield from ()


@pytest.mark.parametrize(
    "figure", [pytest.param(name, marks=[pytest.mark.slow] * (name == "pareto")) for name in FIGURES]
)
def test_figures_give_tables_and_claims_and_are_not_run_twice(figure, tmp_path, monkeypatch):
    monkeypatch.setitem(presets.PRESETS, "small", TINY)
    workspace = Workspace(runs=tmp_path / "runs", results=tmp_path / "results", executor=Inline())
    target = TARGETS[f"bind-and-grow/{figure}"]
    outcome = target.run(workspace, "small")
    assert outcome.tables and all(table.to_json() for table in outcome.tables)
    assert [claim.id for claim in outcome.claims] == FIGURES[figure]
    assert [claim["id"] for claim in read_claims(workspace.results)] == FIGURES[figure]
    assert all((claim.holds is None) == ("Not answered" in claim.note) for claim in outcome.claims)
    assert target.run(replace(workspace, executor=Idle()), "small").to_json() == outcome.to_json()


def test_random_growth_has_the_parameters_of_guided_growth(tmp_path, monkeypatch):
    # All layers have one size here, so that sets of equal size are many, and sizes match exactly.
    even = replace(STREAM_SETTING, network="mlp:64,64")
    monkeypatch.setitem(presets.PRESETS, "small", replace(TINY, split=even, guided={"even": even}, guided_seeds=1))
    workspace = Workspace(runs=tmp_path / "runs", results=tmp_path / "results", executor=Inline())
    TARGETS["bind-and-grow/figure-2"].run(workspace, "small")
    records = next((tmp_path / "runs").rglob("records.jsonl")).read_text()
    parameters = {}
    for line in records.splitlines():
        entry = json.loads(line)
        key = entry.get("key", "")
        if "/guided/" in key or "/random " in key:
            parameters.setdefault(tuple(key.split("/")[:2]), []).append(entry["parameters"])
    assert set(parameters) == {("even", "rsa whole"), ("even", "cka added")}
    assert all(len(sizes) == 3 and len(set(sizes)) == 1 for sizes in parameters.values())


def test_random_growth_begins_where_the_tasks_alone_begin(tmp_path):
    """A stream of one task has no choices: by random growth it is the network alone, and its gain is exactly 0."""
    stream_setting = replace(STREAM_SETTING, source="split-digits:1")
    setup = BindingSetup.of(
        Workspace(runs=tmp_path, results=tmp_path, executor=Inline()), TINY, stream_setting, tmp_path / "networks"
    )
    for number, stream in enumerate(setup.streams):
        reference = {"test": {name: alone(setup, number=number, task=name)["test"] for name in stream.names}}
        for draw in range(2):
            grown = grown_at_random(setup, number=number, draw=draw, sizes={}, alone=reference)
            assert grown["test_gain"] == 0.0


def test_old_layers_are_slow_as_in_the_paper_unless_a_setting_or_a_method_says_otherwise(tmp_path):
    workspace = Workspace(runs=tmp_path, results=tmp_path, executor=Inline())
    slow, frozen = (BindingSetup.of(workspace, TINY, setting, tmp_path) for setting in TINY.guided.values())
    assert slow.options["old_weights"] == "slow" and frozen.options["old_weights"] == "frozen"
    asked = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trials, "learn", lambda stream, method, **how: asked.append(method) or 1 / 0)
        for text in ("bind-and-grow:delta=0.5", "bind-and-grow:old_weights=guarded,measure=cka", "random-growth"):
            with pytest.raises(ZeroDivisionError):
                compared(slow, number=0, method=text)
    assert [method.old_weights for method in asked] == ["slow", "guarded", "slow"]
    assert [method.measure for method in asked[:2]] == ["rsa", "cka"], "what a text says is not overruled"
