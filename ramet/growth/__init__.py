"""Networks that get larger where it helps most: what can grow, how, and which of it is worth its size."""

from ramet.growth.base import Candidate, Edit, Growth, Proposal, Scene, carry_out
from ramet.growth.budget import Budget
from ramet.growth.coupling import Coupling, Group, Refusal
from ramet.growth.history import History, Step
from ramet.growth.layers import Deepening, Site, deepen, find_sites
from ramet.growth.loop import grow
from ramet.growth.methods import METHODS, make_method
from ramet.growth.networks import NETWORKS
from ramet.growth.saving import load_network, save_network
from ramet.growth.seam import find_coupling
from ramet.growth.surgery import widen
from ramet.growth.widening import Widening

__all__ = [
    "METHODS",
    "NETWORKS",
    "Budget",
    "Candidate",
    "Coupling",
    "Deepening",
    "Edit",
    "Group",
    "Growth",
    "History",
    "Proposal",
    "Refusal",
    "Scene",
    "Site",
    "Step",
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
