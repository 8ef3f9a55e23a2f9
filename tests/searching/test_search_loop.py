"""The search loop: its records, going on after a kill, diverging children, every combination for a few steps."""

from __future__ import annotations

import copy
import itertools
import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from caught import caught
from torch.nn.functional import cross_entropy

from ramet.data import load, load_text
from ramet.errors import ConfigError, DataError
from ramet.execution import make_executor
from ramet.jobs.data_options import TextOptions
from ramet.jobs.runner import resume, start
from ramet.jobs.search import SearchJob
from ramet.ranking import SupernetSetup, Synflow
from ramet.runs import Checkpoints, read_records
from ramet.searching import RelaxedSearch, Search, SearchPlan
from ramet.searching.measures import batch_statistics, measure, score_of_loss
from ramet.spaces import Cells64, Darts, EnasMicro, NasBench201, Recurrent
from ramet.training import Settings

PLAN = SearchPlan(
    epochs=2,
    warmup_epochs=1,
    models_per_epoch=2,
    batches_per_model=2,
    strategy_steps=2,
    archs_per_step=2,
    reward_samples=8,
    error_samples=8,
    num_candidates=2,
)
SETTINGS = Settings(epochs=1, batch_size=8, learning_rate=0.05)
TINY = {
    "cells64": Cells64(channels=2, num_cells=1),
    "nasbench201": NasBench201(channels=2, cells_per_stage=1),
    "darts": Darts(channels=2, num_cells=2, num_nodes=1),
    "enas-micro": EnasMicro(channels=2, cells_per_stage=1, num_nodes=1),
    "recurrent": Recurrent(hidden_size=4, num_nodes=3),
}
SPECS = {
    "nao": "nao:num_seeds=2,epochs=1,hidden_size=8,embedding_size=4",
    "evolution": "evolution:population_size=2",
}


@pytest.fixture(scope="module")
def digits():
    return load("digits", train_size=40, eval_size=16)


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    for name, repeats in (("train", 30), ("valid", 12), ("test", 12)):
        (folder / f"{name}.txt").write_text("a cat sat on a mat\nthe dog sat on the log\n" * repeats)
    return load_text(folder, window=5, train_size=40, eval_size=16)


def collect(setup, plan, **options):
    records = {}
    loop = Search(setup, plan, record=lambda key, **fields: records.__setitem__(key, fields), **options)
    return loop, records


STRATEGIES = ("random", "evolution", "enas", "nao")
GUARDS = ("none", "plasticity", "projection", "elastic", "plasticity+projection")
SHARINGS = ("full", "groups:2:random", "groups:2:similar", "prefix:1")


def covering(space):
    """Five combinations for a space, so that all spaces together hold every pair of two parts.

    With the space's place i and the guard's place j, two more parts of five values each are i + j and i + 2 j modulo 5:
    the columns of an orthogonal array, in which every two columns hold every pair of values once. Where a part has only
    four values, the fifth stands for any.
    """
    i = list(TINY).index(space)
    return [(STRATEGIES[(i + j) % 5 % 4], guard, SHARINGS[(i + 2 * j) % 5 % 4]) for j, guard in enumerate(GUARDS)]


def test_the_part_of_the_matrix_holds_every_pair():
    runs = [(space, *others) for space in TINY for others in covering(space)]
    parts = (list(TINY), STRATEGIES, GUARDS, SHARINGS)
    for one, other in itertools.combinations(range(4), 2):
        assert {(run[one], run[other]) for run in runs} == set(itertools.product(parts[one], parts[other]))


@pytest.mark.parametrize("space", TINY)
def test_a_part_of_the_matrix(space, digits, words):
    """Every pair of a space, a strategy, a guard and a sharing, for a few steps."""
    for strategy, guard, sharing in covering(space):
        run_briefly(space, strategy, guard, sharing, digits, words)


@pytest.mark.slow
@pytest.mark.parametrize("sharing", SHARINGS)
@pytest.mark.parametrize("space", TINY)
def test_the_whole_matrix(space, sharing, digits, words):
    """Every strategy with every space, every sharing and every guard, for a few steps."""
    for strategy, guard in itertools.product(STRATEGIES, GUARDS):
        run_briefly(space, strategy, guard, sharing, digits, words)


