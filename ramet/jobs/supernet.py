"""What `ramet rank` and `ramet search` have in common: a space, and data that its networks fit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ramet.errors import ConfigError, RametError, told

if TYPE_CHECKING:
    from ramet.data import DataSet
    from ramet.ranking.weights import StartWeights
    from ramet.spaces import Space

TEXTS = ("ptb",)
"""Data sets by name that are words."""


@dataclass(frozen=True, kw_only=True)
class SpaceSizes:
    """How large the networks of a space are; the space knows what its own arguments are called.

    Args:
        channels: the width of a cell (for recurrent: of the hidden state); by default a small one.
        cells: the number of cells (in nasbench201 and enas-micro, in each stage); by default a small one.
        nodes: the number of nodes of a cell, where the space lets it vary; by default the paper's.
        bn_momentum: the momentum of batch norm; by default the space's own.
    """

    channels: int | None = None
    cells: int | None = None
    nodes: int | None = None
    bn_momentum: float | None = None

    def given(self) -> dict[str, Any]:
        """Those that have a value."""
        return {name: value for name, value in vars(self).items() if value is not None}


def anchored_start(start: str | None) -> str | None:
    """The file of weights that networks begin with, named from the root."""
    return None if start is None else str(Path(start).absolute())


def read_start(start: str | None) -> StartWeights | None:
    """The weights that networks begin with, if they are given."""
    from ramet.ranking.weights import StartWeights

    return None if start is None else StartWeights.read(start)


def build_data(source: str | DataSet, options: dict[str, Any], device: str) -> DataSet:
    """The data set of a name, a path or an object, on a device."""
    from ramet.data import DataSet, load, on_device

    if isinstance(source, DataSet):
        return on_device(source, device)
    return on_device(load(source, **options), device)


def are_words(space: str | Space, data: str | DataSet) -> bool:
    """Whether the data are words: by their name, or because the space's networks are language models."""
    from ramet.data import Text
    from ramet.spaces import takes_text

    return (data in TEXTS or takes_text(space)) if isinstance(data, str) else isinstance(data, Text)


def build_text(source: str | DataSet, options: dict[str, Any], device: str) -> DataSet:
    """The text of a name, a folder or an object, on a device; the data set of images that is the default is no text."""
    from ramet.data import load_text, on_device
    from ramet.data.text import is_text, read_text

    if not isinstance(source, str):
        return on_device(source, device)
    if is_text(source):
        if own := sorted(set(options) & {"tokens", "window", "vocabulary"}):
            raise ConfigError(f"options of a text stand after its file, text:FILE:length=35, but got {', '.join(own)}.")
        return on_device(read_text(source, **options), device)
    return on_device(load_text("ptb" if source == "digits" else source, **options), device)


def build_space(source: str | Space, sizes: SpaceSizes, data: DataSet) -> Space:
    """The space of a spec or an object; whatever a user's own function raises is one line."""
    from ramet.spaces import SPACES, Space, fitting_options, make_space, size_options

    if isinstance(source, Space):
        if sizes.given():
            raise ConfigError(f"sizes are for spaces by name, but got {sizes.given()} with an object.")
        return source
    given_as: object = source
    if not isinstance(given_as, str):
        got = f"the class {given_as.__name__}" if isinstance(given_as, type) else f"a {type(given_as).__name__}"
        raise ConfigError(f"a space must be a name, FILE.py:function or a Space, but got {got}.")
    spec = SPACES.parse(source)
    given = sizes.given()
    momentum = {"bn_momentum": given.pop("bn_momentum")} if "bn_momentum" in given else {}
    fitting = fitting_options(source, in_channels=data.in_channels, num_classes=data.num_outputs)
    try:
        return make_space(source, **(fitting | size_options(source, **given) | momentum | dict(spec.options)))
    except (RametError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise ConfigError(f"the function of {source} must run, but raises {told(error)}.") from error
