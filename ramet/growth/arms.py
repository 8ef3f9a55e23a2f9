"""What a growth must be compared with: other ways to a network of the same size, for the same work.

Each arm trains a network with one schedule over as many steps as the work pays for:

- ``plain``: the start's own shape, all its groups wider by the same share, to the grown network's parameters;
- ``scratch``: the grown network's own shape, its weights drawn anew;
- ``pruned``: the start's shape at twice the size, trained with half of the work; the least important units go (to first
  order, Molchanov et al. 2019), and what is left is trained with the other half;
- ``start``: the network as it was, which tells what training longer gives without growing.

All are wider than the start, or as wide, so that one step of a history describes them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from torch import Tensor, nn

from ramet.costs import count_parameters
from ramet.growth.base import Edit, carry_out, redraw
from ramet.growth.evenly import even_additions
from ramet.growth.history import GroupGrowth, GrowthStep
from ramet.growth.looking import Looking
from ramet.growth.meter import Meter
from ramet.growth.plan import check_arm
from ramet.growth.surgery.widening import Widening
from ramet.growth.tracing.checking import find_coupling
from ramet.growth.work import affordable_steps, step_work
from ramet.runs import Checkpoints
from ramet.seeding import derive_seed
from ramet.spaces.slicing.cuts import Setting, SliceCut
from ramet.spaces.slicing.ordering import by_importance, reorder, taylor
from ramet.spaces.slicing.units import find_units
from ramet.training import Settings, fit, output_of

LARGER = 2.0
"""How many times its final size a network has before it is pruned."""

SHARE_BEFORE = 0.5
"""Of the work, what a network that is pruned has before."""

PROBE = 4
"""Examples that a network is traced with."""

NUM_SCORED = 1024
"""Training examples that the importance of units is taken from."""


@dataclass(frozen=True, kw_only=True)
class TrainedArm:
    """A network that an arm gave, and the work that it took."""

    network: nn.Module
    work: float
    num_steps: int


@dataclass(frozen=True, kw_only=True)
class Arms:
    """The ways to a network of the grown one's parameters for ``work``.

    Args:
        start: makes the network before it grew.
        grown: the grown network; only its shape counts.
        x, y: the training data.
        settings: the recipe; its epochs give way to the work.
        seed: of weights, mini-batches and what layers draw.
        ties: whether layers of a model with a configuration are as it can say.
        checkpoints: of one training of an arm, by its name; where it saves itself and resumes from.
        seconds_between_checkpoints: how much work of a training a kill may cost.
    """

    start: Callable[[], nn.Module]
    grown: nn.Module
    x: Tensor
    y: Tensor
    settings: Settings
    work: float
    seed: int
    ties: str = "auto"
    checkpoints: Callable[[str], Checkpoints | None] = lambda name: None
    seconds_between_checkpoints: float = 30.0

    @property
    def params(self) -> int:
        """The size that is asked for."""
        return count_parameters(self.grown)

    def __call__(self, arm: str) -> TrainedArm:
        """The network of an arm."""
        check_arm(arm)
        if arm == "pruned":
            return self._pruned()
        if arm == "start":  # its weights are those that the growth began with, which may be trained ones
            return self._train(self.start(), self.work, arm)
        network = copy.deepcopy(self.grown) if arm == "scratch" else self.start()
        if arm == "plain":
            scale(network, self.x[:PROBE], self.params, self.ties)
        redraw(network, derive_seed(self.seed, "arm", arm))
        return self._train(network, self.work, arm)

    def _pruned(self) -> TrainedArm:
        network = self.start()
        least = {name: group.size for name, group in find_coupling(network, self.x[:PROBE]).groups.items()}
        scale(network, self.x[:PROBE], LARGER * self.params, self.ties)
        redraw(network, derive_seed(self.seed, "arm", "pruned"))
        large = self._train(network, SHARE_BEFORE * self.work, "pruned")
        scored = self.x[:NUM_SCORED], self.y[:NUM_SCORED]
        prune(network, *scored, self.settings.loss_for(self.y), params=self.params, least=least)
        tuned = self._train(network, self.work - large.work, "pruned and tuned")
        return replace(tuned, work=large.work + tuned.work, num_steps=large.num_steps + tuned.num_steps)

    def _train(self, network: nn.Module, work: float, name: str) -> TrainedArm:
        batch = min(self.settings.batch_size, len(self.x))
        a_step = step_work(network, self.x, batch)
        num_steps = affordable_steps(work, a_step)
        loss = self.settings.loss_for(self.y)
        fit(
            network,
            self.x,
            self.y,
            replace(self.settings, batch_size=batch),
            seed=derive_seed(self.seed, "arm", name),
            loss_of=lambda step, x, y: loss(output_of(network(x)), y),
            num_steps=num_steps,
            checkpoints=self.checkpoints(name),
            seconds_between_checkpoints=self.seconds_between_checkpoints,
        )
        return TrainedArm(network=network, work=num_steps * a_step, num_steps=num_steps)


def scale(network: nn.Module, inputs: Tensor, params: float, ties: str = "auto") -> None:
    """Make every group of a network wider by the same share, in place, to as near a number of parameters as can be.

    The function is not kept: the weights are to be drawn anew.
    """
    coupling = Looking(layers=0, ties=ties)(network, inputs, began=False).coupling
    added = even_additions(network, coupling, params)
    widenings = {name: Widening(num_new=count) for name, count in added.items() if count}
    carry_out(network, coupling, [], Edit(widenings), seed=0)


def prune(
    network: nn.Module,
    x: Tensor,
    y: Tensor,
    loss: Callable[[Tensor, Tensor], Tensor],
    *,
    params: float,
    least: Mapping[str, int],
) -> None:
    """Take the least important units from a network, in place, until it has no more than so many parameters.

    Importance is divided by its mean over the group, so that groups can be compared. Of each group that ``least`` names
    so many units stay, and all of the others'.
    """
    coupling, _ = find_units(network, x[:PROBE])
    groups = [group for name, group in coupling.groups.items() if name in least]
    scores = taylor(network, coupling, groups, x, y, loss)
    orders = {name: by_importance(each) for name, each in scores.items()}
    waiting: list[tuple[float, str]] = []
    for name, each in scores.items():
        relative = (each / each.mean().clamp_min(1e-30))[orders[name]]
        waiting += [(float(value), name) for value in relative[least[name] :]]
    meter = Meter(network, coupling, [], "params")
    kept = {name: len(each) for name, each in scores.items()}
    for _, name in sorted(waiting):
        if meter.size <= params:
            break
        meter.add("new", name, -1)
        kept[name] -= 1
    reorder(network, coupling, orders)
    SliceCut(network, coupling, Setting(kept)).carve(network)


def as_step(start: nn.Module, network: nn.Module, inputs: Tensor) -> GrowthStep:
    """How a network came from the start, if all its groups were widened at once: its shape for those who load it."""
    before, after = (find_coupling(each, inputs).groups for each in (start, network))
    added = {name: after[name].size - group.size for name, group in before.items()}
    widened = {name: GroupGrowth(before[name].size, [], count, None) for name, count in added.items() if count}
    return GrowthStep(1, widened=widened)
