"""Every reproduction of *Deeper insights* runs at a size for a test, and writes its claims."""

import errno
import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from ramet.errors import ConfigError, RunError
from ramet.execution import Executor, Inline
from ramet.ranking.plan import variation_overrides
from ramet.training import Settings
from ramet_papers import TARGETS, Workspace, read_claims
from ramet_papers.claims import Claim, Figures, write_claims
from ramet_papers.claims_text import PAPERS, claims_page, claims_text
from ramet_papers.deeper_insights import presets, second_setting
from ramet_papers.deeper_insights.sharing import accuracy_deviation, moves_together
from ramet_papers.deeper_insights.stability import median_instance, others_correlations
from ramet_papers.deeper_insights.truth_preset import TruthPreset
from ramet_papers.deeper_insights.variance import best_quarter_shares
from ramet_papers.experiment import Experiment
from ramet_papers.rules import RULES

TINY = replace(
    presets.SMALL,
    name="tiny",
    space_options={"channels": 2, "num_cells": 1, "operations": ["max_pool_3x3", "sep_conv_3x3"]},
    data="digits",
    data_options={"train_size": 64, "eval_size": 40},
    settings=Settings(epochs=1, batch_size=32, learning_rate=0.05, final_learning_rate=0.001),
    supernet_epochs=2,
    truth_seeds=2,
    instances=2,
    last_epochs=2,
    num_groups=(1, 4, 8),
    interference_groups=(4,),
    group_epochs=1,
    group_steps=2,
    shared_cells=(0, 1),
    short_epochs=1,
    long_epochs=2,
    figure_steps=3,
    figure_samples=20,
    figure_instances=2,
    figure_7_epochs=3,
    fine_tune_steps=2,
    fine_tune_instances=2,
    truth=TruthPreset(
        space_options={"channels": 3, "num_cells": 1, "operations": ["max_pool_3x3", "sep_conv_3x3"]},
        data_options={"train_size": 64, "eval_size": 40},
        settings=Settings(epochs=2, batch_size=32, learning_rate=0.05, final_learning_rate=0.001),
        seeds=2,
    ),
    sharing_space=None,
)

CLAIMS = {
    "deeper-insights/table-1": ["D1"],
    "deeper-insights/table-2": ["D2", "D3"],
    "deeper-insights/table-3a": ["D7"],
    "deeper-insights/table-3b": [],
    "deeper-insights/table-4": ["D8"],
    "deeper-insights/figure-2": [],
    "deeper-insights/figure-3": ["D4"],
    "deeper-insights/figure-4": ["D5"],
    "deeper-insights/figure-5": ["D6"],
    "deeper-insights/figure-6": [],
    "deeper-insights/figure-7": [],
    "deeper-insights/figure-8": ["D9a", "D9b"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("reproduction")


@pytest.fixture
def workspace(folder, monkeypatch):
    monkeypatch.setitem(presets.PRESETS, "small", TINY)
    return Workspace(runs=folder / "runs", results=folder / "results", executor=Inline())


QUICK = ("deeper-insights/table-1",)


@pytest.mark.parametrize(
    "target", [target if target in QUICK else pytest.param(target, marks=pytest.mark.slow) for target in CLAIMS]
)
def test_a_reproduction_prints_its_table_and_answers_its_claims(workspace, target):
    outcome = TARGETS[target].run(workspace, "small")
    assert [claim.id for claim in outcome.claims] == CLAIMS[target]
    # At this size all children may score the same, which has no order: then nothing is answered, and the note says so.
    assert all((claim.holds is None) == ("Not answered" in claim.note) for claim in outcome.claims)
    written = {entry["id"] for entry in read_claims(workspace.results)}
    assert set(CLAIMS[target]) <= written
    assert all(f"{claim.id} " in outcome.to_text() for claim in outcome.claims)
    json.dumps(outcome.to_json(), allow_nan=False)


def test_a_seed_of_the_truth_is_compared_with_the_others():
    truth = np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0], [1.0, 2.0, 4.0]])
    # The means of the others are 2, 2, 2.5 and 1, 2, 3.5 and 2, 2, 2.
    assert others_correlations(truth)[:2] == pytest.approx([2 / np.sqrt(2 * 3), -1.0])
    assert np.isnan(others_correlations(truth)[2]) and len(others_correlations(truth[:1])) == 0


