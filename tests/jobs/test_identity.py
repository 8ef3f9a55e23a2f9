"""A run goes on as itself: checkpoints of another and an edited configuration are refused, a later option is not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, make_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tiny_study import OPTIONS as STUDY

from ramet.cli import main
from ramet.continual.study.search import SequenceSearch
from ramet.continual.study.sequences import SequenceSetup
from ramet.continual.study.storage import StudyStorage, digest
from ramet.data import load
from ramet.errors import ConfigError
from ramet.execution import Inline
from ramet.fields import option
from ramet.jobs import job_class
from ramet.jobs.rank import rank
from ramet.jobs.runner import start
from ramet.ranking import SupernetSetup, TruthCache
from ramet.ranking.plan import Plan
from ramet.runs import Checkpoints, Run, differences, read_records
from ramet.runs.identity import agrees, as_before, unlike_defaults
from ramet.spaces import Cells64
from ramet.training import Settings
from ramet.training.recipe import FIRST_FIELDS

ROOT = Path(__file__).parents[2]
DIGITS = ["--train-size", "40", "--eval-size", "20", "--batch-size", "10"]
CELLS = ["--space", "cells64", "--channels", "2", "--cells", "1", "--epochs", "2"]
JOBS = {
    "rank": [
        *DIGITS, *CELLS, "--children", "3", "--instances", "1", "--last-steps", "1", "--last-epochs", "1", "--truth",
        "none", "--fine-tune-steps", "0",
    ],
    "search": [
        *DIGITS, *CELLS, "--warmup-epochs", "1", "--models-per-epoch", "1", "--batches-per-model", "2", "--candidates",
        "2", "--strategy-steps", "1", "--archs-per-step", "1", "--final-epochs", "1", "--final", "0",
    ],
    "grow": [*DIGITS, "--network", "mlp", "--method", "net2net", "--epochs", "1", "--max-steps", "1"],
    "learn": [
        "--stream", "split-digits:2", "--train-size", "60", "--epochs", "1", "--network", "mlp:6", "--method", "naive",
    ],
    "study": [*STUDY, "--trials", "1"],
}  # fmt: skip
NUM_SAVES = 4


class Killed(BaseException):
    """The process is gone."""


def killed(folder: Path, verb: str, seed: int) -> Path:
    """A run that ends with one of its first checkpoints."""
    saves: list[int] = []
    save = Checkpoints.save

    def last_save(self: Checkpoints, step: int, *content: Any) -> None:
        save(self, step, *content)
        saves.append(step)
        if len(saves) == NUM_SAVES:
            raise Killed

    out = folder / f"{verb}-{seed}"
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Checkpoints, "save", last_save)
        main([verb, *JOBS[verb], "--seed", str(seed), "--checkpoint-every", "0", "--out", str(out)])
    return out


@pytest.fixture(scope="module", params=JOBS)
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, Path]:
    """A verb, and two runs of it that were killed at the same step and differ in their seed."""
    folder = tmp_path_factory.mktemp(request.param)
    return request.param, killed(folder, request.param, 0), killed(folder, request.param, 1)


def copied(run: Path, folder: Path) -> Path:
    return Path(shutil.copytree(run, folder / "copy"))


def refusal(run: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line with which a run is refused; nothing of it is lost."""
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != "lock"}
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        main(["resume", str(run)])
    message = capsys.readouterr().err
    assert caught.value.code == 2 and message.count("\n") == 1, message
    assert {path: path.read_bytes() for path in before} == before
    return message


def places(run: Path) -> list[Path]:
    return sorted({path.parent for path in run.rglob("step-*.json")})


def edit(run: Path, change: Callable[[dict[str, Any]], None]) -> None:
    document = json.loads((run / "config.json").read_text())
    change(document["config"])
    (run / "config.json").write_text(json.dumps(document))


