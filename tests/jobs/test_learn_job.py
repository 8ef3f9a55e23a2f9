"""`ramet learn` from its options to its report: workers, interruptions, several seeds, a network that goes on."""

from __future__ import annotations

import json

import pytest
import torch

from ramet.cli import main
from ramet.continual import JointNetwork, Stream, learn
from ramet.continual.plan import LearnPlan
from ramet.continual.recipe import LearnRecipe
from ramet.data import InputForm
from ramet.errors import ConfigError
from ramet.execution import make_executor
from ramet.jobs.data_options import StreamOptions
from ramet.jobs.learn.earlier import EarlierTasks, check_earlier
from ramet.jobs.learn.job import LearnJob
from ramet.jobs.runner import resume, start
from ramet.runs import read_records
from ramet.testing.methods import make_stream as make_tasks
from ramet.training import accuracy

RECIPE = LearnRecipe(epochs=2, learning_rate=0.05)
SMALL = StreamOptions(train_size=120, eval_size=100)


def job(stream="split-digits:3", seed=0, **options):
    plan = LearnPlan(**{"network": "mlp:12,8", "methods": ("naive", "packnet"), **options})
    return LearnJob(stream=stream, data_options=SMALL, recipe=RECIPE, plan=plan, seed=seed)


def without_time(result):
    result = json.loads(json.dumps(result.to_json()))
    for entry in (*result["methods"].values(), *result["controls"].values()):
        del entry["figures"]["seconds"]
    return result


def test_two_workers_and_a_kill_give_the_same_result(tmp_path, monkeypatch):
    whole = start(job(), tmp_path / "one", make_executor(1))

    import ramet.jobs.learn.learning as module

    calls = []
    real = module.learn_one

    def killed(setup, method, place):
        calls.append(method)
        if method == "packnet":
            raise KeyboardInterrupt
        return real(setup, method, place)

    with monkeypatch.context() as patched:
        patched.setattr(killed, "__module__", module.__name__)
        patched.setattr(killed, "__qualname__", "learn_one")
        patched.setattr(module, "learn_one", killed)
        with pytest.raises(KeyboardInterrupt):
            start(job(), tmp_path / "two", make_executor(1))
    assert "packnet" in calls
    assert "result" not in {record["key"] for record in read_records(tmp_path / "two")}
    resumed = resume(tmp_path / "two", make_executor(2))
    assert without_time(whole) == without_time(resumed)
    for name in ("naive-0", "packnet-0", "individual-0"):
        files = [tmp_path / run / "networks" / f"{name}.safetensors" for run in ("one", "two")]
        assert files[0].read_bytes() == files[1].read_bytes()
    again = resume(tmp_path / "two", make_executor(1))
    assert again == resumed


def test_seeds_are_averaged_and_individual_networks_always_run(tmp_path):
    result = start(job(methods=("naive",), seeds=2), tmp_path / "run", make_executor(1))
    assert list(result.methods) == ["individual", "naive"]
    accuracy = result.methods["naive"].figures.average_accuracy
    assert accuracy.mean == pytest.approx(sum(accuracy.values) / 2)
    assert len(set(accuracy.values)) == 2 and accuracy.deviation > 0
    assert result.methods["individual"].figures.average_gain.values == [0.0, 0.0]
    assert result.methods["naive"].matrix[0][1:] == [None, None]
    assert "naive" in result.table().to_text()
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Accuracy on each task, after each task" in page and "digits 4 5 6" in page


