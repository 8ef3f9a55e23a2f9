"""The ways to choose what grows: one file each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramet.registry import Registry
from ramet.registry.fronts import lazy_front

if TYPE_CHECKING:
    from ramet.growth.base import Growth
    from ramet.growth.methods.autogrow import AutoGrow
    from ramet.growth.methods.even import Even
    from ramet.growth.methods.firefly import Firefly
    from ramet.growth.methods.gradmax import GradMax
    from ramet.growth.methods.making import make_method
    from ramet.growth.methods.nash import Nash
    from ramet.growth.methods.net2net import Net2Net
    from ramet.growth.methods.random_choice import RandomChoice
    from ramet.growth.methods.redrawn import Redrawn
    from ramet.growth.methods.splitting import Splitting
    from ramet.growth.methods.stacking import Stacking

__all__ = ["GROWTHS", "AutoGrow", "Even", "Firefly", "GradMax", "Nash", "Net2Net", "RandomChoice", "Redrawn"]
__all__ += ["Splitting", "Stacking", "make_method"]

__getattr__ = lazy_front(__name__)

GROWTHS: Registry[Growth] = Registry(
    "growth method",
    base="ramet.growth.base:Growth",
    group="ramet.growths",
    built_in={
        "firefly": "ramet.growth.methods.firefly:Firefly",
        "even": "ramet.growth.methods.even:Even",
        "splitting": "ramet.growth.methods.splitting:Splitting",
        "net2net": "ramet.growth.methods.net2net:Net2Net",
        "nash": "ramet.growth.methods.nash:Nash",
        "autogrow": "ramet.growth.methods.autogrow:AutoGrow",
        "random": "ramet.growth.methods.random_choice:RandomChoice",
        "gradmax": "ramet.growth.methods.gradmax:GradMax",
        "stacking": "ramet.growth.methods.stacking:Stacking",
        "redrawn": "ramet.growth.methods.redrawn:Redrawn",
    },
)
"""How it is chosen what grows."""
