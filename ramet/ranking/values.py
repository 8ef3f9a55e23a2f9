"""The figures of a diagnosis as values of its metric: inside, scores are compared, of which higher is better."""

from __future__ import annotations

from typing import Any

from ramet.reports.metric import MetricFigures
from ramet.runs.encoding import Json


def metric_of(result: Json) -> MetricFigures:
    """The metric of a result; the accuracy where nothing is said of it."""
    return MetricFigures(**result.get("metric", {}))


def in_values(result: Json) -> Json:
    """A result whose scores are values: minus the scores where lower is better, and else as they are.

    Figures that compare (correlations, ranks, changes, gaps) stay what they are of scores, so that their signs say what
    is better. The truth of a table has a unit of its own, of which more is better.

    >>> metric = {"name": "loss", "higher_is_better": False, "is_share": False}
    >>> found = in_values({"metric": metric, "accuracy": {"mean": -0.5, "last": [[-0.5]]}, "variations": []})
    >>> found["accuracy"]
    {'mean': 0.5, 'last': [[0.5]]}
    """
    if metric_of(result).higher_is_better:
        return result
    told = {name: _negative(values) if name in SHARED else values for name, values in result["accuracy"].items()}
    variations = [row | {"accuracy": -row["accuracy"]} for row in result["variations"]]
    changed: Json = {"accuracy": told, "variations": variations}
    if result.get("truth") is not None and result["truth_unit"] == "metric":
        values = {name: _negative(result["truth"][name]) for name in ("mean", "seeds_scores")}
        changed["truth"] = result["truth"] | values
    return result | changed


SHARED = ("mean", "last", "averaged", "reestimated")
"""The figures with shared weights that are values; the others are spreads."""


def _negative(values: Any) -> Any:
    return [_negative(value) for value in values] if isinstance(values, list) else -values
