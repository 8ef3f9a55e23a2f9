"""The search for grow sequences: spaces, the front by hand, killed trials, the same result again."""

import itertools
import shutil

import pytest
import torch
from tiny_tasks import make_task

import ramet.continual.study.search as sequence_search
from ramet.continual import JointNetwork, Stream, make_skeleton
from ramet.continual.study.plan import population_for
from ramet.continual.study.result import dominates, pareto_front
from ramet.continual.study.search import SequenceSearch
from ramet.continual.study.space import COMPUTED, GrowSequence, SequenceSpace
from ramet.continual.study.storage import import_optuna
from ramet.errors import ConfigError, DiskError, MissingExtraError, RunError
from ramet.execution import Inline
from ramet.runs import Run
from ramet.training import Settings

SETTINGS = Settings(epochs=1, batch_size=16, learning_rate=0.05, final_learning_rate=0.0, weight_decay=0.0)
STREAM = Stream("tiny", [make_task(f"task {i}", i) for i in range(3)])
SKELETON = make_skeleton("mlp:5,5", in_channels=2, image_size=(6, 6))


SLOW = pytest.mark.slow
WHOLE = {}
"""What searches that were never interrupted found, by sampler."""


class Fixed:
    """A trial whose answers are given."""

    def __init__(self, answers):
        self.answers, self.asked = answers, {}

    def suggest_float(self, name, low, high, *, step=None):
        self.asked[name] = (low, high, step)
        return self.answers[name]

    def suggest_categorical(self, name, choices):
        self.asked[name] = choices
        return self.answers[name]


def search(folder, trials=4, run=None, **options):
    run = run or Run.create(folder, "sequences", {})
    options = {"space": SequenceSpace(delta="shared"), "batch": 2} | options
    with run:
        return SequenceSearch(num_trials=trials, **options).run(
            STREAM, SKELETON, SETTINGS, run, Inline(), options={"num_samples": 12}
        )


def test_spaces_say_what_is_free():
    tasks = ["a", "b", "c"]
    trial = Fixed({"delta": 0.3})
    sequence = SequenceSpace(delta="shared").suggest(trial, tasks)
    assert sequence.order == ("a", "b", "c") and sequence.deltas == {"b": 0.3, "c": 0.3} and not sequence.bindings
    assert trial.asked == {"delta": (0.0, 1.0, 0.05)}

    free = SequenceSpace(delta="per-task", binding="free")
    answers = {"delta/b": 0.1, "delta/c": 0.9, "bind/b": COMPUTED, "bind/c": "b"}
    trial = Fixed(answers)
    sequence = free.suggest(trial, tasks)
    assert trial.asked["bind/c"] == [COMPUTED, "a", "b"] and trial.asked["bind/b"] == [COMPUTED, "a"]
    assert sequence.deltas == {"b": 0.1, "c": 0.9} and sequence.bindings == {"c": "b"}


def test_a_free_order_binds_backwards_only():
    tasks = ["a", "b", "c"]
    answers = {f"order/{task}": key for task, key in zip(tasks, (0.9, 0.1, 0.5), strict=True)} | {"delta": 0.5}
    answers |= {"bind/a": "b", "bind/b": "c", "bind/c": "b"}
    sequence = SequenceSpace(delta="shared", binding="free", order="free").suggest(Fixed(answers), tasks)
    assert sequence.order == ("b", "c", "a")
    assert sequence.bindings == {"a": "b", "c": "b"}  # b comes first, and cannot be bound to c


def test_with_a_base_all_tasks_grow_and_may_be_bound_to_it():
    """As from a trained network, which is there before the first of them."""
    tasks = ["a", "b"]
    fixed = SequenceSpace(binding="free")
    trial = Fixed({"delta/a": 0.2, "delta/b": 0.9, "bind/b": "base"})
    sequence = fixed.suggest(trial, tasks, "base")
    assert sequence.deltas == {"a": 0.2, "b": 0.9} and sequence.bindings == {"b": "base"}
    assert trial.asked["bind/b"] == [COMPUTED, "base", "a"] and "bind/a" not in trial.asked
    free = SequenceSpace(binding="free", order="free")
    answers = {"order/a": 0.9, "order/b": 0.1, "delta/a": 0.0, "delta/b": 0.0, "bind/a": "b", "bind/b": "base"}
    sequence = free.suggest(Fixed(answers), tasks, "base")
    assert sequence.order == ("b", "a") and sequence.bindings == {"a": "b", "b": "base"}
    for space in (fixed, free):
        for start in space.starts(tasks, "base"):
            asked = Fixed(start)
            space.suggest(asked, tasks, "base")
            assert asked.asked.keys() == start.keys(), "a start gives all that is asked, and nothing else"


def test_the_front_is_that_of_all_pairs():
    points = [(float(g), float(p)) for g, p in itertools.product((0.1, 0.2), (10, 20))]
    assert pareto_front(points) == {2}  # 0.2 with 10
    assert dominates((0.2, 10.0), (0.1, 20.0)) and not dominates((0.1, 10.0), (0.2, 20.0))


