"""The ways to grow by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramet.registry import Registry

if TYPE_CHECKING:
    from ramet.growth.base import Growth

GROWTHS: Registry[Growth] = Registry(
    "growth method",
    base="ramet.growth.base:Growth",
    group="ramet.growths",
    built_in={
        "firefly": "ramet.growth.methods.firefly:Firefly",
        "splitting": "ramet.growth.methods.splitting:Splitting",
        "net2net": "ramet.growth.methods.net2net:Net2Net",
        "nash": "ramet.growth.methods.nash:Nash",
        "autogrow": "ramet.growth.methods.autogrow:AutoGrow",
        "random": "ramet.growth.methods.random_choice:RandomChoice",
        "gradmax": "ramet.growth.methods.gradmax:GradMax",
        "scratch": "ramet.growth.methods.scratch:Scratch",
    },
)
"""How it is chosen what grows."""
