"""`ramet study` with a network of the user's own: of a file with trained weights, as an object, resumed, gone on."""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import text_files
import torch
from module_networks import Layered, Small

import ramet
import ramet.continual.study.search as sequence_search
import ramet.continual.study.sequences as sequences
from ramet.cli import main
from ramet.continual import BindAndGrow, JointNetwork, LearnRecipe, SequenceSpace, StudyPlan, make_template
from ramet.continual.study.result import FoundSequences
from ramet.continual.study.storage import digest
from ramet.errors import ConfigError
from ramet.jobs.data_options import StreamOptions
from ramet.jobs.study.job import StudyJob
from ramet.jobs.study.result import StudyResult
from ramet.runs import read_config, read_records
from ramet.training import measure

CODE = """
from module_networks import Layered, Small
from ramet.continual import make_skeleton


def network(in_channels, num_classes):
    return Small(in_channels, num_classes, width=3)


def narrow():
    return Layered(1, (5, 5))


def one_head(in_channels, image_size):
    return make_skeleton("mlp:4", in_channels=in_channels, image_size=image_size, head="shared")
"""
SMALL = ["--train-size", "60", "--eval-size", "60", "--epochs", "1"]
METHOD, THREE = ["--method", "bind-and-grow:num_samples=12"], ["--stream", "split-digits:3", "--trials", "3"]
STUDY = ["study", *SMALL, *THREE, *METHOD]
TRAINED = ["--network", "of_a_user.py:network", "--start", "trained.safetensors"]
PLAN = StudyPlan(num_trials=2, batch=1, method="bind-and-grow:num_samples=12")
CALL = {"recipe": LearnRecipe(epochs=1), "train_size": 40, "eval_size": 40}
TASKS = ["digits 0 1 2 3", "digits 4 5 6", "digits 7 8 9"]

pytestmark = pytest.mark.xdist_group("study_modules")  # the run that they share is made once


def write_user(folder, seed=0):
    """A file that makes a network, and one of weights that were trained for another number of classes."""
    (folder / "of_a_user.py").write_text(CODE)
    torch.manual_seed(seed)
    network = Small(1, 7, width=3)
    network.train()(torch.randn(16, 1, 8, 8))  # batch norms have seen something
    for value in network.parameters():
        value.data.add_(0.01)  # a step that is too small to count changes no bias of 0 then
    safetensors.torch.save_file(network.state_dict(), folder / "trained.safetensors")


@contextmanager
def inside(folder):
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield folder
    finally:
        os.chdir(before)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder of a user's, in which a study of a trained network was never interrupted."""
    folder = tmp_path_factory.mktemp("modules")
    write_user(folder)
    with inside(folder):
        main([*STUDY, *TRAINED, "--out", "whole"])
    return folder


