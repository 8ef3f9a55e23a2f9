"""What the figures mean, in words: each sentence follows from the judgement and a measurement, and names its interval.

``judge`` decides; here nothing is decided a second time, so that no two sentences can contradict each other.
"""

from __future__ import annotations

import math

from ramet.ranking.values import metric_of
from ramet.ranking.verdict import RELIABLE_TRUTH, Judgement, is_defined, is_far_below, judge, way_to_use
from ramet.ranking.ways_in_words import interval, training_sentences
from ramet.reports.formats import significant
from ramet.reports.metric import MetricFigures
from ramet.runs.encoding import Json

SIZES = {"parameters": "the number of parameters", "flops": "the number of multiply-adds"}


def recommend(result: Json) -> list[str]:
    """Sentences on how far the ranking of ``analyse`` can be trusted and what would make it better, the first first."""
    judgement = judge(result)
    if judgement.kind == "no truth":
        return [*_without_truth(result), *_guard(result), *_variations(result)]
    if judgement.kind == "flat truth":
        return ["The truth gives every child the same score, so no ranking can be judged by it."]
    if judgement.kind == "noisy truth":
        told = training_sentences("The training", result.get("training"), len(result["children"]))
        measured = [*_measured(result, judgement), *_smoothed_truth(result["truth"])]
        return [*_noisy(result), *measured, *_training(result, judgement), *_guard(result), *told]
    return [
        *_verdict(result, judgement),
        *_last(result),
        *_single_seed(result["truth"]),
        *_training(result, judgement),
        *_averaging(result),
        *_smoothing(result["correlation"]),
        *_smoothed_truth(result["truth"]),
        *_fine_tuning(result),
        *_batch_norm(result["correlation"]),
        *_pruning(result),
        *_guard(result),
        *_variations(result),
        *_to_use(result),
    ]


def recommend_scores(result: Json) -> list[str]:
    """The same of scores that a user has: what they are worth against the truth, and nothing about how they came."""
    judgement = judge(result)
    if judgement.kind == "no truth":
        return _without_truth(result)
    if judgement.kind == "noisy truth":
        return [*_noisy(result), *_measured(result, judgement)]
    return [*_verdict(result, judgement), *_each(result), *_single_seed(result["truth"])]


def _each(result: Json) -> list[str]:
    """Every ranking against the truth."""
    count = len(result["children"])
    return [
        f"{name} correlates with the truth at {interval(entry['tau'])}; its first child has the true rank "
        f"{result['top'][name]['top_1']:.0f} of {count}."
        for name, entry in result["correlation"].items()
        if is_defined(entry["tau"])
    ]


def _amount(entry: Json, metric: MetricFigures) -> str:
    """A difference of the metric with its interval; that of shares in points."""
    if not metric.is_share:
        value, low, high = (significant(entry[name]) for name in ("value", "low", "high"))
        return f"{value} [{low}, {high}]"
    low, value, high = (100 * entry[name] for name in ("low", "value", "high"))
    return f"{value:z.1f} points [{low:z.1f}, {high:z.1f}]"


def _share(entry: Json) -> str:
    return f"{entry['value']:.0%} [{entry['low']:.0%}, {entry['high']:.0%}]"


def _without_truth(result: Json) -> list[str]:
    rows = result["stability"]["instances"]
    sentences = ["No truth is known, so only stability can be judged, and a stable ranking can still be wrong."]
    if rows is not None and not math.isnan(rows["mean"]):
        sentences.append(
            f"Two rankings agree at a rank correlation of {rows['mean']:z.2f} "
            f"(between {rows['lowest']:z.2f} and {rows['highest']:z.2f})."
        )
    return sentences


def _noisy(result: Json) -> list[str]:
    truth = result["truth"]
    halves = interval(truth["halves"]) if truth.get("halves") else f"{truth['reliability_of_halves']:z.2f}"
    return [
        f"Nothing can be concluded about the ranking, because the truth is too noisy: two halves of its seeds "
        f"correlate at {halves}, where {RELIABLE_TRUTH} is needed. Train the truth longer, with more seeds, or on more "
        "data."
    ]


def _measured(result: Json, judgement: Judgement) -> list[str]:
    """What was measured, where nothing follows from it."""
    found = []
    for name in (judgement.best, judgement.trivial):
        if name is not None:
            words = SIZES.get(name, f"the best ranking ({name})")
            found.append(f"{words} {interval(result['correlation'][name]['tau'])}")
    return [f"For the record, against this truth: {'; '.join(found)}."] if found else []


