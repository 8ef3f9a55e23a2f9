"""What the tokens of a text are: words, characters, or the pieces of a tokenizer in a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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
        encode, names = encoder_of(Path(kind), vocabulary, known)
        return {role: encode(text, True) for role, text in texts.items()}, names
    split = _words if kind == "words" else list
    pieces = {role: split(text) for role, text in texts.items()}
    names = vocabulary_of(Counter(pieces["train"] if known is None else ()), kind, vocabulary, known)
    number = {piece: place for place, piece in enumerate(names)}
    rest = number[UNKNOWN]
    return {role: [number.get(piece, rest) for piece in found] for role, found in pieces.items()}, names


def vocabulary_of(
    counts: Mapping[str, int], kind: str, vocabulary: int | None, known: Sequence[str] | None
) -> tuple[str, ...]:
    """What each number stands for: the most frequent pieces of a text, or what is known.

    Raises:
        DataError: the known vocabulary has no place for other pieces.
    """
    if known is None:
        ranked = sorted(counts, key=lambda piece: (-counts[piece], piece))
        return tuple([END, UNKNOWN, *(piece for piece in ranked if piece not in (END, UNKNOWN))][:vocabulary])
    if UNKNOWN not in known:
        raise DataError(f"a vocabulary of {kind} must have {UNKNOWN}, but this is another tokenizer's.")
    return tuple(known)


def _words(text: str) -> list[str]:
    return [word for line in text.splitlines() for word in [*line.split(), END]]


def encoder_of(
    path: Path, vocabulary: int | None, known: Sequence[str] | None
) -> tuple[Callable[[str, bool], list[int]], tuple[str, ...]]:
    """What gives the numbers of a text by a tokenizer's file, and what each number stands for.

    It is called with a text and whether it is a whole one, which a tokenizer may put marks around.

    Raises:
        DataError: there is no such file, it holds no tokenizer, or its vocabulary is not the known one.
        MissingExtraError: tokenizers is not installed.
    """
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

    def encode(text: str, is_whole: bool) -> list[int]:
        numbers: list[int] = tokenizer.encode(text, add_special_tokens=is_whole).ids
        return numbers

    return encode, names
