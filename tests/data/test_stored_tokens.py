"""Tokens that stay on disk: mapped arrays and texts in a spool have the bits that they have in memory."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import IterableDataset

import ramet
from ramet.data import array_writer, load, load_text, mapped_pages, memory, stored_tokens, text_stream
from ramet.data.stored_tokens import MappedTokens, StoredTokens, bounds_of
from ramet.data.text_stream import CharacterCutter, TextFiles, WordCutter
from ramet.data.tokens import tokenise
from ramet.errors import DataError
from ramet.growth.budget import Ends
from ramet.growth.plan import GrowPlan
from ramet.runs import Checkpoints
from ramet.training import Recipe, accuracy, fit, measure

X = np.random.default_rng(0).integers(0, 40, (60, 12), dtype=np.uint16)
Y = np.random.default_rng(1).integers(0, 30, (60, 12), dtype=np.uint8)
LINES = [f"line {number % 7} of the  text {number * number % 31}" for number in range(200)]
TEXTS = {
    "lines": "\n".join(LINES) + "\n",
    "no end": "\n".join(LINES),
    "ends of many kinds": "a b\x0bc\x0cd\x1ce f\x1d\x1e g\x85h\u2028i j\u2029\n\n  \nk\r\nl\rm " * 9,
    "one line": "ab cd e" * 90,
    "nine lines": "ab cd\n" * 9,
    "spaces at the end": "ab cd\n" * 40 + "   ",
    "not ascii": "größe 你好 naïve 🙂\n" * 50,
}


class Network(nn.Module):
    """A logit of each of some words for each token."""

    def __init__(self, words=40, outputs=40):
        super().__init__()
        self.embed, self.head = nn.Embedding(words, 6), nn.Linear(6, outputs)

    def forward(self, x):
        return self.head(self.embed(x).relu())


def network(data):
    torch.manual_seed(0)
    return Network(data.form.words, data.num_classes)


def files(folder, x=X, y=Y):
    folder.mkdir(exist_ok=True)
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", y)
    return folder


def equal(ours, theirs):
    for role in ("train", "validation", "test"):
        one, other = getattr(ours, role), getattr(theirs, role)
        for stored, tensor in ((one.x, other.x), (one.y, other.y)):
            values = stored[:] if isinstance(stored, StoredTokens) else stored
            assert torch.equal(values, tensor) and stored.shape == tensor.shape and stored.dtype == tensor.dtype
    assert (ours.form, ours.num_classes, ours.class_names) == (theirs.form, theirs.num_classes, theirs.class_names)
    assert str(ours) == str(theirs)


def test_an_index_gives_the_bits_of_a_tensor(tmp_path):
    rows = np.random.default_rng(2).permutation(60)[:30]
    ours = StoredTokens(MappedTokens(files(tmp_path) / "x.npy"), rows)
    whole = torch.from_numpy(X.astype(np.int64)[rows])
    assert (ours.shape, len(ours), ours.numel(), ours.ndim) == (whole.shape, 30, whole.numel(), 2)
    assert not ours.is_floating_point() and ours.dtype == whole.dtype and ours.device == whole.device
    for key in (torch.tensor([3, 29, 3]), slice(2, 9), slice(None, 4), slice(-3, None), 7, -1, [5, 1], slice(0)):
        assert torch.equal(ours[key], whole[key])
    assert torch.equal(ours.cpu()[:], whole) and torch.equal(pickle.loads(pickle.dumps(ours))[:4], whole[:4])
    assert len(pickle.dumps(ours)) < 1500


def test_pages_are_given_back(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped_pages, "MOST_MAPPED", 1000)
    monkeypatch.setattr(mapped_pages, "AROUND", 100)
    tokens = MappedTokens(files(tmp_path) / "x.npy")
    given = []

    class Watched:
        def madvise(self, advice, own=tokens._pages._map):
            given.append(advice)
            own.madvise(advice)

    tokens._pages._map = Watched()
    for _ in range(3):
        assert np.array_equal(tokens[np.arange(6)], X[:6])
    assert len(given) == 1
    monkeypatch.setattr(stored_tokens, "_BLOCK", 30)
    assert bounds_of(np.load(tmp_path / "x.npy", mmap_mode="r")) == (X.min(), X.max())


@pytest.mark.parametrize("targets", [Y, Y[:, :3], Y[:, 0] % 3], ids=["each", "places", "rows"])
def test_mapped_arrays_of_tokens(targets, tmp_path):
    options = {"inputs": "tokens", "seed": 3, "train_size": 20}
    place = files(tmp_path, y=targets)
    stored, in_memory = (load(place, in_memory=there, **options) for there in (False, True))
    assert isinstance(stored.train.x, StoredTokens) and isinstance(load(place, **options).train.x, torch.Tensor)
    assert isinstance(stored.train.y, StoredTokens) == (targets.ndim == 2)
    equal(stored, in_memory)
    assert stored.fingerprint() != load(place, in_memory=False, **{**options, "seed": 4}).fingerprint()
    pair = tuple(np.load(place / f"{name}.npy", mmap_mode="r") for name in ("x", "y"))
    equal(load(pair, in_memory=False, name=place.name, **options), in_memory)


def test_a_test_set_of_its_own_and_a_target_in_memory(tmp_path):
    for name, values in {"x_train": X[:45], "y_train": Y[:45], "x_test": X[45:], "y_test": Y[45:]}.items():
        np.save(tmp_path / f"{name}.npy", values)
    equal(load(tmp_path, in_memory=False), load(tmp_path, in_memory=True))
    np.save(tmp_path / "x.npy", X)
    mixed = load((np.load(tmp_path / "x.npy", mmap_mode="r"), Y), in_memory=False)
    assert isinstance(mixed.train.x, StoredTokens) and isinstance(mixed.train.y, torch.Tensor)
    equal(mixed, load((X, Y)))


def test_what_does_not_fit_stays_on_disk(tmp_path, monkeypatch):
    place = files(tmp_path)
    whole = load(place)
    monkeypatch.setattr(memory, "machine_memory", lambda: 2 * 8 * (X.size + Y.size) - 2)
    equal(stored := load(place), whole)
    assert isinstance(stored.train.x, StoredTokens) and isinstance(stored.train.y, StoredTokens)
    with pytest.raises(DataError, match="must fit into half of this machine's memory"):
        load(place, in_memory=True)


def test_what_tokens_may_not_be(tmp_path):
    with pytest.raises(DataError, match="tokens stay on disk where they are mapped arrays, but x are none"):
        load((X, Y), in_memory=False)
    with pytest.raises(DataError, match="must be numbers from 0, but one is -1"):
        load(files(tmp_path, x=X.astype(int) - 1 - X.min()), in_memory=False)
    part = np.load(files(tmp_path) / "x.npy", mmap_mode="r")[:50]
    with pytest.raises(DataError, match=r"must be a whole \.npy file"):
        load((part, Y[:50]), in_memory=False)


class Rows(IterableDataset):
    """Tokens one after the other."""

    def __init__(self, x=X, y=Y):
        self.x, self.y = x, y

    def __iter__(self):
        return iter(zip(self.x, self.y, strict=True))


def test_tokens_that_come_one_after_the_other(tmp_path):
    stored = load(Rows(), in_memory=False, spool=tmp_path / "spool", name="it")
    assert isinstance(stored.train.y, StoredTokens)
    assert np.load(tmp_path / "spool" / "all" / "x.npy").dtype == np.uint16
    equal(stored, load((X, Y), name="it"))
    with pytest.raises(DataError, match="the labels of the Rows must be an array with rows of one shape"):
        load(Rows(X, [*Y[:-1], Y[-1][:3]]), spool=tmp_path / "other")


def test_training_and_measuring_have_the_same_bits(tmp_path):
    place = files(tmp_path)
    ends = []
    for in_memory in (True, False):
        data = load(place, in_memory=in_memory)
        trained, recipe = network(data), Recipe(epochs=2, batch_size=8, metric="perplexity")
        fit(trained, data.train.x, data.train.y, recipe, seed=5)
        metric = recipe.metric_for(data.test.y)
        of_own = Recipe(metric=lambda outputs, targets: (outputs[..., 0] - targets).abs().max()).metric_for(data.test.y)
        measured = [measure(trained, data.test.x, data.test.y, each) for each in (metric, of_own)]
        ends.append((trained.head.weight, *measured, accuracy(trained, data.validation.x, data.validation.y)))
    assert torch.equal(ends[0][0], ends[1][0]) and ends[0][1:] == ends[1][1:]


# Texts


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("piece", [1, 7, 64, 2**20])
def test_pieces_of_a_text_are_cut_as_the_whole(name, piece, tmp_path, monkeypatch):
    monkeypatch.setattr(text_stream, "PIECE", piece)
    path = tmp_path / "text.txt"
    path.write_bytes(TEXTS[name].encode())
    whole = path.read_text(encoding="utf-8")
    lines = whole.splitlines(keepends=True)
    units = lines if len(lines) >= 10 else list(whole)
    ends = [0, round(0.8 * len(units)), round(0.9 * len(units)), len(units)]
    expected = {
        role: "".join(units[start:end])
        for role, start, end in zip(("train", "validation", "test"), ends, ends[1:], strict=False)
    }
    found = dict.fromkeys(expected, "")
    for role, part in TextFiles(dict.fromkeys(expected, path), True).pieces():
        found[role] += part
    assert found == expected
    for kind, cutter in (("words", WordCutter), ("characters", CharacterCutter)):
        tokens = []
        made = cutter()
        for start in range(0, len(whole), piece):
            tokens += made.feed(whole[start : start + piece])
        tokens += made.finish()
        numbers, words = tokenise({"train": whole}, kind)
        assert tokens == [words[number] for number in numbers["train"]]


@pytest.mark.parametrize("name", ["lines", "ends of many kinds", "one line", "not ascii"])
@pytest.mark.parametrize("options", [{}, {"vocabulary": 5}, {"tokens": "characters"}], ids=str)
def test_a_spooled_text_has_the_bits_of_one_in_memory(name, options, tmp_path, monkeypatch):
    monkeypatch.setattr(text_stream, "PIECE", 50)
    path = tmp_path / "text.txt"
    path.write_bytes(TEXTS[name].encode())
    expected = load_text(path, window=3, **options)
    for there in (False, None):
        found = load_text(path, window=3, **options, spool=tmp_path / "spool", in_memory=there)
        equal(found, expected)
        assert isinstance(found.train.x, StoredTokens) == (there is False)
    assert found.fingerprint() == expected.fingerprint()
    assert found.notes == (*expected.notes, "written once to the folder spool, and read there")
    fewer = load_text(path, window=2, **options, train_size=5, eval_size=2, spool=tmp_path / "spool", in_memory=False)
    equal(fewer, load_text(path, window=2, **options, train_size=5, eval_size=2))


def test_a_folder_of_three_files_and_a_known_vocabulary(tmp_path):
    for name, lines in (("train", LINES[:100]), ("valid", LINES[100:150]), ("test", LINES[150:])):
        (tmp_path / f"{name}.txt").write_text("\n".join(lines))
    found = load_text(tmp_path, window=5, spool=tmp_path / "spool", in_memory=False)
    equal(found, load_text(tmp_path, window=5))
    (tmp_path / "other.txt").write_text("\n".join(["of this text"] * 50))
    options = {"window": 4, "like": found}
    other = load_text(tmp_path / "other.txt", **options, spool=tmp_path / "second", in_memory=False)
    equal(other, load_text(tmp_path / "other.txt", **options))


def test_a_large_vocabulary_has_four_bytes(tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(str(number) for number in range(90000)))
    found = load_text(tmp_path / "text.txt", spool=tmp_path / "spool", in_memory=False)
    assert np.load(tmp_path / "spool" / "text" / "train.npy").dtype == np.uint32
    equal(found, load_text(tmp_path / "text.txt"))


def test_the_pieces_of_a_tokenizer(tmp_path, monkeypatch):
    tokenizers = pytest.importorskip("tokenizers")
    monkeypatch.setattr(text_stream, "PIECE", 50)
    (tmp_path / "text.txt").write_text(TEXTS["lines"])
    made = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=40, special_tokens=["<unk>"], show_progress=False)
    made.train([str(tmp_path / "text.txt")], trainer)
    made.save(str(tmp_path / "tokenizer.json"))
    options = {"window": 4, "tokens": str(tmp_path / "tokenizer.json")}
    equal(
        load_text(tmp_path / "text.txt", **options, spool=tmp_path / "spool", in_memory=False),
        load_text(tmp_path / "text.txt", **options),
    )


def test_a_text_that_does_not_fit(tmp_path, monkeypatch):
    path = tmp_path / "text.txt"
    path.write_text(TEXTS["lines"])
    whole = load_text(path)
    monkeypatch.setattr(memory, "machine_memory", lambda: 30 * path.stat().st_size)
    with pytest.raises(DataError, match=r"must fit into half of .* spool=DIR \(--spool DIR\)"):
        load(f"text:{path}")
    with pytest.raises(DataError, match=r"spool=DIR \(--spool DIR\), but .* got in_memory=False"):
        load(f"text:{path}", in_memory=False)
    equal(load_text(path, in_memory=True), whole)
    found = load(f"text:{path}:length=35", spool=tmp_path / "spool")
    assert isinstance(found.train.x, torch.Tensor), "its tokens fit, if not what they are made from"
    equal(found, whole)
    monkeypatch.setattr(memory, "machine_memory", lambda: 1000)
    equal(load(f"text:{path}:length=35", spool=tmp_path / "spool"), whole)


def test_a_spool_of_another_text_is_refused(tmp_path):
    path, spool = tmp_path / "text.txt", tmp_path / "spool"
    path.write_text(TEXTS["lines"])
    load_text(path, spool=spool)
    for options in ({"tokens": "characters"}, {"vocabulary": 5}, {"like": ["<eos>", "<unk>", "a"]}):
        with pytest.raises(DataError, match="must have been written from"):
            load_text(path, **options, spool=spool)
    with pytest.raises(DataError, match="holds text, which is none of it"):
        load(Rows(), spool=spool)
    path.write_text(TEXTS["lines"].replace("line 3", "lime 3"))
    with pytest.raises(DataError, match="must have been written from"):
        load_text(path, spool=spool)


def test_a_text_that_cannot_be_cut_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(text_stream, "PIECE", 10)
    monkeypatch.setattr(array_writer, "PIECE", 10)
    path = tmp_path / "text.txt"
    path.write_bytes(b"a b c\n" * 100 + b"\xff\xfe")
    with pytest.raises(DataError, match="must be text in UTF-8") as found:
        load_text(path, spool=tmp_path / "spool")
    assert "\n" not in str(found.value) and not (tmp_path / "spool").exists()


class Killed(BaseException):
    """The process is gone."""


def test_a_killed_run_on_a_spooled_text_goes_on(tmp_path, monkeypatch):
    path = tmp_path / "text.txt"
    path.write_text(TEXTS["lines"])
    recipe, plan = Recipe(epochs=2, batch_size=8), GrowPlan(methods="net2net", ends=Ends(max_steps=1))
    words = len(load_text(path).class_names)

    def grown(out, **options):
        source = f"text:{path}:length=8"
        return ramet.grow(Network(words, words), source, recipe=recipe, plan=plan, out=tmp_path / out, **options)

    save = Checkpoints.save

    def last_save(self, step, *content):
        save(self, step, *content)
        raise Killed

    torch.manual_seed(0)
    spool = {"in_memory": False, "spool": str(tmp_path / "spool")}
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Checkpoints, "save", last_save)
        torch.manual_seed(0)
        grown("killed", **spool)
    torch.manual_seed(0)
    ended = grown("killed", **spool)
    torch.manual_seed(0)
    in_memory = grown("memory")
    assert ended.methods["net2net"].validation == in_memory.methods["net2net"].validation
    weights = [Path(tmp_path, out, "networks", "net2net", "weights.safetensors") for out in ("killed", "memory")]
    assert weights[0].read_bytes() == weights[1].read_bytes()
