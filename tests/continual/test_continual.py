"""Streams, measures, the loop and the joint network: hand-worked examples, gone data, interruptions, damaged files."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

import ramet.continual as continual
from ramet.continual import JointNetwork, Stream, Task, learn, make_method, make_skeleton, make_stream
from ramet.continual.streams.makers import rotate
from ramet.data import DataSet, Split, load
from ramet.errors import ConfigError, DataError
from ramet.runs import Checkpoints, Run
from ramet.testing.methods import SETTINGS, make_skeletons
from ramet.testing.methods import make_stream as small_stream
from ramet.training import Settings

NAN = float("nan")


def dataset(classes=2, channels=1, size=4, train=8, rest=4):
    def split(count):
        x = torch.randn(count, channels, size, size, generator=torch.Generator().manual_seed(count))
        return Split(x, torch.arange(count) % max(classes, 1))

    return DataSet("noise", split(train), split(rest), split(rest), classes)


# Measures, by hand

MATRIX = [[0.9, NAN, NAN], [0.8, 0.7, NAN], [0.6, 0.8, 0.5]]
ALONE = [0.8, 0.75, 0.6]


def test_measures_by_hand():
    assert math.isclose(continual.average_accuracy(MATRIX), (0.6 + 0.8 + 0.5) / 3)
    assert math.isclose(continual.backward_transfer(MATRIX), ((0.6 - 0.9) + (0.8 - 0.7)) / 2)
    assert math.isclose(continual.forgetting(MATRIX), ((0.9 - 0.6) + (0.7 - 0.8)) / 2)
    assert math.isclose(continual.forward_transfer(MATRIX, ALONE), ((0.7 - 0.75) + (0.5 - 0.6)) / 2)
    assert math.isclose(continual.intransigence(MATRIX, [0.9, 0.9, 0.9]), (0.0 + 0.2 + 0.4) / 3)
    assert math.isclose(continual.average_gain(MATRIX, ALONE), (-0.2 + 0.05 - 0.1) / 3)
    # Errors 0.4, 0.2, 0.5 against 0.2, 0.25, 0.4 alone: the paper adds 1.0, -0.2 and 0.25, and more is worse.
    assert math.isclose(continual.paper_gain(MATRIX, ALONE), 1.05, rel_tol=1e-9)


def test_the_two_gains_have_opposite_signs():
    better = [[0.9, NAN], [0.95, 0.95]]
    assert continual.average_gain(better, [0.9, 0.9]) > 0 > continual.paper_gain(better, [0.9, 0.9])


def test_a_network_alone_without_errors_gives_a_finite_figure():
    assert math.isclose(continual.paper_gain([[1.0, NAN], [1.0, 0.9]], [1.0, 1.0]), 99.0)  # (0.1 - 0.001) / 0.001
    assert continual.paper_gain([[1.0, NAN], [1.0, 1.0]], [1.0, 1.0]) == 0.0


def test_one_task_forgets_nothing():
    assert continual.backward_transfer([[0.5]]) == continual.forgetting([[0.5]]) == 0.0


@pytest.mark.parametrize("matrix", [[], [[0.1, 0.2]], [[NAN]], [[0.5, NAN], [NAN, 0.5]]])
def test_a_matrix_that_is_none_is_refused(matrix):
    with pytest.raises(ConfigError, match="an accuracy matrix must be"):
        continual.average_accuracy(matrix)


# Streams


def test_split_deals_the_classes_out():
    stream = make_stream("split-digits:3")
    assert [task.info.num_classes for task in stream] == [4, 3, 3]
    whole = sum(len(task.dataset.train) for task in stream)
    assert whole == len(load("digits").train)
    for task in stream:
        for split in (task.dataset.train, task.dataset.validation, task.dataset.test):
            assert set(split.y.tolist()) == set(range(task.info.num_classes))


def test_families_are_permutations_whose_classes_are_dealt_out_and_take_turns():
    stream = make_stream("families-digits:2x3", seed=3)
    plain, shuffled = make_stream("permuted-digits:2", seed=3)
    assert [task.name.split(",")[0] for task in stream] == [plain.name, shuffled.name] * 3
    for family, whole in ((stream[0::2], plain), (stream[1::2], shuffled)):
        classes = [[int(word) for word in task.name.split(", ")[1].split()] for task in family]
        assert sorted(label for own in classes for label in own) == list(range(10))
        for task, own in zip(family, classes, strict=True):
            rows = torch.isin(whole.dataset.train.y, torch.tensor(own))
            assert torch.equal(task.dataset.train.x, whole.dataset.train.x[rows])
            assert torch.equal(torch.tensor(own)[task.dataset.train.y], whole.dataset.train.y[rows])
    assert stream[0].name.split(", ")[1] != stream[1].name.split(", ")[1]


@pytest.mark.parametrize(
    "name", ["families-digits:3", "families-digits:0x2", "families-digits:2x9", "split-digits:2x2"]
)
def test_streams_of_no_known_form_are_refused(name):
    with pytest.raises(ConfigError, match="must"):
        make_stream(name)


def test_permutations_move_pixels_and_nothing_else():
    stream = make_stream("permuted-digits:3")
    first, second = stream[0].dataset.test, stream[1].dataset.test
    assert not torch.equal(first.x, second.x)
    assert torch.equal(first.x.flatten(1).sort().values, second.x.flatten(1).sort().values)
    assert torch.equal(first.y, second.y)
    # One permutation for all images: pixels that go together in one image do so in the next.
    columns = {tuple(column.tolist()) for column in first.x.flatten(1).T}
    assert columns == {tuple(column.tolist()) for column in second.x.flatten(1).T}


def test_a_quarter_turn_is_exact_and_the_interpolation_agrees_with_it():
    x = torch.arange(25.0).reshape(1, 1, 5, 5)
    assert torch.equal(rotate(x, 90), torch.rot90(x, 1, (2, 3)))
    assert torch.allclose(rotate(x, 89.999), torch.rot90(x, 1, (2, 3)), atol=1e-2)


def test_the_seed_decides_a_stream():
    one, same, other = (make_stream("permuted-digits:2", seed=seed).fingerprint() for seed in (0, 0, 1))
    assert one == same != other


def test_random_and_superclass_splits_are_different_benchmarks(tmp_path):
    rng, y = np.random.default_rng(0), np.repeat(np.arange(100), 3)
    x = rng.integers(0, 255, (300, 5, 5, 3), dtype=np.uint8)
    np.savez(tmp_path / "cifar100.npz", x_train=x, y_train=y, x_test=x, y_test=y, fine_to_coarse=np.arange(100) % 20)
    random, grouped = (make_stream(f"split-cifar100:20{end}", data_dir=tmp_path) for end in ("", ":superclass"))
    assert [task.info.num_classes for task in random] == [task.info.num_classes for task in grouped] == [5] * 20
    assert random.fingerprint() != grouped.fingerprint()
    first = grouped[0].dataset
    assert list(first.class_names) == [
        make_stream("split-cifar100:1", data_dir=tmp_path)[0].dataset.class_names[place] for place in range(0, 100, 20)
    ]
    with pytest.raises(ConfigError, match="has 20 and 10 tasks"):
        make_stream("split-cifar100:10:superclass", data_dir=tmp_path)


def test_a_file_lists_tasks_of_different_channels_and_sizes(tmp_path):
    rng = np.random.default_rng(0)
    for name, shape, classes in (("grey", (30, 6, 6), 2), ("colour", (30, 8, 8, 3), 3)):
        np.savez(tmp_path / f"{name}.npz", x=rng.integers(0, 255, shape, dtype=np.uint8), y=np.arange(30) % classes)
    listing = tmp_path / "mine.json"
    listing.write_text(json.dumps([{"name": "a", "data": "grey.npz"}, {"name": "b", "data": "colour.npz"}]))
    stream = make_stream(str(listing))
    assert stream.name == "mine" and stream.names == ["a", "b"]
    assert stream.input_shape == (3, 6, 6)
    grey = stream[0].dataset.test.x
    assert torch.equal(grey[:, 0], grey[:, 1])
    assert [task.info.num_classes for task in stream] == [2, 3]


def test_bad_streams_are_refused():
    good = Task("a", dataset())
    with pytest.raises(ConfigError, match="'a' occurs twice"):
        Stream("s", [good, Task("a", dataset())])
    with pytest.raises(ConfigError, match="at least one task"):
        Stream("s", [])
    with pytest.raises(DataError, match="at least 2 classes, but 'b' has 1"):
        Task("b", dataset(classes=1))
    with pytest.raises(DataError, match="training images, but 'b' has 0"):
        Task("b", dataset(train=0))
    with pytest.raises(DataError, match="one shape"):
        Stream("s", [good, Task("b", dataset(size=5))])
    with pytest.raises(DataError, match=r"1 channel, or the 4 of its stream, but 'b' has 3"):
        continual.fit_together([("b", dataset(channels=3)), ("c", dataset(channels=4))])
    with pytest.raises(ConfigError, match="10 classes were to be split into 6"):
        make_stream("split-digits:6")
    for name in ("digits", "split-digits", "split-digits:x", "split-digits:5:odd", "turned-digits:2"):
        with pytest.raises(ConfigError, match="a stream must be"):
            make_stream(name)


# Gone data


def test_gone_data_fail_when_touched():
    data = small_stream()[0].data()
    kept_x, kept_y = data.train.x, data.train.y
    data.close()
    with pytest.raises(continual.GoneDataError, match="the training data of 'task 0' were asked for"):
        _ = data.train
    with pytest.raises(continual.GoneDataError, match="validation"):
        _ = data.validation
    # References that were put aside are of no use either.
    assert bool(kept_x.isnan().all())
    with pytest.raises((IndexError, RuntimeError)):
        cross_entropy(torch.zeros(len(kept_y), 2), kept_y)
    assert small_stream()[0].dataset.train.x.isfinite().all()


class Hoarder(continual.METHODS["naive"]):
    """Breaks the rule: it reads the first task's data whenever it learns another."""

    name = "hoarder"

    def _learn(self, task, earlier, saves):
        for data in earlier:
            _ = data.train
        return super()._learn(task, earlier, saves)