def _single_seed(truth: Json) -> list[str]:
    halves = truth["reliability_of_halves"]
    if halves is None or math.isnan(halves):
        why = "has a single seed" if halves is None else "has seeds that score every child the same"
        return [f"The truth {why}, so its own noise is unknown; every correlation is an underestimate."]
    return []


def _verdict(result: Json, judgement: Judgement) -> list[str]:
    """The sentence of the judgement, against the best ranking that needs no training."""
    correlation, best, trivial = result["correlation"], judgement.best, judgement.trivial
    if judgement.kind == "ranks nothing" or best is None:
        return ["Every child has the same score, so that nothing is ranked."]
    if trivial is None:
        tau = interval(correlation[best]["tau"])
        firm = {"better": "orders the children", "unclear": "does not clearly order the children"}
        what = firm.get(judgement.kind, "does not order the children")
        why = "All children have the same size" if result["smallest_first"] else "No size of a child is known"
        return [f"{why}, so that no ranking by it is there to beat; the best ranking ({best}) {what}: {tau}."]
    words = SIZES[trivial] + ", fewest first" * result["smallest_first"][trivial]
    theirs, gain = interval(correlation[trivial]["tau"]), interval(correlation[best][f"gain_over_{trivial}"])
    if judgement.kind == "no better":
        return [
            f"Do not choose by these scores: {words} alone has {theirs}, and the best of their rankings ({best}) gains "
            f"{gain}. Ranking by size is cheaper and better here."
        ]
    if judgement.kind == "unclear":
        return [
            f"It is not clearly better than {words}, which alone has {theirs} and costs nothing: the best ranking "
            f"({best}) gains {gain}, an interval that includes 0."
        ]
    return [f"It beats {words}, which alone has {theirs}: the best ranking ({best}) gains {gain}."]


def _last(result: Json) -> list[str]:
    entry, truth = result["correlation"]["last"], result["truth"]
    if not is_defined(entry["tau"]):
        single = entry.get("per_ranking") or [math.nan]
        flat = sum(tau is None or math.isnan(tau) for tau in single)
        return [
            f"The last scores of {flat} of {len(single)} instances are the same for every child: they rank nothing."
        ]
    sentence = f"The supernet's last scores correlate with the truth at {interval(entry['tau'])}"
    if truth.get("one_seed"):
        sentence += f"; two seeds of the truth correlate with each other at {interval(truth['one_seed'])}"
    top, count = result["top"]["last"], len(result["children"])
    sentence += f". Its best child has the true rank {top['top_1']:.0f} of {count}"
    if "top_1_best" in top:
        sentence += f" (between {top['top_1_best']:.0f} and {top['top_1_worst']:.0f} over the instances)"
    return [sentence + "."]


def _training(result: Json, judgement: Judgement) -> list[str]:
    """Whether it should be trained longer: by how far it is below children alone, and by where its correlation goes."""
    gap, longer, sentences = result.get("gap"), result.get("longer"), []
    is_far = is_far_below(result)
    if gap is not None and is_far:
        metric, shared = metric_of(result), result["accuracy"]["mean"]
        has = f"{shared:.1%}" if metric.name == "accuracy" else f"{metric.name} {metric.text(shared)}"
        sentences.append(
            f"Shared weights are hardly trained: children have {has} with them and are {_amount(gap, metric)} better "
            "alone. Train the supernet longer before you judge this space by it."
        )
    if longer is None or not judgement.is_firm:
        return sentences
    words = f"from epoch {longer['from_epoch']} to {longer['epochs']} the correlation changes by "
    words += f"{interval(longer['slope'])} with each doubling"
    if longer["slope"]["low"] > 0:
        sentences.append(
            f"Train longer: {words}. If that went on, {longer['then_epochs']} epochs would give "
            f"{interval(longer['then'])}; --also epochs={longer['then_epochs']} measures it."
        )
    elif is_far:
        sentences.append(
            f"Where the correlation goes is not clear: {words}. --also epochs={longer['then_epochs']} measures it."
        )
    return sentences


def _averaging(result: Json) -> list[str]:
    entry, curve = result["correlation"]["averaged"], result["over_time"]["averaging_last"]
    gain = entry["gain_over_last"]
    many = curve["evaluations"][-1]
    if many == 1 or not is_defined(gain):
        return []
    if gain["value"] <= 0:
        return [f"Averaging the last {many} evaluations does not help ({interval(gain)})."]
    if gain["low"] <= 0:
        return [f"Averaging the last {many} evaluations does not clearly help ({interval(gain)})."]
    return [
        f"Averaging the last {many} evaluations raises the correlation by {interval(gain)} to "
        f"{interval(entry['tau'])}{_at_cost(result, result['costs']['averaging'])}."
    ]


