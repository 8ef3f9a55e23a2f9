"""Which children use which copy of the weights, and in which order they are trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramet.registry import Registry
from ramet.registry.fronts import lazy_front

if TYPE_CHECKING:
    from ramet.sharing.base import Sharing
    from ramet.sharing.groups import Groups, affinity_groups, random_groups, similar_groups
    from ramet.sharing.interference import gradient_affinity, mean_change, trained_effect
    from ramet.sharing.kinds import FullSharing, GroupSharing, PrefixSharing
    from ramet.sharing.making import SharingSource, make_sharing
    from ramet.sharing.orders import Order, OrderKind
    from ramet.sharing.prefix import PrefixShared

__all__ = ["SHARINGS", "FullSharing", "GroupSharing", "Groups", "Order", "OrderKind", "PrefixShared", "PrefixSharing"]
__all__ += ["Sharing", "SharingSource", "affinity_groups", "gradient_affinity", "make_sharing", "mean_change"]
__all__ += ["random_groups", "similar_groups", "trained_effect"]

__getattr__ = lazy_front(__name__)

SHARINGS: Registry[Sharing] = Registry(
    "sharing",
    base="ramet.sharing.base:Sharing",
    group="ramet.sharings",
    built_in={
        "full": "ramet.sharing.kinds:FullSharing",
        "groups": "ramet.sharing.kinds:GroupSharing",
        "prefix": "ramet.sharing.kinds:PrefixSharing",
        "edge": "ramet.sharing.kinds:EdgeSharing",
    },
)
"""Which children use which copy of the weights."""