def test_the_population_leaves_generations():
    assert all(trials // population_for(trials) >= 2 for trials in range(8, 400))


@pytest.mark.parametrize(
    ("options", "size"),
    [({}, 8), ({"batch": 5}, 5), ({"sampler": "gp"}, 3), ({"sampler": "thompson"}, 3), ({"storage": "sqlite:///x"}, 3)],
)
def test_a_run_keeps_the_batch_that_it_began_with(tmp_path, options, size):
    search, executor = SequenceSearch(num_trials=40, **options), Inline()
    with Run.create(tmp_path / "run", "sequences", {}) as run:
        executor.num_workers = 3
        assert search._drawn_together(run, executor) == size
        executor.num_workers = 2  # as when it is resumed on a smaller machine
        assert search._drawn_together(run, executor) == size


@pytest.mark.parametrize("sampler", [pytest.param("nsga2", marks=SLOW), "thompson", pytest.param("gp", marks=SLOW)])
@pytest.mark.slow
def test_a_search_that_was_killed_ends_as_if_never_stopped(tmp_path, sampler):
    options = {"sampler": sampler, "space": SequenceSpace(delta="per-task"), "batch": 1}
    whole = search(tmp_path / "whole", 8, **options)
    run = Run.create(tmp_path / "parts", "sequences", {})
    killed = SequenceSearch(num_trials=8, **options)
    calls = iter(range(100))

    class KilledError(Exception):
        pass

    class Killing(Inline):
        def _stream(self, tasks, context, on_pulse):
            for entry in super()._stream(tasks, context, on_pulse):
                if next(calls) == 9:  # three tasks alone and six trials are over: the seventh trial has begun
                    raise KilledError
                yield entry

    with pytest.raises(KilledError), run:
        killed.run(STREAM, SKELETON, SETTINGS, run, Killing(), options={"num_samples": 12})
    study = import_optuna().load_study(study_name="grow-sequences", storage=f"sqlite:///{tmp_path / 'parts/study.db'}")
    assert [trial.state.name for trial in study.trials] == 6 * ["COMPLETE"] + ["RUNNING"]
    resumed = search(tmp_path, 8, run=Run.open(tmp_path / "parts"), **options)
    assert resumed.rows == whole.rows
    assert len(resumed.rows) == 8


@pytest.mark.parametrize(
    ("sampler", "trials", "function", "calls"),
    [
        pytest.param("nsga2", 12, "Study.ask", 6, marks=SLOW),
        pytest.param(
            "nsga2", 12, "Trial.suggest_float", 28, marks=SLOW
        ),  # of the last trial that the search begins with, others being drawn
        pytest.param(
            "nsga2", 12, "Trial.suggest_float", 52, marks=SLOW
        ),  # of the first of a generation, its parents being chosen just now
        pytest.param("nsga2", 12, "Study.tell", 5, marks=SLOW),
        pytest.param("thompson", 8, "Study.enqueue_trial", 7, marks=SLOW),
        pytest.param("thompson", 8, "Trial.suggest_float", 33, marks=SLOW),
        *(pytest.param("nsga2", 12, "Trial.suggest_float", calls, marks=SLOW) for calls in range(31, 72, 4)),
        *(pytest.param("nsga2", 12, "RDBStorage.set_study_system_attr", calls, marks=SLOW) for calls in (1, 2)),
        pytest.param("thompson", 8, "Study.ask", 7, marks=SLOW),
        pytest.param("random", 8, "Trial.suggest_float", 8, marks=SLOW),
        pytest.param("gp", 8, "Trial.suggest_float", 33, marks=SLOW),
    ],
)
def test_a_kill_between_trials_changes_nothing(tmp_path, monkeypatch, sampler, trials, function, calls):
    """Between asking, drawing and telling: batches stay whole, and what was drawn in part is drawn the same."""
    space = SequenceSpace(delta="per-task", order="free")
    options = {"sampler": sampler, "space": space, "batch": 4, "networks": "none"}
    if sampler not in WHOLE:
        WHOLE[sampler] = search(tmp_path / "whole", trials, **options).rows
    optuna = import_optuna()
    owner, name = function.split(".")
    owner = {"Study": optuna.Study, "Trial": optuna.Trial, "RDBStorage": optuna.storages.RDBStorage}[owner]
    real, left = getattr(owner, name), [calls]

    def killing(*arguments, **named):
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return real(*arguments, **named)

    run = Run.create(tmp_path / "parts", "sequences", {})
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, killing)
        with pytest.raises(KeyboardInterrupt):
            search(tmp_path, trials, run=run, **options)
    resumed = search(tmp_path, trials, run=Run.open(tmp_path / "parts"), **options)
    assert resumed.rows == WHOLE[sampler]