@pytest.fixture
def files(tmp_path, monkeypatch):
    write_user(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def forgotten():
    """Files of one name in several folders, as on several machines."""
    sys.modules.pop("of_a_user", None)


def records_of(run):
    return {record["key"]: record for record in read_records(run)}


def body(network):
    """The trained parameters below the head."""
    return {name: value for name, value in network.named_parameters() if not name.startswith("fc.")}


def refused(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    printed = capsys.readouterr().err.strip()
    assert ended.value.code == 2 and "\n" not in printed, printed
    return printed


def test_what_shares_everything_has_the_weights_of_the_file(whole):
    """The first trial has delta 0 for all tasks: their bodies are the file's, under batch norms of their own."""
    stored = safetensors.torch.load_file(whole / "trained.safetensors")
    assert set(records_of(whole / "whole")["trial/0"]["sequence"]["deltas"].values()) == {0.0}
    net = JointNetwork.load(whole / "whole" / "networks" / "trial-0.safetensors", trust=True)
    assert net.names == TASKS
    for name in net.names:
        module = net.task(name)
        assert isinstance(module, Small) and not torch.equal(
            module.block.bn1.running_mean, stored["block.bn1.running_mean"]
        )
        weights = {name: value for name, value in body(module).items() if value.ndim > 1}
        assert len(weights) == 3
        assert all(torch.equal(value, stored[name]) for name, value in weights.items())


def test_tasks_alone_begin_with_the_weights_of_the_file(files):
    """Trained by steps too small to count, they still have them; only their heads and batch-norm statistics move."""
    options = ["--learning-rate", "1e-30", "--networks", "none", "--stream", "split-digits:3", "--trials", "1"]
    main(["study", *SMALL, *METHOD, *TRAINED, *options, "--out", "run"])
    stored = safetensors.torch.load_file("trained.safetensors")
    for place in range(3):
        alone = safetensors.torch.load_file(f"run/networks/alone-{place}.safetensors")
        same = {name for name, value in stored.items() if torch.equal(alone[name], value)}
        assert same == {name for name, value in stored.items() if not name.startswith("fc.") and "running" not in name
                        and "tracked" not in name}  # fmt: skip


@pytest.mark.parametrize("options", [TRAINED, TRAINED[:2]], ids=["trained", "not trained"])
def test_the_probes_of_all_trials_are_the_tasks_alone(files, options):
    """With their batch norms and heads: they have what the tasks alone were recorded to have."""
    job = StudyJob(
        stream="split-digits:2",
        plan=replace(PLAN, network=options[1], start=options[3] if options[2:] else None),
        data_options=StreamOptions(train_size=60, eval_size=60),
        recipe=LearnRecipe(epochs=3),
    )
    setup = replace(job.build(trust=True).sequences, folder=files / "networks")
    for task in setup.stream:
        recorded = sequences.train_alone(setup, task=task.name)
        probe, held_out = sequences._known_probe(setup, task.name, task.info.num_classes), task.dataset.validation
        assert measure(probe, held_out.x, held_out.y, setup.metric) == recorded["validation"]
        stored = safetensors.torch.load_file(sequences._probe_file(setup, task.name))
        assert all(torch.equal(value, stored[name]) for name, value in probe.state_dict().items())


def test_every_task_grows_from_a_trained_network(whole):
    """The first one, too: it founds nothing, so that it has a coefficient like the others."""
    records = records_of(whole / "whole")
    for number in range(3):
        trial = records[f"trial/{number}"]
        assert list(trial["sequence"]["deltas"]) == list(trial["expanded"]) == TASKS
        assert trial["bound_to"][TASKS[0]] == "the trained network"
    assert records["trial/0"]["parameters"] < records["trial/1"]["parameters"], "delta is what they grow by"
    assert records["alone/digits 0 1 2 3"]["parameters"] == sum(value.numel() for value in Small(1, 4, 3).parameters())


def test_the_report_reads_well_with_blocks(whole):
    page = (whole / "whole" / "report.html").read_text()
    assert "the trained network" in page and "founds the network" not in page
    assert "The weights that the network started with are never changed" in page
    point = StudyResult.load(whole / "whole").front[0]
    assert point.explanation and "stem (conflict" in " ".join(point.explanation)


def test_a_point_of_the_front_takes_another_stream(whole, monkeypatch, capsys):
    monkeypatch.chdir(whole)
    options = ["--stream", "rotated-digits:2", "--train-size", "60", "--epochs", "1", "--controls", "none"]
    more = ["learn", *options, "--method", "naive", "--onto", "whole/networks/trial-0.safetensors"]
    assert "only with --trust" in refused(capsys, *more, "--out", "more") and not Path("more").exists()
    main([*more, "--trust", "--out", "more", "--json"])
    file = json.loads(capsys.readouterr().out)["methods"]["onto"]["file"]
    after = JointNetwork.load(Path("more") / file, trust=True)
    before = JointNetwork.load("whole/networks/trial-0.safetensors", trust=True)
    assert after.names == [*before.names, "digits at 0 degrees", "digits at 90 degrees"]
    x = torch.randn(5, 1, 8, 8)
    for name in before.names:
        assert torch.equal(before.task(name)(x), after.task(name)(x))


def test_a_study_that_was_stopped_goes_on_as_if_never_stopped(whole, files, capsys, monkeypatch):
    """From another folder, with trust, and with the weights that it began with alone."""
    real, calls = sequence_search.run_sequence, iter(range(10))

    def stopped(*given, **options):
        if next(calls) == 1:
            raise KeyboardInterrupt
        return real(*given, **options)

    with monkeypatch.context() as patched:
        patched.setattr(sequence_search, "run_sequence", stopped)
        with pytest.raises(SystemExit):
            main([*STUDY, *TRAINED, "--out", "stopped"])
    asked = read_config("stopped")["config"]["plan"]
    assert asked["network"] == f"{files}/of_a_user.py:network" and asked["start"] == f"{files}/trained.safetensors"
    assert "trial/0" in records_of("stopped") and "trial/1" not in records_of("stopped")
    (files / "elsewhere").mkdir()
    monkeypatch.chdir(files / "elsewhere")
    capsys.readouterr()
    assert "only with --trust" in refused(capsys, "resume", "../stopped")
    shutil.copy("../trained.safetensors", "../kept.safetensors")
    write_user(files, seed=1)  # other weights
    assert "but the network of" in refused(capsys, "resume", "../stopped", "--trust")
    (files / "trained.safetensors").unlink()
    assert "weights must be a file, but there is no" in refused(capsys, "resume", "../stopped", "--trust")
    shutil.copy("../kept.safetensors", "../trained.safetensors")
    main(["resume", "../stopped", "--trust"])
    records, expected = records_of("../stopped"), records_of(whole / "whole")
    assert records.keys() == expected.keys()
    for key in records.keys() - {"member", "setting"}:  # which have a random name, and the folder of the function
        told = json.dumps(records[key]).replace(str(files), str(whole))
        assert json.loads(told) == expected[key], key
    for number in {row["trial"] for row in expected["result"]["front"]}:
        ours, theirs = (safetensors.torch.load_file(run / "networks" / f"trial-{number}.safetensors")
                        for run in (files / "stopped", whole / "whole"))  # fmt: skip
        assert ours.keys() == theirs.keys() and all(torch.equal(value, theirs[key]) for key, value in ours.items())


def test_machines_share_a_study_of_the_same_weights_alone(tmp_path, monkeypatch):
    """Whatever the folder is that holds their files."""
    address = f"sqlite:///{tmp_path / 'shared.db'}"
    for name, seed in (("one", 0), ("same", 0), ("other", 1)):
        (tmp_path / name).mkdir()
        write_user(tmp_path / name, seed)
    plan = replace(PLAN, storage=address, networks="none", num_trials=1)

    def study(name):
        sys.modules.pop("of_a_user", None)
        given = {"network": f"{tmp_path / name}/of_a_user.py:network", "start": tmp_path / name / "trained.safetensors"}
        return ramet.study("split-digits:2", **given, plan=plan, out=tmp_path / name / "run", **CALL)

    assert study("one").trials == study("same").trials
    with pytest.raises(ConfigError, match="has another network; another --name begins a new study"):
        study("other")
    assert not (tmp_path / "other" / "run").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--network", "mlp:5", "--start", "trained.safetensors"], "weights must fit the network"),
        ([*TRAINED[:2], "--start", "none.pt"], "there is no"),
        ([*TRAINED, "--classifier", "stem.0"], "one of its linear layers"),
        (["--network", "mlp:5", "--classifier", "head"], "a chain that has none yet"),
        ([*TRAINED, "--method", "bind-and-grow:budget=0.2"], "the budget must be 0 in a study of a trained network"),
        ([*TRAINED, "--method", "bind-and-grow:old_weights=guarded"], "slow or frozen, not guarded"),
        ([*TRAINED, "--method", "bind-and-grow:unit=channels"], "unit must be layer for a module"),
        (["--network", "of_a_user.py:one_head"], "head must be own, not shared"),
        (["--network", "of_a_user.py:narrow"], "a network must run on images of shape [1, 8, 8], but Layered raises"),
    ],
)
def test_what_cannot_work_is_one_line_and_nothing_is_written(files, capsys, options, words):
    assert words in refused(capsys, "study", *SMALL, *options, "--out", "run")
    assert not Path("run").exists()


