"""What the figures mean, in words: each sentence follows from a measurement and names it."""

from __future__ import annotations

import math

from ramet.runs.encoding import Json

RELIABLE_TRUTH = 0.5
"""Below this correlation between halves of its seeds, a truth is too noisy to judge a ranking by."""


def recommend(result: Json) -> list[str]:
    """Sentences on how far the ranking of ``analyse`` can be trusted and what would make it better, the first first."""
    if "correlation" not in result:
        return [*_without_truth(result), *_guard(result), *_variations(result)]
    if result["truth"]["spread"] == 0:
        return ["The truth gives every child the same score, so no ranking can be judged by it."]
    return [
        *_truth_warning(result["truth"]),
        *_verdict(result),
        *_against_trivial(result["correlation"], result["smallest_first"]),
        *_averaging(result),
        *_fine_tuning(result),
        *_batch_norm(result["correlation"]),
        *_pruning(result),
        *_guard(result),
        *_variations(result),
    ]


def _defined(entry: Json) -> bool:
    """Whether a figure is a number: a ranking in which all children are equal correlates with nothing."""
    return not math.isnan(entry["value"])


def _interval(entry: Json) -> str:
    return f"{entry['value']:z.2f} [{entry['low']:z.2f}, {entry['high']:z.2f}]"


def _without_truth(result: Json) -> list[str]:
    rows = result["stability"]["instances"]
    sentences = ["No truth is known, so only stability can be judged, and a stable ranking can still be wrong."]
    if rows is not None and not math.isnan(rows["mean"]):
        sentences.append(
            f"Two instances agree at a rank correlation of {rows['mean']:z.2f} "
            f"(between {rows['lowest']:z.2f} and {rows['highest']:z.2f})."
        )
    return sentences


def _truth_warning(truth: Json) -> list[str]:
    halves = truth["reliability_of_halves"]
    if halves is None or math.isnan(halves):
        why = "has a single seed" if halves is None else "has seeds that score every child the same"
        return [f"The truth {why}, so its own noise is unknown; every correlation is an underestimate."]
    if halves < RELIABLE_TRUTH:
        return [
            f"The truth itself is noisy: two halves of its seeds correlate at only {halves:z.2f}. Nothing firm can be "
            "concluded about the ranking; train the truth longer, with more seeds, or on more data."
        ]
    return []


def _verdict(result: Json) -> list[str]:
    last = result["correlation"]["last"]["tau"]
    ceiling = result["truth"]["reliability_of_one_seed"]
    if not _defined(last):
        return ["The supernet's last scores are the same for every child, so they rank nothing."]
    sentence = f"The supernet's last scores correlate with the truth at {_interval(last)}"
    if ceiling is not None and not math.isnan(ceiling):
        sentence += f"; two seeds of the truth correlate with each other at {ceiling:z.2f}"
    return [sentence + f". Its best child has the true rank {result['top']['last']['top_1']:.0f} of {_count(result)}."]


def _count(result: Json) -> int:
    return len(result["children"])


def _against_trivial(correlation: Json, smallest_first: Json) -> list[str]:
    defined = {name: entry for name, entry in correlation.items() if _defined(entry["tau"])}
    sizes = [name for name in ("parameters", "flops") if name in defined]
    if not sizes:
        return ["All children have the same size, so a ranking by size says nothing here."]
    trivial = max(sizes, key=lambda name: defined[name]["tau"]["value"])
    candidates = {name: entry for name, entry in defined.items() if name not in ("parameters", "flops")}
    if not candidates:
        return []
    best = max(candidates, key=lambda name: candidates[name]["tau"]["value"])
    words = {"parameters": "the number of parameters", "flops": "the number of multiply-adds"}[trivial]
    words += ", fewest first" * smallest_first[trivial]
    gain = candidates[best][f"gain_over_{trivial}"]
    theirs = correlation[trivial]["tau"]
    if gain["value"] <= 0:
        return [
            f"It does not beat {words}, which alone has {_interval(theirs)}: ranking by size is cheaper and at least "
            "as good here. Do not choose an architecture by these shared weights."
        ]
    if gain["low"] <= 0:
        return [
            f"It is not clearly better than {words}, which alone has {_interval(theirs)}: the best of its rankings "
            f"({best}) gains {_interval(gain)}, an interval that includes 0."
        ]
    return [
        f"It beats {words} (which alone has {_interval(theirs)}): the best of its rankings ({best}) gains "
        f"{_interval(gain)}."
    ]


