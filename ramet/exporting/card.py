"""What a reader should know of a network in a file: a page of Markdown beside it."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch

import ramet
from ramet.runs.atomic import write_atomically


@dataclass(frozen=True, kw_only=True)
class Card:
    """A model card.

    Attributes:
        title: what the network is, in a few words.
        network: its own figures by name, such as parameters and multiply-adds.
        data: the data that it was trained on, by name.
        figures: how good it is, by name; each says on which images.
        made: how it was made, by name: the method, its start, the recipe.
        words: what else a reader should know, a line each.
    """

    title: str
    network: Mapping[str, object]
    data: Mapping[str, object]
    figures: Mapping[str, object]
    made: Mapping[str, object]
    words: tuple[str, ...] = field(default=())

    def text(self, files: Mapping[str, str]) -> str:
        """The page; ``files`` says what each file beside it is.

        >>> card = Card(title="A network", network={"parameters": 1200}, data={}, figures={"test": "93.1 %"}, made={})
        >>> print(card.text({"network.pt2": "runs with torch"}).partition("## Made")[0])
        # A network
        <BLANKLINE>
        ## Network
        - parameters: 1,200
        <BLANKLINE>
        ## Figures
        - test: 93.1 %
        <BLANKLINE>
        ## Files
        - network.pt2: runs with torch
        <BLANKLINE>
        <BLANKLINE>
        """
        made = {
            **self.made,
            "ramet": ramet.__version__,
            "torch": torch.__version__,
            "Python": platform.python_version(),
        }
        parts = {"Network": self.network, "Data": self.data, "Figures": self.figures, "Files": files, "Made": made}
        lines = [f"# {self.title}", ""]
        for title, entries in parts.items():
            if entries:
                lines += [f"## {title}", *(f"- {name}: {_shown(value)}" for name, value in entries.items()), ""]
        return "\n".join([*lines, *self.words]).rstrip() + "\n"

    def write(self, path: Path, files: Mapping[str, str]) -> None:
        """Write the page.

        Raises:
            RunError: the disk refuses.
        """
        write_atomically(path, self.text(files).encode())


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
