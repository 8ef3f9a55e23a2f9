"""A text that is read in pieces: cut into its parts and into tokens as the whole of it would be."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ramet.data.tokens import END, KINDS, UNKNOWN, encoder_of, vocabulary_of
from ramet.errors import DataError

PIECE = 2**20
"""Characters that are read at a time."""

FEW_LINES = 10
"""A text of fewer lines is cut between characters."""


@dataclass(frozen=True)
class TextFiles:
    """The files of a text: one, which is cut into 80, 10 and 10 % in its order, or one for each part.

    Args:
        paths: by part.
        is_one: whether they are all one file.
    """

    paths: dict[str, Path]
    is_one: bool

    @property
    def num_bytes(self) -> int:
        """Those of all files."""
        return sum(path.stat().st_size for path in self._different())

    def content(self) -> str:
        """What tells the files from others without reading all: a checksum of 64 evenly spread pieces of each."""
        found = 0
        for path in self._different():
            size = path.stat().st_size
            with path.open("rb") as file:
                for place in range(64):
                    file.seek(place * max(0, size - 2**16) // 63)
                    found = zlib.crc32(file.read(2**16), found)
        return f"{found:08x}"

    def pieces(self) -> Iterator[tuple[str, str]]:
        """The text in its order: pieces of it, and the part that each belongs to.

        Raises:
            DataError: a file cannot be read, or is no text in UTF-8.
        """
        if self.is_one:
            yield from _cut(next(iter(self.paths.values())))
        else:
            for part, path in self.paths.items():
                for piece in _read(path):
                    yield part, piece

    def _different(self) -> list[Path]:
        return list(dict.fromkeys(self.paths.values()))


def _read(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8") as file:
            while piece := file.read(PIECE):
                yield piece
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} must be text in UTF-8, but cannot be read: {error}.") from None


def _cut(path: Path) -> Iterator[tuple[str, str]]:
    """The first 80 % of the lines, the next 10 % and the rest; of a text with few lines, of its characters."""
    num_lines = num_characters = 0
    is_open = False  # whether a line has begun that has not ended
    for piece in _read(path):
        lines = piece.splitlines(keepends=True)
        num_characters += len(piece)
        num_lines += len(lines) - is_open
        is_open = not _ends(lines[-1])
    units: Callable[[str], Sequence[str]]
    by_lines = num_lines >= FEW_LINES
    count, units = (num_lines, lambda piece: piece.splitlines(keepends=True)) if by_lines else (num_characters, list)
    ends = [round(0.8 * count), round(0.9 * count), count]
    place, part, names = 0, 0, ("train", "validation", "test")
    for piece in _read(path):
        found = units(piece)
        while found:
            # A line that goes on in the next piece has not ended, so that the next one is still the same unit.
            whole = len(found) - (by_lines and not _ends(found[-1]))
            taken = min(whole, ends[part] - place)
            place += taken
            if taken == whole and (place < ends[part] or part == 2):
                taken = len(found)
            if taken:
                yield names[part], "".join(found[:taken])
            found = found[taken:]
            while part < 2 and place == ends[part]:
                part += 1


def _ends(line: str) -> bool:
    """Whether a line of ``splitlines(keepends=True)`` has its end."""
    return len(line.splitlines()[0]) < len(line)


class Cutter(Protocol):
    """Cuts a text into tokens that comes in pieces."""

    def feed(self, piece: str) -> Sequence[Any]:
        """The tokens that are whole with this piece."""

    def finish(self) -> Sequence[Any]:
        """Those that are left."""


class WordCutter:
    """Words that spaces separate, and the ends of lines, as of ``text.splitlines()``."""

    def __init__(self) -> None:
        self._rest, self._is_open = "", False

    def feed(self, piece: str) -> list[str]:
        """The words that are whole with this piece: the last one may go on."""
        piece = self._rest + piece
        kept = len(piece)
        while kept and not piece[kept - 1].isspace():
            kept -= 1
        piece, self._rest = piece[:kept], piece[kept:]
        return self._words(piece)

    def finish(self) -> list[str]:
        """The last word, and the end of a line that has none of its own."""
        words = self._words(self._rest)
        self._rest = ""
        return [*words, END] if self._is_open else words

    def _words(self, piece: str) -> list[str]:
        words: list[str] = []
        for line in piece.splitlines(keepends=True):
            words += line.split()
            self._is_open = not _ends(line)
            if not self._is_open:
                words.append(END)
        return words


class CharacterCutter:
    """Single characters."""

    def feed(self, piece: str) -> str:
        """All of the piece's."""
        return piece

    def finish(self) -> str:
        """None is left."""
        return ""


class EncoderCutter:
    """The numbers of a tokenizer's pieces, block by block of whole lines.

    What a tokenizer puts around a whole text, such as a mark of its beginning, is left out.

    Args:
        encode: gives the numbers of a text.
    """

    def __init__(self, encode: Callable[[str], list[int]]) -> None:
        self._encode, self._rest = encode, ""

    def feed(self, piece: str) -> list[int]:
        """Those of all lines that have ended; a line of a million characters is cut where it stands."""
        piece = self._rest + piece
        kept = len(piece) if len(piece) > 4 * PIECE else piece.rfind("\n") + 1
        piece, self._rest = piece[:kept], piece[kept:]
        return self._encode(piece) if piece else []

    def finish(self) -> list[int]:
        """Those of the last line."""
        rest, self._rest = self._rest, ""
        return self._encode(rest) if rest else []


class _Numbers(dict[str, int]):
    """The number of each token; of one that has none, that of the unknown one."""

    def __missing__(self, piece: str) -> int:
        return self[UNKNOWN]


class TokenStream:
    """The numbers of a text's tokens, piece by piece, and what each number stands for.

    Args:
        files: the text, which is read once for its vocabulary and once for its numbers.
        kind: words, characters, or the file of a tokenizer.
        vocabulary: keep only that many, the most frequent ones.
        known: the vocabulary of another text.

    Raises:
        DataError: as ``tokenise``.
    """

    def __init__(
        self, files: TextFiles, kind: str, *, vocabulary: int | None = None, known: Sequence[str] | None = None
    ) -> None:
        self._files, self._number = files, _Numbers()
        if kind not in KINDS:
            encode, self.words = encoder_of(Path(kind), vocabulary, known)
            self._cutter: Callable[[], Cutter] = lambda: EncoderCutter(lambda text: encode(text, False))
            return
        self._cutter = WordCutter if kind == "words" else CharacterCutter
        counts: Counter[str] = Counter()
        if known is None:
            for _, found in self._cut(["train"]):
                counts.update(found)
        self.words = vocabulary_of(counts, kind, vocabulary, known)
        self._number = _Numbers({piece: place for place, piece in enumerate(self.words)})

    def numbers(self) -> Iterator[tuple[str, Sequence[int]]]:
        """The numbers of all tokens in their order, some at a time, and the part that they belong to."""
        for part, found in self._cut():
            yield part, list(map(self._number.__getitem__, found)) if self._number else found

    def _cut(self, wanted: Sequence[str] | None = None) -> Iterator[tuple[str, Sequence[Any]]]:
        cutters: dict[str, Cutter] = {}
        for part, piece in self._files.pieces():
            if wanted is None or part in wanted:
                if part not in cutters:
                    cutters[part] = self._cutter()
                yield part, cutters[part].feed(piece)
        for part, cutter in cutters.items():
            yield part, cutter.finish()