def _averaging(result: Json) -> list[str]:
    entry, curve = result["correlation"]["averaged"], result["over_time"]["averaging_last"]
    gain = entry["gain_over_last"]
    many = curve["evaluations"][-1]
    if many == 1 or not _defined(gain):
        return []
    cost = result["costs"]["averaging"] / result["costs"]["supernet"]
    if gain["value"] <= 0:
        return [f"Averaging the last {many} evaluations does not help ({_interval(gain)})."]
    if gain["low"] <= 0:
        return [f"Averaging the last {many} evaluations does not clearly help ({_interval(gain)})."]
    return [
        f"Averaging the last {many} evaluations raises the correlation from "
        f"{result['correlation']['last']['tau']['value']:z.2f} to {entry['tau']['value']:z.2f} "
        f"(gain {_interval(gain)}), at {cost:z.2f} times the cost of training the supernet."
    ]


def _fine_tuning(result: Json) -> list[str]:
    curve = result["over_time"]["fine_tuned"]
    if curve is None or any(math.isnan(tau) for tau in curve):
        return []
    points = result["over_time"]["fine_tuned_after"]
    best = max(range(len(curve)), key=lambda place: curve[place])
    per_step = result["costs"]["fine_tuning"] / max(points[-1], 1)
    cost = per_step * points[best] / result["costs"]["supernet"]
    if curve[best] - curve[0] < 0.02 or points[best] == 0:
        return [f"Fine-tuning each child for up to {points[-1]} mini-batches does not raise the correlation."]
    return [
        f"Fine-tuning each child for {points[best]} mini-batches raises the correlation from "
        f"{curve[0]:z.2f} to {curve[best]:z.2f}, at {cost:z.2f} times the cost of training the supernet."
    ]


def _batch_norm(correlation: Json) -> list[str]:
    gain = correlation["reestimated"]["gain_over_last"]
    if not _defined(gain):
        return []
    verb = "raises" if gain["low"] > 0 else "lowers" if gain["high"] < 0 else "does not clearly change"
    return [f"Re-estimating batch-norm statistics for each child {verb} the correlation ({_interval(gain)})."]


def _pruning(result: Json) -> list[str]:
    kept = result["pruning"]["averaged"]
    if kept >= 0.9:
        return [
            f"Pruning the worst half by the averaged scores is safe: it keeps {kept:.0%} of the truly best quarter."
        ]
    return [f"Pruning the worst half by the averaged scores would lose {1 - kept:.0%} of the truly best quarter."]


def _guard(result: Json) -> list[str]:
    """How much room a projection leaves: where every direction is closed, nothing can be learnt any more."""
    return [
        f"The guard leaves {share:.0%} of the directions of a layer's inputs open at the end: the rest of it can no "
        f"longer learn."
        for name, share in result.get("guard", {}).items()
        if name.rpartition(".")[2] == "open_share"
    ]


def _variations(result: Json) -> list[str]:
    sentences = []
    for row in result["variations"]:
        if "mean_over_steps" in row and not math.isnan(row["mean_over_steps"]):
            base = result["over_time"]
            sentences.append(
                f"With {row['variation']} the correlation over the last mini-batches is {row['mean_over_steps']:z.2f} "
                f"with a deviation of {row['deviation_over_steps']:z.2f}, against {base['mean_over_steps']:z.2f} and "
                f"{base['deviation_over_steps']:z.2f}."
            )
    return sentences