def test_a_module_from_python(tmp_path):
    network = Small(width=2)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    result = ramet.study("split-digits:2", network=network, plan=PLAN, out=tmp_path / "run", **CALL)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert "Conv2d(1, 2" in json.dumps(read_config(tmp_path / "run"))  # a run says what its network was
    given = {"plan": PLAN, "out": tmp_path / "run", **CALL}
    assert ramet.study("split-digits:2", network=network, **given) == result
    with pytest.raises(ConfigError, match="run"):
        ramet.study("split-digits:2", network=Small(width=2), **given)  # other weights
    found = FoundSequences([{"trial": point.trial, "sequence": point.sequence.to_json()} for point in result.front],
                           tmp_path / "run")  # fmt: skip
    trial = result.front[0].trial
    with pytest.raises(ConfigError, match="given as an object is loaded with that object"):
        found.network(trial)
    joint = found.network(trial, network=network)
    assert isinstance(joint.task("digits 0 1 2 3 4"), Small)


@pytest.mark.slow
def test_workers_study_modules(tmp_path):
    torch.manual_seed(0)
    network = Small(width=2)
    one, two = (
        ramet.study(
            "split-digits:2", network=network, plan=replace(PLAN, batch=2), out=tmp_path / f"{n}", executor=n, **CALL
        )
        for n in (1, 2)
    )
    assert one.trials == two.trials and one.front == two.front
    for point in one.front:
        assert (tmp_path / "1" / point.file).read_bytes() == (tmp_path / "2" / point.file).read_bytes()