def test_the_row_over_epochs_is_that_of_the_median_instance():
    """Instances whose last epochs agree at 1, -1 and 1/3."""
    up, down, other = [1.0, 2.0, 3.0], [3.0, 2.0, 1.0], [2.0, 1.0, 3.0]
    epochs = np.array([[up, up], [up, down], [up, other]])
    assert median_instance(epochs).tolist() == [up, other]
    assert median_instance(epochs[:2]).tolist() == [up, down], "of two the lower"


def test_shares_in_the_best_quarter_are_a_supernets_own():
    steps = [[8, 7, 6, 5, 4, 3, 2, 1], [8, 7, 6, 5, 4, 3, 2, 1]]
    found = best_quarter_shares([{"steps": steps, "trained": [1, 2]}, {"steps": steps, "trained": [7, 6]}])
    assert found.tolist() == [0.5, 0.0]


def test_accuracy_deviates_over_children_and_not_over_instances():
    assert accuracy_deviation([[0.4, 0.6], [0.8, 0.8]]) == pytest.approx(0.05)


def test_pairs_of_children_that_move_together():
    steps = np.array([[0.1, 0.2, 0.9], [0.2, 0.3, 0.8], [0.1, 0.25, 0.95], [0.3, 0.5, 0.5]])
    assert moves_together(steps) == (1, 3)
    assert moves_together(steps[:2]) == (0, 0) and moves_together(np.ones((5, 3))) == (0, 0)


def test_the_truth_of_a_setting_of_its_own_is_trained_once(workspace):
    table = TINY.truth.table(workspace, "digits")
    lines = table.read_text().splitlines()
    assert lines[0] == "arch,seed0,seed1" and len(lines) == 9
    table.unlink()  # the table is made again from the cache
    assert TINY.truth.table(replace(workspace, executor=Idle()), "digits").read_text().splitlines() == lines
    plan = TINY.job(workspace, order="cyclic").plan
    assert plan.table == str(table) and plan.truth_seeds == 2


def test_presets_ask_for_what_the_claims_need():
    small, paper = presets.SMALL, presets.PAPER
    assert small.figure_instances >= 10 <= paper.figure_instances, "D9 is judged over ten supernets"
    assert small.truth is not None and small.truth.settings.epochs == 15 and small.truth.seeds == 3
    assert small.truth.space_options == {"channels": 16, "num_cells": 4}
    assert small.space_options["num_cells"] == 4 and small.figure_steps == 128, "D6"
    assert small.group_epochs == small.supernet_epochs == 30 and 64 in small.num_groups and 64 in paper.num_groups
    assert small.long_epochs == 960 and 0.9 in small.bn_momenta
    assert paper.settings.augment == "crop:4+flip"
    bench = presets.BENCHES["small"]  # whose truth is cached in results/truth, under the name of its setting
    assert bench.space_options == {"channels": 8, "num_cells": 2} and bench.truth is None and bench.truth_seeds == 3
    faster = small.without_momentum_faster
    assert variation_overrides(faster)[0] == {"momentum": 0.0, "learning_rate": 0.5, "final_learning_rate": 0.01}


@pytest.mark.parametrize(
    "preset", [*presets.PRESETS.values(), *presets.BENCHES.values()], ids=lambda preset: preset.name
)
def test_the_job_of_a_preset_asks_for_its_data(workspace, preset):
    asked = replace(preset, truth=None).job(workspace).data_options.given()
    assert preset.data_options.items() <= asked.items()


