"""`ramet study` from its options to its report: killed in the middle of a trial, exported, blind to test data."""

from __future__ import annotations

import json
import socket
import sys
from dataclasses import replace

import pytest
import torch
from caught import caught
from tiny_study import OPTIONS, in_second_trial, start

import ramet.continual.study.sequences as sequences
from ramet.cli import main
from ramet.continual import JointNetwork, make_stream
from ramet.continual.study.address import is_masked, masked, scrubbed
from ramet.continual.study.space import GrowSequence
from ramet.jobs.study.job import StudyJob
from ramet.jobs.study.result import FrontPoint, StudyResult
from ramet.runs import read_config, read_records

STUDY = ["study", *OPTIONS, "--trials", "5"]


pytestmark = pytest.mark.xdist_group("study_job")  # the run that they share is made once


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A study that was never interrupted, and its result."""
    folder = tmp_path_factory.mktemp("study") / "whole"
    main([*STUDY, "--out", str(folder)])
    return folder, {record["key"]: record for record in read_records(folder)}


def files(folder):
    return {path.name: path.read_bytes() for path in (folder / "networks").iterdir()}


@pytest.mark.slow
def test_a_study_killed_in_the_middle_of_a_trial_ends_as_if_never_stopped(whole, tmp_path, capsys):
    folder = tmp_path / "killed"
    process = caught(
        lambda folder: start(*STUDY, "--out", str(folder), "--checkpoint-every", "0"), folder, in_second_trial
    )
    process.kill()
    process.communicate()
    keys = {record["key"] for record in read_records(folder)}
    assert "trial/0" in keys and "trial/1" not in keys
    main(["resume", str(folder)])
    capsys.readouterr()
    records = {record["key"]: record for record in read_records(folder)}
    expected = whole[1]
    assert records.keys() == expected.keys()
    for key in records.keys() - {"member"}:
        assert records[key] == expected[key], key
    assert files(folder) == files(whole[0])
    assert not list(folder.glob("checkpoints/trial-*"))


@pytest.mark.slow
def test_the_number_of_workers_changes_nothing(whole, tmp_path, capsys):
    main([*STUDY, "--out", str(tmp_path / "run"), "--workers", "2"])
    records = {record["key"]: record for record in read_records(tmp_path / "run")}
    assert records["result"] == whole[1]["result"]
    assert files(tmp_path / "run") == files(whole[0])


def test_the_front_is_tested_once_and_at_the_end(whole):
    folder, records = whole
    result = records["result"]
    front = {row["trial"] for row in result["front"]}
    assert {key for key in records if key.startswith("test/")} == {f"test/{number}" for number in front}
    keys = list(records)
    assert min(keys.index(f"test/{number}") for number in front) > max(keys.index(f"trial/{n}") for n in range(5))
    for number in range(5):
        assert not any("test" in name for name in records[f"trial/{number}"])
    stream = make_stream("split-digits:3", train_size=60, eval_size=60, validation_fraction=0.2)
    for row in result["front"]:
        network = JointNetwork.load(folder / row["file"])
        assert network.num_parameters() == row["parameters"] and sorted(network.names) == sorted(stream.names)
        for task in stream:
            right = network.task(task.name)(task.dataset.test.x).argmax(1) == task.dataset.test.y
            assert row["accuracies"][task.name] == pytest.approx(right.float().mean().item())
        gains = [row["accuracies"][name] - records[f"alone/{name}"]["test"] for name in stream.names]
        assert row["test_gain"] == pytest.approx(sum(gains) / 3)


def test_a_trial_cannot_see_test_data():
    task = make_stream("split-digits:3", train_size=60)[0]
    blind = sequences._without_test(task)
    assert torch.equal(blind.dataset.test.x, task.dataset.validation.x) and blind.info == task.info


def test_a_point_of_the_front_takes_another_stream(whole, tmp_path, capsys):
    folder, records = whole
    file = folder / records["result"]["front"][0]["file"]
    options = ["--stream", "rotated-digits:2", "--train-size", "60", "--epochs", "1", "--network", "mlp:8"]
    main(["learn", *options, "--method", "naive", "--onto", str(file), "--out", str(tmp_path / "more"), "--json"])
    result = json.loads(capsys.readouterr().out)
    after = JointNetwork.load(tmp_path / "more" / result["methods"]["onto"]["file"])
    assert after.names == [*JointNetwork.load(file).names, "digits at 0 degrees", "digits at 90 degrees"]


def test_the_report_shows_the_front_and_is_written_again(whole, capsys):
    folder, records = whole
    first = (folder / "report.html").read_text()
    (folder / "report.html").unlink()
    main(["report", str(folder)])
    printed = capsys.readouterr().out
    assert (folder / "report.html").read_text() == first
    begin, *_ = StudyResult.load(folder).words()
    assert begin in printed and begin.split(":")[0].split(".")[0] in first
    for row in records["result"]["front"]:
        assert f"trial-{row['trial']}.safetensors" in printed
    main(["report", str(folder), "--json"])
    assert json.loads(capsys.readouterr().out)["front"] == records["result"]["front"]


def test_the_smallest_network_that_is_level_is_recommended(whole):
    def point(gain, parameters):
        sequence = GrowSequence(("a", "b"), {"b": 0.5})
        return FrontPoint(trial=0, gain=gain, parameters=parameters, sequence=sequence, bound_to=None, generation=0)

    front = [point(0.01, 5), point(0.029, 7), point(0.03, 9)]
    result = replace(StudyResult.load(whole[0]), front=front)
    assert result.recommended == front[1] and "Begin with trial 0" in result.words()[0]


def test_a_study_that_reaches_no_individual_networks_says_so(whole):
    """98 % of their size for less accuracy is no recommendation."""
    loaded = StudyResult.load(whole[0])

    def judged(gain):
        point = replace(loaded.front[0], gain=gain, test_gain=gain, parameters=round(0.98 * loaded.alone.parameters))
        return replace(loaded, front=[point])

    worse = judged(-0.031)
    assert not worse.reaches_individual
    assert worse.words()[0].startswith("No trial reaches individual networks. Keep those, unless 98% of their para")
    assert "is worth 3.1 points" in worse.words()[0]
    html = worse.page({}).html()
    assert "No trial reaches individual networks" in html and "Begin with trial" not in html
    level = judged(-0.001)
    assert level.reaches_individual and "Begin with trial" in level.page({}).html()


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://ann:s3cret@db/lab", "postgresql://ann:***@db/lab"),
        ("postgresql+psycopg://ann:p@ss/w?rd@db/lab", "postgresql+psycopg://ann:***@db/lab"),
        ("mysql://db/lab?user=ann&password=s3cret&x=1", "mysql://db/lab?user=ann&password=***&x=1"),
        ("postgresql://ann@db/lab", "postgresql://ann@db/lab"),
        ("sqlite:////data/study.db", "sqlite:////data/study.db"),
        ("", ""),
    ],
)
def test_passwords_are_masked(address, shown):
    assert masked(address) == shown and masked(shown) == shown
    assert is_masked(shown) == (address != shown)


def test_words_of_a_driver_are_scrubbed():
    address = "postgresql://ann:s%33cret@db/lab?sslpassword=other"
    assert scrubbed("s3cret or s%33cret or other", address) == "*** or *** or ***"


def test_a_job_is_its_json_but_for_the_password(monkeypatch):
    address = "postgresql+psycopg://ann:s3cret@db/lab"
    from ramet.continual import SequenceSpace, StudyPlan
    from ramet.errors import ConfigError

    job = StudyJob(plan=StudyPlan(storage=address, space=SequenceSpace(order="free")))
    text = json.dumps(job.to_json())
    assert "s3cret" not in text
    monkeypatch.delenv("RAMET_STORAGE", raising=False)
    with pytest.raises(ConfigError, match="RAMET_STORAGE, which is empty"):
        StudyJob.from_json(json.loads(text))
    monkeypatch.setenv("RAMET_STORAGE", "postgresql+psycopg://ann:s3cret@elsewhere/lab")
    with pytest.raises(ConfigError, match="but holds postgresql") as caught:
        StudyJob.from_json(json.loads(text))
    assert "s3cret" not in str(caught.value)
    monkeypatch.setenv("RAMET_STORAGE", address)
    assert StudyJob.from_json(json.loads(text)) == job


def test_a_relative_file_is_found_from_elsewhere(whole, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    main([*STUDY[:-1], "1", "--storage", "sqlite:///own.db", "--out", "run", "--networks", "none"])
    assert (tmp_path / "own.db").exists() and not (tmp_path / "run" / "study.db").exists()
    assert read_config(tmp_path / "run")["config"]["plan"]["storage"] == f"sqlite:///{tmp_path / 'own.db'}"


def test_a_server_that_does_not_answer_is_given_up(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("ramet.continual.study.storage.PATIENCE_SECONDS", 1.0)
    with socket.socket() as deaf:  # it takes connections, and never says a word
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        address = f"postgresql://ann:s3cret@127.0.0.1:{deaf.getsockname()[1]}/lab"
        with pytest.raises(SystemExit) as caught:
            main([*STUDY, "--storage", address, "--out", str(tmp_path / "run")])
    errors = capsys.readouterr().err
    assert caught.value.code == 2 and "must answer within 1 s, but does not" in errors and "s3cret" not in errors
    assert not (tmp_path / "run").exists()


def test_the_patience_is_less_than_ten_seconds():
    from ramet.continual.study.storage import PATIENCE_SECONDS

    assert PATIENCE_SECONDS < 10


def test_a_missing_driver_is_named(monkeypatch):
    from ramet.continual.study.address import engine_address
    from ramet.errors import MissingExtraError

    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'ramet\[postgres\]'"):
        engine_address("postgresql://ann@db/lab")
