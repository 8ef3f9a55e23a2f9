"""What the tokens of a text are: words, characters, or the pieces of a tokenizer in a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ramet.errors import DataError, MissingExtraError

END, UNKNOWN = "<eos>", "<unk>"
KINDS = ("words", "characters")


def tokenise(
    texts: dict[str, str], kind: str, *, vocabulary: int | None = None, known: Sequence[str] | None = None
) -> tuple[dict[str, list[int]], tuple[str, ...]]:
    """The numbers of all tokens of several texts, and what each number stands for.

    Args:
        texts: by name; the vocabulary is that of ``train``.
        kind: ``words`` (those that spaces separate; a line's end is one), ``characters``, or the path of a
            ``tokenizer.json`` as the library tokenizers saves it, which has a vocabulary of its own.
        vocabulary: keep only that many, the most frequent ones; any other is ``<unk>``.
        known: the vocabulary of another text, which is taken instead.

    Raises:
        DataError: there is no such file, it holds no tokenizer, or its vocabulary is not the known one.
        MissingExtraError: tokenizers is not installed.

    >>> tokenise({"train": "a b a", "test": "b c"}, "words")
    ({'train': [2, 3, 2, 0], 'test': [3, 1, 0]}, ('<eos>', '<unk>', 'a', 'b'))
    """
    if kind not in KINDS:
        return _by_file(texts, Path(kind), vocabulary, known)
    split = _words if kind == "words" else list
    pieces = {role: split(text) for role, text in texts.items()}
    if known is None:
        counts = Counter(pieces["train"])
        ranked = sorted(counts, key=lambda piece: (-counts[piece], piece))
        known = [END, UNKNOWN, *(piece for piece in ranked if piece not in (END, UNKNOWN))][:vocabulary]
    elif UNKNOWN not in known:
        raise DataError(f"a vocabulary of {kind} must have {UNKNOWN}, but this is another tokenizer's.")
    number = {piece: place for place, piece in enumerate(known)}
    rest = number[UNKNOWN]
    return {role: [number.get(piece, rest) for piece in found] for role, found in pieces.items()}, tuple(known)


def _words(text: str) -> list[str]:
    return [word for line in text.splitlines() for word in [*line.split(), END]]


def _by_file(
    texts: dict[str, str], path: Path, vocabulary: int | None, known: Sequence[str] | None
) -> tuple[dict[str, list[int]], tuple[str, ...]]:
    if not path.is_file():
        raise DataError(f"tokens are words, characters or the file of a tokenizer, but there is no file {path}.")
    if vocabulary is not None:
        raise DataError(f"a tokenizer of a file has a vocabulary of its own, but got vocabulary={vocabulary}.")
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise MissingExtraError("tokenizers", "text") from None
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises plain exceptions
        raise DataError(f"{path} must hold a tokenizer as tokenizers saves it, but: {error}.") from None
    numbers = tokenizer.get_vocab()
    words = {place: word for word, place in numbers.items()}
    names = tuple(words.get(place, f"<unused {place}>") for place in range(max(words, default=-1) + 1))
    if known is not None and tuple(known) != names:
        raise DataError(
            f"a tokenizer must have the vocabulary that is known, {len(known):,} pieces, but {path} has {len(names):,} "
            "of its own."
        )
    return {role: tokenizer.encode(text).ids for role, text in texts.items()}, names
