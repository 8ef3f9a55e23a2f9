"""The methods that learn a stream: one file each, a folder for those of several files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramet.registry.fronts import lazy_front

if TYPE_CHECKING:
    from ramet.continual.methods.apd import AdditiveDecomposition
    from ramet.continual.methods.bind_and_grow.method import BindAndGrow
    from ramet.continual.methods.bind_and_grow.random_growth import RandomGrowth
    from ramet.continual.methods.cpg import CompactPickGrow
    from ramet.continual.methods.den import ExpandableNetwork
    from ramet.continual.methods.distillation import Distillation
    from ramet.continual.methods.elastic import Elastic
    from ramet.continual.methods.firefly.method import ContinualFirefly
    from ramet.continual.methods.individual import Individual
    from ramet.continual.methods.joint_training import Joint
    from ramet.continual.methods.learn_to_grow.method import LearnToGrow
    from ramet.continual.methods.making import make_method
    from ramet.continual.methods.naive import Naive
    from ramet.continual.methods.packnet import PackNet
    from ramet.continual.methods.progressive import Progressive
    from ramet.continual.methods.rcl import Reinforced
    from ramet.continual.methods.registry import METHODS
    from ramet.continual.methods.replay import Replay

__all__ = [
    "METHODS",
    "AdditiveDecomposition",
    "BindAndGrow",
    "CompactPickGrow",
    "ContinualFirefly",
    "Distillation",
    "Elastic",
    "ExpandableNetwork",
    "Individual",
    "Joint",
    "LearnToGrow",
    "Naive",
    "PackNet",
    "Progressive",
    "RandomGrowth",
    "Reinforced",
    "Replay",
    "make_method",
]

__getattr__ = lazy_front(__name__)