def test_a_method_that_reads_earlier_data_fails_in_the_streaming_scenario():
    skeleton = make_skeletons()["linear"]
    with pytest.raises(continual.GoneDataError):
        learn(small_stream(), method=Hoarder(), network=skeleton, settings=SETTINGS)
    learn(small_stream(2), method=Hoarder(), network=skeleton, settings=SETTINGS, scenario="all")


def test_joint_training_needs_all_data():
    with pytest.raises(ConfigError, match="needs the scenario all"):
        learn(small_stream(), method="joint")


# The loop


def without_seconds(rows):
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


@pytest.mark.parametrize("method", ["naive", "replay"])
def test_images_that_stay_on_disk_are_learned_as_those_in_memory(tmp_path, method):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).integers(0, 256, (60, 1, 8, 8), dtype=np.uint8))
    np.save(tmp_path / "y.npy", np.arange(60) % 3)
    rows = []
    for in_memory in (True, False):
        data = load(tmp_path, in_memory=in_memory)
        stream = Stream("mine", [Task("one", data), Task("two", data)])
        learned = learn(stream, method=method, network="mlp:4", settings=Settings(epochs=1, batch_size=16))
        rows.append(without_seconds(learned.rows))
    assert rows[0] == rows[1]


def test_tokens_that_stay_on_disk_are_learned_as_those_in_memory(tmp_path):
    for name, seed in (("x", 0), ("y", 1)):
        np.save(tmp_path / f"{name}.npy", np.random.default_rng(seed).integers(0, 9, (60, 6), dtype=np.uint8))
    rows = []
    for in_memory in (True, False):
        data = load(tmp_path, in_memory=in_memory)
        stream = Stream("mine", [Task("one", data), Task("two", data)])
        torch.manual_seed(0)
        network = torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Linear(4, 4), torch.nn.Linear(4, 9))
        learned = learn(stream, method="naive", network=network, settings=Settings(epochs=1, batch_size=16))
        rows.append(without_seconds(learned.rows))
    assert rows[0] == rows[1]


