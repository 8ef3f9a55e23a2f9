"""The sharings by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramet.registry import Registry

if TYPE_CHECKING:
    from ramet.sharing.base import Sharing

SHARINGS: Registry[Sharing] = Registry(
    "sharing",
    base="ramet.sharing.base:Sharing",
    group="ramet.sharings",
    built_in={
        "full": "ramet.sharing.kinds:FullSharing",
        "groups": "ramet.sharing.kinds:GroupSharing",
        "prefix": "ramet.sharing.kinds:PrefixSharing",
    },
)
"""Which children use which copy of the weights."""
