"""The skeleton that all reproductions have: presets, runs of trainings over seeds, rows of tables, answers."""

from dataclasses import dataclass, replace

import pytest
from made_up import SAID

from ramet.execution import Executor, Inline, WorkItem
from ramet.reports import Column
from ramet.reports.formats import percent
from ramet_papers import Outcome, Target, Workspace, read_claims
from ramet_papers.claims import Figures
from ramet_papers.experiment import Experiment, Preset, best_of, mean_of, tabled, values


@dataclass(frozen=True, kw_only=True)
class Small(Preset):
    epochs: int = 2
    methods: tuple[str, ...] = ("a", "b")


def times(context, *, seed):
    """A task: the context times the seed."""
    return {"value": context * seed, "validation": -seed}


class Idle(Executor):
    """Refuses to run anything."""

    def _stream(self, tasks, context, on_pulse):
        assert not tasks, "nothing should be trained again"
        yield from ()


@pytest.fixture
def experiment(tmp_path):
    workspace = Workspace(runs=tmp_path / "runs", results=tmp_path / "results", executor=Inline(), seed=7)
    return Experiment(workspace, "paper-of-mine/table-1", "small")


def rows(**seeds):
    return {name: [WorkItem(f"{name}/{seed}", times, {"seed": seed}) for seed in own] for name, own in seeds.items()}


def test_a_question_has_neither_a_name_nor_a_note_nor_what_is_left_out():
    preset = Small(name="small", note="A note.", seeds=4)
    assert preset.asked() == {"seeds": 4, "epochs": 2, "methods": ("a", "b")}
    assert preset.asked("methods", "seeds") == {"epochs": 2}


def test_an_experiment_knows_its_command_and_its_folder(experiment):
    assert experiment.command == "ramet reproduce paper-of-mine/table-1 --preset small"
    assert experiment.folder == experiment.workspace.runs / "paper-of-mine-small"
    # One generator for all intervals, each of which draws on.
    assert experiment.generator is experiment.generator
    again = replace(experiment)
    assert again.mean([1.0, 2.0, 4.0]) == experiment.mean([1.0, 2.0, 4.0])


def test_trainings_are_done_once_and_in_the_order_of_their_rows(experiment):
    trials = experiment.trials("toy", {"epochs": 2}, 10)
    assert trials.config == {"epochs": 2, "seed": 7} and trials.path.parent == experiment.folder
    assert trials.known(rows(a=[1, 2])) is None
    found = trials.finish(rows(b=[3], a=[2, 1]))
    assert {name: values(results, "value").tolist() for name, results in found.items()} == {"b": [30], "a": [20, 10]}
    assert mean_of(found["a"], "value") == 15 and best_of(found) == "a"
    idle = replace(trials, workspace=replace(trials.workspace, executor=Idle()))
    assert idle.known(rows(a=[1, 2]))["a"] == idle.in_order(rows(a=[1, 2])["a"])
    assert idle.known(rows(a=[1, 4])) is None, "one is missing"
    assert replace(idle, config={"epochs": 3, "seed": 7}).known(rows(a=[1])) is None, "another question"
    assert experiment.trials("toy", {"epochs": 3}, 10).path != trials.path


def test_a_row_names_its_columns():
    table = tabled([{"name": name, Column("share", percent): share} for name, share in (("a", 0.5), ("b", None))], "T")
    assert table.to_json() == [{"name": "a", "share": 0.5}, {"name": "b", "share": None}]
    assert "50" in table.to_text() and table.title == "T"


def test_an_answer_has_the_reason_between_its_note_and_its_remark():
    figures = Figures(**SAID)
    words = {"paper": "p", "ours": "o", "spread": "s", "seeds": 3}
    parts = {"more": False}
    claim = figures.answer("X1: One: two.", parts=parts, note="Note.", remark=" Remark.", **words)
    assert (claim.id, claim.claim, claim.holds, claim.seeds) == ("X1", "One: two.", False, 3)
    assert claim.note == "Note. Not so: more. Remark." and claim.command == SAID["command"]
    assert figures.answer("X1: One.", parts={"more": True}, **words).note == SAID["setting"]
    unmet = figures.answer("X1: One.", parts=parts, rules={"few": False, "kept": True, "short": False}, **words)
    assert unmet.holds is None and unmet.note.endswith(" Not answered: few; short.")


def test_a_target_writes_down_what_its_claims_are_answered_with(experiment):
    asked = []

    def reproduce(given):
        asked.append(given)
        claim = Figures(**SAID).answer("X1: One.", parts={}, paper="", ours="", spread="", seeds=1)
        return Outcome("T", [], [claim] if given.preset_name == "small" else [])

    target = Target("paper-of-mine/table-1", "a table", reproduce)
    target.run(experiment.workspace, "paper")
    assert read_claims(experiment.workspace.results) == []
    target.run(experiment.workspace, "small")
    assert [entry["id"] for entry in read_claims(experiment.workspace.results)] == ["X1"]
    assert asked[1] == experiment
