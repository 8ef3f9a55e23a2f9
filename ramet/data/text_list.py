"""The texts that can be named, for `ramet data list`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ramet.data.named import data_folder
from ramet.data.text import FILES


@dataclass(frozen=True)
class TextDescription:
    """A text by the name that ``--data`` takes, and whether and where it would be found."""

    name: str
    title: str
    present: bool
    location: str
    licence: str
    citation: str


def describe_texts(data_dir: str | Path | None = None) -> list[TextDescription]:
    """Every named text; any other is ``text:FILE``."""
    folder = data_folder(data_dir) / "ptb"
    present = all(any((folder / name).is_file() for name in names) for names in FILES.values())
    return [
        TextDescription(
            name="text:ptb",
            title="Penn Treebank, as Mikolov prepared it",
            present=present,
            location=str(folder),
            licence="of the Linguistic Data Consortium",
            citation="M. P. Marcus, B. Santorini and M. A. Marcinkiewicz, Computational Linguistics, 1993",
        )
    ]
