"""One study, several runs: a dead one's trial is run again once, and a fresh storage is made by many at once."""

from __future__ import annotations

import json
import secrets
import subprocess
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from caught import caught
from tiny_study import OPTIONS, in_second_trial, join_together, start

from campaigns.postgres_server import Server, serving
from ramet.cli import main
from ramet.continual.study.leases import AGAIN, OWNER, TrialLeases
from ramet.continual.study.storage import StudyStorage, import_optuna
from ramet.errors import ConfigError
from ramet.runs import read_records

SETTING = {"stream": "a"}


@pytest.fixture(scope="module")
def server(find_program: Callable[[str], str]) -> Iterator[Server]:
    with serving(find_program) as running:
        yield running


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.needs_program)])
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Gives addresses of storages that nobody has used yet."""
    if request.param == "sqlite":
        return lambda: f"sqlite:///{tmp_path / f'shared-{secrets.token_hex(4)}.db'}"
    return request.getfixturevalue("server").fresh  # type: ignore[no-any-return]


@pytest.fixture
def address(fresh: Callable[[], str]) -> str:
    """A storage that nobody has used yet."""
    return fresh()


class Clock:
    """A time that passes when it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def member(address: str, name: str, clock: Clock) -> TrialLeases:
    storage = StudyStorage(address)
    study = storage.join("together", SETTING, may_adopt=False)
    return TrialLeases(study, storage, name, 30.0, clock)


def states(leases: TrialLeases) -> list[str]:
    return [trial.state.name for trial in leases.known()]


def test_a_dead_runs_trial_is_queued_once_whoever_notices(address: str) -> None:
    clock = Clock()
    dead, first, second = (member(address, name, clock) for name in ("dead", "first", "second"))
    trial = dead.ask(1)
    trial.suggest_float("delta", 0.0, 1.0)
    for leases in (first, second):
        assert leases.requeue_dead() == []  # the first time that they hear of it
    clock.now = 29.0
    assert first.requeue_dead() == second.requeue_dead() == []
    clock.now = 31.0
    assert [leases.requeue_dead() for leases in (first, second)] == [[0], []]
    assert states(first) == ["FAIL", "WAITING"]
    again = second.ask(2)
    assert again.number == 1 and again.user_attrs[AGAIN] == 0 and again.user_attrs[OWNER] == "second"
    assert again.suggest_float("delta", 0.0, 1.0) == trial.params["delta"]
    assert second.tell(again, [0.5, 10]) and states(first) == ["FAIL", "COMPLETE"]
    # It was only asleep: what it says now does not count.
    assert not dead.tell(trial, [0.9, 5]) and states(first) == ["FAIL", "COMPLETE"]
    dead.fail(trial, "too late")
    assert "error" not in first.known()[0].user_attrs


def test_a_beating_run_keeps_its_trial_and_a_locked_one_takes_its_own_up(address: str) -> None:
    clock = Clock()
    slow, other = (member(address, name, clock) for name in ("slow", "other"))
    slow.silence = 0.06
    trial = slow.ask(1)
    other.requeue_dead()
    with slow.beating([trial]):
        before = other.study._storage.get_trial(trial._trial_id).user_attrs["beat"]
        wait_until(lambda: other.study._storage.get_trial(trial._trial_id).user_attrs["beat"] != before)
    clock.now = 1000.0
    assert other.requeue_dead() == []  # it has said something since
    assert [left.number for left in slow.left(slow.known())] == [0] and other.left(other.known()) == []


def wait_until(condition: Callable[[], bool]) -> None:
    import time

    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_no_more_trials_are_kept_than_were_wanted(address: str) -> None:
    clock = Clock()
    first, second = (member(address, name, clock) for name in ("first", "second"))
    asked = [leases.ask(2) for leases in (first, second, first)]  # three at the same moment, where two are wanted
    assert first.give_back_superfluous([asked[0], asked[2]], 2) == [asked[0]]
    assert second.give_back_superfluous([asked[1]], 2) == [asked[1]]
    assert states(first) == ["RUNNING", "RUNNING", "FAIL"]


def test_a_study_of_another_setting_is_refused(address: str) -> None:
    storage = StudyStorage(address)
    storage.join("together", SETTING, may_adopt=False)
    storage.check("together", SETTING)
    storage.check("alone", {"stream": "b"})
    for refuse in (
        lambda: storage.check("together", {"stream": "b"}),
        lambda: storage.join("together", {"stream": "b"}, may_adopt=False),
    ):
        with pytest.raises(ConfigError, match="has another stream; another --name begins a new study") as caught:
            refuse()
        assert caught.value.exit_code == 2


def test_a_study_of_another_program_is_refused(address: str) -> None:
    optuna = import_optuna()
    storage = StudyStorage(address)
    optuna.create_study(storage=storage.open(), study_name="together").enqueue_trial({})
    with pytest.raises(ConfigError, match="has another purpose"):
        storage.check("together", SETTING)


