"""Networks that get larger where it helps most: what can grow, how, and which of it is worth its size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramet.registry.fronts import lazy_front

if TYPE_CHECKING:
    from ramet.growth.base import Candidate, Edit, Growth, GrowthContext, Proposal, carry_out
    from ramet.growth.budget import Budget, Ends
    from ramet.growth.history import GrowthStep, History
    from ramet.growth.loop import grow
    from ramet.growth.making import make_network
    from ramet.growth.methods.autogrow import AutoGrow
    from ramet.growth.methods.firefly import Firefly
    from ramet.growth.methods.gradmax import GradMax
    from ramet.growth.methods.making import make_method
    from ramet.growth.methods.nash import Nash
    from ramet.growth.methods.net2net import Net2Net
    from ramet.growth.methods.random_choice import RandomChoice
    from ramet.growth.methods.registry import GROWTHS
    from ramet.growth.methods.registry import GROWTHS as METHODS
    from ramet.growth.methods.scratch import Scratch
    from ramet.growth.methods.splitting import Splitting
    from ramet.growth.plan import GrowPlan
    from ramet.growth.registry import NETWORKS
    from ramet.growth.saving import load_network, save_network
    from ramet.growth.surgery.layers import Deepening, Site, deepen, find_sites
    from ramet.growth.surgery.widening import Widening
    from ramet.growth.surgery.writing import widen
    from ramet.growth.tracing.checking import find_coupling
    from ramet.growth.tracing.coupling import Coupling, Group, Refusal

__all__ = [
    "GROWTHS",
    "METHODS",
    "NETWORKS",
    "AutoGrow",
    "Budget",
    "Candidate",
    "Coupling",
    "Deepening",
    "Edit",
    "Ends",
    "Firefly",
    "GradMax",
    "Group",
    "GrowPlan",
    "Growth",
    "GrowthContext",
    "GrowthStep",
    "History",
    "Nash",
    "Net2Net",
    "Proposal",
    "RandomChoice",
    "Refusal",
    "Scratch",
    "Site",
    "Splitting",
    "Widening",
    "carry_out",
    "deepen",
    "find_coupling",
    "find_sites",
    "grow",
    "load_network",
    "make_method",
    "make_network",
    "save_network",
    "widen",
]

__getattr__ = lazy_front(__name__)
