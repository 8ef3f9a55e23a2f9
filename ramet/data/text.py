"""Text for language models: words by number, cut into windows, each word's target the word after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from ramet.data.dataset import DataSet, Split
from ramet.data.form import InputForm
from ramet.data.memory import fits_in_memory
from ramet.data.named import data_folder
from ramet.data.spool import folder_of, written_to
from ramet.data.spooled_text import SpooledText, spool_text
from ramet.data.stored_tokens import MappedTokens, StoredTokens
from ramet.data.text_stream import TextFiles
from ramet.data.tokens import tokenise
from ramet.errors import DataError
from ramet.registry import parse_spec

FILES = {
    "train": ("ptb.train.txt", "train.txt"),
    "validation": ("ptb.valid.txt", "valid.txt"),
    "test": ("ptb.test.txt", "test.txt"),
}

MEMORY_OF_TEXT = 20
"""Bytes that a byte of text takes while it is cut into tokens in memory, most of them for Python's objects."""


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
    def form(self) -> InputForm:
        """Windows of words."""
        return InputForm((int(self.train.x.shape[1]),), self.num_classes)

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


def text(file: str, tokens: str = "words", length: int = 64, vocabulary: int | None = None) -> Text:
    """A text as a data set: windows of tokens, each token's target the one after it.

    Args:
        file: a text of any kind, which is cut into 80, 10 and 10 % in its order; a folder with train.txt, valid.txt and
            test.txt; or ptb.
        tokens: words, characters, or the file of a tokenizer (tokenizer.json).
        length: tokens in a window.
        vocabulary: keep only that many tokens, the most frequent ones.
    """
    return load_text(file, tokens=tokens, window=length, vocabulary=vocabulary)


def is_text(source: object) -> bool:
    """Whether a source names a text: ``text:FILE:length=64``."""
    return isinstance(source, str) and source.partition(":")[0] == "text" and ":" in source


def read_text(
    source: str,
    *,
    data_dir: str | Path | None = None,
    train_size: int | None = None,
    eval_size: int | None = None,
    name: str | None = None,
    like: Text | Sequence[str] | None = None,
    in_memory: bool | None = None,
    spool: str | Path | None = None,
) -> Text:
    """The text that ``text:FILE:length=64`` names; see ``text`` for its options and ``load_text`` for the others.

    Raises:
        DataError: an option is another, or as ``load_text``.
    """
    spec = parse_spec(source, ("text",))
    options = {"length": 64, **spec.options}
    if len(spec.values) != 1 or set(options) - {"tokens", "length", "vocabulary"}:
        raise DataError(f"a text is named as text:FILE:tokens=words,length=64,vocabulary=1000, but got {source!r}.")
    for option in ("length", "vocabulary"):
        if not isinstance(options.get(option, 1), int):
            raise DataError(f"{option} of a text must be a whole number, but got {options[option]!r}.")
    found = load_text(
        str(spec.values[0]),
        data_dir=data_dir,
        tokens=str(options.get("tokens", "words")),
        window=options["length"],
        vocabulary=options.get("vocabulary"),
        like=like,
        train_size=train_size,
        eval_size=eval_size,
        in_memory=in_memory,
        spool=spool,
    )
    return found if name is None else replace(found, name=name)