def test_processes_make_a_fresh_storage_at_the_same_moment(address: str) -> None:
    identities = join_together(address, 4)
    assert len(identities) == 4 and len(set(identities)) == 1
    study = StudyStorage(address).join("together", SETTING, may_adopt=False)
    assert len({trial.user_attrs["by"] for trial in study.trials}) == 4
    assert [trial.number for trial in study.trials] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "fresh",
    [
        pytest.param("sqlite", marks=pytest.mark.slow),
        pytest.param("postgres", marks=[pytest.mark.needs_program, pytest.mark.slow]),
    ],
    indirect=True,
)
def test_a_killed_worker_does_not_block_the_study(
    fresh: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Silence is a second: a machine that is busy for longer takes a trial from the living, and nothing is lost then.
    command = ["study", *OPTIONS, "--trials", "4", "--silence", "1"]
    addresses = []

    def begin(folder: Path) -> subprocess.Popen[str]:
        addresses.append(fresh())
        return start(*command, "--out", str(folder), "--checkpoint-every", "0", RAMET_STORAGE=addresses[-1])

    first = caught(begin, tmp_path / "first", in_second_trial)
    first.kill()
    first.communicate()
    address = addresses[-1]

    monkeypatch.setenv("RAMET_STORAGE", address)
    main([*command, "--out", str(tmp_path / "second"), "--json"])
    result = json.loads(capsys.readouterr().out)
    study = StudyStorage(address).join("grow-sequences", _setting(address), may_adopt=False)
    finished = [trial for trial in study.trials if trial.state.name == "COMPLETE"]
    assert len(finished) == 4 == result["num_trials"]
    assert all(trial.state.is_finished() for trial in study.trials)
    killed = study.trials[1]
    repeated = [trial for trial in study.trials if trial.user_attrs.get(AGAIN) == 1]
    assert killed.state.name == "FAIL" and len(repeated) == 1
    assert killed.params.items() <= repeated[0].params.items()
    # The whole front is here, whoever found it; a network that was trained again is what its finder kept.
    for row in result["front"]:
        assert (tmp_path / "second" / row["file"]).exists() and row["test_gain"] is not None
    if 0 in {row["trial"] for row in result["front"]}:
        files = [tmp_path / run / "networks" / "trial-0.safetensors" for run in ("first", "second")]
        assert files[0].read_bytes() == files[1].read_bytes()
    _assert_kept_nowhere(address, tmp_path)

    # The killed run goes on as well, and finds nothing left to do but its own report.
    main(["resume", str(tmp_path / "first"), "--json"])
    again = json.loads(capsys.readouterr().out)
    assert [row["trial"] for row in again["front"]] == [row["trial"] for row in result["front"]]
    assert len(study.get_trials()) == len(study.trials)


def _setting(address: str) -> dict[str, str]:
    study = import_optuna().load_study(study_name="grow-sequences", storage=StudyStorage(address).open())
    return dict(study.user_attrs["setting"])


def _assert_kept_nowhere(address: str, folder: Path) -> None:
    """No file of a run holds the password."""
    if not address.startswith("postgresql"):
        return
    password = address.split(":")[2].split("@")[0].encode()
    for path in (path for path in folder.rglob("*") if path.is_file()):
        assert password not in path.read_bytes(), path
    config = json.loads((folder / "second" / "config.json").read_text())
    assert ":***@" in config["config"]["plan"]["storage"]


@pytest.mark.needs_program
def test_a_wrong_password_is_refused_and_not_shown(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = "tops3cretword"
    for address, words in (
        (server.address(password=secret), "password authentication failed"),
        (server.address("nowhere"), 'database "nowhere" does not exist'),
    ):
        with pytest.raises(SystemExit) as caught:
            main(["study", *OPTIONS, "--storage", address, "--out", str(tmp_path / "run")])
        output, errors = capsys.readouterr()
        assert caught.value.code == 2 and output == "" and errors.count("\n") == 1
        assert errors.startswith("ramet: ") and words in errors and "ann:***@" in errors
        assert secret not in errors and server.password not in errors
        text = "".join(traceback.format_exception(caught.value))
        assert secret not in text and server.password not in text
    assert not (tmp_path / "run").exists()


@pytest.mark.needs_program
def test_resuming_asks_for_the_password(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    address, run = server.fresh(), tmp_path / "run"
    monkeypatch.delenv("RAMET_STORAGE", raising=False)
    main(["study", *OPTIONS, "--trials", "1", "--out", str(run), "--storage", address, "--json"])
    result = json.loads(capsys.readouterr().out)
    records = run / "records.jsonl"
    whole = records.read_text()
    records.write_text("".join(whole.splitlines(keepends=True)[:-1]))  # as if it was killed before its end
    assert "result" not in {record["key"] for record in read_records(run)}
    with pytest.raises(SystemExit) as caught:
        main(["resume", str(run)])
    assert caught.value.code == 2
    assert "must be in the environment variable RAMET_STORAGE, which is empty" in capsys.readouterr().err
    monkeypatch.setenv("RAMET_STORAGE", address)
    main(["resume", str(run), "--json"])
    assert json.loads(capsys.readouterr().out) == result and records.read_text() == whole
    monkeypatch.delenv("RAMET_STORAGE")  # finished: the storage is not needed any more
    main(["resume", str(run), "--json"])
    assert json.loads(capsys.readouterr().out) == result


def test_a_run_does_not_go_on_with_a_study_made_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from test_sequences import search

    from ramet.runs import Run

    options: dict[str, Any] = {"storage": f"sqlite:///{tmp_path / 'shared.db'}", "networks": "none"}
    search(tmp_path / "run", 1, **options)
    (tmp_path / "shared.db").unlink()
    with pytest.raises(ConfigError, match="goes on with the study it began with"):
        search(tmp_path, 1, run=Run.open(tmp_path / "run"), **options)
