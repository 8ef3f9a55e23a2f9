"""Spaces of architectures, and the supernets that hold them on one set of weights."""

from ramet.spaces.base import Arch, Space, Supernet
from ramet.spaces.cells.cells64 import Cells64
from ramet.spaces.cells.nasbench201 import NasBench201
from ramet.spaces.child import trace_child
from ramet.spaces.darts.enas_micro import EnasMicro
from ramet.spaces.darts.final_network import EnasNetwork, FinalNetwork, cutout
from ramet.spaces.darts.network import DartsNetwork
from ramet.spaces.darts.space import Darts
from ramet.spaces.own.choice import Choice
from ramet.spaces.own.module_space import ModuleSpace, space_of
from ramet.spaces.recurrent.space import Recurrent
from ramet.spaces.registry import SPACES, make_space
from ramet.spaces.relaxed import Relaxed

__all__ = [
    "SPACES",
    "Arch",
    "Cells64",
    "Choice",
    "Darts",
    "DartsNetwork",
    "EnasMicro",
    "EnasNetwork",
    "FinalNetwork",
    "ModuleSpace",
    "NasBench201",
    "Recurrent",
    "Relaxed",
    "Space",
    "Supernet",
    "cutout",
    "make_space",
    "space_of",
    "trace_child",
]
