"""Whether a supernet was trained long enough: where its correlation goes, and how far it is below children alone."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from ramet.ranking.intervals import mean_interval, slope_interval
from ramet.ranking.metrics import Floats
from ramet.runs.encoding import Json

TIMES = 3
"""How many times as long a training the line is drawn out to."""


def early_epochs(num_epochs: int, last_epochs: int) -> list[int]:
    """After which epochs, before the last ones, scores are taken: a quarter and half of the way.

    >>> early_epochs(12, 5), early_epochs(40, 5), early_epochs(2, 2)
    ([3, 6], [10, 20], [])
    """
    return sorted(epoch for epoch in {-(-num_epochs // 4), -(-num_epochs // 2)} if epoch <= num_epochs - last_epochs)


def longer_training(epochs: list[int], scores: Floats, truth: Floats, *, generator: np.random.Generator) -> Json | None:
    """The line through the correlations with the truth over the logarithm of epochs, drawn out to ``TIMES`` as many.

    Only epochs from a quarter of the training on count: before that every supernet learns. Within one training the
    learning rate falls, too, so that what the line promises has to be measured; it says whether that is worth it.

    Args:
        epochs: rising, [points].
        scores: [instances, points, children].
        truth: [children].
        generator: of the resamples.

    Returns:
        ``slope`` for each doubling and the correlation ``then``, each with its interval; none for fewer than 3 points
        or where scores order nothing.
    """
    kept = [place for place, epoch in enumerate(epochs) if 4 * epoch >= epochs[-1]]
    if len(kept) < 3:
        return None
    places = np.log2([epochs[place] for place in kept])
    slope, then = slope_interval(scores[:, kept], truth, places, generator=generator, reach=float(np.log2(TIMES)))
    if slope.value is None or np.isnan(slope.value):
        return None
    return {
        "from_epoch": epochs[kept[0]],
        "epochs": epochs[-1],
        "then_epochs": TIMES * epochs[-1],
        "slope": asdict(slope),
        "then": asdict(then),
    }


def gap_to_alone(shared: Floats, alone: Floats, *, generator: np.random.Generator) -> Json:
    """How far scores with shared weights are below those of the same children alone, [children] each."""
    return asdict(mean_interval(alone - shared, generator=generator))
