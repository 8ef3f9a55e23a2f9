"""The reproductions of *Firefly* at a size for a test: what numbers promise, resumption, both answers of a claim."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from ramet.costs import count_parameters
from ramet.data import load
from ramet.execution import Executor, Inline
from ramet.training import Settings
from ramet_papers import TARGETS, Workspace, read_claims
from ramet_papers.experiment import Setup
from ramet_papers.firefly import presets
from ramet_papers.firefly.cell_growth import CellSearch
from ramet_papers.firefly.cells import _search, search_epochs, sized_network
from ramet_papers.firefly.continual import continual_figures
from ramet_papers.firefly.darts import CHOICES, search_darts
from ramet_papers.firefly.depth import depth_figures, plan_of
from ramet_papers.firefly.figure_4 import FULL, NAMES, Curve, gaps, reached_full, width_figures
from ramet_papers.firefly.presets import PAPER, SMALL
from ramet_papers.firefly.rbf import RbfSettings, grow_rbf

SHORT = Settings(epochs=1, batch_size=16, learning_rate=0.05, final_learning_rate=0.0, weight_decay=0.0)
METHODS = {
    "firefly": {"num_new": 2, "num_steps": 1},
    "splitting": {"num_batches": 1, "num_iterations": 2},
    "net2net": {},
    "random": {},
}
DIGITS = {"data": "digits", "data_options": {"train_size": 48, "eval_size": 40}}
TINY = replace(
    SMALL,
    name="tiny",
    toy=RbfSettings(repetitions=2, max_neurons=2, num_updates=4, num_candidate_updates=2),
    toy_counts=(0, 1, 5, 6),
    vgg=replace(SMALL.vgg, **DIGITS, start=2, full=3, depth=2, settings=SHORT, num_growths=1, methods=METHODS, seeds=2),
    mobilenet=replace(
        SMALL.mobilenet, **DIGITS, start=3, full=4, depth=2, settings=SHORT, num_growths=1, methods=METHODS, seeds=2
    ),
    depth=replace(
        SMALL.depth,
        data=("digits",),
        data_options=DIGITS["data_options"],
        width=3,
        num_blocks=2,
        settings=replace(SHORT, epochs=2),
        final=SHORT,
        num_growths=1,
        methods={
            "firefly": {"num_new": 2, "layer_width": 3, "num_steps": 1},
            "nash": {"num_neighbours": 2, "num_steps": 1},
            "autogrow": {"threshold": 0.0},
        },
        seeds=2,
    ),
    cells=replace(
        SMALL.cells,
        **DIGITS,
        search=CellSearch(widths=(1,), channels=(2,), reductions=(), num_nodes=1, rounds=1, num_new=(1,), share=0.25),
        candidate_epochs=1,
        settings=SHORT,
        final=SHORT,
        num_cells=1,
        final_params=200,
        seeds=1,
    ),
    continual=replace(
        SMALL.continual,
        ten="split-digits:5",
        ten_methods={"cpg": "cpg:prune_epochs=1,prune_step=0.4", "firefly, 2": "firefly:neurons=2,rounds=1"},
        twenty=("split-digits:5", "permuted-digits:2"),
        twenty_methods={
            "individual": "individual",
            "cpg": "cpg:prune_epochs=1,prune_step=0.4",
            "firefly": "firefly:neurons=2,rounds=1",
        },
        stream={"train_size": 200, "eval_size": 100},
        network="mlp:6,5",
        settings=SHORT,
        seeds=2,
    ),
)
CLAIMS = {
    "firefly/figure-3a": ["F1"],
    "firefly/figure-3b": ["F2"],
    "firefly/figure-4a": ["F3"],
    "firefly/figure-4b": [],
    "firefly/figure-5": [],
    "firefly/figure-6": ["F4"],
    "firefly/table-1": ["F6"],
    "firefly/table-2": ["F7"],
    "firefly/table-3": ["F5"],
}


class Idle(Executor):
    """Refuses to run anything."""

    def _stream(self, tasks, context, on_pulse):
        assert not tasks, "nothing should be trained again"
        yield from ()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("reproduction")


@pytest.fixture
def workspace(folder, monkeypatch):
    monkeypatch.setitem(presets.PRESETS, "small", TINY)
    return Workspace(runs=folder / "runs", results=folder / "results", executor=Inline())


QUICK = ("firefly/figure-3a", "firefly/figure-4a", "firefly/table-2")


@pytest.mark.parametrize(
    "target", [target if target in QUICK else pytest.param(target, marks=pytest.mark.slow) for target in CLAIMS]
)
def test_a_reproduction_answers_its_claims_and_a_second_one_trains_nothing(workspace, target):
    outcome = TARGETS[target].run(workspace, "small")
    assert [claim.id for claim in outcome.claims] == CLAIMS[target]
    assert all((claim.holds is None) == ("Not answered" in claim.note) for claim in outcome.claims)
    assert set(CLAIMS[target]) <= {entry["id"] for entry in read_claims(workspace.results)}
    json.dumps(outcome.to_json(), allow_nan=False)
    again = TARGETS[target].run(replace(workspace, executor=Idle()), "small")
    assert again.to_json() == outcome.to_json()


class Twice(Executor):
    """Runs two tasks, and is then interrupted."""

    def _stream(self, tasks, context, on_pulse):
        yield from Inline()._stream(tasks[:2], context, on_pulse)
        raise KeyboardInterrupt


def test_an_interrupted_reproduction_goes_on_where_it_was(workspace, tmp_path):
    fresh = replace(workspace, runs=tmp_path / "runs")
    with pytest.raises(KeyboardInterrupt):
        TARGETS["firefly/figure-4a"].run(replace(fresh, executor=Twice()), "small")
    (records,) = (tmp_path / "runs").rglob("records.jsonl")
    before = records.read_text()
    assert before.count("\n") == 2
    outcome = TARGETS["firefly/figure-4a"].run(fresh, "small")
    assert records.read_text().startswith(before) and records.read_text().count("\n") == 10
    whole = TARGETS["firefly/figure-4a"].run(workspace, "small")
    assert outcome.tables[0].to_json() == whole.tables[0].to_json(), "accuracies do not know of the interruption"


def test_another_question_has_a_run_of_its_own(workspace, monkeypatch):
    TARGETS["firefly/figure-3a"].run(workspace, "small")
    monkeypatch.setitem(presets.PRESETS, "small", replace(TINY, toy=replace(TINY.toy, num_updates=5)))
    TARGETS["firefly/figure-3a"].run(workspace, "small")
    monkeypatch.setitem(presets.PRESETS, "small", TINY)
    TARGETS["firefly/figure-3a"].run(replace(workspace, executor=Idle()), "small")


@pytest.mark.slow
def test_new_neurons_bring_the_toy_below_splitting():
    settings = RbfSettings(repetitions=4, max_neurons=5, num_updates=600, num_candidate_updates=50, learning_rate=0.02)
    ours, splitting = (grow_rbf(method, settings).mean(0) for method in ("firefly", "splitting"))
    assert torch.equal(ours[0], splitting[0]), "both start from the same network"
    assert float(ours[-1]) < 0.5 * float(splitting[-1])


def curve(tests, seconds=1.0, params=(100, 150, 225)):
    """A made-up method of two seeds, a hundredth apart."""
    tested = np.array([tests, np.array(tests) + 0.01])
    return Curve(np.array([params, params], float), tested, np.full((2, 2), seconds))


def width_curves(**changed):
    curves = {
        "firefly": curve([0.5, 0.6, 0.7]),
        "splitting": curve([0.5, 0.6, 0.7], seconds=4.0),
        "net2net": curve([0.5, 0.55, 0.65]),
        "random": curve([0.5, 0.55, 0.65]),
        FULL: curve([0.7], params=(1000,)),
    }
    return curves | changed


def test_f3_and_f4_are_judged_by_gaps_and_times():
    figures = width_figures(width_curves(), TINY.vgg, "a command")
    assert set(figures.gaps) == {"Splitting (steepest)", "Net2Net", "random splits"} and figures.flops_gaps is None
    assert figures.gaps["Net2Net"] == pytest.approx(np.full((2, 2), 0.05))
    assert figures.seconds.mean() == 1.0 and figures.splitting_seconds.mean() == 4.0
    assert "225 parameters, 22% of it" in figures.setting and figures.command == "a command"


def test_methods_are_compared_at_equal_parameters():
    slower = curve([0.5, 0.7], params=(100, 225))
    between = 0.5 + 0.2 * np.log(1.5) / np.log(2.25)
    assert slower.at(np.array([150.0]))[0, 0] == pytest.approx(between)
    assert gaps(width_curves(net2net=slower), "net2net")[0] == pytest.approx([0.6 - between, 0.0])
    assert set(NAMES) >= set(SMALL.vgg.methods)


def test_the_size_that_reaches_the_full_network_is_named():
    assert "225 parameters, 22% of it" in reached_full(width_curves())
    assert "does not reach" in reached_full(width_curves(firefly=curve([0.5, 0.55, 0.6])))


def test_a_growth_that_ended_early_keeps_its_last_size():
    results = [{"params": [10, 20], "test": [0.1, 0.2], "seconds": [1.0]}, {"params": [10], "test": [0.3]}]
    made = Curve.of(results)
    assert made.params.tolist() == [[10, 20], [10, 10]] and made.test.tolist() == [[0.1, 0.2], [0.3, 0.3]]


def test_f5_is_judged_by_accuracies_and_parameters():
    results = {
        ("digits", method): [{"test": 0.9 + place / 10, "params": 100 + place + seed} for seed in range(2)]
        for place, method in enumerate(("autogrow", "nash", "firefly"))
    }
    figures = depth_figures(results, TINY.depth, "small")
    assert figures.firefly["digits"].test.tolist() == [1.1, 1.1]
    assert figures.firefly["digits"].params.tolist() == [102, 103]
    assert {name: found.test[0] for name, found in figures.others["digits"].items()} == {"AutoGrow": 0.9, "NASH": 1.0}


def test_all_ways_to_get_deeper_train_for_as_many_epochs():
    preset = SMALL.depth
    epochs = {}
    for method in preset.methods:
        _, settings, num_growths = plan_of(method, preset)
        epochs[method] = settings.epochs * (num_growths + 1)
    assert epochs["firefly"] == epochs["nash"] == epochs["autogrow"]


def test_final_cells_are_brought_to_a_common_size():
    data = load("digits", train_size=48, eval_size=40)
    preset = replace(SMALL.cells, final_params=5000)
    for name in ("sep_conv_5x5", "identity"):
        network = sized_network([(name,) * 5] * 3, data, preset)
        assert count_parameters(network) == pytest.approx(5000, rel=0.25)


def test_the_baseline_search_gives_an_operation_for_each_edge_and_follows_the_seed():
    data = load("digits", train_size=32, eval_size=32)
    found = search_darts(data, TINY.cells.search, SHORT, seed=1, alpha_rate=0.5)
    assert [len(genotype) for genotype in found] == [2] and {n for g in found for n in g} <= set(CHOICES)
    assert found == search_darts(data, TINY.cells.search, SHORT, seed=1, alpha_rate=0.5)
    others = [search_darts(data, TINY.cells.search, SHORT, seed=seed, alpha_rate=0.5) for seed in (2, 3, 4)]
    assert any(other != found for other in others)
    assert search_epochs(TINY.cells) == 3  # one growth: before it, after it, and its candidates
    assert search_epochs(SMALL.cells) == 3 * (2 * 2 + 1)
    assert search_epochs(PAPER.cells) == 10 * (2 * 5 + 5)


def test_cells_are_searched_with_the_candidate_epochs_of_the_preset(monkeypatch):
    asked = {}

    def grow_cells(network, data, search, **options):
        asked.update(options)
        return network, []

    monkeypatch.setattr("ramet_papers.firefly.cells.grow_cells", grow_cells)
    preset = replace(TINY.cells, candidate_epochs=4)
    _search(Setup(load("digits", train_size=32, eval_size=32), preset), "firefly", 0)
    assert asked["num_epochs"] == 4 and asked.get("num_steps") is None


def test_f7_is_judged_by_accuracies_and_parameters():
    results = {
        label: [{"test": place + seed, "params": 10 * place} for seed in range(2)]
        for place, label in enumerate(("individual", "cpg", "firefly, 1", "firefly, 2"))
    }
    figures = continual_figures(results, TINY.continual, "small")
    assert [found.test.tolist() for found in (figures.individual, figures.cpg)] == [[0, 1], [1, 2]]
    assert {label: found.test.tolist() for label, found in figures.firefly.items()} == {
        "firefly, 1": [2, 3],
        "firefly, 2": [3, 4],
    }
    assert figures.firefly["firefly, 2"].params.tolist() == [30, 30]
