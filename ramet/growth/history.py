"""What grew where, when and why: the history that comes with a grown network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from ramet.growth.base import Candidate, Edit, GrowthContext, carry_out
from ramet.growth.surgery.blocks import BlockCopy
from ramet.growth.surgery.layers import Deepening, find_sites
from ramet.growth.surgery.widening import Widening
from ramet.growth.tracing.checking import find_coupling
from ramet.growth.tracing.memory import Memory
from ramet.tracing.coupling import Inputs, Refusal


@dataclass
class GroupGrowth:
    """What one group or one new layer gained; the best score is not known where a whole network was chosen."""

    units: int
    split: list[int] = field(default_factory=list)
    new: int = 0
    best_score: float | None = None


@dataclass
class GrowthStep:
    """One step: what was added, and how good the network was once it had been trained again.

    Attributes:
        number: 0 is the first training, before anything grew.
        layers: the widths of new layers, by the place that they stand behind.
        blocks: the copies of blocks, in order.
        num_candidates: how many there were to choose from.
        sizes: of the network afterwards: ``neurons``, ``params`` and ``flops``.
        budget_size: in the budget's unit.
        score: on the validation data, higher is better: the metric, or minus the metric where lower is better.
        loss: the mean training loss after training.
        loss_before: the training loss just before the growth, and ``loss_after`` just after it: what it did by itself.
        growing_work: the multiply-adds of the growth, without training; ``training_work`` those of the training.
        seconds: of the growth, without training; ``train_seconds`` of the training. Two runs that agree in all else
            differ in them, so they do not count when steps are compared.
    """

    number: int
    widened: dict[str, GroupGrowth] = field(default_factory=dict)
    layers: dict[str, int] = field(default_factory=dict)
    blocks: list[BlockCopy] = field(default_factory=list)
    num_candidates: int = 0
    sizes: dict[str, float] = field(default_factory=dict)
    budget_size: float = 0.0
    score: float | None = None
    loss: float | None = None
    loss_before: float | None = None
    loss_after: float | None = None
    growing_work: float = 0.0
    training_work: float = 0.0
    seconds: float = field(default=0.0, compare=False)
    train_seconds: float = field(default=0.0, compare=False)

    @property
    def grew(self) -> bool:
        """Whether anything was added."""
        return bool(self.widened or self.layers or self.blocks)


@dataclass
class History:
    """All steps in order, what cannot grow in the network as it was at first, and why growth ended, if it has.

    ``kept`` is the number of the step whose network is handed back, where that is not the last one's.
    ``work_in_vain`` is what was computed for a growth that could add nothing.
    """

    method: str
    budget: dict[str, Any]
    steps: list[GrowthStep] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    stopped: str = ""
    kept: int | None = None
    work_in_vain: float = 0.0

    @property
    def end(self) -> GrowthStep:
        """The step whose network is handed back."""
        return self.steps[-1 if self.kept is None else self.kept]

    @property
    def work(self) -> float:
        """The multiply-adds of all trainings and growths, also of those behind the step that is kept."""
        return self.work_in_vain + sum(step.growing_work + step.training_work for step in self.steps)

    def widths_before(self, now: Mapping[str, int]) -> dict[str, int]:
        """The widths of the groups before anything grew, of those that they have now."""
        first: dict[str, int] = {}
        for step in self.steps:
            for name, group in step.widened.items():
                first.setdefault(name, group.units)
        return {name: first.get(name, width) for name, width in now.items()}

    def to_json(self) -> dict[str, Any]:
        """The history as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> History:
        """The inverse of ``to_json``."""
        steps = [
            GrowthStep(
                **{
                    **step,
                    "widened": {name: GroupGrowth(**group) for name, group in step["widened"].items()},
                    "blocks": [BlockCopy(**block) for block in step.get("blocks", [])],  # earlier histories have none
                }
            )
            for step in value["steps"]
        ]
        refusals = [Refusal(**refusal) for refusal in value["refusals"]]
        kept, in_vain = value.get("kept"), value.get("work_in_vain", 0.0)  # earlier histories have none
        return cls(value["method"], value["budget"], steps, refusals, value["stopped"], kept, in_vain)


def describe(
    context: GrowthContext, edit: Edit, candidates: Sequence[Candidate], scores: Tensor, chosen: Sequence[int]
) -> GrowthStep:
    """What an edit adds, with the scores that spoke for it."""
    step = GrowthStep(number=0, num_candidates=len(candidates))
    best: dict[str, float] = {}
    for number in chosen:
        where, value = candidates[number].where, float(scores[number])
        best[where] = max(best.get(where, value), value)
    for name, widening in edit.widenings.items():
        step.widened[name] = GroupGrowth(
            context.coupling.groups[name].size, widening.sources.tolist(), widening.num_new, best.get(name)
        )
    step.layers = {layer.site: layer.width for layer in edit.layers}
    step.blocks = list(edit.blocks)
    return step


def silent(edit: Edit) -> Edit:
    """The same shapes without effect: plain copies, new units and layers that are not heard."""
    widenings = {name: Widening(sources=w.sources, num_new=w.num_new) for name, w in edit.widenings.items()}
    blocks = [replace(block, silent=True) for block in edit.blocks]
    return Edit(widenings, [Deepening(layer.site, layer.width) for layer in edit.layers], blocks=blocks)


def replay(
    network: nn.Module,
    inputs: Inputs,
    steps: Sequence[GrowthStep],
    optimizer: torch.optim.Optimizer | None = None,
    memory: Memory | None = None,
) -> None:
    """Give a fresh network the shapes that the steps of a history led to, so that its tensors can be loaded.

    What new layers and copies hold does not matter here, nor whether they are silent. The ``memory`` is that of whoever
    goes on to look at the network.
    """
    memory = Memory() if memory is None else memory
    for step in steps:
        if not step.grew:
            continue
        coupling = find_coupling(network, inputs, memory=memory)
        sites, _ = find_sites(network, coupling)
        edit = Edit(
            {n: Widening(torch.tensor(g.split, dtype=torch.long), num_new=g.new) for n, g in step.widened.items()},
            [Deepening(site, width) for site, width in step.layers.items()],
            blocks=step.blocks,
        )
        carry_out(network, coupling, sites, edit, seed=0, optimizer=optimizer)
