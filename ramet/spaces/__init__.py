"""Spaces of architectures, and the supernets that hold them on one set of weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramet.registry import Registry
from ramet.registry.fronts import lazy_front

if TYPE_CHECKING:
    from ramet.spaces.base import Arch, CellGraph, NetworkAlone, Space, Supernet, training_loss
    from ramet.spaces.cells.cells64 import Cells64
    from ramet.spaces.cells.nasbench201 import NasBench201
    from ramet.spaces.child import trace_child
    from ramet.spaces.darts.enas_micro import EnasMicro
    from ramet.spaces.darts.final_network import DartsNetwork, EnasNetwork, FinalNetwork
    from ramet.spaces.darts.space import Darts
    from ramet.spaces.making import fitting_options, make_space, size_options, takes_text
    from ramet.spaces.own.module_space import Choice, ModuleSpace, space_of
    from ramet.spaces.recurrent.space import Recurrent
    from ramet.spaces.relaxed import Relaxed
    from ramet.spaces.slicing.sandwich import Sandwich
    from ramet.spaces.slicing.space import ElasticSpace, ElasticSupernet, elastic

__all__ = ["SPACES", "Arch", "CellGraph", "Cells64", "Choice", "Darts", "DartsNetwork", "EnasMicro", "EnasNetwork"]
__all__ += ["ElasticSpace", "ElasticSupernet", "Sandwich", "elastic", "training_loss"]
__all__ += ["FinalNetwork", "ModuleSpace", "NasBench201", "NetworkAlone", "Recurrent", "Relaxed", "Space", "Supernet"]
__all__ += ["fitting_options", "make_space", "size_options", "space_of", "takes_text", "trace_child"]

__getattr__ = lazy_front(__name__)

SPACES: Registry[Space] = Registry(
    "space",
    base="ramet.spaces.base:Space",
    group="ramet.spaces",
    built_in={
        "cells64": "ramet.spaces.cells.cells64:Cells64",
        "nasbench201": "ramet.spaces.cells.nasbench201:NasBench201",
        "darts": "ramet.spaces.darts.space:Darts",
        "enas-micro": "ramet.spaces.darts.enas_micro:EnasMicro",
        "recurrent": "ramet.spaces.recurrent.space:Recurrent",
    },
)
"""The architectures there are."""
