"""`ramet grow` as a job: what it records, that a kill changes nothing, and that its networks load without ramet."""

from __future__ import annotations

import gc
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from exactness import bits
from grow_files import arguments

from ramet.cli import main
from ramet.data import load
from ramet.errors import ConfigError
from ramet.growth import grow, load_network, make_network, save_network, tasks
from ramet.growth.growing import Growing
from ramet.jobs.grow import GrowJob
from ramet.runs import read_config, read_records
from ramet.training import Settings, accuracy

ROOT = Path(__file__).parents[2]


class Case:
    """One growth by two methods that was never disturbed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        main(self.arguments("undisturbed"))
        self.expected = self.content("undisturbed")

    def arguments(self, name: str) -> list[str]:
        return arguments(self.folder, name, "firefly,net2net")

    def records(self, name: str) -> dict[str, dict[str, Any]]:
        return {record["key"]: record for record in read_records(self.folder / name)}

    def content(self, name: str) -> object:
        """The records to the last bit, without measured times."""
        return bits({key: value for key, value in self.records(name).items() if not key.endswith("/seconds")})


pytestmark = pytest.mark.xdist_group("grow_job")  # the run that they share is made once


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case(tmp_path_factory.mktemp("grow"))


def test_every_step_is_recorded_and_the_test_set_comes_last(case: Case) -> None:
    records = read_records(case.folder / "undisturbed")
    keys = [record["key"] for record in records]
    for method in ("firefly", "net2net"):
        for number in range(3):
            step = case.records("undisturbed")[f"{method}/step-{number:03d}"]
            assert step["number"] == number and 0 <= step["score"] <= 1 and step["sizes"]["params"] > 0
            assert step["widened"] or step["layers"]  # also before the first training, by the recipe's begin
            assert case.records("undisturbed")[f"{method}/step-{number:03d}/seconds"]["training"] > 0
        assert keys.index(f"{method}/end") < keys.index("firefly")
    assert keys[-3:] == ["firefly", "net2net", "result"]
    tested = [record for record in records if "test" in record]
    assert [record["key"] for record in tested] == ["against/plain", "firefly", "net2net"]
    assert keys.index("net2net/end") < keys.index("against/plain"), "nothing is chosen on test data"
    result = records[-1]
    for method, entry in result["methods"].items():
        assert entry["params"] == entry["steps"][-1]["sizes"]["params"] <= 400
        assert entry["test"] == case.records("undisturbed")[method]["test"]
    assert result["refusals"] == [{"name": "8", "reason": "it is the network's output"}]


def test_methods_start_from_the_same_network(case: Case) -> None:
    first = [case.records("undisturbed")[f"{method}/step-000"] for method in ("firefly", "net2net")]
    assert first[0]["score"] == first[1]["score"] and first[0]["loss"] == first[1]["loss"]


def test_the_first_training_is_done_once_for_all_methods(case: Case) -> None:
    """The seconds that it took are measured: two trainings never have the same."""
    seconds = [case.records("undisturbed")[f"{method}/step-000/seconds"] for method in ("firefly", "net2net")]
    assert seconds[0]["training"] == seconds[1]["training"] > 0


def test_weights_count_as_trained_unless_a_function_draws_them(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    body = """
    import torch

    def drawn(num_classes):
        layers = torch.nn.Flatten(), torch.nn.Linear(64, 4), torch.nn.ReLU(), torch.nn.Linear(4, num_classes)
        return torch.nn.Sequential(*layers)

    def read(num_classes):
        torch.manual_seed(7)
        return drawn(num_classes)
    """
    own.write_text(textwrap.dedent(body))
    networks = {"mlp:4": False, f"{own}:drawn": False, f"{own}:read": True}
    assert {name: GrowJob(network=name).build(trust=True).is_trained for name in networks} == networks
    assert GrowJob(network=make_network("mlp:4", in_channels=1, image_size=(8, 8), num_classes=10)).build().is_trained


@pytest.mark.slow
def test_a_method_alone_ends_with_the_bits_that_it_has_in_a_comparison(case: Case) -> None:
    """Alone it does the first training itself."""
    main(arguments(case.folder, "alone", "net2net"))
    found = {name: case.records(name) for name in ("undisturbed", "alone")}
    for key in ("net2net/step-000", "net2net/step-001", "net2net/step-002", "net2net"):
        both = [{name: value for name, value in found[run][key].items() if name != "identity"} for run in found]
        assert bits(both[0]) == bits(both[1])


def test_the_configuration_makes_the_same_job(case: Case) -> None:
    config = read_config(case.folder / "undisturbed")["config"]
    assert GrowJob.from_json(config).to_json() == config
    with pytest.raises(ConfigError, match="must hold fields of GrowJob, but has 'speed'"):
        GrowJob.from_json(config | {"speed": 1})


def start(*parts: str) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "ramet", *parts],
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def newest(run: Path) -> int:
    """How far the checkpoints of a run are; they are written after every mini-batch."""
    steps = [int(path.stem.removeprefix("step-")) for path in run.glob("checkpoints/*/step-*.json")]
    return max(steps, default=0)


def killed_and_resumed(case: Case, name: str, num_kills: int, seed: int, workers: str = "1") -> int:
    draw, run, hits = random.Random(seed), case.folder / name, 0
    process = start(*case.arguments(name), "--workers", workers)
    for _ in range(num_kills):
        aim = newest(run) + draw.randint(1, 25)
        while process.poll() is None and newest(run) < aim:
            time.sleep(0.02)
        process.kill()
        process.communicate()
        hits += process.returncode == -signal.SIGKILL
        if not (run / "config.json").exists():
            shutil.rmtree(run, ignore_errors=True)
            process = start(*case.arguments(name), "--workers", workers)
        else:
            process = start("resume", str(run), "--trust", "--workers", workers, "--checkpoint-every", "0")
    _, stderr = process.communicate()
    assert process.returncode == 0, stderr
    return hits


@pytest.mark.slow
def test_a_killed_growth_ends_as_if_it_had_never_stopped(case: Case) -> None:
    assert killed_and_resumed(case, "killed", 2, seed=0) >= 1
    assert case.content("killed") == case.expected
    for method in ("firefly", "net2net"):
        tensors = [
            (case.folder / name / "networks" / method / "weights.safetensors").read_bytes()
            for name in ("killed", "undisturbed")
        ]
        assert tensors[0] == tensors[1]


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_growth_survives_many_kills(case: Case, workers: str) -> None:
    assert killed_and_resumed(case, f"killed-often-{workers}", 8, seed=1, workers=workers) >= 3
    assert case.content(f"killed-often-{workers}") == case.expected


def test_records_that_a_kill_prevented_are_written_on_resuming(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    copied = case.folder / "torn"
    shutil.copytree(case.folder / "undisturbed", copied)
    lines = (copied / "records.jsonl").read_bytes().splitlines(keepends=True)
    (copied / "records.jsonl").write_bytes(b"".join(lines[:4]))
    main(["resume", str(copied), "--trust", "--json"])
    assert case.content("torn") == case.expected
    assert json.loads(capsys.readouterr().out)["methods"].keys() == {"firefly", "net2net"}


def test_a_finished_growth_gives_its_result_again(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(case.folder / "undisturbed")
    capsys.readouterr()
    main(["report", run, "--json"])
    reported = capsys.readouterr().out
    main(["resume", run, "--trust", "--json"])
    assert capsys.readouterr().out == reported
    assert case.content("undisturbed") == case.expected


def test_a_network_that_changed_meanwhile_is_refused(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    copied = case.folder / "changed"
    shutil.copytree(case.folder / "undisturbed", copied)
    config = json.loads((copied / "config.json").read_text())
    config["config"]["sizes"]["width"] = 4
    (copied / "config.json").write_text(json.dumps(config))
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        main(["resume", str(copied), "--trust"])
    assert caught.value.code == 2
    assert "the layers of" in (message := capsys.readouterr().err) and "changed since" in message


def test_code_that_a_run_names_needs_trust(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        main(["resume", str(case.folder / "undisturbed")])
    message = capsys.readouterr().err
    assert caught.value.code == 2 and "--trust" in message and "network_to_grow" in message


LOADER = """
import sys, torch
sys.modules["ramet"] = None  # importing it now fails
network = torch.export.load(sys.argv[1] + "/network.pt2").module()
x = torch.randn(7, 1, 8, 8, generator=torch.Generator().manual_seed(0))
torch.set_printoptions(precision=8)
print([round(v, 4) for v in network(x).flatten().tolist()])
"""


@pytest.mark.parametrize("method", ["firefly", pytest.param("net2net", marks=pytest.mark.slow)])
def test_a_grown_network_loads_without_ramet_and_with_it(case: Case, method: str, tmp_path: Path) -> None:
    folder = case.folder / "undisturbed" / "networks" / method
    script = tmp_path / "loader.py"
    script.write_text(LOADER)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-I", str(script), str(folder)], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert done.returncode == 0, done.stderr
    network = load_network(folder, trust=True)
    x = torch.randn(7, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(network(x).flatten(), torch.tensor(json.loads(done.stdout)), atol=2e-4, rtol=0)
    entry = case.records("undisturbed")["result"]["methods"][method]
    assert sum(parameter.numel() for parameter in network.parameters()) == entry["params"]
    test = load("digits", seed=0, train_size=100, eval_size=40, validation_fraction=0.2).test
    assert accuracy(network, test.x, test.y) == entry["test"]


def test_a_folder_without_a_network_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"must hold network\.json and its weights"):
        load_network(tmp_path, trust=True)


@pytest.mark.slow
def test_a_saved_network_grows_on(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    """It begins with what was saved, and what is written holds both growths: it needs the first folder no more."""
    first = case.folder / "undisturbed" / "networks" / "net2net"
    before = load_network(first, trust=True)
    options = ["--data", "digits", "--train-size", "100", "--eval-size", "40", "--batch-size", "20", "--epochs", "1"]
    grown = [
        *options,
        "--network",
        str(first),
        "--budget",
        "params=800",
        "--max-steps",
        "1",
        "--method",
        "net2net",
        "--begin",
        "0",
    ]
    with pytest.raises(SystemExit):
        main(["grow", *grown, "--out", str(case.folder / "refused")])
    assert "runs only with --trust" in capsys.readouterr().err and not (case.folder / "refused").exists()
    main(["grow", *grown, "--trust", "--out", str(case.folder / "more"), "--json"])
    result = json.loads(capsys.readouterr().out)
    size = sum(param.numel() for param in before.parameters())
    assert result["methods"]["net2net"]["steps"][0]["sizes"]["params"] == size
    assert result["start"] and result["network"].endswith(":network")
    after = load_network(case.folder / "more" / "networks" / "net2net", trust=True)
    found = sum(param.numel() for param in after.parameters())
    assert found == result["methods"]["net2net"]["params"] > size
    main(["resume", str(case.folder / "more"), "--trust", "--json"])
    assert json.loads(capsys.readouterr().out) == result


def test_a_folder_is_a_network_for_the_loop_too(tmp_path: Path) -> None:
    digits = load("digits", train_size=100, eval_size=40, seed=0)
    folder = tmp_path / "saved"
    network = make_network("mlp:3", in_channels=1, image_size=(8, 8), num_classes=10)
    origin = {"network": "mlp:3", "in_channels": 1, "image_size": [8, 8], "num_classes": 10}
    save_network(network, folder, steps=[], origin=origin)
    recipe = Settings(epochs=1, batch_size=20, learning_rate=0.05)
    options: dict[str, Any] = {"settings": recipe, "max_steps": 1}
    expected, _ = grow(network, digits, "neurons=7, step=1", "net2net", **options)
    found, _ = grow(folder, digits, "neurons=7, step=1", "net2net", **options)
    assert all(torch.equal(value, expected.state_dict()[name]) for name, value in found.state_dict().items())


def test_one_growth_is_in_memory_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one before is in a cycle with what saves it; of a large network it would be five networks."""
    made: list[weakref.ref[Growing]] = []

    class Noted(Growing):
        def __init__(self, **options: Any) -> None:
            assert [each for each in made if each() is not None] == []
            made.append(weakref.ref(self))
            super().__init__(**options)

    monkeypatch.setattr(tasks, "Growing", Noted)
    gc.disable()  # so that nothing is freed by chance
    try:
        main([*arguments(tmp_path, "run", "net2net"), "--executor", "inline"])
    finally:
        gc.enable()
    assert len(made) > 2