def _smoothing(correlation: Json) -> list[str]:
    gain = correlation.get("smoothed", {}).get("gain_over_last")
    if gain is None or not is_defined(gain):
        return []
    words = "Smoothing the averaged scores over the space, each child's by those of children with choices in common,"
    if gain["low"] > 0:
        tau = interval(correlation["smoothed"]["tau"])
        return [f"{words} costs nothing and raises the correlation of the last ones by {interval(gain)} to {tau}."]
    verb = "lowers" if gain["high"] < 0 else "does not clearly change"
    return [f"{words} {verb} the correlation of the last ones ({interval(gain)})."]


def _smoothed_truth(truth: Json) -> list[str]:
    single, smooth = truth.get("seed_with_others"), truth.get("smoothed_with_others")
    if single is None or smooth is None or not (is_defined(single) and is_defined(smooth)):
        return []
    return [
        f"One seed of the children alone agrees with the mean of the others at {interval(single)}, smoothed over the "
        f"space at {interval(smooth)}."
    ]


def _at_cost(result: Json, cost: float) -> str:
    """What something costs beside training the supernet; nothing, if none was trained."""
    supernet = result["costs"]["supernet"]
    return f", at {cost / supernet:z.2f} times the cost of training the supernet" if supernet else ""


def _fine_tuning(result: Json) -> list[str]:
    time = result["over_time"]
    curve, gain = time["fine_tuned"], time.get("fine_tuned_gain")
    if curve is None or gain is None or not is_defined(gain):
        return []
    points = time["fine_tuned_after"]
    best = max(range(len(curve)), key=lambda place: curve[place])
    if points[best] == 0:
        return [f"Fine-tuning each child for up to {points[-1]} mini-batches does not raise the correlation."]
    words = f"Fine-tuning each child for {points[best]} mini-batches"
    if gain["low"] <= 0:
        return [f"{words} does not clearly raise the correlation ({interval(gain)})."]
    cost = result["costs"]["fine_tuning"] * points[best] / max(points[-1], 1)
    return [f"{words} raises the correlation by {interval(gain)}{_at_cost(result, cost)}."]


def _batch_norm(correlation: Json) -> list[str]:
    gain = correlation["reestimated"]["gain_over_last"]
    if not is_defined(gain):
        return []
    verb = "raises" if gain["low"] > 0 else "lowers" if gain["high"] < 0 else "does not clearly change"
    return [f"Re-estimating batch-norm statistics for each child {verb} the correlation ({interval(gain)})."]


def _pruning(result: Json) -> list[str]:
    kept = result.get("pruning_interval")
    if kept is None or not is_defined(result["correlation"]["averaged"]["tau"]):
        return []
    words = f"pruning the worst half by the averaged scores keeps {_share(kept)} of the truly best quarter"
    if kept["low"] >= 0.9:
        return [f"Pruning is safe: {words}."]
    return [f"{'Pruning may be safe' if kept['value'] >= 0.9 else 'Pruning is not safe'}: {words}."]


def _guard(result: Json) -> list[str]:
    """How much room a projection leaves: where every direction is closed, nothing can be learnt any more."""
    return [
        f"The guard leaves {share:.0%} of the directions of a layer's inputs open at the end: the rest of it can no "
        f"longer learn."
        for name, share in result.get("guard", {}).items()
        if name.rpartition(".")[2] == "open_share"
    ]


def _variations(result: Json) -> list[str]:
    count = len(result.get("children", []))
    sentences = training_sentences("The training", result.get("training"), count)
    for row in result["variations"]:
        gain = row.get("gain")
        if gain is not None and is_defined(gain):
            verb = "raises" if gain["low"] > 0 else "lowers" if gain["high"] < 0 else "does not clearly change"
            sentences.append(
                f"{row['variation']} {verb} the correlation of the averaged scores: {interval(row['tau'])}, a gain of "
                f"{interval(gain)}."
            )
        sentences += training_sentences(row["variation"], row.get("training"), count)
    return sentences


def _to_use(result: Json) -> list[str]:
    """The one to use, of all ways to train and to score."""
    way = way_to_use(result)
    if way is None or way.count < 2:
        return []
    if way.gain is None:
        return [
            f"Use the last evaluation: of {way.count} ways to train and to score none has more ({interval(way.tau)})."
        ]
    words = f"of {way.count} ways to train and to score it has the highest correlation, {interval(way.tau)}"
    if way.is_clear:
        return [f"Use {way.name}: {words}, a gain of {interval(way.gain)}."]
    return [
        f"Use {way.name} if you use any: {words}, but its gain of {interval(way.gain)} is not clear, and the last "
        "evaluation costs least."
    ]