class _StopError(Exception):
    pass


@pytest.mark.parametrize("method", ["naive", "packnet"])
def test_an_interrupted_stream_ends_the_same(method, tmp_path):
    stream, skeleton = small_stream(), make_skeletons()["linear with batch norm"]
    options = {"method": method, "network": skeleton, "settings": SETTINGS, "seed": 3}
    whole = learn(stream, **options)

    def stop(row):
        if row["place"] == 1:
            raise _StopError

    with pytest.raises(_StopError):
        learn(stream, **options, folder=tmp_path, after_task=stop)
    seen = []
    resumed = learn(stream, **options, folder=tmp_path, after_task=seen.append)
    assert [row["place"] for row in seen] == [0, 1, 2]
    assert without_seconds(whole.rows) == without_seconds(resumed.rows)
    for name in stream.names:
        x = stream[0].dataset.test.x
        assert torch.equal(whole.task(name)(x), resumed.task(name)(x))


def test_a_stream_goes_on_with_the_arguments_it_began_with(tmp_path):
    stream, skeleton = small_stream(2), make_skeletons()["linear"]
    learn(stream, method="naive", network=skeleton, settings=SETTINGS, folder=tmp_path)
    with pytest.raises(ConfigError, match="began with others"):
        learn(stream, method="naive", network=skeleton, settings=SETTINGS, folder=tmp_path, seed=1)
    with pytest.raises(ConfigError, match="the tasks it began with"):
        learn(Stream("turned", stream.tasks[::-1]), network=skeleton, settings=SETTINGS, folder=tmp_path)


