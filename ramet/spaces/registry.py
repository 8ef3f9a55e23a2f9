"""The spaces by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramet.registry import Registry

if TYPE_CHECKING:
    from ramet.spaces.base import Space

SPACES: Registry[Space] = Registry(
    "space",
    base="ramet.spaces.base:Space",
    group="ramet.spaces",
    built_in={
        "cells64": "ramet.spaces.cells.cells64:Cells64",
        "nasbench201": "ramet.spaces.cells.nasbench201:NasBench201",
        "darts": "ramet.spaces.darts.space:Darts",
        "enas-micro": "ramet.spaces.darts.enas_micro:EnasMicro",
        "recurrent": "ramet.spaces.recurrent.space:Recurrent",
    },
)
"""The architectures there are."""