def test_the_command_prints_a_table_or_json(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = ["--stream", "split-digits:2", "--train-size", "60", "--epochs", "1", "--network", "mlp:6"]
    main(["learn", *options, "--method", "naive,elastic:strength=10", "--out", "run"])
    printed = capsys.readouterr().out
    assert "elastic:strength=10" in printed and "Report: run/report.html" in printed
    main(["learn", *options, "--method", "naive", "--json", "--out", "other"])
    assert json.loads(capsys.readouterr().out)["methods"]["naive"]["figures"]["parameters"]["mean"] > 0


def test_a_saved_network_learns_another_stream(tmp_path):
    start(job(methods=("packnet",)), tmp_path / "first", make_executor(1))
    file = tmp_path / "first" / "networks" / "packnet-0.safetensors"
    before = JointNetwork.load(file)
    options = {"stream": "rotated-digits:2", "methods": ("naive",), "onto": str(file), "seed": 7}
    result = start(job(**options), tmp_path / "second", make_executor(1))
    after = JointNetwork.load(tmp_path / "second" / result.methods["onto"].file)
    assert after.names == [*before.names, "digits at 0 degrees", "digits at 90 degrees"]
    x = torch.randn(5, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    for name in before.names:
        assert torch.equal(before.task(name)(x), after.task(name)(x))


def test_tasks_that_a_network_knew_before_are_said_to_be_unmeasured(tmp_path, capsys):
    """A naive network loses the tasks of its first stream while it learns a second; only the second is measured."""
    start(job(methods=("naive",), stream="split-digits:5"), tmp_path / "first", make_executor(1))
    file = tmp_path / "first" / "networks" / "naive-0.safetensors"
    asked = job(stream="rotated-digits:2", methods=("naive",), onto=str(file))
    result = start(asked, tmp_path / "second", make_executor(1))
    assert result.methods["onto"].unmeasured == JointNetwork.load(file).names
    assert result.methods["onto"].forgets_nothing is None, "neither yes nor no"
    assert result.methods["naive"].unmeasured == []
    note = "The 5 tasks that onto knew before were not measured"
    assert note in (tmp_path / "second" / "report.html").read_text()
    for command in (["resume", str(tmp_path / "second")], ["report", str(tmp_path / "second")]):
        main(command)
    assert note in capsys.readouterr().out
    main(["resume", str(tmp_path / "first")])
    assert "not measured" not in capsys.readouterr().out
    main(["resume", str(tmp_path / "second"), "--json"])
    assert json.loads(capsys.readouterr().out)["methods"]["onto"]["unmeasured"][0] == "digits 0 1"


@pytest.mark.slow
def test_earlier_tasks_are_measured_before_and_after(tmp_path):
    """A naive network loses what it knew, packnet nothing; both are measured on the data of the first stream."""
    start(job(stream="split-digits:2"), tmp_path / "first", make_executor(1))
    found = {}
    for method in ("naive", "packnet"):
        file = tmp_path / "first" / "networks" / f"{method}-0.safetensors"
        asked = job(stream="rotated-digits:2", methods=("naive",), onto=str(file), earlier="split-digits:2")
        found[method] = start(asked, tmp_path / method, make_executor(1)).methods["onto"]
        known, data = JointNetwork.load(file), SMALL.streams("split-digits:2", range(1))[0]
        grown = JointNetwork.load(tmp_path / method / found[method].file)
        for task, told in zip(data, found[method].earlier, strict=True):
            test = task.dataset.test
            assert told.name == task.name
            assert told.before == accuracy(known.task(task.name), test.x, test.y)
            assert told.after == accuracy(grown.task(task.name), test.x, test.y)
    naive, packnet = found["naive"], found["packnet"]
    assert naive.forgets_nothing is False and not any(task.unchanged for task in naive.earlier)
    assert packnet.forgets_nothing is True and all(task.unchanged for task in packnet.earlier)
    assert naive.unmeasured == packnet.unmeasured == []
    assert "the worst of them" in (tmp_path / "naive" / "report.html").read_text()
    assert "2 stayed as they were, bit for bit" in (tmp_path / "packnet" / "report.html").read_text()
    with pytest.raises(ConfigError, match="earlier must be a stream with tasks that the network knows"):
        start(
            job(stream="rotated-digits:2", onto=str(file), earlier="rotated-digits:3"), tmp_path / "x", make_executor(1)
        )
    with pytest.raises(ConfigError, match="but got earlier without onto"):
        job(earlier="split-digits:2")


@pytest.mark.parametrize(("method", "unchanged"), [("naive", False), ("packnet", True)])
def test_what_becomes_of_an_earlier_task(method, unchanged):
    """Its weights are compared, and it is measured where its data are."""
    first, second = make_tasks(2)
    metric = RECIPE.metric_for(first.dataset.train.y)
    network = learn(Stream("first", [first]), method=method, network="mlp:5", settings=RECIPE).network
    measured = EarlierTasks(network, Stream("both", [second, first]), metric, "cpu")
    compared = EarlierTasks(network, None, metric, "cpu")
    test = first.dataset.test
    before = accuracy(network.task(first.name), test.x, test.y)
    network.learn(second.data())
    after = accuracy(network.task(first.name), test.x, test.y)
    told = {"name": first.name, "unchanged": unchanged}
    assert measured.compare(network) == [{**told, "before": before, "after": after}]
    assert compared.compare(network) == [{**told, "before": None, "after": None}]
    with pytest.raises(ConfigError, match="earlier must be a stream with tasks that the network knows"):
        check_earlier(SMALL.streams("split-digits:5", range(1))[0], network, "split-digits:5")


@pytest.mark.slow
def test_individual_networks_have_the_architecture_of_the_network_that_goes_on(tmp_path):
    start(job(stream="split-digits:2", methods=("naive",), network="mlp:9"), tmp_path / "first", make_executor(1))
    file = tmp_path / "first" / "networks" / "naive-0.safetensors"
    asked = job(stream="rotated-digits:2", methods=("naive",), onto=str(file), network="mlp:31,31")
    start(asked, tmp_path / "second", make_executor(1))
    alone = JointNetwork.load(tmp_path / "second" / "networks" / "individual-0.safetensors")
    assert alone.method.template.to_json() == JointNetwork.load(file).method.template.to_json()


@pytest.mark.slow
def test_a_grey_task_goes_onto_a_network_for_colours(tmp_path):
    """As within one stream, a grey image is repeated for each channel."""
    grey = SMALL.streams("split-digits:2", range(1))[0]
    first = learn(grey.in_channels_of(InputForm((3, 8, 8))), method="naive", network="mlp:5", settings=RECIPE)
    first.network.save(tmp_path / "colour.safetensors")
    asked = job(stream="rotated-digits:2", methods=("naive",), onto=str(tmp_path / "colour.safetensors"))
    result = start(asked, tmp_path / "run", make_executor(1))
    grown = JointNetwork.load(tmp_path / "run" / result.methods["onto"].file)
    assert [info.input_shape for info in grown.method.tasks] == [(3, 8, 8)] * 4
    assert grey.in_channels_of(InputForm((1, 8, 8))) is grey and grey.in_channels_of(InputForm((13,))) is grey


def test_the_job_is_its_json():
    asked = job(seeds=2, scenario="all")
    assert LearnJob.from_json(json.loads(json.dumps(asked.to_json()))) == asked


def test_resume_and_report_know_a_stream(tmp_path, capsys):
    result = start(job(methods=("naive",)), tmp_path / "run", make_executor(1))
    assert [task.split()[1:] for task in result.tasks] == result.classes
    (tmp_path / "run" / "report.html").unlink()
    main(["report", str(tmp_path / "run")])
    assert (tmp_path / "run" / "report.html").exists()
    first = capsys.readouterr().out
    main(["resume", str(tmp_path / "run")])
    assert capsys.readouterr().out == first and "naive" in first


def test_the_records_say_whose_units_each_task_uses(tmp_path):
    methods = ("packnet:prune=0.5", "firefly:neurons=4,candidates=3", "progressive", "bind-and-grow")
    result = start(job(methods=methods), tmp_path / "run", make_executor(1))
    for name, entry in result.methods.items():
        net = JointNetwork.load(tmp_path / "run" / entry.file)
        if name.startswith("bind"):
            # A task's path is what its exported network consists of.
            sizes = {node.id: node.parameters for node in entry.graph.nodes}
            for task, keys in entry.graph.paths.items():
                assert sum(sizes[key] for key in keys) == sum(p.numel() for p in net.task(task).parameters())
            continue
        assert (entry.units is None) == (name == "individual")
        for place, task in enumerate(result.tasks):
            module = net.task(task)
            for layer, uses in enumerate(entry.units.uses[task] if entry.units else ()):
                assert len(uses) == place + 1
                if name == "progressive":
                    assert uses == [(12, 8)[layer]] * (place + 1)
                    continue
                weights = module[layer].weights.weight
                expected = int((weights != 0).sum()) if name.startswith("packnet") else len(weights)
                assert sum(uses) == expected
    rows = [row for record in read_records(tmp_path / "run") for row in record.get("rows", ())]
    assert rows and not any("graph" in row for row in rows)  # once, at the end: else records grow with the square
