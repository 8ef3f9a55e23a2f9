"""Scores from anywhere against a truth: the figures of a diagnosis that need no supernet, from arrays alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from ramet.errors import ConfigError
from ramet.ranking.analysis import choices_of, correlations_of, smallest_first
from ramet.ranking.metrics import Floats, check_scores, stability
from ramet.ranking.recommendation import recommend_scores
from ramet.ranking.reliability import truth_figures
from ramet.ranking.verdict import TRIVIAL
from ramet.runs.encoding import Json
from ramet.seeding import numpy_generator


def compare_scores(
    scores: Mapping[str, ArrayLike],
    truth: ArrayLike | None = None,
    *,
    names: Sequence[str] | None = None,
    deviation: ArrayLike | None = None,
    num_seeds: int = 1,
    seed: int = 0,
) -> Json:
    """Every figure of rankings that are there already, with intervals, and what follows from them.

    Args:
        scores: each ranking by its name, [children] or [instances, children]; more is better. Those called
            ``parameters`` and ``flops`` need no training: they are turned so that they agree with the truth, and the
            others have to beat them.
        truth: [children] or [seeds, children]; none to look at stability alone.
        names: of the children.
        deviation: of one seed of the truth, [children], where its seeds are not known.
        num_seeds: of how many seeds the truth is then the mean.
        seed: of the resamples.

    Returns:
        ``correlation``, ``top``, ``pruning``, ``top_weighted``, ``truth``, ``stability`` and ``recommendation`` as in a
        ``RankResult``; without a truth the last two.

    Raises:
        ConfigError: there are no scores, or rankings are not of the same children, or a score is NaN.

    >>> found = compare_scores({"mine": [3, 2, 1, 0]}, [0.9, 0.8, 0.6, 0.7])
    >>> round(found["correlation"]["mine"]["tau"]["value"], 2)
    0.67
    """
    if not scores:
        raise ConfigError("there must be at least one ranking, but got none.")
    if set(scores) <= set(TRIVIAL):
        raise ConfigError(f"there must be a ranking beside those by size, but got {', '.join(scores)} alone.")
    named = {name: check_scores(np.atleast_2d(np.asarray(values, float)), ndim=2) for name, values in scores.items()}
    true = None if truth is None else check_scores(np.atleast_2d(np.asarray(truth, float)), ndim=2)
    sizes = {name: values.shape[1] for name, values in named.items()}
    sizes |= {} if true is None else {"the truth": true.shape[1]}
    if len(set(sizes.values())) > 1:
        raise ConfigError(f"all rankings must be of the same children, but got {sizes}.")
    count = next(iter(sizes.values()))
    rows = np.concatenate([values for name, values in named.items() if name not in TRIVIAL])
    alike = stability(rows)._asdict() if len(rows) > 1 else None
    result: Json = {
        "children": [str(place) for place in range(count)] if names is None else list(names),
        "stability": {"instances": alike},
    }
    if true is not None:
        mean = true.mean(axis=0)
        spread = None if deviation is None else np.asarray(deviation, float)
        turned = {name: smallest_first(named[name][0], true) for name in TRIVIAL if name in named}
        ranked: dict[str, Floats] = {name: values * (-1 if turned.get(name) else 1) for name, values in named.items()}
        result["truth"] = truth_figures(true, spread, num_seeds, generator=numpy_generator(seed, "bootstrap truth"))
        result["smallest_first"] = turned
        result["correlation"] = correlations_of(ranked, mean, seed)
        result |= choices_of(ranked, true)
    result["recommendation"] = recommend_scores(result)
    return result
