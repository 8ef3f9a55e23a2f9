"""Networks that get larger where it helps most: what can grow, how, and which of it is worth its size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramet.registry import Registry
from ramet.registry.fronts import lazy_front

if TYPE_CHECKING:
    from torch import nn

    from ramet.growth.base import Candidate, Edit, Growth, GrowthContext, Proposal, carry_out
    from ramet.growth.budget import Budget, Ends
    from ramet.growth.history import GrowthStep, History
    from ramet.growth.loop import grow
    from ramet.growth.making import make_network
    from ramet.growth.methods import GROWTHS
    from ramet.growth.methods import GROWTHS as METHODS
    from ramet.growth.methods.autogrow import AutoGrow
    from ramet.growth.methods.firefly import Firefly
    from ramet.growth.methods.gradmax import GradMax
    from ramet.growth.methods.making import make_method
    from ramet.growth.methods.nash import Nash
    from ramet.growth.methods.net2net import Net2Net
    from ramet.growth.methods.random_choice import RandomChoice
    from ramet.growth.methods.redrawn import Redrawn
    from ramet.growth.methods.splitting import Splitting
    from ramet.growth.methods.stacking import Stacking
    from ramet.growth.own_loop import Grower
    from ramet.growth.plan import GrowPlan
    from ramet.growth.recipe import GrowRecipe
    from ramet.growth.saving import load_network, save_network
    from ramet.growth.surgery.blocks import BlockCopy, BlockSite, copy_blocks
    from ramet.growth.surgery.layers import Deepening, Site, deepen, find_sites
    from ramet.growth.surgery.widening import Widening
    from ramet.growth.surgery.writing import widen
    from ramet.growth.tracing.blocks import find_blocks
    from ramet.growth.tracing.checking import find_coupling
    from ramet.tracing.coupling import Coupling, Group, Refusal

__all__ = ["GROWTHS", "METHODS", "NETWORKS", "AutoGrow", "BlockCopy", "BlockSite", "Budget", "Candidate", "Coupling"]
__all__ += ["Deepening", "Edit", "Ends", "Firefly", "GradMax", "Group", "GrowPlan", "GrowRecipe", "Grower", "Growth"]
__all__ += [
    "GrowthContext",
    "GrowthStep",
    "History",
    "Nash",
    "Net2Net",
    "Proposal",
    "RandomChoice",
    "Redrawn",
    "Refusal",
    "Site",
]
__all__ += ["Splitting", "Stacking", "Widening", "carry_out", "copy_blocks", "deepen", "find_blocks", "find_coupling"]
__all__ += ["find_sites", "grow", "load_network", "make_method", "make_network", "save_network", "widen"]

__getattr__ = lazy_front(__name__)

NETWORKS: Registry[nn.Module] = Registry(
    "network",
    base="torch.nn:Module",
    group="ramet.networks",
    built_in={
        "mlp": "ramet.growth.networks:mlp",
        "vgg": "ramet.growth.networks:vgg",
        "mobilenet": "ramet.growth.networks:mobilenet",
    },
    given=(
        *("in_channels", "image_size", "num_classes"),
        *("input_shape", "num_features", "num_outputs", "length", "words"),
    ),
)
"""What makes a network for inputs of a form (images, vectors, text) and so many outputs."""
