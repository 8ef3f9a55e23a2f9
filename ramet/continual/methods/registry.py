"""The continual methods by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramet.registry import Registry

if TYPE_CHECKING:
    from ramet.continual.method import Method

METHODS: Registry[Method] = Registry(
    "method",
    base="ramet.continual.method:Method",
    group="ramet.continual_methods",
    built_in={
        "individual": "ramet.continual.methods.individual:Individual",
        "naive": "ramet.continual.methods.naive:Naive",
        "joint": "ramet.continual.methods.joint_training:Joint",
        "elastic": "ramet.continual.methods.elastic:Elastic",
        "distillation": "ramet.continual.methods.distillation:Distillation",
        "replay": "ramet.continual.methods.replay:Replay",
        "packnet": "ramet.continual.methods.packnet:PackNet",
        "progressive": "ramet.continual.methods.progressive:Progressive",
        "firefly": "ramet.continual.methods.firefly.method:ContinualFirefly",
        "bind-and-grow": "ramet.continual.methods.bind_and_grow.method:BindAndGrow",
        "random-growth": "ramet.continual.methods.bind_and_grow.random_growth:RandomGrowth",
        "learn-to-grow": "ramet.continual.methods.learn_to_grow.method:LearnToGrow",
        "cpg": "ramet.continual.methods.cpg:CompactPickGrow",
        "den": "ramet.continual.methods.den:ExpandableNetwork",
        "rcl": "ramet.continual.methods.rcl:Reinforced",
        "apd": "ramet.continual.methods.apd:AdditiveDecomposition",
    },
)
"""How task after task is learned in one network."""
