"""AutoGrow: deeper, one part of the network after another, for as long as it pays.

Wen, Yan, Chen and Li, *AutoGrow: automatic layer growing in deep convolutional networks* (2019). The places where
layers can be added are visited in turn, and each visit adds one layer. When the validation score has not risen by a
threshold since the last growth, the place that grew last is taken off the list; when the list is empty, growth ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ramet.errors import ConfigError
from ramet.growth.base import Candidate, Edit, Growth, GrowthContext, Proposal
from ramet.growth.surgery.layers import Deepening


class AutoGrow(Growth):
    """Deeper, one part of the network after another, for as long as it pays; the budget must allow layers.

    Args:
        threshold: the least rise of the validation score that keeps a place on the list; the value is ours.
        width: neurons of a new layer; as many as the place has channels by default.
        silent: whether a new layer starts without effect. The paper finds that random weights do as well when growth
            is rapid; with ``False`` they are drawn as torch draws them, and the function changes.
    """

    def __init__(self, *, threshold: float = 0.0005, width: int | None = None, silent: bool = True) -> None:
        if threshold < 0 or (width is not None and width < 1):
            raise ConfigError(f"threshold must not be negative and width at least 1, but got {threshold} and {width}.")
        self.threshold, self.width, self.silent = threshold, width, silent
        self._stopped: list[str] = []
        self._last: str | None = None
        self._best: float | None = None

    @property
    def needs_layers(self) -> bool:
        """It adds layers and nothing else."""
        return True

    @property
    def needs_sites(self) -> bool:
        """It makes them itself."""
        return True

    def propose(self, context: GrowthContext) -> Proposal:
        """One layer at the next place that is still on the list."""
        names = [site.name for site in context.sites]
        active = [name for name in names if name not in self._stopped]
        if not active or not context.max_layers:
            return Proposal([])
        after = names.index(self._last) + 1 if self._last in names else 0
        turn = next(name for name in [*names[after:], *names[:after]] if name in active)
        site = next(site for site in context.sites if site.name == turn)
        return Proposal([Candidate("layer", turn, unit) for unit in range(self.width or site.channels)])

    def score(self, context: GrowthContext, proposal: Proposal) -> Tensor:
        """All alike: the layer is wanted whole."""
        return torch.zeros(len(proposal.candidates))

    def apply(self, context: GrowthContext, proposal: Proposal, chosen: Sequence[int]) -> Edit:
        """The layer."""
        name = proposal.candidates[0].where
        site = next(site for site in context.sites if site.name == name)
        self._last = name
        tensors = {}
        if not self.silent:
            bound = len(chosen) ** -0.5
            shape = (site.channels, len(chosen), *[1] * site.dimensions)
            tensors["outer.weight"] = bound * (2 * torch.rand(shape, generator=context.generator("outer")) - 1)
        return Edit(layers=[Deepening(name, len(chosen), tensors)])

    def observe(self, score: float) -> bool:
        """Take the last place off the list if its layer did not pay."""
        if self._best is not None and self._last is not None and score - self._best < self.threshold:
            self._stopped.append(self._last)
        self._best = score if self._best is None else max(self._best, score)
        return True

    def state_dict(self) -> dict[str, Any]:
        """The list, whose turn it was and the best score."""
        return {"stopped": list(self._stopped), "last": self._last, "best": self._best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a list."""
        self._stopped, self._last, self._best = list(state["stopped"]), state["last"], state["best"]