class Tied(Layered):
    """Two layers that are one."""

    def __init__(self):
        super().__init__(1, (8, 8), 5, width=6)
        self.layers[1].linear.weight = self.layers[0].linear.weight


def test_weights_of_two_names_are_kept_for_all_trials(tmp_path):
    result = ramet.study("split-digits:2", network=Tied, plan=PLAN, out=tmp_path / "run", **CALL)
    alone = safetensors.torch.load_file(tmp_path / "run" / "networks" / "alone-0.safetensors")
    assert torch.equal(alone["layers.0.linear.weight"], alone["layers.1.linear.weight"]) and len(result.trials) == 2


@pytest.mark.parametrize(("kind", "network"), [("texts", "transformer"), ("tables", "perceptron")])
def test_streams_of_texts_and_of_vectors(tmp_path, kind, network):
    text_files.text(tmp_path, 60, "first.txt", "abcd")
    text_files.text(tmp_path, 60, "second.txt", "edcb")
    text_files.table(tmp_path, 80, "first.csv")
    text_files.table(tmp_path, 80, "second.csv", shift=1.0)
    forms = {"texts": "text:{}.txt:length=8", "tables": "{}.csv:target=price"}
    tasks = [{"name": name, "data": forms[kind].format(name)} for name in ("first", "second")]
    (tmp_path / "stream.json").write_text(json.dumps(tasks))
    if kind == "texts":
        with pytest.raises(ConfigError, match=r"a network for texts of 8 tokens .* must be your own"):
            ramet.study(str(tmp_path / "stream.json"), out=tmp_path / "refused")
        assert not (tmp_path / "refused").exists()
    given = {"network": f"{text_files.networks(tmp_path)}:{network}", "recipe": CALL["recipe"]}
    result = ramet.study(str(tmp_path / "stream.json"), plan=replace(PLAN, num_trials=1), out=tmp_path / "run", **given)
    assert result.metric.name == {"texts": "accuracy", "tables": "R²"}[kind]
    file = tmp_path / "run" / result.front[0].file
    assert JointNetwork.load(file, trust=True).names == ["first", "second"]


def test_a_trained_network_is_searched_by_all_that_is_free(tmp_path):
    """Each task may be bound to the weights that came, whatever the order is."""
    space = SequenceSpace(binding="free", order="free")
    plan = replace(PLAN, num_trials=4, sampler="random", space=space, networks="none")
    torch.manual_seed(0)
    ramet.study("split-digits:2", network=Layered(image_size=(8, 8), width=5), plan=plan, out=tmp_path / "run", **CALL)
    asked = [record["sequence"] for key, record in records_of(tmp_path / "run").items() if key.startswith("trial/")]
    assert len(asked) == 4 and all(len(sequence["deltas"]) == 2 for sequence in asked)
    assert "the trained network" in {to for sequence in asked for to in sequence["bindings"].values()}


def test_the_job_is_its_json():
    plan = StudyPlan(network="mine.py:network", start="weights.pt", classifier="fc", storage="")
    asked = StudyJob(plan=plan)
    assert StudyJob.from_json(json.loads(json.dumps(asked.to_json()))) == asked
    assert asked.code() == ["mine.py:network"]


def test_a_method_as_an_object_leaves_its_budget_to_a_trained_network(files):
    plan = replace(PLAN, network="of_a_user.py:network", start="trained.safetensors")
    built = StudyJob(stream="split-digits:2", plan=replace(plan, method=BindAndGrow(num_samples=12))).build(trust=True)
    assert built.sequences.method().budget == 0
    with pytest.raises(ConfigError, match=r"the budget must be 0 .* but got 0\.3"):
        StudyJob(plan=replace(plan, method=BindAndGrow(budget=0.3))).build(trust=True)


def test_a_study_of_a_chain_is_what_it_was_in_earlier_versions():
    """Runs and storages from before any network was taken are gone on with: their digests are those."""
    template = make_template("mlp", in_channels=1, image_size=(8, 8), num_classes=2)
    assert digest(template.to_json()) == "d503b81fc1fabf56db70c6a6b4c65c569f4b9be58cb382855e0546d42cbfdfd6"
    job = StudyJob(plan=StudyPlan(storage=""))
    built = job.build()
    assert built.search._setting(built.sequences)["network"] == digest(template.to_json())
    assert list(job.setting(built)) == ["stream", "tasks"]
    assert built.sequences.options["budget"] == 0.145 and built.sequences.base is None
