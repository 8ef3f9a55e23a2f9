"""`ramet learn` from its options to its report: workers, interruptions, several seeds, a network that goes on."""

from __future__ import annotations

import json

import pytest
import torch

from ramet.cli import main
from ramet.continual import JointNetwork
from ramet.continual.job import LearnJob, learn_stream, resume
from ramet.execution import make_executor
from ramet.reports.learn import learn_table
from ramet.runs import read_records
from ramet.training import Settings

SETTINGS = Settings(epochs=2, batch_size=16, learning_rate=0.05, final_learning_rate=0.0, weight_decay=0.0)
SMALL = {"train_size": 120, "eval_size": 100}


def job(**options):
    given = {"stream": "split-digits:3", "stream_options": SMALL, "network": "mlp:12,8", "settings": SETTINGS}
    return LearnJob(**{**given, "methods": ("naive", "packnet"), **options})


def without_time(result):
    result = json.loads(json.dumps(result))
    for entry in result["methods"].values():
        del entry["figures"]["seconds"]
    return result


def test_two_workers_and_a_kill_give_the_same_result(tmp_path, monkeypatch):
    whole = learn_stream(job(), tmp_path / "one", make_executor(1))

    import ramet.continual.job as module

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
            learn_stream(job(), tmp_path / "two", make_executor(1))
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
    result = learn_stream(job(methods=("naive",), seeds=2), tmp_path / "run", make_executor(1))
    assert list(result["methods"]) == ["individual", "naive"]
    accuracy = result["methods"]["naive"]["figures"]["average_accuracy"]
    assert accuracy["mean"] == pytest.approx(sum(accuracy["values"]) / 2)
    assert len(set(accuracy["values"])) == 2 and accuracy["deviation"] > 0
    assert result["methods"]["individual"]["figures"]["average_gain"]["values"] == [0.0, 0.0]
    assert result["methods"]["naive"]["matrix"][0][1:] == [None, None]
    assert "naive" in learn_table(result).to_text()
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
    learn_stream(job(methods=("packnet",)), tmp_path / "first", make_executor(1))
    file = tmp_path / "first" / "networks" / "packnet-0.safetensors"
    before = JointNetwork.load(file)
    options = {"stream": "rotated-digits:2", "methods": ("naive",), "onto": str(file), "seed": 7}
    result = learn_stream(job(**options), tmp_path / "second", make_executor(1))
    after = JointNetwork.load(tmp_path / "second" / result["methods"]["onto"]["file"])
    assert after.names == [*before.names, "digits at 0 degrees", "digits at 90 degrees"]
    x = torch.randn(5, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    for name in before.names:
        assert torch.equal(before.task(name)(x), after.task(name)(x))


def test_tasks_that_a_network_knew_before_are_said_to_be_unmeasured(tmp_path, capsys):
    """A naive network loses the tasks of its first stream while it learns a second; only the second is measured."""
    learn_stream(job(methods=("naive",), stream="split-digits:5"), tmp_path / "first", make_executor(1))
    file = tmp_path / "first" / "networks" / "naive-0.safetensors"
    asked = job(stream="rotated-digits:2", methods=("naive",), onto=str(file))
    result = learn_stream(asked, tmp_path / "second", make_executor(1))
    assert result["methods"]["onto"]["unmeasured"] == JointNetwork.load(file).names
    assert result["methods"]["onto"]["forgets_nothing"] is None, "neither yes nor no"
    assert result["methods"]["naive"]["unmeasured"] == []
    note = "The 5 tasks that onto knew before were not measured"
    assert note in (tmp_path / "second" / "report.html").read_text()
    for command in (["resume", str(tmp_path / "second")], ["report", str(tmp_path / "second")]):
        main(command)
    assert note in capsys.readouterr().out
    main(["resume", str(tmp_path / "first")])
    assert "not measured" not in capsys.readouterr().out
    main(["resume", str(tmp_path / "second"), "--json"])
    assert json.loads(capsys.readouterr().out)["methods"]["onto"]["unmeasured"][0] == "digits 0 1"


def test_the_job_is_its_json():
    asked = job(seeds=2, scenario="all")
    assert LearnJob.from_json(json.loads(json.dumps(asked.to_json()))) == asked


def test_resume_and_report_know_a_stream(tmp_path, capsys):
    learn_stream(job(methods=("naive",)), tmp_path / "run", make_executor(1))
    (tmp_path / "run" / "report.html").unlink()
    main(["report", str(tmp_path / "run")])
    assert (tmp_path / "run" / "report.html").exists()
    first = capsys.readouterr().out
    main(["resume", str(tmp_path / "run")])
    assert capsys.readouterr().out == first and "naive" in first


def test_the_records_say_whose_units_each_task_uses(tmp_path):
    methods = ("packnet:prune=0.5", "firefly:neurons=4,candidates=3", "progressive", "bind-and-grow")
    result = learn_stream(job(methods=methods), tmp_path / "run", make_executor(1))
    for name, entry in result["methods"].items():
        net = JointNetwork.load(tmp_path / "run" / entry["file"])
        if name.startswith("bind"):
            # A task's path is what its exported network consists of.
            sizes = {node["id"]: node["parameters"] for node in entry["graph"]["nodes"]}
            for task, keys in entry["graph"]["paths"].items():
                assert sum(sizes[key] for key in keys) == sum(p.numel() for p in net.task(task).parameters())
            continue
        assert (entry["units"] is None) == (name == "individual")
        for place, task in enumerate(result["tasks"]):
            module = net.task(task)
            for layer, uses in enumerate(entry["units"]["uses"][task] if entry["units"] else ()):
                assert len(uses) == place + 1
                if name == "progressive":
                    assert uses == [(12, 8)[layer]] * (place + 1)
                    continue
                weights = module[layer].weights.weight
                expected = int((weights != 0).sum()) if name.startswith("packnet") else len(weights)
                assert sum(uses) == expected
    rows = [row for record in read_records(tmp_path / "run") for row in record.get("rows", ())]
    assert rows and not any("graph" in row for row in rows)  # once, at the end: else records grow with the square
