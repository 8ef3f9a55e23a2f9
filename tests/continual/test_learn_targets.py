"""Tasks of tables and of texts: streams of them, every method that takes them, and what is said of the others."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import text_files
import torch
from sklearn.metrics import r2_score

from ramet.continual import METHODS, JointNetwork, Stream, Task, learn, make_method, make_stream
from ramet.continual.networks.cutting import cut_network
from ramet.continual.streams.stream import GoneDataError, TaskInfo
from ramet.data import InputForm, load
from ramet.errors import ConfigError, DataError
from ramet.registry import resolve_reference
from ramet.training import Recipe

TAKING_ANY = [name for name in METHODS if not METHODS.class_of(name).needs_classes]
RECIPE = Recipe(epochs=2, batch_size=16, learning_rate=0.05)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streams")
    text_files.text(folder, 60, "first.txt", "abcd")
    text_files.text(folder, 60, "second.txt", "edcb")
    text_files.table(folder, 80, "north.csv")
    text_files.table(folder, 80, "south.csv", shift=1.0)
    for name, options in (("texts", "length=8"), ("tables", "target=price")):
        files = ("first.txt", "second.txt") if name == "texts" else ("north.csv", "south.csv")
        before = "text:" if name == "texts" else ""
        tasks = [{"name": file.split(".")[0], "data": f"{before}{file}:{options}"} for file in files]
        (folder / f"{name}.json").write_text(json.dumps(tasks))
    return folder


@pytest.fixture(scope="module")
def streams(folder):
    return {name: make_stream(folder / f"{name}.json") for name in ("texts", "tables")}


@pytest.fixture(scope="module")
def networks(folder):
    file = text_files.networks(folder)
    return {"texts": f"{file}:transformer", "tables": f"{file}:perceptron"}


def by_hand(kind, network, split):
    """The metric of a network, in double precision."""
    with torch.no_grad():
        outputs = network(split.x).double().numpy()
    if kind == "tables":
        return r2_score(split.y.double(), outputs[:, 0])
    shares = np.exp(outputs) / np.exp(outputs).sum(-1, keepdims=True)
    return math.exp(-np.log(np.take_along_axis(shares, split.y.numpy()[..., None], -1)).mean())


def test_texts_of_a_stream_have_one_vocabulary(streams):
    one, other = (task.dataset for task in streams["texts"])
    assert one.class_names == other.class_names and set("abcde") <= set(one.class_names)
    assert streams["texts"].form == InputForm((8,), words=7) and streams["texts"].rows == "tokens"
    words = [one.class_names[token] for token in other.train.x[0].tolist()]
    assert "a" not in words and "<unk>" not in words, "its own words are known"


def test_tables_of_a_stream_are_files_beside_it(streams, folder):
    assert streams["tables"].form == InputForm((3,)) and streams["tables"].names == ["north", "south"]
    alone = load(f"{folder / 'north.csv'}:target=price")
    assert streams["tables"][0].dataset.fingerprint() == alone.fingerprint()
    info = streams["tables"][0].info
    assert (info.name, info.num_classes, info.form) == ("north", 1, InputForm((3,)))
    assert TaskInfo.from_json(info.to_json()) == info


@pytest.mark.parametrize("kind", ["tables", "texts"])
@pytest.mark.parametrize("name", TAKING_ANY)
def test_a_method_learns_measures_saves_and_exports(name, kind, streams, networks, tmp_path):
    stream, metric = streams[kind], {"tables": None, "texts": "perplexity"}[kind]
    settings = Recipe(epochs=2, batch_size=16, learning_rate=0.05, metric=metric)
    options = {"memory": 12} if name == "replay" else {}
    scenario = "all" if name == "joint" else "streaming"
    learned = learn(
        stream, method=make_method(name, **options), network=networks[kind], settings=settings, scenario=scenario
    )
    assert learned.metric.name == ("R²" if kind == "tables" else "perplexity")
    for role in ("test", "validation"):
        for place, task in enumerate(stream):
            found, network = learned.rows[-1][role][place], learned.task(task.name)
            # Of float32 logits whose exponentials are summed: 2^-23 for each of about a hundred operations.
            assert found == pytest.approx(by_hand(kind, network, getattr(task.dataset, role)), rel=2e-5)
    if learned.network.method.forgets_nothing:
        assert learned.rows[0]["test"][0] == learned.rows[1]["test"][0]
    learned.network.save(tmp_path / "joint.safetensors")
    again = JointNetwork.load(tmp_path / "joint.safetensors", trust=True)
    assert again.method.tasks == learned.network.method.tasks
    x = stream[0].dataset.test.x
    again.export("north" if kind == "tables" else "first", tmp_path / "task.pt2")
    exported = torch.export.load(tmp_path / "task.pt2").module()
    torch.testing.assert_close(exported(x), learned.task(stream[0].name)(x), rtol=1e-5, atol=1e-5)


def test_which_methods_take_any_targets():
    assert set(TAKING_ANY) == {
        "individual", "naive", "frozen", "adapters", "joint", "replay", "packnet", "bind-and-grow", "random-growth",
        "separate", "warm-start",
    }  # fmt: skip


@pytest.mark.parametrize("name", [name for name in METHODS if name not in TAKING_ANY])
def test_the_others_say_why(name, streams):
    network = "mlp:6,5"
    with pytest.raises(ConfigError, match=f"the method {name} needs one class for each input, because .*got numbers"):
        learn(streams["tables"], method=name, network=network, settings=RECIPE)


def test_a_chain_reads_vectors(streams):
    learned = learn(streams["tables"], method="bind-and-grow", network="mlp:6,5", settings=RECIPE)
    for place, task in enumerate(streams["tables"]):
        expected = by_hand("tables", learned.task(task.name), task.dataset.test)
        assert learned.rows[-1]["test"][place] == pytest.approx(expected, rel=1e-5)


def test_naive_forgets_a_text_and_its_own_network_does_not(streams, networks):
    settings = Recipe(epochs=12, batch_size=8, optimizer="adamw", learning_rate=0.02, metric="perplexity")
    found = {
        name: learn(streams["texts"], method=name, network=networks["texts"], settings=settings)
        for name in ("naive", "individual")
    }
    assert found["naive"].figures()["forgetting"] > 0.5, "the perplexity of the first text rises"
    assert found["individual"].figures()["forgetting"] == 0
    figures = found["naive"].figures(alone=[row["test"][-1] for row in found["individual"].rows])
    assert figures["average_accuracy"] == pytest.approx(np.mean(found["naive"].rows[-1]["test"]))
    assert figures["average_gain"] < 0, "a higher perplexity is a loss"


def test_an_interrupted_stream_of_texts_goes_on(streams, networks, tmp_path):
    settings = Recipe(epochs=2, batch_size=16, learning_rate=0.05, metric=lambda outputs, targets: outputs.mean())
    options = {"method": "bind-and-grow", "network": networks["texts"], "settings": settings}
    whole = learn(streams["texts"], **options)

    def kill(row):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn(streams["texts"], **options, folder=tmp_path, after_task=kill)
    again = learn(streams["texts"], **options, folder=tmp_path)
    assert [row["test"] for row in again.rows] == [row["test"] for row in whole.rows]


def test_the_data_of_a_finished_task_are_gone(streams):
    data = streams["texts"][0].data()
    x, y = data.train.x, data.train.y
    data.close()
    assert bool((x == -1).all()) and bool((y == -1).all())
    numbers = streams["tables"][0].data()
    kept = numbers.train.y
    numbers.close()
    assert bool(kept.isnan().all())
    with pytest.raises(GoneDataError):
        _ = numbers.train


def test_a_transformer_is_cut_into_its_blocks(networks):
    network = resolve_reference(networks["texts"], trusted=True)(words=6, length=8, depth=2)
    cut = cut_network(network, InputForm((8,), words=6))
    assert [block.name for block in cut.blocks] == ["embed", "blocks.0", "blocks.1"] and cut.head == "head"
    assert cut.blocks[0].weights == ("embed.weight",) and "positions" in cut.blocks[1].weights


class Counted(torch.nn.Module):
    """Words are counted, not embedded."""

    def __init__(self):
        super().__init__()
        self.body, self.head = torch.nn.Linear(6, 4), torch.nn.Linear(4, 6)

    def forward(self, x):
        return self.head(self.body(torch.nn.functional.one_hot(x, 6).float()).relu())


def test_a_network_of_texts_must_embed_them():
    with pytest.raises(ConfigError, match=r"must have an nn\.Embedding of its tokens, but Counted has none"):
        cut_network(Counted(), InputForm((8,), words=6))


def test_a_network_must_run_on_what_the_stream_has(streams, networks):
    with pytest.raises(ConfigError, match="must be given words, length"):
        learn(streams["tables"], method="naive", network=networks["texts"], settings=RECIPE)
    with pytest.raises(ConfigError, match="must run on vectors of 3 features, but Linear raises"):
        learn(streams["tables"], method="naive", network=torch.nn.Linear(4, 2), settings=RECIPE)
    for name in ("mlp", "vgg:8,8"):
        with pytest.raises(ConfigError, match=r"a network for texts of 8 tokens .* must be your own, .* but got"):
            learn(streams["texts"], method="naive", network=name, settings=RECIPE)


def test_methods_that_weigh_accuracies_want_accuracies():
    stream = make_stream("split-digits:2", train_size=60, eval_size=20)
    for name in ("firefly", "cpg", "den", "rcl"):
        with pytest.raises(ConfigError, match=f"the method {name} needs the metric accuracy, because .*but got top-2"):
            learn(stream, method=name, network="mlp:4", settings=Recipe(epochs=1, metric="top:2"))


def test_tasks_that_do_not_go_together_are_refused(folder, streams):
    north, first = streams["tables"][0], streams["texts"][0]
    x = np.random.default_rng(0).normal(size=(30, 3))
    classes = Task("classes", load((x, np.arange(30) % 2)))
    wide = Task("wide", load((np.tile(x, 2), x[:, 0])))
    other_words = Task("other", load(f"text:{folder / 'second.txt'}:length=8"))
    for tasks, message in (
        ([north, classes], "must be of one kind, classes or numbers, but those of 'north' and 'classes' differ"),
        ([north, wide], r"the inputs of a stream must have one shape, but 'north' has \(3,\) and 'wide' \(6,\)"),
        ([north, first], "must have one shape"),
        ([first, other_words], "must have one vocabulary, but 'first' has texts of 8 tokens out of 7"),
    ):
        with pytest.raises(DataError, match=message):
            Stream("mixed", tasks)


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([{"data": "text:first.txt:length=8"}, {"data": "text:second.txt:length=8,tokens=characters"}], "same tokens"),
        ([{"data": "text:first.txt:length=8"}, {"data": "text:second.txt:length=9"}], "must have one shape"),
        ([{"data": "text:first.txt:length=8", "train_size": 3}], "options after the file, but got train_size"),
        ([{"data": "text:nowhere.txt:length=8"}], "a text needs the file"),
        ([{"data": "text:first.txt:length=999"}], "windows of 999 words"),
    ],
)
def test_a_stream_of_texts_in_a_file_is_refused_in_one_line(folder, tmp_path, tasks, message):
    for name in ("first.txt", "second.txt"):
        (tmp_path / name).write_text((folder / name).read_text())
    (tmp_path / "bad.json").write_text(json.dumps([{"name": str(place), **task} for place, task in enumerate(tasks)]))
    with pytest.raises(DataError, match=message) as caught:
        make_stream(tmp_path / "bad.json")
    assert "\n" not in str(caught.value)