def test_the_second_setting_asks_for_its_data(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(Workspace, "diagnose", lambda self, name, job: asked.append(job) or {}["not run"])
    workspace = Workspace(runs=tmp_path, results=tmp_path, executor=Inline(), data_dir=tmp_path)
    for preset, options in second_setting.OPTIONS.items():
        with pytest.raises(KeyError, match="not run"):
            second_setting.nasbench201(Experiment(workspace, "deeper-insights/nasbench201", preset))
        assert options["data_options"].items() <= asked[-1].data_options.given().items()


class Idle(Executor):
    """Refuses to run anything."""

    def _stream(self, tasks, context, on_pulse):
        assert not tasks, "nothing should be trained again"
        yield from ()


def test_a_second_reproduction_trains_nothing(workspace):
    first = TARGETS["deeper-insights/table-1"].run(workspace, "small")
    assert (
        TARGETS["deeper-insights/table-1"].run(replace(workspace, executor=Idle()), "small").to_json()
        == first.to_json()
    )


def claim(name, holds=True):
    words = dict.fromkeys(("claim", "paper", "ours", "spread", "command", "note"), "words")
    return Claim(id=name, seeds=3, holds=holds, **words)


def test_a_claim_replaces_the_older_one_and_keeps_the_others(tmp_path):
    write_claims(tmp_path, [claim("D2"), claim("D10"), claim("B1")])
    write_claims(tmp_path, [claim("D2", holds=False)])
    found = read_claims(tmp_path)
    assert [entry["id"] for entry in found] == ["B1", "D2", "D10"]
    assert [entry["holds"] for entry in found] == [True, False, True]
    write_claims(tmp_path, [claim("D9")])
    write_claims(tmp_path, [claim("D9b"), claim("D9a")])  # its two parts, which are judged apart
    assert [entry["id"] for entry in read_claims(tmp_path)] == ["B1", "D2", "D9a", "D9b", "D10"]
    assert "torch" in json.loads((tmp_path / "claims.json").read_text())["environment"]


def test_claims_are_told_in_lines_of_a_width_with_every_part():
    long = replace(claim("D2", holds=False), note="a word and another | " * 20)
    text = claims_text([asdict(long), asdict(claim("B1"))], width=60)
    assert text.startswith("Of 2 claims 1 hold and 1 do not.")
    assert max(map(len, text.splitlines())) <= 60
    assert "D2  does not hold: words" in text and " ".join(text.split()).count("another") == 20
    page = claims_page([asdict(long)])
    assert "| D2 | words | words | words | **does not hold** |" in page and "another \\|" in page


def test_what_a_former_rule_found_is_no_answer(tmp_path):
    """An entry without a number is of the first rule; the command that answers the claim anew writes today's."""
    assert RULES["D2"] == 2 and "D10" not in RULES
    write_claims(tmp_path, [replace(claim("D2"), rule=1), claim("D10")])
    found = read_claims(tmp_path)
    assert [entry["former"] for entry in found] == [True, False]
    text = claims_text(found)
    assert text.startswith("Of 2 claims 1 hold and 0 do not. 1 were answered by a former rule")
    assert "D2  held by a former rule: words" in text and "**held by a former rule**" in claims_page(found)
    figures = Figures(command="words", setting="words")
    anew = figures.answer("D2: words", paper="", ours="", spread="", seeds=3, parts={"so": False})
    assert (anew.id, anew.rule) == ("D2", 2)
    write_claims(tmp_path, [anew])
    assert [entry["former"] for entry in read_claims(tmp_path)] == [False, False]
    assert "former" not in (tmp_path / "claims.json").read_text()
    (tmp_path / "claims.json").write_text(json.dumps({"claims": [asdict(anew) | {"rule": "new"}]}))
    with pytest.raises(ConfigError, match="a rule is no number"):
        read_claims(tmp_path)


def test_the_page_of_claims_is_that_of_the_results():
    """Written by ``ramet reproduce --claims --markdown > docs/claims.md`` after a reproduction."""
    root = Path(__file__).parents[2]
    claims = read_claims(root / "results")
    assert all(entry["id"][0] in PAPERS for entry in claims)
    assert (root / "docs" / "claims.md").read_text(encoding="utf-8") == claims_page(claims)


def test_a_full_disk_leaves_the_claims_that_were_there(tmp_path, monkeypatch):
    write_claims(tmp_path, [claim("D2")])

    def no_space(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", no_space)
    with pytest.raises(RunError, match="No space left"):
        write_claims(tmp_path, [claim("D3")])
    monkeypatch.undo()
    assert [entry["id"] for entry in read_claims(tmp_path)] == ["D2"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["claims.json", "claims.lock"]
