"""The papers' tables and figures, one function each, with the presets ``small`` (a CPU) and ``paper``.

A package of its own beside the library: ``ramet reproduce`` finds it through the entry point ``ramet.reproductions``.
"""

from ramet_papers.claims import PUBLISHED, read_claims
from ramet_papers.claims_text import claims_page, claims_text
from ramet_papers.experiment import Outcome
from ramet_papers.targets import TARGETS, Target
from ramet_papers.workspace import Workspace

__all__ = ["PUBLISHED", "TARGETS", "Outcome", "Target", "Workspace", "claims_page", "claims_text", "read_claims"]
