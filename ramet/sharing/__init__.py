"""Which children use which copy of the weights, and in which order they are trained."""

from ramet.sharing.groups import Groups, affinity_groups, random_groups, similar_groups
from ramet.sharing.interference import gradient_affinity, mean_change, trained_effect
from ramet.sharing.orders import Order, OrderKind
from ramet.sharing.plan import Sharing
from ramet.sharing.prefix import PrefixShared

__all__ = [
    "Groups",
    "Order",
    "OrderKind",
    "PrefixShared",
    "Sharing",
    "affinity_groups",
    "gradient_affinity",
    "mean_change",
    "random_groups",
    "similar_groups",
    "trained_effect",
]
