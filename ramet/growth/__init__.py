"""Networks that get larger where it helps most: what can grow, how, and which of it is worth its size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramet.registry.fronts import lazy_front

if TYPE_CHECKING:
    from ramet.growth.base import Candidate, Edit, Growth, GrowthContext, Proposal, carry_out
    from ramet.growth.budget import Budget
    from ramet.growth.ends import Ends
    from ramet.growth.history import GrowthStep, History
    from ramet.growth.loop import grow
    from ramet.growth.methods.by_name import METHODS, make_method
    from ramet.growth.networks import NETWORKS
    from ramet.growth.plan import GrowPlan
    from ramet.growth.saving import load_network, save_network
    from ramet.growth.surgery.layers import Deepening, Site, deepen, find_sites
    from ramet.growth.surgery.widening import Widening
    from ramet.growth.surgery.writing import widen
    from ramet.growth.tracing.checking import find_coupling
    from ramet.growth.tracing.coupling import Coupling, Group, Refusal

__all__ = [
    "METHODS",
    "NETWORKS",
    "Budget",
    "Candidate",
    "Coupling",
    "Deepening",
    "Edit",
    "Ends",
    "Group",
    "GrowPlan",
    "Growth",
    "GrowthContext",
    "GrowthStep",
    "History",
    "Proposal",
    "Refusal",
    "Site",
    "Widening",
    "carry_out",
    "deepen",
    "find_coupling",
    "find_sites",
    "grow",
    "load_network",
    "make_method",
    "save_network",
    "widen",
]

__getattr__ = lazy_front(__name__)
