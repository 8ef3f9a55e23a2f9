"""Text for language models: words by number, cut into windows, each word's target the word after it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import torch

from ramet.data.dataset import DataSet, Split
from ramet.data.named import data_folder
from ramet.errors import DataError

END, UNKNOWN = "<eos>", "<unk>"
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
    window: int = 35,
    vocabulary: int | None = None,
    train_size: int | None = None,
    eval_size: int | None = None,
) -> Text:
    """Read a text that comes in three files, one sentence a line, words separated by spaces.

    A line's end is a word of its own. The vocabulary is that of the training text; any other word is ``<unk>``.

    Args:
        source: ``ptb`` (Penn Treebank, ``ptb/ptb.train.txt`` and so on in the data folder), or a folder with
            ``train.txt``, ``valid.txt`` and ``test.txt``.
        data_dir: Where named sets lie; by default ``RAMET_DATA``, or a folder in the user's cache.
        window: Words in a window: the length of back-propagation through time, 35 in ENAS.
        vocabulary: Keep only that many words, the most frequent ones; None keeps all.
        train_size: Use only that many windows to train, the first ones.
        eval_size: The same to validate and to test, each.

    Raises:
        DataError: If a file is missing or not text, or a number is out of range.
    """
    if window < 1 or (vocabulary is not None and vocabulary < 3):
        raise DataError(f"window must be at least 1 and vocabulary at least 3, but got {window} and {vocabulary}.")
    folder = data_folder(data_dir) / "ptb" if source == "ptb" else Path(source)
    words = {role: _read(folder, names) for role, names in FILES.items()}
    counts = Counter(words["train"])
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    kept = [END, UNKNOWN, *(word for word in ranked if word not in (END, UNKNOWN))][:vocabulary]
    number = {word: place for place, word in enumerate(kept)}
    splits = {}
    for role, text in words.items():
        tokens = torch.tensor([number.get(word, 1) for word in text])
        splits[role] = _windows(tokens, window, train_size if role == "train" else eval_size, role)
    name = "ptb" if source == "ptb" else folder.name
    notes = () if vocabulary is None else (f"vocabulary of the {len(kept):,} most frequent words",)
    train, validation, test = (splits[role] for role in FILES)
    return Text(name, train, validation, test, num_classes=len(kept), class_names=tuple(kept), notes=notes)


def _read(folder: Path, names: tuple[str, ...]) -> list[str]:
    path = next((folder / name for name in names if (folder / name).is_file()), None)
    if path is None:
        raise DataError(f"a text needs the file {names[-1]} or {names[0]}, but {folder} has neither.")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} must be text in UTF-8, but cannot be read: {error}.") from None
    return [word for line in lines for word in [*line.split(), END]]


def _windows(tokens: torch.Tensor, window: int, size: int | None, role: str) -> Windows:
    there = (len(tokens) - 1) // window
    count = there if size is None else size
    if not 2 <= count <= there:
        raise DataError(
            f"the {role} text has {there} windows of {window} words; at least 2 are needed, but got {size}."
        )
    used = count * window
    return Windows(tokens[:used].reshape(count, window), tokens[1 : used + 1].reshape(count, window))