def load_text(
    source: str | Path = "ptb",
    *,
    data_dir: str | Path | None = None,
    tokens: str = "words",
    window: int = 35,
    vocabulary: int | None = None,
    like: Text | Sequence[str] | None = None,
    train_size: int | None = None,
    eval_size: int | None = None,
    in_memory: bool | None = None,
    spool: str | Path | None = None,
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
        like: Another text, whose vocabulary this one has, so that one network can read both; or the vocabulary.
        train_size: Use only that many windows to train, the first ones.
        eval_size: The same to validate and to test, each.
        in_memory: Whether all tokens are read at once. By default those that take at most half of the machine's memory
            are; others stay in the folder ``spool``, and windows are read batch by batch, with the same bits.
        spool: A folder of its own to which the numbers of tokens are written once, piece by piece, so that the text
            itself is never in memory. What it holds is taken as it is if it was written from the same text in the same
            way. A tokenizer's file is then given blocks of whole lines, without the marks that it puts around a text.

    Raises:
        DataError: If a file is missing or not text, or a number is out of range; if the text does not fit into memory
            and there is no folder to write to, or the folder holds something else.
        MissingExtraError: If the tokenizer of a file is read without tokenizers.
    """
    if window < 1 or (vocabulary is not None and vocabulary < 3):
        raise DataError(f"window must be at least 1 and vocabulary at least 3, but got {window} and {vocabulary}.")
    path = _place(source, data_dir)
    known = like.class_names if isinstance(like, Text) else like
    sizes = {role: train_size if role == "train" else eval_size for role in FILES}
    if spool is None:
        _require_memory(path, in_memory)
        numbers, words = tokenise(_texts(path), tokens, vocabulary=vocabulary, known=known)
        splits = {role: _windows(torch.tensor(found), window, sizes[role], role) for role, found in numbers.items()}
    else:
        written = spool_text(_files(path), folder_of(spool), tokens, vocabulary=vocabulary, known=known)
        words = written.words
        stays = not fits_in_memory([2, written.num_tokens]) if in_memory is None else not in_memory
        cut = partial(_stored_windows if stays else _read_windows, written)
        splits = {role: cut(window, sizes[role], role) for role in FILES}
    notes = [] if vocabulary is None else [f"vocabulary of the {len(words):,} most frequent {tokens}"]
    notes += [] if tokens == "words" else [f"tokens: {tokens}"]
    notes += [] if spool is None else [written_to(folder_of(spool))]
    name = "ptb" if source == "ptb" else path.stem
    train, validation, test = (splits[role] for role in FILES)
    return Text(name, train, validation, test, num_classes=len(words), class_names=words, notes=tuple(notes))


def read_texts(sources: Sequence[str], *, data_dir: str | Path | None = None, **options: Any) -> list[Text]:
    """Several texts with one vocabulary, that of all training texts together, so that one network can read them all.

    Args:
        sources: each ``text:FILE:length=64``; see ``read_text``. How tokens are made is the first one's.
        data_dir: where named sets lie.
        options: further ones of ``read_text``.

    Raises:
        DataError: as ``read_text``, or they have different tokens.
    """
    specs = [parse_spec(source, ("text",)) for source in sources]
    kinds = [spec.options.get("tokens", "words") for spec in specs]
    if other := [kind for kind in kinds if kind != kinds[0]]:
        raise DataError(f"texts that share a vocabulary must have the same tokens, but got {kinds[0]} and {other[0]}.")
    if any(len(spec.values) != 1 for spec in specs):
        return [read_text(source, data_dir=data_dir, **options) for source in sources]  # refuses it
    options = {"in_memory": True, **options}
    together = "\n".join(_texts(_place(str(spec.values[0]), data_dir))["train"] for spec in specs)
    _, words = tokenise({"train": together}, str(kinds[0]), vocabulary=specs[0].options.get("vocabulary"))
    return [read_text(source, data_dir=data_dir, like=words, **options) for source in sources]


def _place(source: str | Path, data_dir: str | Path | None) -> Path:
    return data_folder(data_dir) / "ptb" if source == "ptb" else Path(source).expanduser()


def _files(path: Path) -> TextFiles:
    """The files to train, to validate and to test on, or the one that is cut into these."""
    one = path.is_file()
    return TextFiles({role: path if one else _find(path, names) for role, names in FILES.items()}, one)


def _require_memory(path: Path, in_memory: bool | None) -> None:
    """Refuse a text that shall not, or cannot, be cut into tokens in memory."""
    if in_memory is False:
        raise DataError(
            f"a text whose tokens stay on disk needs the folder that they are written to, spool=DIR (--spool DIR), but "
            f"{path} has none and got in_memory=False."
        )
    if in_memory is None and not fits_in_memory([num_bytes := MEMORY_OF_TEXT * _files(path).num_bytes // 4]):
        raise DataError(
            f"a text must fit into half of this machine's memory while it is cut into tokens, but {path} takes about "
            f"{4 * num_bytes:,} bytes; spool=DIR (--spool DIR) names a folder that its tokens are written to once."
        )


def _texts(path: Path) -> dict[str, str]:
    """The text to train, to validate and to test."""
    files = _files(path)
    return _cut(_read(path)) if files.is_one else {role: _read(found) for role, found in files.paths.items()}


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
    used = _count(len(tokens), window, size, role) * window
    return Windows(tokens[:used].reshape(-1, window), tokens[1 : used + 1].reshape(-1, window))


def _read_windows(text: SpooledText, window: int, size: int | None, role: str) -> Windows:
    """Windows of a text whose numbers are written, in memory."""
    used = _count(text.lengths[role], window, size, role) * window
    return _windows(torch.from_numpy(text.array(role)[: used + 1].astype(np.int64)), window, size, role)


def _stored_windows(text: SpooledText, window: int, size: int | None, role: str) -> Windows:
    """Windows of a text whose numbers are written, and stay there."""
    count = _count(text.lengths[role], window, size, role)
    x, y = (StoredTokens(MappedTokens(text.place(role), (start, count, window)), np.arange(count)) for start in (0, 1))
    return Windows(cast("torch.Tensor", x), cast("torch.Tensor", y))


def _count(num_tokens: int, window: int, size: int | None, role: str) -> int:
    """How many windows are taken."""
    there = max(0, num_tokens - 1) // window
    count = there if size is None else size
    if not 2 <= count <= there:
        raise DataError(
            f"the {role} text has {there} windows of {window} words; at least 2 are needed, but got {size}."
        )
    return count
