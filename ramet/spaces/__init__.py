"""Spaces of architectures, and the supernets that hold them on one set of weights."""

from ramet.spaces.base import Arch, Space, Supernet
from ramet.spaces.cells64 import Cells64

__all__ = ["Arch", "Cells64", "Space", "Supernet"]
