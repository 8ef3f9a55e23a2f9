"""What the bench compares: supernets under each guard, without one, and without one at a rate of equal own gain."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from ramet.execution import WorkItem
from ramet.ranking.metrics import Floats
from ramet.ranking.setup import SupernetSetup
from ramet.runs.encoding import Json
from ramet.seeding import derive_seed
from ramet.spaces import Cells64
from ramet_papers.deeper_insights import presets as deeper
from ramet_papers.disturbance_immune.bench import train_supernet
from ramet_papers.disturbance_immune.presets import DisturbancePreset
from ramet_papers.experiment import Experiment, Trials, values
from ramet_papers.truth import cached_truth

PILOT = "pilot"
"""The seed on which strengths are chosen."""
PLAIN, CONTROL, JUDGED, TURNS = "none", "none, equal own gain", "projection, mean inputs", "none, turns"
"""Names of arms: unguarded, the unguarded control, the guard that the claims are about, unguarded with longer turns."""
MATCHED, MATCHING_SEEDS, MOST_TRIES = 0.03, 4, 6
"""How near the control's own gain is brought to the guard's, on how many of the seeds, in how many tries."""


@dataclass(frozen=True)
class Arm:
    """One way to train supernets."""

    guard: str = "none"
    turn: int = 1  # mini-batches in a row that train one child
    factor: float = 1.0  # of the learning rate

    @property
    def key(self) -> str:
        """Its name in records."""
        return f"{self.guard.replace(':', '-').replace('=', '-')}/turn-{self.turn}/rate-{self.factor:g}"


@dataclass(frozen=True)
class Found:
    """What was measured of the supernets of one arm."""

    arm: Arm
    epochs: Floats  # the children's accuracies after each of the last epochs; [seeds, epochs, children]
    last: Floats  # the same in the end, on all validation images; [seeds, children]
    own_gain: Floats  # by how much a step lowers its own child's loss; [seeds]
    open_share: float | None  # of directions in the end, for a projection; mean over seeds


class Bench:
    """The supernets of all arms: one run directory for Figure 3 and the correlation, which are two views of them."""

    def __init__(self, experiment: Experiment, preset: DisturbancePreset) -> None:
        self.preset, self.workspace = preset, experiment.workspace
        self.setting = deeper.BENCHES[preset.name]
        self._alone = SupernetSetup(
            Cells64(**self.setting.space_options),
            self.workspace.load(self.setting.data, self.setting.data_options),
            self.setting.settings,
        )
        path = experiment.folder / "bench"
        folder = path / "checkpoints" if preset.keeps_checkpoints else None
        settings = replace(self.setting.settings, epochs=preset.bench_epochs)
        setup = replace(self._alone, settings=settings, folder=folder)
        scoring = {"scored_epochs": preset.scored_epochs, "changing_images": preset.changing_images}
        asked = {**setup.describe(), **scoring, "seed": self.workspace.seed}
        self.trials = Trials(self.workspace, path, asked, setup)

    @cached_property
    def truth(self) -> Floats:
        """The test accuracy of each child alone; [seeds, children]."""
        return cached_truth(self.workspace, self._alone, self.setting.truth_seeds)

    @property
    def num_changing(self) -> int:
        """Images that changes are measured on."""
        return min(self.preset.changing_images, len(self.trials.setup.data.validation))

    def task(self, arm: Arm, seed: int | str) -> WorkItem:
        """One supernet; arms of the same seed have the same weights, orders and mini-batches."""
        key = f"{arm.key}/seed-{seed}"
        seeds = {
            f"{role}_seed": derive_seed(self.workspace.seed, "bench", role, seed)
            for role in ("weights", "order", "batches")
        }
        asked: Json = {"guard": arm.guard, "turn": arm.turn, "factor": arm.factor}
        asked |= {"scored_epochs": self.preset.scored_epochs, "changing_images": self.preset.changing_images}
        return WorkItem(key, train_supernet, {"name": key, **asked, **seeds})

    def compared(self) -> dict[str, Found]:
        """Every arm over all seeds, by its name: unguarded first, then its control, then the guards."""
        arms = {PLAIN: Arm(), TURNS: Arm(turn=self.preset.turn)} | self.chosen()
        found = {name: self._over_seeds(arm) for name, arm in arms.items()}
        control = self._over_seeds(self.control_of(found[JUDGED]))
        return {PLAIN: found.pop(PLAIN), CONTROL: control, **found}

    def chosen(self) -> dict[str, Arm]:
        """Each guard at the strength whose children are best at the end, on a seed apart.

        By accuracy, and not by stability: a guard that freezes the weights would be the most stable of all.
        """
        tried = {
            name: [Arm(text, self.preset.turn if name.startswith("plasticity") else 1) for text in texts]
            for name, texts in self.preset.guards.items()
        }
        found = self.trials.finish({arm: [self.task(arm, PILOT)] for arms in tried.values() for arm in arms})
        return {n: max(arms, key=lambda arm: float(np.mean(found[arm][0]["last"]))) for n, arms in tried.items()}

    def control_of(self, guarded: Found) -> Arm:
        """Unguarded training at the learning rate with which a step gains as much for its own child.

        Found on the first seeds by their own gains alone; what is compared has no say in it.
        """
        goal = float(guarded.own_gain[:MATCHING_SEEDS].mean())

        def gain_at(factor: float) -> float:
            arm = replace(guarded.arm, guard="none", factor=factor)
            return float(self._over_seeds(arm, MATCHING_SEEDS).own_gain.mean())

        return replace(guarded.arm, guard="none", factor=matching_factor(gain_at, goal))

    def _over_seeds(self, arm: Arm, num_seeds: int | None = None) -> Found:
        tasks = [self.task(arm, seed) for seed in range(num_seeds or self.preset.bench_seeds)]
        results = self.trials.in_order(tasks, f"training supernets, {arm.key}")
        opened = [result["guard"]["open_share"] for result in results if "open_share" in result["guard"]]
        return Found(
            arm,
            epochs=values(results, "epochs"),
            last=values(results, "last"),
            own_gain=values(results, "own_gain"),
            open_share=float(np.mean(opened)) if opened else None,
        )


def matching_factor(gain_at: Callable[[float], float], goal: float) -> float:
    """The factor of a learning rate at which the own gain is the goal, or near it, or the nearest of a few tries.

    The next try is in proportion to the gain, or between two neighbours of which the lower one gains less than the goal
    and the higher one more, by the logarithm of the factor.

    >>> 0.22 < matching_factor(lambda factor: factor**0.5, 0.5) < 0.28
    True
    """
    tried: dict[float, float] = {}
    factor = 1.0
    for _ in range(MOST_TRIES + 1):
        tried[factor] = gain_at(factor)
        best = min(tried, key=lambda one: abs(tried[one] - goal))
        if abs(tried[best] - goal) <= MATCHED * abs(goal):
            break
        factor = _next_factor(tried, goal)
        if factor in tried:
            break
    return best


def _next_factor(tried: Mapping[float, float], goal: float) -> float:
    """Where the gain rises through the goal; outside of what was tried, if it does so nowhere there.

    A rate may be so high that steps overshoot, and a lower one gains more. So what is too much is followed down from
    the lowest rate, where it falls at last, and not from the rate that came nearest.
    """
    ordered = sorted(tried)
    for low, high in pairwise(ordered):
        if tried[low] <= goal < tried[high]:
            share = (goal - tried[low]) / (tried[high] - tried[low])
            return float(f"{math.exp((1 - share) * math.log(low) + share * math.log(high)):.3g}")
    is_too_much = tried[ordered[0]] > goal
    end = ordered[0] if is_too_much else ordered[-1]
    ratio = goal / tried[end] if goal > 0 and tried[end] > 0 else 0.5
    bounded = min(max(ratio, 0.25), 0.8) if is_too_much else min(max(ratio, 1.25), 4.0)
    return float(f"{end * bounded:.3g}")
