"""Networks that get larger where it helps most: what can grow, how, and which of it is worth its size."""

from ramet.growth.coupling import Coupling, Group, Refusal
from ramet.growth.seam import find_coupling
from ramet.growth.surgery import widen
from ramet.growth.widening import Widening

__all__ = ["Coupling", "Group", "Refusal", "Widening", "find_coupling", "widen"]
