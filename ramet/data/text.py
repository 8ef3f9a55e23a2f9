"""Text for language models: words by number, cut into windows, each word's target the word after it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from ramet.data.dataset import DataSet, Split
from ramet.data.named import data_folder
from ramet.data.tokens import tokenise
from ramet.errors import DataError

FILES = {
    "train": ("ptb.train.txt", "train.txt"),
    "validation": ("ptb.valid.txt", "valid.txt"),
    "test": ("ptb.test.txt", "test.txt"),
}


@dataclass(frozen=True, eq=False)
class Windows(Split):
    """Windows of words and of the words that follow them, both int64 of shape ``[n, window]``."""

    def __post_init__(self) -> None:
        if self.x.ndim != 2 or self.x.shape != self.y.shape or not self.x.dtype == self.y.dtype == torch.int64:
            shapes = (tuple(self.x.shape), tuple(self.y.shape))
            raise DataError(f"windows of words must be two int64 arrays of one shape [n, window], but got {shapes}.")


@dataclass(frozen=True, eq=False)
class Text(DataSet):
    """A language-modelling task; ``num_classes`` is the size of the vocabulary, ``class_names`` its words."""

    _hashed = ("text", "words", "<i8")

    @property
    def in_channels(self) -> int:
        """The words in a window, which stand where the channels of images do."""
        return int(self.train.x.shape[1])

    @property
    def image_size(self) -> tuple[int, int]:
        """Words have no image."""
        raise DataError(f"text has windows of words and no images, but the image size of {self.name} was asked for.")

    def __str__(self) -> str:
        counts = " / ".join(f"{split.y.numel():,}" for split in (self.train, self.validation, self.test))
        return f"{self.name}: {self.num_classes:,} words, windows of {self.in_channels}, {counts} words"


def load_text(
    source: str | Path = "ptb",
    *,
    data_dir: str | Path | None = None,
    tokens: str = "words",
    window: int = 35,
    vocabulary: int | None = None,
    like: Text | None = None,
    train_size: int | None = None,
    eval_size: int | None = None,
) -> Text:
    """Read a text: three files, or one that is cut into 80, 10 and 10 % in its order.

    The vocabulary is that of the training text; any other token is ``<unk>``.

    Args:
        source: ``ptb`` (Penn Treebank, ``ptb/ptb.train.txt`` and so on in the data folder), a folder with
            ``train.txt``, ``valid.txt`` and ``test.txt``, or one file of any text.
        data_dir: Where named sets lie; by default ``RAMET_DATA``, or a folder in the user's cache.
        tokens: ``words`` (those that spaces separate; a line's end is one), ``characters``, or the path of a
            ``tokenizer.json`` that the library tokenizers saved (Hugging Face; the extra ``text``).
        window: Tokens in a window: the length of back-propagation through time, 35 in ENAS.
        vocabulary: Keep only that many tokens, the most frequent ones; None keeps all.
        like: Another text, whose vocabulary this one has, so that one network can read both.
        train_size: Use only that many windows to train, the first ones.
        eval_size: The same to validate and to test, each.

    Raises:
        DataError: If a file is missing or not text, or a number is out of range.
        MissingExtraError: If the tokenizer of a file is read without tokenizers.
    """
    if window < 1 or (vocabulary is not None and vocabulary < 3):
        raise DataError(f"window must be at least 1 and vocabulary at least 3, but got {window} and {vocabulary}.")
    path = data_folder(data_dir) / "ptb" if source == "ptb" else Path(source).expanduser()
    texts = _cut(_read(path)) if path.is_file() else {role: _read(_find(path, names)) for role, names in FILES.items()}
    known = None if like is None else like.class_names
    numbers, words = tokenise(texts, tokens, vocabulary=vocabulary, known=known)
    splits = {
        role: _windows(torch.tensor(found), window, train_size if role == "train" else eval_size, role)
        for role, found in numbers.items()
    }
    notes = [] if vocabulary is None else [f"vocabulary of the {len(words):,} most frequent {tokens}"]
    notes += [] if tokens == "words" else [f"tokens: {tokens}"]
    name = "ptb" if source == "ptb" else path.stem
    train, validation, test = (splits[role] for role in FILES)
    return Text(name, train, validation, test, num_classes=len(words), class_names=words, notes=tuple(notes))


def _find(folder: Path, names: tuple[str, ...]) -> Path:
    path = next((folder / name for name in names if (folder / name).is_file()), None)
    if path is None:
        raise DataError(f"a text needs the file {names[-1]} or {names[0]}, but {folder} has neither.")
    return path


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} must be text in UTF-8, but cannot be read: {error}.") from None


def _cut(text: str) -> dict[str, str]:
    """The first 80 % of the lines, the next 10 % and the rest; of a text with few lines, of its characters."""
    parts = text.splitlines(keepends=True)
    parts = parts if len(parts) >= 10 else list(text)
    first, second = round(0.8 * len(parts)), round(0.9 * len(parts))
    cut = {"train": parts[:first], "validation": parts[first:second], "test": parts[second:]}
    return {role: "".join(found) for role, found in cut.items()}


def _windows(tokens: torch.Tensor, window: int, size: int | None, role: str) -> Windows:
    there = max(0, len(tokens) - 1) // window
    count = there if size is None else size
    if not 2 <= count <= there:
        raise DataError(
            f"the {role} text has {there} windows of {window} words; at least 2 are needed, but got {size}."
        )
    used = count * window
    return Windows(tokens[:used].reshape(count, window), tokens[1 : used + 1].reshape(count, window))
