"""Space shrinking: while a supernet is trained, the options that do worst by its own losses are dropped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from ramet.errors import ConfigError
from ramet.params import Params
from ramet.ranking.trainings.base import SupernetTraining, TrainingSize
from ramet.seeding import torch_generator
from ramet.spaces import Arch, Space


def excess_losses(sums: Tensor, counts: Tensor) -> Tensor:
    """The mean excess of each option over the epoch that its steps were in; infinite where it has no step.

    Args:
        sums: of losses less their epoch's mean, [options].
        counts: of steps, [options].
    """
    return torch.where(counts > 0, sums / counts.clamp(min=1), math.inf)


def worst_options(excess: Tensor, places: Sequence[int], kept: Sequence[bool], count: int) -> list[int]:
    """The options to drop, the worst first: those of highest excess, but never the last option of a decision.

    Args:
        excess: of all options of all decisions, in one row, [options].
        places: the decision of each option.
        kept: whether each is still there.
        count: how many to drop at most.
    """
    left = {place: sum(k for k, p in zip(kept, places, strict=True) if p == place) for place in set(places)}
    order = sorted((row for row, is_kept in enumerate(kept) if is_kept), key=lambda row: (-float(excess[row]), row))
    found: list[int] = []
    for row in order:
        if len(found) < count and left[places[row]] > 1:
            found.append(row)
            left[places[row]] -= 1
    return found


class ShrinkingTraining(SupernetTraining):
    """One child a step; after given epochs the worst share of all options that are left is dropped.

    An option is judged by the training losses of the steps that had it, each less the mean of its epoch, because losses
    fall as training goes on and options must not be judged by when they had their turn. That costs no evaluation. All
    options of all decisions are compared with each other, as in angle-based shrinking; a decision keeps at least one.
    A child with a dropped option is never trained again and ranks last, behind all that are left.

    Departs from the reference, which judges by how far weights have turned: here it is the supernet's own loss.

    Args:
        space: the architectures.
        seed: of the draws that take the place of dropped options.
        epochs: after how many epochs options are dropped; after a third and two thirds of all if none are given.
        share: of the options that are left, how many are dropped each time; at least one.

    Reference: Hu and others, Angle-based search space shrinking for neural architecture search, 2020.
    """

    has_state: ClassVar[bool] = True

    def __init__(self, space: Space, *, seed: int = 0, epochs: Sequence[int] = (), share: float = 0.2) -> None:
        super().__init__(space, seed=seed)
        epochs = [epochs] if isinstance(epochs, int) else epochs
        if not all(isinstance(epoch, int) and epoch >= 1 for epoch in epochs) or len(set(epochs)) < len(epochs):
            raise ConfigError(f"epochs must be numbers of epochs from 1 on, each once, but got {epochs!r}.")
        if not 0 < share < 1:
            raise ConfigError(f"share must be between 0 and 1, but got {share}.")
        self.epochs, self.share = tuple(sorted(epochs)), share
        self._rows = [(place, option) for place, count in enumerate(space.num_options) for option in range(count)]
        self._row = {pair: row for row, pair in enumerate(self._rows)}
        self.begin(TrainingSize(1, 1, 1, 0.0))

    @property
    def children_per_step(self) -> int:
        """One."""
        return 1

    def begin(self, size: TrainingSize) -> None:
        """Every option is there, and nothing is known of any."""
        thirds = {max(1, round(size.num_epochs * part / 3)) for part in (1, 2)}
        # After the last epoch nothing is trained any more, so that dropping would only take scores away.
        self._after = {epoch for epoch in self.epochs or thirds if epoch < size.num_epochs}
        self._steps_per_epoch = size.steps_per_epoch
        self._dropped: dict[int, int] = {}  # row to the epochs after which it was dropped, in the order of dropping
        count = len(self._rows)
        self._sums, self._counts = (torch.zeros(count, dtype=torch.double) for _ in range(2))
        self._epoch_sums, self._epoch_counts = (torch.zeros(count, dtype=torch.double) for _ in range(2))
        self._epoch_loss = 0.0

    def archs(self, step: int, turn: Arch) -> Sequence[Arch]:
        """The child whose turn it is; a dropped option gives way to one of those left, drawn for each decision."""
        if not self._dropped:
            return [turn]
        generator = torch_generator(self.seed, "shrink", step)
        chosen = []
        for place, option in enumerate(turn):
            left = [o for o in range(self.space.num_options[place]) if self._row[place, o] not in self._dropped]
            drawn = left[int(torch.randint(len(left), (), generator=generator))]
            chosen.append(option if option in left else drawn)
        return [tuple(chosen)]

    def after_step(self, step: int, archs: Sequence[Arch], loss: float, params: Params) -> None:
        """Take in the loss; at the end of an epoch its mean is known, and after some the worst options go."""
        rows = [self._row[place, option] for place, option in enumerate(archs[0])]
        self._epoch_sums[rows] += loss
        self._epoch_counts[rows] += 1
        self._epoch_loss += loss
        epoch, place = divmod(step + 1, self._steps_per_epoch)
        if place:
            return
        self._sums += self._epoch_sums - self._epoch_counts * (self._epoch_loss / self._steps_per_epoch)
        self._counts += self._epoch_counts
        self._epoch_sums.zero_()
        self._epoch_counts.zero_()
        self._epoch_loss = 0.0
        if epoch in self._after:
            self._drop(epoch)

    def _drop(self, epoch: int) -> None:
        kept = [row not in self._dropped for row in range(len(self._rows))]
        places = [place for place, _ in self._rows]
        count = max(1, round(self.share * sum(kept)))
        for row in worst_options(excess_losses(self._sums, self._counts), places, kept, count):
            self._dropped[row] = epoch
        self._sums.zero_()  # the next time, options are judged among those that are left
        self._counts.zero_()

    def dropped_after(self, arch: Arch) -> int | None:
        """The epochs after which the first of its options was dropped."""
        epochs = [self._dropped.get(self._row[place, option]) for place, option in enumerate(arch)]
        return min((epoch for epoch in epochs if epoch is not None), default=None)

    def report(self) -> dict[str, Any]:
        """Which options were dropped, and when."""
        names = self.space.option_names
        dropped = []
        for row, epoch in self._dropped.items():
            place, option = self._rows[row]
            text = f"{names[place][0]}={names[place][1][option]}" if names else f"decision {place}={option}"
            dropped.append({"epoch": epoch, "option": text})
        return {"dropped": dropped} if dropped else {}

    def state_dict(self) -> dict[str, Any]:
        """The losses so far, and what was dropped."""
        return {
            "sums": self._sums, "counts": self._counts, "epoch_sums": self._epoch_sums,
            "epoch_counts": self._epoch_counts, "epoch_loss": self._epoch_loss,
            "dropped": [[row, epoch] for row, epoch in self._dropped.items()],
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        for name in ("sums", "counts", "epoch_sums", "epoch_counts"):
            getattr(self, f"_{name}").copy_(state[name])
        self._epoch_loss = float(state["epoch_loss"])
        self._dropped = {int(row): int(epoch) for row, epoch in state["dropped"]}