def test_a_run_has_a_record_for_each_task(tmp_path):
    stream = small_stream()
    with Run.create(tmp_path / "run", "learn", {}) as run:
        learned = learn(stream, network=make_skeletons()["linear"], settings=SETTINGS, run=run)
        records = [record for record in run.records if "task" in record]
    assert [record["task"] for record in records] == stream.names
    assert [len(record["test"]) for record in records] == [1, 2, 3]
    assert math.isclose(learned.figures()["average_accuracy"], np.mean(records[-1]["test"]))
    assert all(math.isnan(value) for value in learned.matrix()[0][1:])  # not learned yet


def test_the_diagonal_of_individual_networks_is_each_network_alone():
    learned = learn(small_stream(), method="individual", network=make_skeletons()["linear"], settings=SETTINGS)
    matrix = np.array(learned.matrix())
    assert (matrix[-1] == matrix.diagonal()).all()
    figures = learned.figures(alone=matrix[-1])
    assert figures["average_gain"] == figures["paper_gain"] == 0.0


# The joint network


def test_a_damaged_network_is_refused(tmp_path):
    method = make_method("naive")
    method.start(make_skeletons()["linear"], SETTINGS, 0)
    path = tmp_path / "net.safetensors"
    JointNetwork(method).save(path)
    whole = path.read_bytes()
    assert JointNetwork.load(path).names == []
    JointNetwork(method).save(path)
    assert path.read_bytes() == whole
    damages = {
        "cut": whole[:-5],
        "bit": whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:],
        "empty": b"",
        "text": b"not a network at all",
        "header": whole[:60] + b"#" + whole[61:],
    }
    for name, data in damages.items():
        path.write_bytes(data)
        with pytest.raises(ConfigError, match="a joint network must"):
            JointNetwork.load(path)
        assert path.read_bytes() == data, name
    with pytest.raises(ConfigError, match="there is none at"):
        JointNetwork.load(tmp_path / "nothing.safetensors")


