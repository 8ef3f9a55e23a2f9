"""Whether a training has diverged although its loss is a number still: it is far above that of guessing."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ramet.errors import RunError
from ramet.ranking.setup import SupernetSetup

DIVERGED = 100
"""So many times the loss of guessing, a training has diverged, even if its loss is a number."""


def check_came_down(setup: SupernetSetup, losses: Sequence[float], where: str) -> None:
    """Refuse the losses of epochs that end where no network learns.

    Raises:
        RunError: the last one is ``DIVERGED`` times that of guessing, or more.
    """
    guessing = guessing_loss(setup)
    if guessing is not None and losses and losses[-1] > DIVERGED * guessing:
        raise RunError(
            f"a supernet's loss must come down, but is {losses[-1]:.3g} in the last epoch of {where}, where guessing "
            f"gives {guessing:.2g}: the training has diverged; a lower learning rate may help."
        )


def guessing_loss(setup: SupernetSetup) -> float | None:
    """What guessing gives: of classes all alike, of numbers their mean; none for a loss whose outputs are not known."""
    recipe, y = setup.settings, setup.data.train.y
    if not y.is_floating_point():
        return math.log(max(setup.data.num_classes, 2)) if recipe.takes_logits else None
    if not recipe.tells_targets:
        return None
    return float(recipe.loss_for(y)(y.mean(dim=0).expand_as(y), y)) or None
