"""The papers' tables and figures, one function each, with the presets ``small`` (a CPU) and ``paper``."""

from ramet.papers.claims import read_claims
from ramet.papers.desk import Desk, Outcome
from ramet.papers.targets import TARGETS, Target

__all__ = ["TARGETS", "Desk", "Outcome", "Target", "read_claims"]
