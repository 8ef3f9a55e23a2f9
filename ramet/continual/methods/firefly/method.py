"""Firefly for tasks that arrive one after the other: masks over a master network, which grows only where it must."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from ramet.continual.methods.firefly.candidates import grow_draft
from ramet.continual.methods.firefly.neuron_masks import train_masks
from ramet.continual.methods.master_method import MasterMethod
from ramet.continual.networks.master import Draft
from ramet.continual.networks.skeletons import Skeleton
from ramet.continual.streams.stream import TaskData
from ramet.continual.training import Saves
from ramet.errors import ConfigError
from ramet.growth import grow
from ramet.growth.growing import PROBE_SIZE
from ramet.growth.tracing.checking import find_coupling
from ramet.seeding import derive_seed, seeded_globally
from ramet.training import accuracy

GROWTH_EPOCHS = 1.5
"""What a growth of the first task's network costs, in epochs of training."""


@dataclass(kw_only=True, eq=False)
class ContinualFirefly(MasterMethod):
    """Algorithm 2: reuse old neurons by a mask, then unlock copies of them and add new ones until the task is solved.

    The first task has a thin network, grown by splitting and by new neurons (``ramet.growth``). Each later task first
    trains a binary mask over all neurons there are, their weights locked. While that is not good enough on the
    validation data, neurons are unlocked (a copy of the old one that this task may change) or added, whichever lowers
    the loss most, and trained. Each task's network is taken out of the master network by its mask, bit for bit.

    Batch norm, where the network has it, is each task's own, because its statistics are. A locked neuron may read new
    neurons of the present task: such a weight is in no earlier network. Of a module, neurons are the units that
    ``MasterMethod`` names; a trained network is where the first task begins, all of it and without a growth.

    Args:
        goal: The validation accuracy at which a task is solved.
        rounds: How often a task may grow.
        neurons: Neurons that each growth unlocks or adds, over all layers; the paper's 256 for VGG-16.
        candidates: New neurons that each layer tries in a growth; the paper's 15.
        start_share: The share of the skeleton's width that the first task begins with.
        candidate_epochs: How long candidates are trained before they are chosen.
        epsilon: How far a later task's candidates may go: section 2.4's bound of the step sizes, which has no value in
            the paper; directions then have a norm of at most 1. 0 for no bounds.
        mask_rate: The learning rate of the masks' scores (Adam).
        reuse: The most neurons of earlier tasks that a task takes over in a layer, as a multiple of the skeleton's
            width; 0 for as many as its mask keeps, as in the paper. Masks keep most of what there is, so that without a
            limit each task's network, and what it costs, grows with the number of tasks.

    Departs from the paper: by default the candidates of later tasks have no bounds, since what is chosen is kept as it
    was trained and goes on to be trained; scores are then no longer those of small steps.

    Reference: Wu et al., Firefly neural architecture descent, 2020, section 2.4, Algorithm 2 and B.4.
    """

    name: ClassVar[str] = "firefly"
    forgets_nothing: ClassVar[bool] = True
    target_option: ClassVar[str] = "goal"
    goal: float = 0.99
    rounds: int = 2
    neurons: int = 20
    candidates: int = 15
    start_share: float = 0.3
    candidate_epochs: int = 2
    epsilon: float = 0.0
    mask_rate: float = 5e-4
    reuse: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        counts = (self.neurons, self.candidates, self.candidate_epochs)
        if min(counts) < 1 or self.rounds < 0:
            raise ConfigError(
                "neurons, candidates and candidate_epochs must be at least 1 and rounds not negative, but got "
                f"{', '.join(map(str, (*counts, self.rounds)))}."
            )
        if self.reuse < 0:
            raise ConfigError(f"reuse must not be negative, but got {self.reuse}.")
        if not 0 <= self.epsilon < float("inf"):
            raise ConfigError(f"epsilon must not be negative, and finite, but got {self.epsilon}.")
        if not 0 < self.goal <= 1 or not 0 < self.start_share <= 1 or self.mask_rate <= 0:
            raise ConfigError(
                "goal and start_share must lie in (0, 1] and mask_rate must be positive, but got "
                f"{self.goal}, {self.start_share} and {self.mask_rate}."
            )

    def _learn(self, task: TaskData, earlier: Sequence[TaskData], saves: Saves) -> dict[str, Any]:
        draft, notes = self._first(task, saves) if not self.tasks else self._later(task, saves)
        notes["solved"] = notes["validation"] >= self.goal
        self.master.add(draft)
        notes["widths"] = self.master.widths
        self._said.append(self._sentence(task.info.name, notes))
        return notes

    def _first(self, task: TaskData, saves: Saves) -> tuple[Draft, dict[str, Any]]:
        """The first network: thin, and grown by splitting and new neurons while the task is not solved."""
        if self.template.is_trained:
            draft = self._whole(task, saves)
            score = self._trained(draft, task, saves, "first", "first")
            return draft, {"validation": score, "reused": 0, "unlocked": 0, "new": sum(draft.widths), "growths": 0}
        # A trace of a module does not see a group of one unit, such as a single head, so that it could not grow again.
        least = 1 if isinstance(self.template, Skeleton) else 2
        sizes = self.template.wiring.sizes
        widths = [min(width, max(least, round(self.start_share * width))) for width in sizes]
        with seeded_globally(self.seed, "first"):
            thin = self.template.make_of_widths(widths, task.info.num_classes).to(self.device)
        options: dict[str, Any] = {"num_new": self.candidates}
        start = sum(widths)
        if not isinstance(self.template, Skeleton):
            # Only what a draft can hold may grow; the budget counts all that could.
            groups = find_coupling(thin, task.train.x[:PROBE_SIZE]).groups
            options["only"] = [name for name in self.template.wiring.names if name in groups]
            start = sum(group.size for group in groups.values())
        grown, history = grow(
            thin,
            (task.train.x, task.train.y, task.validation.x, task.validation.y),
            f"neurons={start + max(1, self.rounds) * self.neurons}, step={self.neurons}",
            method="firefly",
            method_options=options,
            settings=self.settings,
            target=self.goal,
            max_steps=self.rounds,
            seed=derive_seed(self.seed, "task", 0),
            checkpoints=saves.phase("grow"),
        )
        # Counted by its sizes: each training goes forward and twice as far back, and a growth costs as much as one and
        # a half epochs (docs/decisions/018). What ran before a kill is counted so, too.
        epochs = [self.settings.epochs + (GROWTH_EPOCHS if step.grew else 0) for step in history.steps]
        each = [3 * len(task.train) * step.sizes["flops"] for step in history.steps]
        saves.work.add("grow", sum(size * number for size, number in zip(each, epochs, strict=True)))
        draft = Draft.of_own(self.template, grown)
        score = accuracy(grown, task.validation.x, task.validation.y)
        counts = {"reused": 0, "unlocked": 0, "new": sum(draft.widths), "growths": len(history.steps) - 1}
        return draft, {"validation": score} | counts

    def _later(self, task: TaskData, saves: Saves) -> tuple[Draft, dict[str, Any]]:
        """A mask over the neurons there are, then growths while the task is not solved."""
        place, data, seed = len(self.tasks), task.train, derive_seed(self.seed, "task", len(self.tasks))
        everything = [torch.arange(width) for width in self.master.widths]
        classes = task.info.num_classes
        with seeded_globally(self.seed, "head", place):
            full = self.master.draft(everything, classes)
        most = [max(1, round(self.reuse * width)) for width in self.template.wiring.sizes] if self.reuse else None
        chosen = train_masks(full, data, self.settings, seed=seed, mask_rate=self.mask_rate, saves=saves, most=most)
        with seeded_globally(self.seed, "head", place):
            draft = self.master.draft(chosen, classes)
        notes: dict[str, Any] = {"unlocked": 0, "new": 0, "growths": 0}
        notes["validation"] = self._trained(draft, task, saves, "head", "head")
        while notes["validation"] < self.goal and notes["growths"] < self.rounds:
            notes["growths"] += 1
            phase = f"growth-{notes['growths']}"
            with seeded_globally(seed, phase):
                draft, counts = grow_draft(
                    draft,
                    data,
                    self.settings,
                    seed=derive_seed(seed, phase),
                    num_new=self.candidates,
                    num_chosen=self.neurons,
                    candidate_epochs=self.candidate_epochs,
                    epsilon=self.epsilon,
                    saves=saves,
                    phase=f"{phase}-candidates",
                )
            notes["unlocked"] += counts["unlocked"]
            notes["new"] += counts["new"]
            notes["validation"] = self._trained(draft, task, saves, phase, phase)
        notes["reused"] = sum(int((origin >= 0).sum()) for origin in draft.origins)
        return draft, notes

    def _sentence(self, name: str, notes: dict[str, Any]) -> str:
        times = "1 growth" if notes["growths"] == 1 else f"{notes['growths']} growths"
        end = "solved" if notes["solved"] else "its budget ended"
        return (
            f"{name} reuses {notes['reused']} neurons, unlocks {notes['unlocked']} and adds {notes['new']} in "
            f"{times}; {end} at {notes['validation']:.1%} on validation data."
        )

    def units(self) -> dict[str, Any]:
        """Which neurons each task uses, by the task that they were made for."""
        return self._units(self.master.uses, layers=self.template.wiring.names)
