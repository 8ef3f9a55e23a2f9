"""`ramet search` on the command line, its reproductions at a size for a test, and the cells that reports draw."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace

import numpy as np
import pytest
from cell_graphs import cell_graphs
from cyclopts import App

from ramet.cli.main import main
from ramet.cli.options import command_of
from ramet.execution import Inline
from ramet.jobs.data_options import TextOptions
from ramet.jobs.search import SearchJob
from ramet.runs import read_config
from ramet.searching import SearchPlan
from ramet.spaces import Cells64, EnasMicro
from ramet.spaces.darts.genotypes import DARTS_V2
from ramet.training import Recipe
from ramet_papers import TARGETS, Workspace, read_claims
from ramet_papers.multi_model_forgetting import search_presets
from ramet_papers.multi_model_forgetting.searches import looked_up
from ramet_papers.searches import (
    GuardedSearches,
    early_reward,
    guard_strengths,
    late_reward,
    mean_difference,
    reduction,
)

immune_table = importlib.import_module("ramet_papers.disturbance_immune.table_1")  # not the function of that name
SMALL = ["--channels", "2", "--cells", "1", "--train-size", "40", "--eval-size", "16", "--epochs", "2"]
SMALL += ["--warmup-epochs", "1", "--models-per-epoch", "2", "--batches-per-model", "2", "--strategy-steps", "1"]
SMALL += ["--archs-per-step", "2", "--batch-size", "8", "--final-epochs", "1", "--candidates", "3"]


def run(capsys, *arguments):
    """Exit code, standard output and standard error of a command."""
    try:
        main(["search", *arguments])
        code = 0
    except SystemExit as exit:
        code = exit.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_search_from_the_command_line(capsys, tmp_path):
    out = tmp_path / "run"
    options = [*SMALL, "--guard", "plasticity", "--strategy", "evolution:population_size=3", "--seed", "9"]
    code, printed, _ = run(capsys, *options, "--out", str(out), "--json")
    result = json.loads(printed)
    assert code == 0 and result["best"] in [entry["name"] for entry in result["trained"]]
    assert (out / "report.html").exists() and read_config(out)["kind"] == "search"
    assert result["plan"]["strategy"] == "evolution:population_size=3" and result["plan"]["final_epochs"] == 1
    assert result["plan"]["seed"] == 9, "the plan's randomness follows from the run's seed"


def test_options_of_the_same_name_are_apart():
    """The search's epochs and channels are not those of the final network, nor its seed that of the data."""
    kept = []
    command = command_of(SearchJob, lambda job, common: kept.append(job))
    options = ["--epochs", "4", "--final-epochs", "7", "--channels", "3", "--final-channels", "5", "--seed", "9"]
    app = App()
    app.command(command, name="search")
    app(["search", *options, "--final", "2", "--candidates", "6"], result_action="return_value")
    (job,) = kept
    assert (job.plan.epochs, job.plan.final_epochs, job.recipe.epochs) == (4, 7, Recipe().epochs)
    assert (job.sizes.channels, job.plan.final_network.channels) == (3, 5)
    assert (job.seed, job.data_options.seed) == (9, None)
    assert (job.plan.num_final, job.plan.num_candidates) == (2, 6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--strategy", "luck"], "luck"),
        (["--budget", "params=1"], "a budget must leave at least one architecture"),
        (["--strategy", "evolution:size=big"], "options of evolution are population_size"),
        (["--strategy", "evolution:3"], "takes no values without a key"),
        (["--final-seeds", "0"], "seeds at least 1"),
        (["--strategy", "darts", "--guard", "plasticity"], "it takes no guard"),
        (["--space", "recurrent", "--data-dir", "/nowhere"], "a text needs the file"),
        (["--guard", "dog"], "a guard is one of"),
        (["--data", "ptb"], "text is for spaces of language models, such as recurrent, but got cells64"),
        (["--minutes", "3", "--evaluations", "9"], "one budget"),
        (["--minutes", "3", "--guard", "plasticity"], "a staged search takes no guard"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(capsys, tmp_path, options, words):
    code, _, error = run(capsys, *SMALL, *options, "--out", str(tmp_path / "run"))
    assert code == 2 and words in error and error.count("\n") == 1
    assert not (tmp_path / "run").exists()


TINY = SearchJob(
    space="cells64:channels=2,num_cells=1",
    data="digits",
    data_options=TextOptions(train_size=40, eval_size=16),
    recipe=Recipe(batch_size=8, learning_rate=0.05),
    plan=SearchPlan(
        epochs=2,
        warmup_epochs=1,
        models_per_epoch=2,
        batches_per_model=2,
        strategy_steps=1,
        archs_per_step=2,
        num_candidates=2,
        final_epochs=1,
    ),
)
STUDY = GuardedSearches(name="tiny", job=TINY, strengths=(1.0, 100.0), seeds=2, num_random=3)
NAO = replace(
    STUDY,
    name="nao",
    strengths=(1.0,),
    job=replace(
        TINY,
        space="recurrent:hidden_size=4,num_nodes=3",
        plan=replace(TINY.plan, strategy="nao:num_seeds=3,epochs=1", num_final=0),
    ),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("reproduction")  # one for all targets, so that none searches twice


@pytest.fixture
def workspace(folder, monkeypatch):
    for name in ("train", "valid", "test"):
        (folder / "text").mkdir(exist_ok=True)
        (folder / "text" / f"{name}.txt").write_text("a cat sat on a mat\nthe dog sat on the log\n" * 20)
    text = {"data": str(folder / "text"), "data_options": TextOptions(window=4, train_size=24, eval_size=8)}
    study = {"recurrent": STUDY, "convolutional": STUDY, "nao": replace(NAO, job=replace(NAO.job, **text))}
    monkeypatch.setattr("ramet_papers.multi_model_forgetting.searches.SEARCHES", {"small": study})
    monkeypatch.setattr("ramet_papers.multi_model_forgetting.searches.DROPOUTS", (0.0, 0.5))
    monkeypatch.setattr(immune_table, "PRESETS", {"small": replace(STUDY, guard="projection")})
    return Workspace(runs=folder / "runs", results=folder / "results", executor=Inline())


@pytest.mark.parametrize(
    ("target", "claims"),
    [
        pytest.param("multi-model-forgetting/figure-4", ["W4"], marks=pytest.mark.slow),
        pytest.param("multi-model-forgetting/figure-4d", ["W6"], marks=pytest.mark.slow),
        pytest.param("multi-model-forgetting/figure-B", ["W5"], marks=pytest.mark.slow),
        pytest.param("multi-model-forgetting/figure-5", ["W7"], marks=pytest.mark.slow),
        pytest.param("multi-model-forgetting/table-1", ["W8"], marks=pytest.mark.slow),
        pytest.param("disturbance-immune/table-1", ["I6"], marks=pytest.mark.slow),
    ],
)
def test_a_reproduction_answers_its_claims(workspace, target, claims):
    outcome = TARGETS[target].run(workspace, "small")
    assert [claim.id for claim in outcome.claims] == claims
    assert set(claims) <= {entry["id"] for entry in read_claims(workspace.results)}
    assert all(target in claim.command for claim in outcome.claims)
    assert all((claim.holds is None) == ("Not answered" in claim.note) for claim in outcome.claims)
    # Two seeds and two rates of dropout are not enough for these.
    assert all(claim.holds is None for claim in outcome.claims if claim.id in ("W6", "W7"))
    assert outcome.to_text()


def test_figures_of_a_comparison_by_hand():
    """Warm-up epochs do not count, the second half is of the rewarded epochs."""
    epochs = [
        {"key": f"epoch/{number}", "difference_mean": value, "reward": reward}
        for number, (value, reward) in enumerate([(9.0, None), (1.0, 0.1), (2.0, 0.2), (None, 0.3), (3.0, 0.5)])
    ]
    search = {"epochs": epochs, "warmup": 1}
    assert mean_difference(search, "difference_mean") == pytest.approx(2.0)
    assert late_reward(search) == pytest.approx(0.4) and early_reward(search) == pytest.approx(0.15)
    assert early_reward({"epochs": epochs[:3]}) == pytest.approx(0.1) and np.isnan(early_reward({"epochs": epochs[:2]}))
    assert reduction(2.0, 0.5) == pytest.approx(0.75) and reduction(-1.0, -2.0) == pytest.approx(1.0)


def test_the_strengths_of_a_guard_are_those_of_the_epochs_after_the_warm_up():
    reports = [{"alpha": 0.0}, {"alpha": 3.0}, {"alpha": 2.5}, {}, None]
    search = {"epochs": [{"key": f"epoch/{n}", "guard": report} for n, report in enumerate(reports)], "warmup": 1}
    assert guard_strengths(search) == (3.0, 2.5)


def test_presets_name_searches_that_exist():
    for studies in search_presets.SEARCHES.values():
        for study in studies.values():
            read = SearchJob.from_json(json.loads(json.dumps(study.job.to_json())))
            assert read.to_json() == study.job.to_json()


def test_cells_as_graphs():
    (_, nodes, edges), (_, _, reduction_edges) = cell_graphs(DARTS_V2)
    assert len(nodes) == 6 and len(edges) == len(reduction_edges) == 8
    assert (edges[0].source, edges[0].target, edges[0].label) == ("0", "2", "sep_conv_3x3")
    ((_, nodes, edges),) = cell_graphs("|nor_conv_3x3~0|+|none~0|skip_connect~1|+|none~0|none~1|none~2|")
    assert [(edge.source, edge.target) for edge in edges] == [("0", "1"), ("1", "2")]
    ((_, nodes, edges),) = cell_graphs("tanh 0:relu 0:identity")
    assert [(edge.source, edge.target, edge.label) for edge in edges][1:] == [
        ("0", "1", "relu"),
        ("0", "2", "identity"),
    ]
    assert cell_graphs("434") == []


def test_cells_whose_operations_are_numbers_as_graphs():
    ((_, nodes, edges),) = cell_graphs("434", Cells64().operations)
    assert [node.key for node in nodes] == ["0", "1", "2"]
    assert [(edge.source, edge.target, edge.label) for edge in edges] == [
        ("0", "1", "dil_conv_5x5"),
        ("0", "2", "sep_conv_5x5"),
        ("1", "2", "dil_conv_5x5"),
    ]
    space = EnasMicro(num_nodes=1)
    (_, nodes, edges), (_, _, reduction) = cell_graphs("0 3 1 4 | 1 0 1 2", space.operations)
    assert [(edge.source, edge.target, edge.label) for edge in edges] == [
        ("0", "2", "max_pool_3x3"),
        ("1", "2", "skip_connect"),
    ]
    assert [edge.label for edge in reduction] == ["sep_conv_3x3", "avg_pool_3x3"] and len(nodes) == 3


def test_what_searches_found_is_looked_up_where_all_errors_are_known():
    def run(*archs):
        return {"result": {"candidates": [{"arch": list(arch)} for arch in archs]}}

    known = {(0, 0): 0.5, (0, 1): 0.3, (1, 0): 0.2}
    found = looked_up([(run((0, 0), (1, 0)), run((0, 1))), (run((0, 1)), run((1, 0)))], known)
    assert found.errors.tolist() == [[0.5, 0.3], [0.3, 0.2]]
    assert found.random.mean() == pytest.approx(1 / 3)
