"""Where a network ends up: files that run without ramet, and a card that says what is in them."""

from ramet.exporting.program import export
from ramet.exporting.writing import write_network

__all__ = ["export", "write_network"]
