"""What a network forgot in a training of any kind: its predictions or scores on old data, before and after."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ramet.errors import ConfigError
from ramet.ranking.intervals import ENOUGH_SEEDS, t_interval
from ramet.ranking.paired import paired_share_interval
from ramet.reports import Estimate

Array = NDArray[Any]
Measure = Literal["accuracy", "score"]


@dataclass(frozen=True, kw_only=True)
class ClassDrop:
    """What became of the examples of one class.

    Attributes:
        name: of the class.
        count: how many examples it has.
        before: its accuracy, or mean score, before. after: the same after.
        drop: how far it fell, with an interval that holds for all classes at once.
        num_lost: examples that were right and are wrong now, or whose score fell by more than the tolerance.
        num_gained: the other way round.
        mostly: what lost examples are taken for now, most often; None for scores.
    """

    name: str
    count: int
    before: float
    after: float
    drop: Estimate
    num_lost: int
    num_gained: int
    mostly: str | None = None


@dataclass(frozen=True, kw_only=True)
class Forgotten:
    """What ``forgot`` found.

    Attributes:
        measure: whether before and after are shares of right examples, or mean scores.
        count: how many examples there are.
        before: the accuracy or mean score before. after: the same after.
        drop: how far it fell, with its interval over examples.
        lost: places of the examples that were right and are wrong now; of scores, of those that fell by more than the
            tolerance, the farthest first. gained: the other way round.
        classes: each class by itself, the one that fell farthest first; none without labels.
        tolerance: what may be lost. confidence: that of the intervals.
    """

    measure: Measure
    count: int
    before: float
    after: float
    drop: Estimate
    lost: tuple[int, ...]
    gained: tuple[int, ...]
    classes: tuple[ClassDrop, ...]
    tolerance: float
    confidence: float

    @property
    def lost_classes(self) -> tuple[ClassDrop, ...]:
        """The classes of which more than the tolerance was lost."""
        return tuple(each for each in self.classes if _lies_above(each.drop, self.tolerance))

    @property
    def is_forgotten(self) -> bool:
        """Whether more than the tolerance was lost, of all or of a class: the intervals say so, and not chance.

        A training that forgets no more than the tolerance raises this in at most 1 - confidence of all cases: half of
        it for all examples, and half for all classes together.
        """
        return _lies_above(self.drop, self.tolerance) or bool(self.lost_classes)

    @property
    def is_kept(self) -> bool:
        """Whether no more than the tolerance can have been lost of all examples; with few of them nothing is sure."""
        return not self.is_forgotten and self.drop.high is not None and self.drop.high <= self.tolerance

    def summary(self) -> str:
        """The verdict in a sentence or two."""
        form, amount = self.form, self.amount
        what = "the accuracy" if self.measure == "accuracy" else "the mean score"
        change = f"{what} went from {form(self.before)} to {form(self.after)}, a loss of {self._drop_text()}"
        allowed = f", more than the {amount(self.tolerance)} that may be lost" if self.tolerance else ""
        if _lies_above(self.drop, self.tolerance):
            words = f"Forgotten: {change}{allowed}."
        elif self.lost_classes:
            words = f"Forgotten in part: {change}, but of classes more was lost than may be."
        elif self.is_kept:
            words = f"Kept: {change}, and {amount(self.tolerance)} may be lost."
        elif self.drop.high is None:
            words = f"Nothing can be said: {change}, of {self.count} examples."
        else:
            most = amount(max(float(self.drop.high), 0.0))
            words = f"No forgetting shown: {change}; up to {most} may have been lost all the same."
        if self.lost_classes:
            names = [each.name for each in self.lost_classes]
            shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
            words += f" Lost: {'class' if len(names) == 1 else 'classes'} {shown}."
        return words

    @property
    def scale(self) -> float:
        """What losses are multiplied with to be shown: those of an accuracy are in points."""
        return 100.0 if self.measure == "accuracy" else 1.0

    def form(self, value: float) -> str:
        """An accuracy or a mean score as it is written."""
        return f"{100 * value:z.1f} %" if self.measure == "accuracy" else self.scaled_form(value)

    def scaled_form(self, value: float) -> str:
        """A loss in its unit as it is written."""
        return f"{value:z.1f}" if self.measure == "accuracy" else f"{value:.4g}"

    def amount(self, value: float) -> str:
        """A loss as it is written, with its unit."""
        return self.scaled_form(self.scale * value) + (" points" if self.measure == "accuracy" else "")

    def _drop_text(self) -> str:
        interval = scaled(self.drop, self.scale).interval_text(self.scaled_form)
        return self.amount(float(self.drop.value or 0.0)) + (f" {interval}" if interval else "")

    def to_json(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        found = asdict(self)
        found["is_forgotten"], found["is_kept"], found["summary"] = self.is_forgotten, self.is_kept, self.summary()
        found["lost_classes"] = [each.name for each in self.lost_classes]
        return found


def scaled(drop: Estimate, scale: float) -> Estimate:
    """An estimate in another unit."""
    value, low, high = (None if each is None else scale * each for each in (drop.value, drop.low, drop.high))
    return Estimate(value, low, high)


def _lies_above(drop: Estimate, tolerance: float) -> bool:
    return drop.low is not None and drop.low > tolerance


def forgot(
    before: ArrayLike,
    after: ArrayLike,
    labels: ArrayLike | None = None,
    *,
    lower_is_better: bool = False,
    tolerance: float = 0.0,
    confidence: float = 0.95,
) -> Forgotten:
    """What was lost between two measurements of the same old examples, before and after a training.

    Both are one of: predicted classes, whole numbers or texts, [examples]; scores of classes, of which the highest is
    the prediction, [examples, classes]; right or wrong, 0 or 1, [examples]; or a score of each example, such as a log
    likelihood or a loss, [examples]. Of the first three the share of right examples is compared, by
    ``paired_share_interval``; of scores the mean, by Student's interval of the differences. Fewer than 8 scores have
    none: two that fell alike by chance would pass for a certainty.

    Args:
        before: what the network gave before the training.
        after: what it gives now, for the same examples in the same order.
        labels: the right classes, [examples]; needed for predictions. With the others they only name classes.
        lower_is_better: of scores, such as losses.
        tolerance: how much may be lost: a share of the examples, or of the mean score.
        confidence: of the intervals. See ``Forgotten.is_forgotten`` for what it says about false alarms.

    Raises:
        ConfigError: arrays of other shapes or kinds, fewer than 2 examples, NaN, a value outside its range.

    >>> before, after, labels = [0, 1, 1, 0] * 25, [0, 1, 0, 0] * 25, [0, 1, 1, 0] * 25
    >>> found = forgot(before, after, labels)
    >>> found.is_forgotten, len(found.lost), [each.name for each in found.lost_classes]
    (True, 25, ['1'])
    >>> print(found.summary())
    Forgotten: the accuracy went from 100.0 % to 75.0 %, a loss of 25.0 points [17.5, 34.3]. Lost: class 1.
    """
    if not 0 <= tolerance < float("inf"):
        raise ConfigError(f"tolerance must be at least 0 and finite, but got {tolerance}.")
    if not 0 < confidence < 1:
        raise ConfigError(f"confidence must lie in (0, 1), but got {confidence}.")
    old, new = np.asarray(before), np.asarray(after)
    truth = None if labels is None else np.asarray(labels)
    _check_shapes(old, new, truth)
    values, predictions = _compared(old, new, truth, lower_is_better)
    is_share = values.dtype == bool
    falls = values[0].astype(float) - values[1].astype(float)  # [examples]
    measure: Measure = "accuracy" if is_share else "score"
    margin = 0.0 if is_share else tolerance

    def drop(part: Array, level: float) -> Estimate:
        if is_share:
            return paired_share_interval(int((part > 0).sum()), int((part < 0).sum()), len(part), confidence=level)
        found = t_interval(part, confidence=level)
        return found if len(part) >= ENOUGH_SEEDS else Estimate(found.value)

    shown = values.astype(float) * (-1.0 if lower_is_better else 1.0)
    order = np.argsort(-falls, kind="stable")
    lost = [int(place) for place in order if falls[place] > margin]
    gained = [int(place) for place in order[::-1] if falls[place] < -margin]
    names = [] if truth is None else sorted(set(truth.tolist()))
    classes = []
    for name in names:
        assert truth is not None
        own = truth == name
        classes.append(
            ClassDrop(
                name=str(name),
                count=int(own.sum()),
                before=float(shown[0, own].mean()),
                after=float(shown[1, own].mean()),
                # Shared among the classes, so that all intervals hold at once.
                drop=drop(falls[own], 1 - (1 - confidence) / len(names)),
                num_lost=int((falls[own] > margin).sum()),
                num_gained=int((falls[own] < -margin).sum()),
                mostly=None if predictions is None else _most_common(predictions[1][own & (falls > 0)]),
            )
        )
    return Forgotten(
        measure=measure,
        count=len(falls),
        before=float(shown[0].mean()),
        after=float(shown[1].mean()),
        drop=drop(falls, confidence),
        lost=tuple(lost),
        gained=tuple(gained),
        classes=tuple(sorted(classes, key=lambda each: -float(each.drop.value or 0.0))),
        tolerance=tolerance,
        confidence=confidence,
    )


def _check_shapes(old: Array, new: Array, truth: Array | None) -> None:
    if old.shape != new.shape:
        raise ConfigError(f"before and after must have one shape, but got {old.shape} and {new.shape}.")
    if old.ndim not in (1, 2) or len(old) < 2 or (old.ndim == 2 and old.shape[1] < 2):
        raise ConfigError(
            "before and after must be [examples] or [examples, classes], at least 2 of each, but got shape "
            f"{old.shape}."
        )
    if truth is not None and truth.shape != old.shape[:1]:
        raise ConfigError(f"labels must be one for each of {len(old)} examples, but got shape {truth.shape}.")
    for name, values in {"before": old, "after": new, "labels": truth}.items():
        if values is not None and values.dtype.kind not in "biufU":
            raise ConfigError(f"{name} must be numbers or texts, but is an array of {values.dtype}.")
        if values is not None and values.dtype.kind == "f" and not np.isfinite(values).all():
            place = tuple(int(axis[0]) for axis in np.nonzero(~np.isfinite(values)))
            raise ConfigError(f"{name} must be finite, but is {values[place]} at place {', '.join(map(str, place))}.")


def _compared(old: Array, new: Array, truth: Array | None, lower_is_better: bool) -> tuple[Array, Array | None]:
    """What is compared, [2, examples]: right or wrong as truth values, or scores; and the predictions, if there are."""
    is_classes = old.ndim == 2 or "U" in (old.dtype.kind, new.dtype.kind)
    whole = old.ndim == 1 and not is_classes and {old.dtype.kind, new.dtype.kind} <= set("iu")
    if is_classes or (whole and truth is not None):
        if truth is None:
            raise ConfigError(
                "predictions are judged by labels, but there are none; give labels, or a score an example."
            )
        if lower_is_better:
            raise ConfigError("lower_is_better is for scores of examples, but got predictions of classes.")
        predictions = np.stack([_classes(old, truth), _classes(new, truth)])
        return predictions == _like(truth, predictions), predictions
    both = np.stack([old, new])
    if np.isin(both, (0, 1)).all():
        return (both == 0) if lower_is_better else (both == 1), None
    if whole:
        raise ConfigError("predictions are judged by labels, but there are none; give labels, or a score an example.")
    return (-both if lower_is_better else both).astype(float), None


def _classes(values: Array, truth: Array) -> Array:
    if values.ndim == 1:
        return values.astype(str) if "U" in (values.dtype.kind, truth.dtype.kind) else values
    last = values.shape[1] - 1
    is_whole = truth.dtype.kind in "iu"
    if not is_whole or truth.min() < 0 or truth.max() > last:
        odd = truth[0] if not is_whole else truth[(truth < 0) | (truth > last)][0]
        raise ConfigError(f"labels of scores of classes must be whole numbers from 0 to {last}, but got {odd!s}.")
    best: Array = values.argmax(1)
    return best


def _like(truth: Array, predictions: Array) -> Array:
    return truth.astype(str) if predictions.dtype.kind == "U" else truth


def _most_common(predictions: Array) -> str | None:
    return str(Counter(predictions.tolist()).most_common(1)[0][0]) if len(predictions) else None
