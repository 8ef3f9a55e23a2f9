"""What a reader should know of a network in a file: a page of Markdown beside it."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch

import ramet
from ramet.runs.atomic import write_atomically


@dataclass(frozen=True, kw_only=True)
class Card:
    """A model card.

    Attributes:
        title: what the network is, in a few words.
        network: its own figures by name, such as parameters and multiply-adds.
        inputs: what it takes and what its outputs stand for, by name; see ``described_inputs``.
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
    inputs: Mapping[str, object] = field(default_factory=dict)
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
        parts = {
            "Network": self.network,
            "Inputs and outputs": self.inputs,
            "Data": self.data,
            "Figures": self.figures,
            "Files": files,
            "Made": made,
        }
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


class Prepared(Protocol):
    """What says how inputs were prepared and what outputs stand for: a data set, or what is known of a task."""

    @property
    def num_classes(self) -> int:
        """How many outputs there are; of a text, tokens that it may have."""

    @property
    def class_names(self) -> Sequence[str]:
        """What each output stands for; empty where nobody named them."""

    @property
    def mean(self) -> Sequence[float]:
        """What was subtracted from each channel of an image; empty where that is not known."""

    @property
    def deviation(self) -> Sequence[float]:
        """What each channel was divided by afterwards."""

    @property
    def target_mean(self) -> Sequence[float]:
        """What was subtracted from targets that are numbers; empty where nothing was."""

    @property
    def target_deviation(self) -> Sequence[float]:
        """What each was divided by afterwards."""


def described_inputs(shape: Sequence[int], prepared: Prepared, dtype: torch.dtype = torch.float32) -> dict[str, object]:
    """What whoever runs a network must know: the size of an input, how it is prepared, what the outputs stand for.

    The words of a text are left out: they are its author's.

    Args:
        shape: of one input without its batch: channels, height and width of an image, the features of a vector, or the
            tokens of a window.
        prepared: the data that the network was trained on.
        dtype: of an input; ``torch.int64`` for words.
    """
    size = f"[batch, {', '.join(map(str, shape))}]"
    if not dtype.is_floating_point:
        return {"input": f"{size}, numbers of tokens", "tokens": prepared.num_classes}
    facts: dict[str, object] = {"input": f"{size}, single precision"}
    if prepared.mean:
        images = "bytes are divided by 255; then (pixel - mean) / deviation, channel by channel"
        facts["preparation"] = images if len(shape) == 3 else "(feature - mean) / deviation, feature by feature"
        facts["mean"], facts["deviation"] = (
            ", ".join(map(str, values)) for values in (prepared.mean, prepared.deviation)
        )
    if prepared.target_deviation:
        facts["mean of targets"], facts["deviation of targets"] = (
            ", ".join(map(str, values)) for values in (prepared.target_mean, prepared.target_deviation)
        )
        return facts | {"outputs": "times the deviation, plus the mean, in the units of the data"}
    if not prepared.class_names:
        return facts | ({"outputs": prepared.num_classes} if prepared.num_classes else {})
    named = enumerate(prepared.class_names)
    return facts | {"classes": ", ".join(f"{place} {str(name)!r}" for place, name in named)}


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