def run_briefly(space, strategy, guard, sharing, digits, words):
    setup = SupernetSetup(TINY[space], words if space == "recurrent" else digits, SETTINGS)
    plan = replace(
        PLAN,
        strategy=SPECS.get(strategy, strategy),
        guard=guard,
        sharing=sharing,
        models_per_epoch=1,
        batches_per_model=2,
        strategy_steps=1,
    )
    if sharing.startswith("prefix") and TINY[space].num_archs > 1024:
        with pytest.raises(ConfigError, match=r"of at most 1024 children, but the space has \d+"):
            Search(setup, plan)
        return
    loop, records = collect(setup, plan)
    loop.run()
    assert set(records) == {"epoch/0", "epoch/1"}
    assert 0 <= records["epoch/1"]["reward"] < 80 and not records["epoch/1"]["diverged"]


def test_what_is_recorded_is_what_happened(digits):
    """err1, err2 and their differences against a loop written out: no guard, no strategy, plain SGD."""
    space = TINY["cells64"]
    setup = SupernetSetup(space, digits, SETTINGS)
    plan = replace(PLAN, epochs=3, warmup_epochs=2, strategy="random", models_per_epoch=3)
    loop, records = collect(setup, plan)
    twin = copy.deepcopy(loop.network)
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
    loop.run()
    archs = [space.parse(name) for name in records["epoch/0"]["archs"]]
    x, y = digits.validation.x[:8], digits.validation.y[:8]

    def error(arch):
        with batch_statistics(twin):
            return float((twin(x, arch).argmax(1) != y).float().mean())

    first = []
    for turn, arch in enumerate(archs):
        for number in range(2):
            step = 2 * turn + number
            optimizer.param_groups[0]["lr"] = SETTINGS.learning_rate_at(step, 3 * 3 * 2)
            rows = loop._batches[step]
            optimizer.zero_grad()
            cross_entropy(twin.train()(digits.train.x[rows], arch), digits.train.y[rows]).backward()
            optimizer.step()
        first.append(error(arch))
    second = [error(arch) for arch in archs]
    record = records["epoch/0"]
    assert record["err1"] == pytest.approx(first) and record["err2"] == pytest.approx(second)
    differences = [b - a for a, b in zip(first, second, strict=True)]
    assert record["difference_mean"] == pytest.approx(sum(differences) / 3)
    assert record["difference_max"] == pytest.approx(max(differences))
    assert record["reward"] is None and records["epoch/2"]["reward"] is not None


class StopError(Exception):
    pass


@pytest.mark.parametrize(
    ("strategy", "guard", "space"),
    [("enas", "plasticity", "cells64"), ("nao", "projection", "cells64"), ("evolution", "plasticity", "recurrent")],
)
def test_a_search_killed_at_any_moment_ends_the_same(strategy, guard, space, digits, words, tmp_path):
    """Stopped after each unit of work in turn, and gone on with from the file: the same records and weights."""
    setup = SupernetSetup(
        TINY[space], words if space == "recurrent" else digits, SETTINGS, seconds_between_checkpoints=0.0
    )
    plan = replace(PLAN, strategy=SPECS.get(strategy, strategy), guard=guard, warmup_epochs=0)
    whole, expected = collect(setup, plan)
    whole.run()
    records: dict = {}
    stops = 0
    while stops < 40:
        loop = Search(
            setup,
            plan,
            record=lambda key, **fields: records.setdefault(key, fields),
            checkpoints=Checkpoints(tmp_path / "search"),
        )
        save, count = loop._save, itertools.count()

        def save_and_stop(save=save, count=count, **options):
            save(**options)
            if next(count) == 1:
                raise StopError

        loop._save = save_and_stop
        try:
            loop.run()
            break
        except StopError:
            stops += 1
    assert 5 < stops < 40
    assert json.dumps(records, sort_keys=True) == json.dumps(expected, sort_keys=True)
    for name, value in whole.network.state_dict().items():
        assert torch.equal(value, loop.network.state_dict()[name]), name
    assert loop.strategy.propose(3) == whole.strategy.propose(3)


def test_a_diverging_child_is_recorded_and_skipped(digits):
    """One architecture gives NaN: it is named, leaves no trace in the weights, and the search goes on."""
    space = TINY["cells64"]
    setup = SupernetSetup(space, digits, SETTINGS)
    plan = replace(PLAN, models_per_epoch=12, strategy="evolution:population_size=4", seed=3)
    loop, records = collect(setup, plan)
    forward = loop.network.forward
    loop.network.forward = lambda x, arch: forward(x, arch) * (float("nan") if arch[0] == 2 else 1.0)
    loop.run()
    for record in records.values():
        bad = [name for name in record["archs"] if name.startswith("3")]
        assert record["diverged"] == bad
        assert [first is None for first in record["err1"]] == [name.startswith("3") for name in record["archs"]]
        assert record["difference_mean"] is not None
    assert any(record["diverged"] for record in records.values())
    assert all(bool(torch.isfinite(value).all()) for value in loop.network.state_dict().values())