def test_a_trial_that_cannot_be_trained_ends_no_other(tmp_path, monkeypatch):
    real = sequence_search.run_sequence

    def sometimes(setup, *, sequence, **options):
        if sequence["deltas"]["task 1"] > 0.5:
            raise RunError("the loss must stay finite, but is nan.")
        return real(setup, sequence=sequence, **options)

    monkeypatch.setattr(sequence_search, "run_sequence", sometimes)
    result = search(tmp_path / "run", 4, sampler="random", networks="none")
    assert len(result.rows) == 4 and all(row["sequence"]["deltas"]["task 1"] <= 0.5 for row in result.rows)
    assert len({row["trial"] for row in result.rows}) == 4 and max(row["trial"] for row in result.rows) > 3
    monkeypatch.setattr(sequence_search, "run_sequence", never)
    with pytest.raises(RunError, match=r"most trials must finish, but \d failed and 0 did not; no\."):
        search(tmp_path / "bad", 6, networks="none")


def test_checkpoints_that_a_disk_refused_to_remove_are_removed_later(tmp_path, monkeypatch):
    refused, real = set(), shutil.rmtree

    def once(path, *given, **options):
        if str(path).endswith(".saves") and str(path) not in refused:
            refused.add(str(path))  # as rmtree does where errors are ignored
        else:
            real(path, *given, **options)

    monkeypatch.setattr(shutil, "rmtree", once)
    search(tmp_path / "run", 1, sampler="random")
    assert refused and not list((tmp_path / "run" / "networks").glob("*.saves"))


def test_a_disk_that_fails_is_no_fault_of_the_trial(monkeypatch):
    """The run ends, and takes the trial up again; as a failed trial another one would have been drawn in its place."""

    def full(setup, **options):
        raise DiskError("cannot write x: No space left on device.")

    monkeypatch.setattr(sequence_search, "run_sequence", full)
    with pytest.raises(DiskError, match="No space left"):
        sequence_search.attempt(None, sequence={}, checkpoints="x", save=None)
    monkeypatch.setattr(sequence_search, "run_sequence", never)
    assert sequence_search.attempt(None, sequence={}, checkpoints="x", save=None) == {"error": "no."}


def never(setup, **options):
    raise RunError("no.")


def test_points_of_the_front_come_back_as_networks(tmp_path):
    result = search(tmp_path / "run", 4)
    assert [row["parameters"] for row in result.front] == sorted({row["parameters"] for row in result.front})
    for row in result.front:
        network = result.network(row["trial"])
        assert isinstance(network, JointNetwork) and network.num_parameters() == row["parameters"]
        logits = network.task("task 1")(STREAM[1].dataset.test.x)
        assert logits.shape == (24, 3) and torch.isfinite(logits).all()
    dominated = [row["trial"] for row in result.rows if not row["on_front"]]
    for trial in dominated:
        with pytest.raises(ConfigError, match="file"):
            result.network(trial)


def test_bad_values_are_refused(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="delta must be one of"):
        SequenceSpace(delta="x")
    with pytest.raises(ConfigError, match="but delta is shared"):
        SequenceSearch(sampler="thompson", space=SequenceSpace(delta="shared"))
    with pytest.raises(ConfigError, match="sampler must be one of"):
        SequenceSearch(sampler="x")
    with pytest.raises(ConfigError, match="address"):
        search(tmp_path / "run", 1, storage="nonsense")
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'ramet\[optuna\]'"):
        import_optuna()


@pytest.mark.slow
def test_a_search_begins_with_one_coefficient_for_all_tasks(tmp_path):
    space = SequenceSpace(delta="per-task", binding="free", order="free")
    names = list(STREAM.names)
    starts = [GrowSequence(tuple(names), dict.fromkeys(names, value)) for value in (0.0, 0.25, 0.5, 0.75, 1.0)]
    found = search(tmp_path / "run", 7, space=space, networks="none")
    assert [row["sequence"] for row in found.rows[:5]] == [start.to_json() for start in starts]
    study = import_optuna().load_study(study_name="grow-sequences", storage=f"sqlite:///{tmp_path / 'run/study.db'}")
    parents = [any("generation" in name for name in trial.system_attrs) for trial in study.trials]
    assert parents == 7 * [True]  # the first five too are what later ones are made of
    chance = search(tmp_path / "chance", 5, space=space, networks="none", sampler="random")
    assert all(row["sequence"] != start.to_json() for row, start in zip(chance.rows, starts, strict=True))


@pytest.mark.parametrize("step", [0.05, 0.25, 0.4, 1.0])
def test_starts_lie_on_the_grid_and_none_is_there_twice(step):
    values = [start["delta/b"] for start in SequenceSpace(delta="per-task", step=step).starts(["a", "b"])]
    assert values == sorted(set(values)) and values
    assert all(value / step == pytest.approx(round(value / step)) and 0 <= value <= 1 for value in values)
    assert not SequenceSpace(delta="shared", step=step).starts(["a", "b"])


def test_the_template_is_also_taken_as_skeleton(tmp_path):
    """What it was called when it was always one."""
    with Run.create(tmp_path / "run", "sequences", {}) as run:
        found = SequenceSearch(num_trials=1, networks="none").run(
            stream=STREAM, skeleton=SKELETON, settings=SETTINGS, run=run, executor=Inline(), options={"num_samples": 12}
        )
    assert len(found.rows) == 1