def test_checkpoints_of_another_run_are_refused(
    runs: tuple[str, Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, run, other = runs
    run = copied(run, tmp_path)
    assert len(places(run)) == len(places(other)) > 0
    for own, foreign in zip(places(run), places(other), strict=True):
        shutil.rmtree(own)
        shutil.copytree(foreign, own)
    assert "a run goes on from its own checkpoints, but" in refusal(run, capsys)


def test_an_edited_configuration_is_refused(
    runs: tuple[str, Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, run, _ = runs
    run = copied(run, tmp_path)
    edit(run, lambda config: config["recipe"].update(learning_rate=2 * config["recipe"]["learning_rate"]))
    assert "changed since" in refusal(run, capsys)


def test_another_seed_is_refused(
    runs: tuple[str, Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, run, _ = runs
    run = copied(run, tmp_path)
    edit(run, lambda config: config.update(seed=5))
    assert "changed since" in refusal(run, capsys)


def test_stages_that_a_search_does_not_have_are_no_part_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a run of an earlier version, whose stages had other defaults."""
    run = killed(tmp_path, "search", 0)
    once, again = copied(run, tmp_path / "once"), copied(run, tmp_path / "again")
    for folder in (once, again):
        edit(folder, lambda config: config["plan"]["staged"].update(listed=150, stages="scores+shared+short"))
    main(["resume", str(once)])
    asked = job_class("search").from_json(json.loads((run / "config.json").read_text())["config"])
    start(asked, again, Inline(), go_on=True)
    assert read_records(once)[-1]["best"] == read_records(again)[-1]["best"]
    staged = copied(run, tmp_path / "staged")
    edit(staged, lambda config: config["plan"]["staged"].update(listed=150, evaluations=4))
    assert "changed since, or the defaults did with the version" in refusal(staged, capsys)


def test_records_of_another_run_are_refused(
    runs: tuple[str, Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, run, other = runs
    run = copied(run, tmp_path)
    shutil.copy(other / "records.jsonl", run / "records.jsonl")
    assert "changed since" in refusal(run, capsys)


@pytest.mark.parametrize("later", ["recipe", "plan", "job"])
def test_an_option_that_a_later_version_adds_orphans_no_run(
    runs: tuple[str, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: str
) -> None:
    verb, run, _ = runs
    run = copied(run, tmp_path)
    grown = with_later_option(job_class(verb), later)
    monkeypatch.setattr("ramet.jobs.runner.job_class", lambda kind: grown)
    if later == "recipe":  # which joint networks hold as well
        monkeypatch.setattr("ramet.continual.joint.Settings", type(grown().recipe))
    made = grown.from_json(json.loads((run / "config.json").read_text())["config"])
    assert "warmth" in str(made) and "warmth" not in str(differences(made))
    main(["resume", str(run)])
    assert read_records(run)[-1]["key"] == "result"


def with_later_option(job: Any, where: str) -> Any:
    """The class of a job of a later version, which has an option more: itself, in its plan, or in its recipe."""
    new = [("warmth", float, field(default=0.0))]
    if where == "job":
        return make_dataclass(f"Later{job.__name__}", new, bases=(job,), frozen=True, kw_only=True)
    kind = type(getattr(job(), where))
    grown = make_dataclass(f"Later{kind.__name__}", new, bases=(kind,), frozen=True, kw_only=True)
    part = (where, grown, option(factory=grown, kind=grown))
    return make_dataclass(f"Later{job.__name__}", [part], bases=(job,), frozen=True, kw_only=True)


def test_every_checkpoint_and_the_first_record_carry_the_identity(runs: tuple[str, Path, Path], tmp_path: Path) -> None:
    verb, run, other = runs
    identities = [read_records(path)[0]["identity"] for path in (run, other)]
    assert identities[0] != identities[1] and read_records(run)[0]["key"] == "setting"
    parallel = tmp_path / "parallel"
    if verb in ("grow", "learn"):  # whose checkpoints stay there when a run is finished
        main([verb, *JOBS[verb], "--seed", "0", "--checkpoint-every", "0", "--workers", "2", "--out", str(parallel)])
        assert read_records(parallel)[0]["identity"] == identities[0], "it does not depend on workers and folders"
    files = [path for folder in (run, parallel) for path in folder.rglob("step-*.json")]
    assert files and {json.loads(path.read_text())["body"]["identity"] for path in files} == {identities[0]}


def test_a_run_from_before_there_were_identities_goes_on(runs: tuple[str, Path, Path], tmp_path: Path) -> None:
    _, run, _ = runs
    run = copied(run, tmp_path)
    records = [json.loads(line) for line in (run / "records.jsonl").read_text().splitlines()]
    del records[0]["identity"]
    for record in records:
        del record["$sha256"]  # nor were there checksums of records
    (run / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    document = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**document, "format": 1}))
    for place in places(run):
        checkpoints = Checkpoints(place, keep=1)  # without an identity, as they were written
        found = checkpoints.load()
        assert found is not None
        checkpoints.clear()
        checkpoints.save(found.step, found.tensors, found.state)
    main(["resume", str(run)])
    assert read_records(run)[-1]["key"] == "result"


@dataclass(frozen=True)
class Inner:
    """Options within options."""

    rate: float = 0.5
    names: tuple[str, ...] = ("a",)


@dataclass(frozen=True)
class Outer:
    """One of them has no default, one has another default than its class."""

    path: str
    seed: int = 0
    options: dict[str, int] = field(default_factory=dict)
    inner: Inner = Inner(rate=0.1)


def test_differences_are_what_is_not_at_its_default() -> None:
    assert differences(Outer("x")) == {"path": "x", "inner": {"rate": 0.1}}
    assert differences(Outer("x", inner=Inner())) == {"path": "x"}
    assert differences(Outer("x", options={"b": 1}, inner=Inner(names=("a", "b"))), apart=["path"]) == {
        "options": {"b": 1},
        "inner": {"names": ["a", "b"]},
    }
    assert differences(Outer("x", seed=3), apart=["inner.rate", "path"]) == {"seed": 3}
    assert differences(Inner(rate=0.5, names=["a"])) == {}  # type: ignore[arg-type]
    assert as_before(Inner(), ("rate",)) == {"rate": 0.5} and as_before(Inner(names=()), ("rate",)) is None
    assert unlike_defaults(Outer, {"path": "x", "seed": 0, "kind": "o"}) == {"path": "x", "kind": "o"}


def test_what_was_written_down_has_to_hold_to_the_bit() -> None:
    nan = float("nan")
    assert agrees({"a": [1, nan], "b": {"c": None}}, {"a": [1, nan], "b": {"c": None, "d": 1}, "e": 2})
    for now in ({"a": [1]}, {"a": [1.0, 2]}, {"a": [1, 2, 3]}, {"b": [1, 2]}, {"a": None}, None):
        assert not agrees({"a": [1, 2]}, now), now


def test_checkpoints_without_an_identity_look_into_any_run(tmp_path: Path) -> None:
    own = Checkpoints(tmp_path, identity="mine")
    own.save(1, {"w": torch.ones(1)})
    assert Checkpoints(tmp_path).load() is not None and Checkpoints(tmp_path, identity="mine").load() is not None
    for others in (Checkpoints(tmp_path, identity="yours"), Checkpoints(tmp_path, identity="")):
        for look in (others.load, others.check):
            with pytest.raises(ConfigError, match="are another run's"):
                look()
    Checkpoints(tmp_path).save(2, {"w": torch.ones(1)})
    with pytest.raises(ConfigError, match="are another run's"):
        own.load()


def test_a_run_from_python_goes_on_with_its_arguments_only(tmp_path: Path) -> None:
    data, space = load("digits", train_size=40, eval_size=20), Cells64(channels=2, num_cells=1)
    recipe = Settings(epochs=1, batch_size=10)
    plan = {"instances": 1, "last_steps": 1, "last_epochs": 1, "children": 3, "truth": "none", "fine_tune_steps": 0}
    first = rank(space, data, out=tmp_path / "run", recipe=recipe, plan=Plan(**plan)).to_json()
    assert rank(space, data, out=tmp_path / "run", recipe=recipe, plan=Plan(**plan)).to_json() == first
    later = make_dataclass(
        "Later", [("warmth", float, field(default=0.0))], bases=(Settings,), frozen=True, kw_only=True
    )
    again = rank(space, data, out=tmp_path / "run", recipe=later(**asdict(recipe)), plan=Plan(**plan)).to_json()
    assert again == first
    for other in (later(warmth=1.0, **asdict(recipe)), Settings(epochs=1, batch_size=20)):
        with pytest.raises(ConfigError, match="a run goes on with"):
            rank(space, data, out=tmp_path / "run", recipe=other, plan=Plan(**plan))


def known_truth() -> tuple[Path, dict[str, Any]]:
    path = ROOT / "results" / "truth" / "b859a81f8c8232bf.jsonl"  # named before there were later options
    with open(path) as file:
        return path, json.loads(file.readline())["setting"]


def bench_of(setting: dict[str, Any], settings: Settings, **options: Any) -> SupernetSetup:
    """A bench that says the setting of a cache, without its data."""
    described = {name: value for name, value in setting["space"].items() if name != "kind"}
    labels = SimpleNamespace(y=torch.zeros(2, dtype=torch.long))  # classes, which are measured by the accuracy
    data: Any = SimpleNamespace(fingerprint=lambda: setting["data"], train=labels)
    return SupernetSetup(Cells64(**described | options), data, settings)


def test_the_truth_that_is_kept_here_is_found_also_when_there_are_later_options() -> None:
    path, setting = known_truth()
    later = make_dataclass(
        "Later", [("warmth", float, field(default=0.0))], bases=(Settings,), frozen=True, kw_only=True
    )
    for kind in (Settings, later):
        bench = bench_of(setting, kind(**setting["settings"]))
        assert f"{bench.former_fingerprint()}.jsonl" == path.name
        assert TruthCache(path.parent, bench).get(0, 0) is not None
    for other in (
        bench_of(setting, later(warmth=1.0, **setting["settings"])),
        bench_of(setting, Settings(**setting["settings"] | {"epochs": 3})),
        bench_of(setting, Settings(**setting["settings"]), channels=4),
    ):
        assert TruthCache(path.parent, other).get(0, 0) is None


def test_a_new_truth_is_named_by_what_differs_from_the_defaults(tmp_path: Path) -> None:
    _, setting = known_truth()
    later = make_dataclass(
        "Later", [("warmth", float, field(default=0.0))], bases=(Settings,), frozen=True, kw_only=True
    )
    benches = [bench_of(setting, kind(**setting["settings"])) for kind in (Settings, later)]
    TruthCache(tmp_path, benches[0]).put(3, 0, {"test": 0.5})
    assert [path.name for path in tmp_path.glob("*.jsonl")] == [f"{benches[0].fingerprint()}.jsonl"]
    assert TruthCache(tmp_path, benches[1]).get(3, 0) == {"test": 0.5}
    prints = {bench_of(setting, later(warmth=warmth)).fingerprint() for warmth in (0.0, 1.0)}
    assert len(prints | {bench.fingerprint() for bench in benches}) == 3
    assert bench_of(setting, Settings()).fingerprint() != bench_of(setting, Settings(), channels=4).fingerprint()


def test_a_shared_study_from_before_is_joined(tmp_path: Path) -> None:
    """Its digests were made of all values; a setting that differs from the defaults is told apart either way."""
    address, search = f"sqlite:///{tmp_path / 'study.db'}", SequenceSearch()
    stream: Any = SimpleNamespace(fingerprint=lambda: "stream")
    skeleton: Any = SimpleNamespace(to_json=lambda: {})

    def bench(settings: Settings) -> SequenceSetup:
        return SequenceSetup(stream, skeleton, settings, 0, tmp_path)

    now, later = (
        Settings(epochs=3),
        make_dataclass("Later", [("warmth", float, field(default=0.0))], bases=(Settings,), frozen=True, kw_only=True),
    )
    old = search._setting(bench(now)) | {
        "settings": digest({name: getattr(now, name) for name in FIRST_FIELDS}),
        "space": digest(asdict(search.space)),
    }
    StudyStorage(address).join("old", old, may_adopt=False)
    StudyStorage(address).join("new", search._setting(bench(now)), may_adopt=False)
    for name in ("old", "new"):
        for settings in (now, later(epochs=3)):
            asked = search._setting(bench(settings)), search._former_setting(bench(settings))
            StudyStorage(address).join(name, *asked, may_adopt=False)
            StudyStorage(address).check(name, *asked)
        for settings in (later(epochs=3, warmth=1.0), Settings(epochs=4)):
            asked = search._setting(bench(settings)), search._former_setting(bench(settings))
            with pytest.raises(ConfigError, match="has another settings"):
                StudyStorage(address).join(name, *asked, may_adopt=False)


def test_a_run_says_once_what_it_is(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", "mine", {"seed": 0}) as run:
        assert run.identity is None
        run.identify({}, {"data": "abc"})
        first = run.identity
        run.checkpoints("part").save(1, {"w": torch.ones(1)})
    with Run.open(tmp_path / "run") as run:
        run.identify({}, {"data": "abc", "new": 1})
        assert run.identity == first is not None and run.checkpoints("part").load() is not None
        for asked, setting, word in (({"seed": 1}, "abc", "config.json"), ({}, "other", "data")):
            with pytest.raises(ConfigError, match=f"but the {word} of .* changed since"):
                run.identify(asked, {"data": setting})


def test_a_run_inside_a_run_looks_after_its_own_checkpoints(tmp_path):
    """The parts of a tour are runs of other identities; a checkpoint that lies elsewhere is still refused."""
    tensors = {"weight": torch.zeros(2)}
    with Run.create(tmp_path / "outer", "rank", {}) as outer:
        outer.identify({}, {"data": "abc"})
        with Run.create(tmp_path / "outer" / "parts" / "inner", "grow", {}) as inner:
            inner.identify({}, {"data": "other"})
            inner.checkpoints("part").save(1, tensors, {})
    with Run.open(tmp_path / "outer") as outer:
        outer.identify({}, {"data": "abc"})
    inner_checkpoints = tmp_path / "outer" / "parts" / "inner" / "checkpoints"
    shutil.copytree(inner_checkpoints, tmp_path / "outer" / "checkpoints", dirs_exist_ok=True)
    with Run.open(tmp_path / "outer") as outer, pytest.raises(ConfigError, match="are another run's"):
        outer.identify({}, {"data": "abc"})