def test_what_a_diverging_child_showed_to_the_guard_is_dropped(digits):
    """Its inputs would be closed together with the next child's."""
    setup = SupernetSetup(TINY["cells64"], digits, SETTINGS)
    loop, _ = collect(setup, replace(PLAN, guard="projection", warmup_epochs=0))
    forward = loop.network.forward
    loop.network.forward = lambda x, arch: forward(x, arch) * float("nan")
    loop._begin(0)
    loop._train_child(0, 0)
    assert loop.guard.state_dict().keys() == {"epoch"}
    loop.network.forward = forward
    loop._train_child(0, 1)
    assert loop.guard.report()["closed_layers"] > 0


def test_a_penalty_that_could_not_act_is_refused(digits):
    setup = SupernetSetup(TINY["cells64"], digits, SETTINGS)
    for guard in ("plasticity", "projection+kronecker"):
        with pytest.raises(ConfigError, match="must last at least 2 mini-batches, but got 1"):
            Search(setup, replace(PLAN, guard=guard, batches_per_model=1))
    Search(setup, replace(PLAN, guard="plasticity:60:towards=mean", batches_per_model=1))


@pytest.mark.parametrize(("controller", "guard", "closes"), [(1, 0, [True, True]), (0, 1, [False, True])])
def test_guard_and_strategy_have_warm_ups_of_their_own(controller, guard, closes, digits):
    """*Disturbance-immune* guards from the first update on; in *multi-model forgetting* the controller is the first."""
    setup = SupernetSetup(TINY["cells64"], digits, SETTINGS)
    plan = replace(PLAN, guard="projection", warmup_epochs=controller, guard_warmup_epochs=guard)
    loop, records = collect(setup, plan)
    loop.run()
    assert [records[f"epoch/{n}"]["guard"]["closed_layers"] > 0 for n in range(2)] == closes
    assert [records[f"epoch/{n}"]["reward"] is not None for n in range(2)] == [controller == 0, True]


def test_a_search_tells_a_guard_how_long_it_is(digits):
    setup = SupernetSetup(TINY["cells64"], digits, SETTINGS)
    plan = replace(PLAN, epochs=20, guard="plasticity:60", guard_warmup_epochs=0)
    guard = Search(setup, plan).guard
    found = []
    for epoch in range(20):
        guard.start_epoch(epoch)
        found.append(guard.alpha)
    assert found == pytest.approx([60.0 * min(1, max(0, 10 - epoch) / 8) for epoch in range(20)])


def test_batch_norm_handling_is_what_it_says(digits):
    space = TINY["cells64"]
    net = SupernetSetup(space, digits, SETTINGS).new_supernet(0)
    arch, x, y = space[27], digits.validation.x, digits.validation.y
    before = copy.deepcopy(net.state_dict())
    found = {
        mode: measure(net, arch, x, y, batch_norm=mode, calibration=[digits.train.x]).error
        for mode in ("batch", "running", "reestimated")
    }
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    with torch.no_grad():
        expected = {"running": net.eval()(x, arch), "batch": copy.deepcopy(net).train()(x, arch)}
        trained = copy.deepcopy(net).train()
        for module in trained.modules():
            if hasattr(module, "momentum"):
                module.momentum = 1.0
        trained(digits.train.x, arch)
        expected["reestimated"] = trained.eval()(x, arch)
    for mode, logits in expected.items():
        assert found[mode] == pytest.approx(float((logits.argmax(1) != y).float().mean())), mode


def test_perplexity_by_hand(words):
    space = TINY["recurrent"]
    net = SupernetSetup(space, words, SETTINGS).new_supernet(0)
    x, y = words.test.x, words.test.y
    with torch.no_grad():
        logits = net.eval()(x, space[5])  # [n, words, time]
        picked = torch.log_softmax(logits, dim=1).gather(1, y[:, None])[:, 0]
    found = measure(net, space[5], x, y)
    # Both in double precision from the same logits, whose softmax in single precision loses a few of 6e-8 * log(10).
    assert found.error == pytest.approx(float(torch.exp(-picked.double().mean())), rel=1e-5)
    assert found.reward == pytest.approx(80 / found.error)
    assert score_of_loss(1e9).error != score_of_loss(1e9).error


