"""What `ramet rank` and `ramet search` have in common: a space, and data that its networks fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ramet.errors import ConfigError, RametError
from ramet.registry import KINDS, anchored, parse_spec, registry_of

if TYPE_CHECKING:
    from ramet.data import DataSet
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


def anchored_source(source: Any, kind: str) -> Any:
    """A source with its file named from the root; a name that is known, or an object, stays as it is."""
    if not isinstance(source, str):
        return source
    names = registry_of(kind) if kind in KINDS else ()
    return anchored(source, names)


def build_data(source: str | DataSet, options: dict[str, Any], device: str) -> DataSet:
    """The data set of a name, a path or an object, on a device."""
    from ramet.data import DataSet, load, on_device

    if isinstance(source, DataSet):
        return on_device(source, device)
    return on_device(load(source, **options), device)


def takes_text(space: str | Space, data: str | DataSet) -> bool:
    """Whether the data are words: by their name, or because the space's networks are language models."""
    from ramet.data import Text
    from ramet.spaces import Recurrent

    if not isinstance(data, str):
        return isinstance(data, Text)
    of_words = parse_spec(space).name == "recurrent" if isinstance(space, str) else isinstance(space, Recurrent)
    return of_words or data in TEXTS


def build_text(source: str | DataSet, options: dict[str, Any], device: str) -> DataSet:
    """The text of a name, a folder or an object, on a device; the data set of images that is the default is no text."""
    from ramet.data import load_text, on_device

    if not isinstance(source, str):
        return on_device(source, device)
    return on_device(load_text("ptb" if source == "digits" else source, **options), device)


def build_space(source: str | Space, sizes: SpaceSizes, data: DataSet, *, trusted: bool) -> Space:
    """The space of a spec or an object; whatever a user's own function raises is one line."""
    from ramet.spaces import SPACES, Space, make_space

    if isinstance(source, Space):
        if sizes.given():
            raise ConfigError(f"sizes are for spaces by name, but got {sizes.given()} with an object.")
        return source
    spec = parse_spec(source, SPACES)
    fitting: dict[str, Any] = {}
    if spec.name not in SPACES:
        fitting = {"in_channels": data.in_channels, "num_classes": data.num_classes}
    try:
        return make_space(spec.name, **(fitting | _arguments(spec.name, sizes) | dict(spec.options)))
    except RametError:
        raise
    except Exception as error:
        raise ConfigError(f"the function of {source} must run, but raises {type(error).__name__}: {error}.") from error


def _arguments(source: str, sizes: SpaceSizes) -> dict[str, Any]:
    """The sizes by the space's own names, with small defaults for the built-in ones."""
    given = sizes.given()
    if source == "recurrent":
        given = {"channels": 64} | given
        names = {"channels": "hidden_size", "cells": "num_cells", "nodes": "num_nodes"}
    else:
        small = {"cells64": 2, "darts": 4, "nasbench201": 1, "enas-micro": 1}
        depth = {"nasbench201": "cells_per_stage", "enas-micro": "cells_per_stage"}.get(source, "num_cells")
        if source in small:
            given = {"channels": 8, "cells": small[source]} | given
        names = {"cells": depth, "nodes": "num_nodes"}
    return {names.get(name, name): value for name, value in given.items()}
