"""Networks for each task alone, of another size and for as much work as something else took: what it must beat."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from ramet.continual.methods.individual import Individual
from ramet.continual.networks.resizing import factor_for, resized
from ramet.continual.networks.skeletons import Skeleton
from ramet.continual.networks.template import Template
from ramet.continual.streams.stream import TaskData
from ramet.continual.training import Saves, classification, epoch_work, train
from ramet.errors import ConfigError
from ramet.seeding import derive_seed


@dataclass(kw_only=True, eq=False)
class Separate(Individual):
    """Individual networks made smaller or larger, and trained for some work: the control of a method's size and cost.

    Args:
        width: the multiple of the network's widths (mlp and conv).
        work: the multiply-adds of each task's training, in the order of the tasks: each is trained for as many epochs
            as come nearest to it, and at least one; empty for the epochs of the recipe.
    """

    name: ClassVar[str] = "separate"

    width: float = 1.0
    work: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.width < math.inf:
            raise ConfigError(f"width must be positive, and finite, but got {self.width}.")
        if any(not 0 <= each < math.inf for each in self.work):
            raise ConfigError(f"work must be of multiply-adds, none of them negative, but got {self.work}.")

    def check_network(self, template: Template) -> None:
        """Refuse widths of a module, which has none that are known."""
        super().check_network(template)
        if self.width != 1 and not isinstance(template, Skeleton):
            raise ConfigError(f"{self.name}:width is for mlp and conv, but got {self.width:g} with a module.")

    def _made_from(self) -> Template:
        return self.template if self.width == 1 else resized(self.skeleton, self.width)

    def _learn(self, task: TaskData, earlier: Sequence[TaskData], saves: Saves) -> dict[str, Any]:
        place = len(self.tasks)
        network = self._beginning(task, place, saves)
        seed, settings = derive_seed(self.seed, "task", place), self.settings
        loss = classification(network, task.train, settings)
        if place < len(self.work):
            each = epoch_work(network, *loss, settings, seed=seed)
            left = self.work[place] - saves.work.total
            settings = replace(settings, epochs=max(1, round(left / max(each, 1.0))))
        train(network, *loss, settings, seed=seed, saves=saves)
        self.networks.append(network)
        return {"epochs": settings.epochs}


def separate_as(
    template: Template, classes: Sequence[int], parameters: float, work: Sequence[float]
) -> Separate | None:
    """Networks of some parameters in all, for tasks of so many classes, and of some work each; None for a module.

    They are never smaller than asked for: whole neurons make them a little larger.
    """
    if not isinstance(template, Skeleton):
        return None
    width = factor_for(template, classes, parameters)
    is_same = resized(template, width) == template
    return Separate(width=1.0 if is_same else width, work=[float(each) for each in work])