def test_windows_of_words(tmp_path, words):
    assert words.class_names[:2] == ("<eos>", "<unk>") and words.num_classes == 10
    assert words.train.x.shape == (40, 5) and torch.equal(words.train.x[0, 1:], words.train.y[0, :-1])
    assert [words.class_names[word] for word in words.train.x[1]] == ["mat", "<eos>", "the", "dog", "sat"]
    assert words.train.y[0, -1] == words.train.x[1, 0]
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.txt").write_text("a b c d e f\n" * 9)
    small = load_text(tmp_path, window=3, vocabulary=3)
    assert small.num_classes == 3 and small.fingerprint() != words.fingerprint()
    with pytest.raises(DataError, match="windows of 50 words; at least 2"):
        load_text(tmp_path, window=50)
    with pytest.raises(DataError, match=r"a text needs the file train\.txt"):
        load_text(tmp_path / "none")


def test_the_second_order_is_the_derivative_through_a_step(digits):
    """The finite difference of DARTS against differentiating through the virtual step itself."""
    space = Cells64(channels=2, num_cells=1, operations=["sep_conv_3x3", "skip_connect"])
    setup = SupernetSetup(space, digits, SETTINGS)
    loop = RelaxedSearch(setup, replace(PLAN, strategy="darts:order=2"))
    loop.network.double()
    loop.epsilon = 1e-6  # short, so that no ReLU turns on the way: the twin does not see that
    for alpha in loop.alphas:
        alpha.data = torch.randn_like(alpha, dtype=torch.float64)
    batch = (digits.train.x[:8].double(), digits.train.y[:8])
    held = (digits.validation.x[:8].double(), digits.validation.y[:8])
    before = copy.deepcopy(loop.network.state_dict())
    _, found = loop.unrolled_gradient(batch, held, 0.05)
    for name, value in loop.network.named_parameters():
        assert torch.equal(value, before[name])
    params = dict(loop.network.named_parameters())
    inner = torch.autograd.grad(loop.loss(batch), list(params.values()), create_graph=True)
    moved = {name: param - 0.05 * gradient for (name, param), gradient in zip(params.items(), inner, strict=True)}
    logits = torch.func.functional_call(loop.network, moved, (held[0], loop.mixture()))
    expected = torch.autograd.grad(cross_entropy(logits, held[1]), loop.alphas)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("space", ["cells64", "nasbench201", "darts"])
def test_a_sure_mixture_is_its_architecture(space, digits):
    """With all weight on one operation of each edge, the mixture is the single path."""
    tiny = TINY[space]
    setup = SupernetSetup(tiny, digits, SETTINGS)
    loop = RelaxedSearch(setup, replace(PLAN, strategy="darts"))
    loop.network.eval()
    arch = tuple(min(1 + place, n - 1) for place, n in enumerate(tiny.num_options))
    if space == "darts":  # one node: both edges have an operation
        rows = [arch[0], arch[1], arch[2], arch[3]]
    else:
        rows = list(arch)
    weights = [
        torch.nn.functional.one_hot(torch.tensor(row), n).float()
        for row, n in zip(rows, loop.network.num_options, strict=True)
    ]
    assert loop.network.derive(weights) == arch
    with torch.no_grad():
        torch.testing.assert_close(
            loop.network(digits.train.x[:4], weights), loop.network.supernet(digits.train.x[:4], arch)
        )


class StopsAfterSaving(Checkpoints):
    def save(self, *arguments):
        super().save(*arguments)
        raise StopError


def test_darts_goes_on(digits, tmp_path):
    setup = SupernetSetup(TINY["cells64"], digits, SETTINGS)
    plan = replace(PLAN, strategy="darts", warmup_epochs=0)
    whole: dict = {}
    RelaxedSearch(setup, plan, record=lambda key, **fields: whole.__setitem__(key, fields)).run()
    parts: dict = {}
    for _ in range(2):
        loop = RelaxedSearch(
            setup,
            plan,
            record=lambda key, **fields: parts.__setitem__(key, fields),
            checkpoints=StopsAfterSaving(tmp_path / "darts"),
        )
        with pytest.raises(StopError):
            loop.run()
    assert whole == parts
    with pytest.raises(ConfigError, match="it takes no guard"):
        RelaxedSearch(setup, replace(plan, guard="plasticity"))
    with pytest.raises(ConfigError, match="cells that can be mixed"):
        RelaxedSearch(SupernetSetup(TINY["enas-micro"], digits, SETTINGS), plan)


JOB = SearchJob(
    space="cells64:channels=2,num_cells=1",
    data="digits",
    data_options=TextOptions(train_size=40, eval_size=16),
    recipe=SETTINGS,
    plan=replace(PLAN, guard="plasticity", num_candidates=4, num_final=2, final_epochs=1),
)


