"""A small predictor of scores: ridge regression on an architecture's choices and on cheaper scores of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ramet.errors import ConfigError
from ramet.ranking.metrics import Floats, ranks

STRENGTHS = tuple(10.0**power for power in np.arange(-2.0, 3.01, 0.5))
"""The strengths of the ridge that are tried; features are of the order of 1."""


class Ridge:
    """Ridge regression whose strength has the smallest error on what it leaves out.

    With standardised features Z and centred targets t it minimises ``|t - Z w|^2 + s |w|^2``. By ``Z = U D V'`` its fit
    is ``H t`` with ``H = U D^2 / (D^2 + s) U'``, and the residual of a sample that the fit leaves out is the residual
    with it, divided by one minus its own weight in the fit, on H's diagonal: no fit is done twice, and one
    decomposition, linear in the samples, serves all strengths.

    Args:
        features: [samples, features].
        targets: [samples].

    Raises:
        ConfigError: fewer than 3 samples, or another number of targets.

    >>> line = Ridge(np.arange(6.0)[:, None], 2 * np.arange(6.0))
    >>> bool(abs(line(np.array([[10.0]]))[0] - 20) < 0.5)
    True

    Reference: Allen, "The relationship between variable selection and data augmentation", 1974 (PRESS).
    """

    def __init__(self, features: Floats, targets: Floats) -> None:
        if len(features) != len(targets) or len(targets) < 3:
            raise ConfigError(f"a ridge is fitted to 3 samples or more, but got {len(features)} and {len(targets)}.")
        self._centre, deviation = features.mean(axis=0), features.std(axis=0)
        self._scale = np.where(deviation > 0, deviation, 1.0)
        self._mean = float(targets.mean())
        self._z = (features - self._centre) / self._scale / np.sqrt(features.shape[1])
        u, d, v = np.linalg.svd(self._z, full_matrices=False)
        fits = [self._fit(u, d, v, targets, strength) for strength in STRENGTHS]
        self.strength, self._weights, self.left_out = min(fits, key=lambda fit: float(((fit[2] - targets) ** 2).mean()))
        """``left_out`` [samples] is what is predicted of each sample by all others."""

    def _fit(self, u: Floats, d: Floats, v: Floats, targets: Floats, strength: float) -> tuple[float, Floats, Floats]:
        kept, along = d**2 / (d**2 + strength), u.T @ (targets - self._mean)
        # The mean is a coefficient of its own, which a sample has a share of 1 / n in.
        own = (u**2) @ kept + 1 / len(targets)
        residual = targets - self._mean - u @ (kept * along)
        return strength, v.T @ (d / (d**2 + strength) * along), targets - residual / np.maximum(1 - own, 1e-9)

    def __call__(self, features: Floats) -> Floats:
        """Predictions of other samples, [samples, features] to [samples]."""
        z = (features - self._centre) / self._scale / np.sqrt(features.shape[1])
        predicted: Floats = self._mean + z @ self._weights
        return predicted


def features_of(
    archs: Sequence[Sequence[int]], num_options: Sequence[int], signals: Sequence[Floats | Sequence[float]]
) -> Floats:
    """Choices as zeros and ones, and each signal as ranks from 0 to 1: [archs, options + signals].

    A signal that covers all architectures says the same at any scale; its ranks do not depend on outliers.
    """
    choices = np.asarray(archs)
    columns = [
        (choices[:, place] == option).astype(float)
        for place, options in enumerate(num_options)
        for option in range(options)
    ]
    weight = np.sqrt(len(num_options))  # a signal counts as much as all choices have columns that can be one
    columns += [weight * (1 - (ranks(values) - 1) / max(len(archs) - 1, 1)) for values in signals]
    return np.stack(columns, axis=1)


def smoothed(features: Floats, scores: Floats) -> Floats:
    """Each ranking as the choices of the children explain it, all children together: what fits no other is noise.

    A score says something about every child that has a choice in common, so that the fit is less noisy than what it is
    fitted to; what only a certain combination of choices is worth, it loses.

    Args:
        features: [children, columns], of ``features_of``.
        scores: [rankings, children]; a ranking with a score that is not finite stays as it is.
    """
    rows = [Ridge(features, row)(features) if np.isfinite(row).all() else row for row in scores]
    return np.stack(rows)


def can_smooth(num_children: int, num_options: Sequence[int]) -> bool:
    """Whether there are twice as many children as choices to explain them by, the least that a smoothing asks for.

    >>> can_smooth(64, (4, 4, 4)), can_smooth(16, (4, 4, 4))
    (True, False)
    """
    return num_children >= 2 * (1 + sum(count - 1 for count in num_options))
