"""What a stream's accuracies say, from the accuracy matrix alone.

The matrix R has a row for each task learned and a column for each task: R_ij is the accuracy on task j after learning
task i. Entries above the diagonal may be NaN: a task that was not learned yet has no head. b_j is the accuracy of a
network that learned task j alone. All of it takes arrays, so that it can measure anybody's method.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ramet.errors import ConfigError

Array = npt.NDArray[np.float64]


def average_accuracy(matrix: npt.ArrayLike) -> float:
    """The mean of the last row.

    >>> average_accuracy([[0.9, float("nan")], [0.7, 0.8]])
    0.75
    """
    return float(_checked(matrix)[-1].mean())


def backward_transfer(matrix: npt.ArrayLike) -> float:
    """What later tasks did to earlier ones, the mean over j < T of R_Tj - R_jj; negative is forgetting.

    >>> round(backward_transfer([[0.9, float("nan")], [0.7, 0.8]]), 6)
    -0.2

    Reference: Lopez-Paz and Ranzato, Gradient episodic memory for continual learning, 2017.
    """
    values = _checked(matrix)
    return 0.0 if len(values) < 2 else float((values[-1] - values.diagonal())[:-1].mean())


def forgetting(matrix: npt.ArrayLike) -> float:
    """How far tasks fell from their best, the mean over j < T of (the largest R_ij, j <= i < T) - R_Tj.

    >>> round(forgetting([[0.9, np.nan, np.nan], [0.95, 0.8, np.nan], [0.7, 0.9, 0.6]]), 6)  # (0.25 - 0.1) / 2
    0.075

    Reference: Chaudhry et al., Riemannian walk for incremental learning, 2018.
    """
    values = _checked(matrix)
    count = len(values)
    if count < 2:
        return 0.0
    return float(np.mean([values[j:-1, j].max() - values[-1, j] for j in range(count - 1)]))


def forward_transfer(matrix: npt.ArrayLike, alone: npt.ArrayLike) -> float:
    """What earlier tasks did for later ones, the mean over j > 1 of R_jj - b_j.

    Departs from Lopez-Paz and Ranzato, who test a task before it is learned: with a head for each task there is
    nothing to test then. Here a task is compared, just after it was learned, with a network that learned it alone.

    >>> round(forward_transfer([[0.9, np.nan], [0.7, 0.8]], alone=[0.9, 0.75]), 6)
    0.05
    """
    values = _checked(matrix)
    return 0.0 if len(values) < 2 else float((values.diagonal() - _reference(alone, values))[1:].mean())


def intransigence(matrix: npt.ArrayLike, joint: npt.ArrayLike) -> float:
    """What a method failed to learn, the mean of a_j - R_jj; less is better.

    a_j is the accuracy on task j of a network that learned tasks 1 to j together (``joint``).

    >>> round(intransigence([[0.9, np.nan], [0.7, 0.8]], joint=[0.9, 0.9]), 6)
    0.05

    Reference: Chaudhry et al., Riemannian walk for incremental learning, 2018.
    """
    values = _checked(matrix)
    return float((_reference(joint, values) - values.diagonal()).mean())


def average_gain(matrix: npt.ArrayLike, alone: npt.ArrayLike) -> float:
    """The average multi-task gain in accuracy, the mean of R_Tj - b_j: more is better.

    >>> round(average_gain([[0.9, np.nan], [0.7, 0.8]], alone=[0.9, 0.7]), 6)  # (-0.2 + 0.1) / 2
    -0.05
    """
    values = _checked(matrix)
    return float((values[-1] - _reference(alone, values)).mean())


def paper_gain(matrix: npt.ArrayLike, alone: npt.ArrayLike, *, smallest_error: float = 1e-3) -> float:
    """The paper's "average multi-task gain", the sum over tasks of (E_j - E'_j) / E'_j: **less** is better.

    E_j is the error after the whole stream, E'_j that of the network alone. It is a sum of relative errors, so that a
    positive figure means worse than alone, although the paper's text maximises it. Departs from the paper, whose figure
    is not defined where a network alone makes no error: errors are taken as at least ``smallest_error``.

    >>> paper_gain([[0.9, np.nan], [0.8, 0.95]], alone=[0.9, 0.9])  # 0.1 / 0.1 - 0.05 / 0.1
    0.5

    Reference: Learn to bind and grow neural structures, section 3, Evaluation.
    """
    values = _checked(matrix)
    error = np.maximum(1 - values[-1], smallest_error)
    error_alone = np.maximum(1 - _reference(alone, values), smallest_error)
    return round(float(((error - error_alone) / error_alone).sum()), 12)


def summary(
    matrix: npt.ArrayLike,
    alone: Sequence[float] | None = None,
    joint: Sequence[float] | None = None,
    *,
    higher_is_better: bool = True,
) -> dict[str, float | None]:
    """All figures of a stream by name; those that need a reference that is not there are None.

    The matrix may be of another metric than the accuracy. Of one of which lower is better, ``average_accuracy`` is the
    mean all the same, and the others are of minus the metric, so that transfer and gain are good where they are
    positive, and forgetting where it is not; the paper's gain takes the metric for the error.

    >>> figures = summary([[50.0, np.nan], [60.0, 40.0]], alone=[50.0, 45.0], higher_is_better=False)
    >>> figures["average_accuracy"], figures["forgetting"], figures["average_gain"]
    (50.0, 10.0, -2.5)
    """
    if not higher_is_better:
        negative = [None if values is None else -np.asarray(values, dtype=np.float64) for values in (alone, joint)]
        figures = summary(-np.asarray(matrix, dtype=np.float64), *negative)  # type: ignore[arg-type]
        gain = None if alone is None else paper_gain(1 - _checked(matrix), 1 - np.asarray(alone, dtype=np.float64))
        return {**figures, "average_accuracy": average_accuracy(matrix), "paper_gain": gain}
    return {
        "average_accuracy": average_accuracy(matrix),
        "backward_transfer": backward_transfer(matrix),
        "forgetting": forgetting(matrix),
        "forward_transfer": None if alone is None else forward_transfer(matrix, alone),
        "intransigence": None if joint is None else intransigence(matrix, joint),
        "average_gain": None if alone is None else average_gain(matrix, alone),
        "paper_gain": None if alone is None else paper_gain(matrix, alone),
    }


def _checked(matrix: npt.ArrayLike) -> Array:
    """The matrix as an array, square, known on and below its diagonal."""
    values = np.asarray(matrix, dtype=np.float64)
    if values.ndim != 2 or values.shape[0] != values.shape[1] or not len(values):
        raise ConfigError(f"an accuracy matrix must be square and not empty, but has shape {values.shape}.")
    if np.isnan(values[np.tril_indices(len(values))]).any():
        raise ConfigError("an accuracy matrix must be known on and below its diagonal, but has NaN there.")
    return values


def _reference(accuracies: npt.ArrayLike, matrix: Array) -> Array:
    values = np.asarray(accuracies, dtype=np.float64)
    if values.shape != (len(matrix),):
        raise ConfigError(f"a reference must have an accuracy for each of {len(matrix)} tasks, but has {values.shape}.")
    return values
