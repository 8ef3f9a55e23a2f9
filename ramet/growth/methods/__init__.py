"""The ways to choose what grows: one file each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramet.registry.fronts import lazy_front

if TYPE_CHECKING:
    from ramet.growth.methods.autogrow import AutoGrow
    from ramet.growth.methods.firefly import Firefly
    from ramet.growth.methods.gradmax import GradMax
    from ramet.growth.methods.making import make_method
    from ramet.growth.methods.nash import Nash
    from ramet.growth.methods.net2net import Net2Net
    from ramet.growth.methods.random_choice import RandomChoice
    from ramet.growth.methods.registry import GROWTHS
    from ramet.growth.methods.scratch import Scratch
    from ramet.growth.methods.splitting import Splitting

__all__ = [
    "GROWTHS",
    "AutoGrow",
    "Firefly",
    "GradMax",
    "Nash",
    "Net2Net",
    "RandomChoice",
    "Scratch",
    "Splitting",
    "make_method",
]

__getattr__ = lazy_front(__name__)