def test_a_job_from_end_to_end(tmp_path):
    """A run directory, a report, a network that needs no ramet; a finished run gives its result again."""
    found = start(JOB, tmp_path / "run", make_executor(1))
    assert resume(tmp_path / "run", make_executor(1)) == found
    result = found.to_json()
    records = [record["key"] for record in read_records(tmp_path / "run")]
    assert records[:6] == ["setting", "epoch/0", "epoch/1", "candidates", "final/0/0", "final/1/0"]
    assert records[6] == "baselines" and records[-1] == "result"
    assert all(key.startswith("baseline/") for key in records[7:-1])
    chosen = min(result["trained"], key=lambda entry: entry["validation"])
    assert result["best"] == chosen["name"] and 0 <= chosen["test"] <= 1
    page = (tmp_path / "run" / "report.html").read_text()
    assert result["best"] in page and "mean reward" in page and "nothing lost" in page
    assert "scores that need no training" in page and "The cell" in page
    network = JOB.build().new_supernet(JOB.seed, "training-free")
    for entry in result["candidates"]:
        assert entry["synflow"] == pytest.approx(Synflow(network, (1, 8, 8))(tuple(entry["arch"])))
    assert result["exported"] == "network.pt2"
    x = load("digits", train_size=40, eval_size=16).test.x
    program = torch.export.load(tmp_path / "run" / "network.pt2").module()
    found = float((program(x).argmax(1) != load("digits", train_size=40, eval_size=16).test.y).float().mean())
    assert found == pytest.approx(chosen["tests"][0])


@pytest.mark.slow
def test_a_search_killed_by_the_system_ends_the_same(tmp_path):
    """SIGKILL in the middle of another process's search; gone on with here, its records are those of one whole run."""
    program = (
        "import sys; from pathlib import Path; from test_search_loop import JOB, make_executor, start\n"
        "start(JOB, Path(sys.argv[1]), make_executor(1), seconds_between_checkpoints=0.0)"
    )
    paths = os.pathsep.join(filter(None, sys.path))

    def begin(folder):
        return subprocess.Popen([sys.executable, "-c", program, str(folder)], env=os.environ | {"PYTHONPATH": paths})

    def is_searching(folder):
        is_saved = any((folder / "checkpoints").glob("search/step-*.json"))
        return is_saved and b'"candidates"' not in (folder / "records.jsonl").read_bytes()

    process = caught(begin, tmp_path / "killed", is_searching)
    process.kill()
    process.wait()
    assert "result" not in [record["key"] for record in read_records(tmp_path / "killed")]
    resume(tmp_path / "killed", make_executor(1))
    start(JOB, tmp_path / "whole", make_executor(1))
    assert read_records(tmp_path / "killed") == read_records(tmp_path / "whole")


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (replace(JOB, plan=replace(JOB.plan, strategy="luck")), "a strategy is one of random, evolution, enas, nao"),
        (replace(JOB, plan=replace(JOB.plan, budget="params=3")), "a budget must leave at least one architecture"),
        (
            replace(JOB, space="recurrent", data="ptb", data_options=TextOptions(data_dir="/nowhere")),
            "a text needs",
        ),
        (replace(JOB, space='cells64:operations=["sep_conv_3x3"]'), "at least 2 architectures, but got 1"),
        (replace(JOB, space="cells64:wings=2"), "must get the arguments it knows"),
        (replace(JOB, plan=replace(JOB.plan, sharing="groups:65")), "num_groups must be between 1 and the 64"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(job, words, tmp_path):
    with pytest.raises(ConfigError, match=words) as raised:
        start(job, tmp_path / "run", make_executor(1))
    assert "\n" not in str(raised.value) and not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"warmup_epochs": 2}, "warmup_epochs must be below the 2 epochs"),
        ({"batch_norm": "guess"}, "batch_norm must be one of batch, running, reestimated"),
        ({"guard": "dog"}, "a guard is one of"),
        ({"sharing": "groups:2:interference"}, "a search shares by full"),
        ({"budget": "params=x"}, "a budget reads"),
        ({"models_per_epoch": 0}, "models_per_epoch must be at least 1"),
        ({"num_final": 9}, "num_final must be at most num_candidates"),
        ({"final_epochs": 0}, "final_epochs must be at least 1"),
        ({"guard_warmup_epochs": 2}, "guard_warmup_epochs must be below the 2 epochs, but got 2"),
        ({"final_recipe": "luck"}, "a recipe is one of"),
        ({"final_recipe": "adamw:learning_rate=-1"}, "learning_rate must be positive and finite, but got -1"),
    ],
)
def test_a_bad_plan_is_one_line(changes, words):
    with pytest.raises(ConfigError, match=words):
        replace(PLAN, **changes)
