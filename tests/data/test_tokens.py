"""Text of any file: words, characters, a tokenizer's pieces, and one vocabulary for two texts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ramet.data import load_text
from ramet.errors import DataError

LINES = [f"line {number % 7} of the text" for number in range(200)]


@pytest.fixture
def file(tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(LINES) + "\n")
    return tmp_path / "text.txt"


def read(text, split):
    return [text.class_names[token] for token in split.x.flatten().tolist()]


def test_one_file_is_cut_in_its_order(file):
    text = load_text(file, window=5)
    assert text.name == "text"
    for split, lines in (("train", LINES[:160]), ("validation", LINES[160:180]), ("test", LINES[180:])):
        words = [word for line in lines for word in [*line.split(), "<eos>"]]
        found = read(text, getattr(text, split))
        assert found == words[: len(found)] and len(words) - len(found) <= 5


def test_characters(file):
    text = load_text(file, tokens="characters", window=8)
    assert "".join(read(text, text.train)).startswith("line 0 of the text\nline 1 of")
    assert set(text.class_names) == {"<eos>", "<unk>", *"".join(LINES), "\n"}


def test_a_text_of_one_line(tmp_path):
    (tmp_path / "one.txt").write_text("abc" * 100)
    text = load_text(tmp_path / "one.txt", tokens="characters", window=4)
    assert "".join(read(text, text.test)) == ("abc" * 10)[:28]


def test_a_second_text_has_the_vocabulary_of_the_first(file, tmp_path):
    first = load_text(file, window=5)
    (tmp_path / "other.txt").write_text("\n".join(["of this text"] * 50))
    second = load_text(tmp_path / "other.txt", window=4, like=first)
    assert second.class_names == first.class_names
    assert read(second, second.train)[:4] == ["of", "<unk>", "text", "<eos>"]


@pytest.fixture
def tokenizer(file, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=40, special_tokens=["<unk>"], show_progress=False)
    made.train([str(file)], trainer)
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def test_the_pieces_of_a_tokenizer(file, tokenizer):
    text = load_text(file, tokens=str(tokenizer), window=4)
    assert "".join(read(text, text.train)).startswith("line0ofthetextline1ofthetext")
    again = load_text(file, tokens=str(tokenizer), window=4, like=text)
    assert again.class_names == text.class_names
    with pytest.raises(DataError, match="must have the vocabulary that is known"):
        load_text(file, tokens=str(tokenizer), window=4, like=load_text(file, window=4))
    with pytest.raises(DataError, match="has a vocabulary of its own, but got vocabulary=9"):
        load_text(file, tokens=str(tokenizer), vocabulary=9)
    with pytest.raises(DataError, match="this is another tokenizer's"):
        names = tuple(f"piece {number}" for number in range(len(text.class_names)))
        load_text(file, window=4, like=replace(text, class_names=names))


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"", {}, "windows of 35 words; at least 2 are needed"),
        (b"\xff\xfe\x00", {}, "must be text in UTF-8"),
        (b"a b\n" * 900, {"tokens": "syllables"}, "tokens are words, characters or the file of a tokenizer"),
        (b"a b\n" * 900, {"window": 0}, "window must be at least 1"),
    ],
)
def test_what_is_no_text_is_one_line(content, options, message, tmp_path):
    (tmp_path / "bad.txt").write_bytes(content)
    with pytest.raises(DataError, match=message) as found:
        load_text(tmp_path / "bad.txt", **options)
    assert "\n" not in str(found.value)


def test_a_damaged_tokenizer(file, tmp_path):
    pytest.importorskip("tokenizers")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(DataError, match="must hold a tokenizer"):
        load_text(file, tokens=str(tmp_path / "tokenizer.json"))
