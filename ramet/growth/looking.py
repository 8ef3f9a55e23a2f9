"""What can grow in a network as it is now: groups, places for layers, blocks, and what of it its configuration can say.

A model of Hugging Face grows so that ``from_pretrained`` loads what comes of it (``ties.py``), unless its layers are to
grow apart: then that is said before anything begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.growth.configured import fitted, has_config, shapes_of
from ramet.growth.plan import check_ties
from ramet.growth.surgery.blocks import BlockSite
from ramet.growth.surgery.layers import Site, find_sites
from ramet.growth.ties import find_ties, sayable_blocks
from ramet.growth.tracing.blocks import find_blocks
from ramet.growth.tracing.checking import find_coupling
from ramet.growth.tracing.memory import Memory
from ramet.tracing.coupling import Coupling, Refusal


@dataclass(frozen=True)
class Growable:
    """What can grow, and, in ``apart``, why a model with a configuration will be one that it cannot say."""

    coupling: Coupling
    sites: list[Site]
    blocks: list[BlockSite]
    apart: str = ""

    def check(self, layers: int) -> None:
        """Refuse a network in which nothing can grow, with so many new layers a step."""
        if not self.coupling.groups and not (layers and (self.sites or self.blocks)):
            reasons = "; ".join(f"{refusal.name}: {refusal.reason}" for refusal in self.coupling.refusals)
            raise ConfigError(f"a network must have something that can grow, but got none ({reasons}).")


class Looking:
    """Finds what can grow in a network that grows, from step to step.

    Args:
        layers: new layers of a step; blocks are looked for only if there are any.
        ties: ``auto`` or ``none``.
        needs_sites: whether the method adds nothing but layers of its own, which no configuration can say.
    """

    def __init__(self, *, layers: int, ties: str = "auto", needs_sites: bool = False) -> None:
        check_ties(ties)
        self.layers, self.is_asked, self.needs_sites = layers, ties == "none", needs_sites
        self.memory = Memory()
        self._known: tuple[Any, Any] = (None, None)

    def __call__(self, network: nn.Module, inputs: Tensor, *, began: bool) -> Growable:
        """What can grow now; ``began`` says whether anything may have grown before."""
        coupling = find_coupling(network, inputs, memory=self.memory)
        blocks = find_blocks(network, inputs, coupling)[0] if self.layers else []
        sites = find_sites(network, coupling)[0]
        if not has_config(network):
            return Growable(coupling, sites, blocks)
        if self.is_asked or self.needs_sites:
            reason = "its layers are to grow apart" if self.is_asked else "no configuration can say new layers"
            return Growable(coupling, sites, blocks, reason)
        shapes = shapes_of(network)
        if self._known[0] != shapes:  # the search for ties makes many models, and nothing but sizes changes it
            self._known = shapes, self._say(network, inputs, coupling, blocks, began)
        ties, names, reason = self._known[1]
        if reason:
            return Growable(coupling, sites, blocks, reason)
        config = type(network.config).__name__
        held = {name for each in ties for name in each}
        for name in [name for name in coupling.groups if name not in held]:
            coupling.refuse(name, f"{config} has no number for it, so that from_pretrained could not load it")
        if self.layers and sites:
            reason = f"{config} has no number for them, but for copies of blocks"
            coupling.refusals.append(Refusal("new layers", reason))
        coupling.ties = ties
        return Growable(coupling, [], [block for block in blocks if block.name in names])

    @staticmethod
    def _say(
        network: nn.Module, inputs: Tensor, coupling: Coupling, blocks: list[BlockSite], began: bool
    ) -> tuple[tuple[dict[str, int], ...], set[str], str]:
        """The ties, the blocks that a copy can be made of, and why the configuration can say nothing, if so."""
        base, problem = fitted(network, inputs)
        if base is None:
            return (), set(), problem
        ties = find_ties(network, inputs, coupling, base)
        names = {block.name for block in sayable_blocks(network, inputs, blocks)}
        if not ties and not began:
            return (), set(), f"{type(base.config).__name__} has no number for what can grow in it"
        return ties, names, ""
