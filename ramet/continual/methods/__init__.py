"""The methods that learn a stream: one file each, a folder for those of several files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramet.registry import Registry
from ramet.registry.fronts import lazy_front

if TYPE_CHECKING:
    from ramet.continual.method import Method
    from ramet.continual.methods.adapters import Adapters
    from ramet.continual.methods.apd import AdditiveDecomposition
    from ramet.continual.methods.bind_and_grow.method import BindAndGrow
    from ramet.continual.methods.bind_and_grow.random_growth import RandomGrowth
    from ramet.continual.methods.cpg import CompactPickGrow
    from ramet.continual.methods.den import ExpandableNetwork
    from ramet.continual.methods.distillation import Distillation
    from ramet.continual.methods.elastic import Elastic
    from ramet.continual.methods.firefly.method import ContinualFirefly
    from ramet.continual.methods.frozen import Frozen
    from ramet.continual.methods.individual import Individual
    from ramet.continual.methods.joint_training import Joint
    from ramet.continual.methods.learn_to_grow.method import LearnToGrow
    from ramet.continual.methods.making import make_method
    from ramet.continual.methods.naive import Naive
    from ramet.continual.methods.packnet import PackNet
    from ramet.continual.methods.progressive import Progressive
    from ramet.continual.methods.rcl import Reinforced
    from ramet.continual.methods.replay import Replay
    from ramet.continual.methods.separate import Separate
    from ramet.continual.methods.warm_start import WarmStart

__all__ = ["METHODS", "Adapters", "AdditiveDecomposition", "BindAndGrow", "CompactPickGrow", "ContinualFirefly"]
__all__ += ["Distillation", "Elastic", "ExpandableNetwork", "Frozen", "Individual", "Joint", "LearnToGrow", "Naive"]
__all__ += ["PackNet", "Progressive", "RandomGrowth", "Reinforced", "Replay", "Separate", "WarmStart", "make_method"]

__getattr__ = lazy_front(__name__)

_BUILT_IN = {
    "individual": "ramet.continual.methods.individual:Individual",
    "separate": "ramet.continual.methods.separate:Separate",
    "naive": "ramet.continual.methods.naive:Naive",
    "frozen": "ramet.continual.methods.frozen:Frozen",
    "adapters": "ramet.continual.methods.adapters:Adapters",
    "joint": "ramet.continual.methods.joint_training:Joint",
    "elastic": "ramet.continual.methods.elastic:Elastic",
    "distillation": "ramet.continual.methods.distillation:Distillation",
    "replay": "ramet.continual.methods.replay:Replay",
    "packnet": "ramet.continual.methods.packnet:PackNet",
    "progressive": "ramet.continual.methods.progressive:Progressive",
    "warm-start": "ramet.continual.methods.warm_start:WarmStart",
    "firefly": "ramet.continual.methods.firefly.method:ContinualFirefly",
    "bind-and-grow": "ramet.continual.methods.bind_and_grow.method:BindAndGrow",
    "random-growth": "ramet.continual.methods.bind_and_grow.random_growth:RandomGrowth",
    "learn-to-grow": "ramet.continual.methods.learn_to_grow.method:LearnToGrow",
    "cpg": "ramet.continual.methods.cpg:CompactPickGrow",
    "den": "ramet.continual.methods.den:ExpandableNetwork",
    "rcl": "ramet.continual.methods.rcl:Reinforced",
    "apd": "ramet.continual.methods.apd:AdditiveDecomposition",
}

METHODS: Registry[Method] = Registry(
    "method", base="ramet.continual.method:Method", group="ramet.continual_methods", built_in=_BUILT_IN
)
"""How task after task is learned in one network."""