def test_an_unknown_task_is_refused():
    method = make_method("naive")
    method.start(make_skeletons()["linear"], SETTINGS, 0)
    with pytest.raises(ConfigError, match="must be one that was learned \\(none\\), but got 'x'"):
        JointNetwork(method).task("x")


# Skeletons


def test_the_network_of_the_paper_for_cifar():
    skeleton = make_skeleton("conv", in_channels=3, image_size=(32, 32))
    network = skeleton.make_network(10, seed=0)
    shapes = [tuple(param.shape) for name, param in network.named_parameters() if name.endswith("weight")]
    assert shapes == [(64, 3, 4, 4), (128, 64, 3, 3), (256, 128, 2, 2), (2048, 1024), (2048, 2048), (10, 2048)]
    assert network(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_the_network_of_the_table():
    network = make_skeleton("mlp", in_channels=1, image_size=(8, 8)).make_network(2, seed=0)
    assert sum(param.numel() for param in network.parameters()) == 64 * 100 + 100 + 100 * 100 + 100 + 202


@pytest.mark.parametrize("name", ["mpl", "mlp:", "mlp:0", "mlp:x", "conv:1,2", "conv:1,2,3,4,-5"])
def test_bad_networks_are_refused(name):
    if name == "mlp:":
        assert make_skeleton(name, in_channels=1, image_size=(8, 8)).layers
        return
    with pytest.raises(ConfigError, match=r"must be|is one of"):
        make_skeleton(name, in_channels=1, image_size=(8, 8))


def test_images_too_small_for_convolutions_are_refused():
    with pytest.raises(DataError, match="8 x 8 is too small for conv2"):
        make_skeleton("conv", in_channels=1, image_size=(8, 8))


def test_unknown_methods_and_options_are_refused():
    with pytest.raises(ConfigError, match="a method is one of"):
        make_method("magic")
    with pytest.raises(ConfigError, match="wisdom"):
        make_method("naive:wisdom=3")
    assert make_method("elastic:strength=5,form=explicit").options["strength"] == 5
    with pytest.raises(ConfigError):
        Settings(epochs=0)


def test_many_short_tasks_are_saved_now_and_then(tmp_path, monkeypatch):
    """Saved after each, what was learned before would be written again with every task; the end is the same."""
    stream = make_stream("split-digits:5", train_size=60, eval_size=20)
    arguments = {"method": "naive", "network": "mlp:4", "settings": Settings(epochs=1), "seed": 1}
    whole = learn(stream, **arguments)
    saved = []
    save = Checkpoints.save
    monkeypatch.setattr(
        Checkpoints, "save", lambda self, step, *rest: (saved.append((self.folder.name, step)), save(self, step, *rest))
    )

    def stop(row):
        if row["place"] == 3:
            raise KeyboardInterrupt

    for _ in range(2):  # the second time phases of later tasks are there, and must not be taken for earlier ones
        with pytest.raises(KeyboardInterrupt):
            learn(stream, **arguments, folder=tmp_path, seconds_between_checkpoints=1e9, after_task=stop)
    assert "stream" not in {name for name, _ in saved}
    learned = learn(stream, **arguments, folder=tmp_path, seconds_between_checkpoints=1e9)
    assert [step for name, step in saved if name == "stream"] == [5]
    assert str(learned.matrix()) == str(whole.matrix())  # as text, because NaN differs from itself
    saved.clear()
    learn(stream, **arguments, folder=tmp_path / "each", seconds_between_checkpoints=0)
    assert [step for name, step in saved if name == "stream"] == [1, 2, 3, 4, 5]
    assert [path.name for path in (tmp_path / "each").iterdir()] == ["stream"], "nothing is left of finished tasks"
