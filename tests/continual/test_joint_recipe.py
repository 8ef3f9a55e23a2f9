"""What a saved joint network holds of its recipe and of its targets, and what it says of the rest."""

from __future__ import annotations

import pytest
import text_files
import torch
from torch.nn import functional

import ramet
from ramet.continual import JointNetwork, LearnPlan, LearnRecipe, Stream, Task, TaskInfo, learn, make_stream
from ramet.data import InputForm, load
from ramet.errors import ConfigError
from ramet.exporting.card import described_inputs


def smooth(outputs, targets):
    return functional.cross_entropy(outputs, targets, label_smoothing=0.1)


RECIPE = LearnRecipe(epochs=1, batch_size=16, loss=smooth)


@pytest.fixture(scope="module")
def stream():
    return make_stream("split-digits:2", train_size=60, eval_size=30)


def first_of(stream):
    return Stream(stream.name, stream.tasks[:1])


def weights_of(joint):
    return joint.task(joint.names[-1]).state_dict()


def same(one, other):
    return all(torch.equal(value, other[name]) for name, value in one.items())


def test_a_network_whose_loss_was_a_function_is_saved(stream, tmp_path):
    joint = learn(first_of(stream), method="naive", network="mlp:8", settings=RECIPE).network
    joint.save(tmp_path / "joint.safetensors")
    again = JointNetwork.load(tmp_path / "joint.safetensors")
    assert same(weights_of(joint), weights_of(again))
    with pytest.raises(
        ConfigError, match=r"no file holds functions .* without its loss, .*:smooth: JointNetwork\.load"
    ):
        again.learn(stream[1].data())
    again.save(tmp_path / "again.safetensors")
    assert JointNetwork.load(tmp_path / "again.safetensors").functions == joint.functions

    whole = JointNetwork.load(tmp_path / "joint.safetensors", recipe=RECIPE)
    joint.learn(stream[1].data())
    whole.learn(stream[1].data())
    assert same(weights_of(joint), weights_of(whole)), "with its recipe it goes on as it would have"


def test_a_recipe_of_names_is_written_as_before(stream, tmp_path):
    recipe = LearnRecipe(epochs=1, batch_size=16, loss="cross-entropy:smoothing=0.1")
    joint = learn(first_of(stream), method="naive", network="mlp:8", settings=recipe).network
    joint.save(tmp_path / "joint.safetensors")
    again = JointNetwork.load(tmp_path / "joint.safetensors")
    assert again.method.settings.loss == recipe.loss and again.functions == {}
    again.learn(stream[1].data())


def test_an_interrupted_stream_goes_on_with_a_function(stream, tmp_path):
    arguments = {"method": "naive", "network": "mlp:8", "settings": RECIPE}
    whole = learn(stream, **arguments).network
    learn(first_of(stream), **arguments, folder=tmp_path / "stream")
    resumed = learn(stream, **arguments, folder=tmp_path / "stream").network
    assert same(weights_of(whole), weights_of(resumed))
    other = LearnRecipe(epochs=1, batch_size=16, loss=lambda outputs, targets: smooth(outputs, targets))
    with pytest.raises(ConfigError, match="began with others"):
        learn(stream, **{**arguments, "settings": other}, folder=tmp_path / "stream")


def test_tomorrows_tasks_need_the_recipe_before_anything_is_written(stream, tmp_path):
    plan = LearnPlan(methods=("naive",), network="mlp:8", exports=False)
    today = ramet.learn(first_of(stream), plan=plan, recipe=RECIPE, out=tmp_path / "today")
    later = Stream("later", [stream[1]])
    with pytest.raises(ConfigError, match="without its loss"):
        file = tmp_path / "today" / today.methods["naive"].file
        ramet.learn(later, plan=LearnPlan(methods=("naive",), onto=str(file)), out=tmp_path / "later")
    assert not (tmp_path / "later").exists()


def test_a_saved_network_knows_the_scale_of_its_targets(tmp_path):
    text_files.table(tmp_path, 80, "north.csv")
    data = load(f"{tmp_path / 'north.csv'}:target=price")
    recipe = LearnRecipe(epochs=1, batch_size=16)
    joint = learn(Stream("tables", [Task("north", data)]), method="naive", network="mlp:8", settings=recipe).network
    joint.save(tmp_path / "joint.safetensors")
    known = JointNetwork.load(tmp_path / "joint.safetensors").method.tasks[0]
    assert (known.target_mean, known.target_deviation) == (data.target_mean, data.target_deviation) != ((), ())
    card = joint.card("north").text({})
    assert str(data.target_mean[0]) in card and "in the units of the data" in card


def test_vectors_have_features_and_images_pixels():
    facts = {"mean": (1.0, 2.0), "deviation": (1.0, 1.0), "class_names": ("a", "b")}
    vector = TaskInfo("rows", 2, InputForm((2,)), **facts)
    image = TaskInfo("images", 2, InputForm((2, 4, 4)), **facts)
    assert described_inputs((2,), vector)["preparation"] == "(feature - mean) / deviation, feature by feature"
    assert "pixel" in described_inputs((2, 4, 4), image)["preparation"]
