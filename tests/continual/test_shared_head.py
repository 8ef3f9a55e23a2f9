"""One head for all tasks: the same network for each, against a plain network trained on one task after the other."""

from __future__ import annotations

import pytest
import torch
from tiny_tasks import make_task
from torch.nn.functional import cross_entropy

from ramet.cli import main
from ramet.continual import JointNetwork, make_method, make_skeleton
from ramet.continual.streams.stream import Stream
from ramet.continual.training import train
from ramet.errors import ConfigError, DataError
from ramet.runs import read_records
from ramet.seeding import derive_seed
from ramet.testing.methods import SETTINGS, learn_next

METHODS = ("individual", "naive", "joint", "elastic", "distillation", "replay")
SKELETON = make_skeleton("mlp:10,8", in_channels=2, image_size=(6, 6), head="shared")


def stream():
    return Stream("tiny", [make_task(f"task {seed}", seed) for seed in range(3)])


def learned(name, number=3):
    method, tasks = make_method(name), stream()
    method.start(SKELETON, SETTINGS, seed=0)
    for _ in range(number):
        learn_next(method, tasks)
    return method


def test_naive_is_a_plain_network_trained_on():
    method, tasks = learned("naive"), stream()
    plain = SKELETON.assemble(SKELETON.make_body(0, "shared"), SKELETON.make_head(3))
    plain.head.load_state_dict(first_head().state_dict())
    for place, task in enumerate(tasks):
        data = task.dataset.train
        seed = derive_seed(0, "task", place)
        train(plain, lambda x, y, rows: cross_entropy(plain(x), y), data, SETTINGS, seed=seed)
    for task in tasks:
        x = task.dataset.test.x
        assert torch.allclose(method.network(task.name)(x), plain(x), atol=1e-6)


def first_head():
    """The head that a naive network begins with."""
    method = make_method("naive")
    method.start(SKELETON, SETTINGS, seed=0)
    method._add_head(3, 0)
    return method.shared.heads[0]


@pytest.mark.parametrize("name", METHODS)
def test_all_tasks_have_one_network(name):
    method = learned(name)
    x = torch.randn(5, 2, 6, 6, generator=torch.Generator().manual_seed(0))
    outputs = [method.network(task.name)(x) for task in method.tasks]
    is_one = all(torch.equal(outputs[0], other) for other in outputs[1:])
    assert is_one == (name != "individual")
    one = sum(param.numel() for param in method.network("task 0").parameters())
    assert method.num_parameters() == (3 * one if name == "individual" else one)


@pytest.mark.parametrize("name", METHODS)
def test_a_saved_network_goes_on(name, tmp_path):
    method, tasks = learned(name, 2), stream()
    JointNetwork(method).save(tmp_path / "net.safetensors")
    read = JointNetwork.load(tmp_path / "net.safetensors").method
    assert read.skeleton.shared_head
    for one in (method, read):
        learn_next(one, tasks)
    x = tasks[0].dataset.test.x
    assert torch.equal(method.network("task 0")(x), read.network("task 0")(x))


def test_elastic_protects_the_head_that_all_have():
    held = [set(learned_elastic(head)) for head in ("shared", "own")]
    assert any("heads.0" in name for name in held[0]) and not any("heads" in name for name in held[1])


def learned_elastic(head):
    method = make_method("elastic")
    method.start(make_skeleton("mlp:10,8", in_channels=2, image_size=(6, 6), head=head), SETTINGS, seed=0)
    learn_next(method, stream())
    return method.state()["guard"]


def test_what_has_heads_of_its_own_and_other_classes_are_refused():
    with pytest.raises(ConfigError, match="the method packnet has a head for each task"):
        make_method("packnet").start(SKELETON, SETTINGS, seed=0)
    with pytest.raises(ConfigError, match="head must be own or shared"):
        make_skeleton("mlp", in_channels=1, image_size=(8, 8), head="none")
    method = learned("naive", 1)
    with pytest.raises(DataError, match="'task 0' has 3 and 'more' 4"):
        method.learn(make_task("more", 9, classes=4).data())
    assert len(method.tasks) == 1


def test_the_command_makes_one_head_and_resumes(tmp_path, capsys):
    options = ["--stream", "permuted-digits:2", "--train-size", "300", "--epochs", "2", "--network", "mlp:20"]
    main(["learn", *options, "--method", "naive", "--head", "shared", "--out", str(tmp_path / "run")])
    assert "naive" in capsys.readouterr().out
    (rows,) = [record["rows"] for record in read_records(tmp_path / "run") if record["key"] == "naive/0"]
    assert rows[0]["parameters"] == rows[1]["parameters"]  # no second head
    main(["resume", str(tmp_path / "run")])
