"""The tokens of a text by number, written to a spool piece by piece, so that the text is never in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from ramet.data.raw import Array
from ramet.data.spool import Spooled, SpoolWriter, spooled
from ramet.data.text_stream import TextFiles, TokenStream
from ramet.data.tokens import KINDS
from ramet.errors import DataError
from ramet.runs.encoding import Json


@dataclass(frozen=True)
class SpooledText:
    """The numbers of all tokens, [tokens] for each part, in files.

    Args:
        written: where they are.
        words: what each number stands for.
        lengths: how many tokens each part has.
    """

    written: Spooled
    words: tuple[str, ...]
    lengths: dict[str, int]

    @property
    def num_tokens(self) -> int:
        """Those of all parts."""
        return sum(self.lengths.values())

    def place(self, part: str) -> Path:
        """The file of a part."""
        return self.written.folder / f"{part}.npy"

    def array(self, part: str) -> Array:
        """The numbers of a part, which stay on the disk."""
        return self.written.array(part)


def spool_text(
    files: TextFiles, folder: Path, kind: str, *, vocabulary: int | None = None, known: Sequence[str] | None = None
) -> SpooledText:
    """The tokens of a text, which is read only if the folder does not have them yet.

    Numbers take two bytes each, or four where the vocabulary has more than 65,536.

    Args:
        files: the text.
        folder: the user's.
        kind: words, characters, or the file of a tokenizer.
        vocabulary: keep only that many, the most frequent ones.
        known: the vocabulary of another text.

    Raises:
        DataError: as ``TokenStream`` and ``spooled``.
    """
    try:
        source = {
            "source": "a text",
            "bytes": files.num_bytes,
            "content": files.content(),
            "tokens": kind if kind in KINDS else _digest(Path(kind).read_bytes()) if Path(kind).is_file() else None,
            "vocabulary": vocabulary,
            "known": None if known is None else _digest("\n".join(known).encode()),
        }
    except OSError as error:
        raise DataError(f"a text must be readable, but {error.filename} is not: {error.strerror}.") from error
    make = partial(TokenStream, files, kind, vocabulary=vocabulary, known=known)

    def fill(writer: SpoolWriter) -> Json:
        stream = make()
        dtype = np.dtype(np.uint16 if len(stream.words) <= 2**16 else np.uint32)
        arrays = {part: writer.array(part, dtype, ()) for part in files.paths}
        for part, numbers in stream.numbers():
            arrays[part].append(np.array(numbers, dtype=dtype))
        return {"words": list(stream.words), "lengths": {part: array.count for part, array in arrays.items()}}

    found = spooled(folder, "text", source, fill)
    return SpooledText(found, tuple(found.facts["words"]), dict(found.facts["lengths"]))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
