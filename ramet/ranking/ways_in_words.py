"""What a way to train says of itself, in words."""

from __future__ import annotations

import math

from ramet.runs.encoding import Json


def interval(entry: Json) -> str:
    """A figure with its interval."""
    return f"{entry['value']:z.2f} [{entry['low']:z.2f}, {entry['high']:z.2f}]"


def training_sentences(name: str, figures: Json | None, num_children: int) -> list[str]:
    """What a reader must know of a way to train before believing its correlation."""
    if not figures:
        return []
    sentences = []
    dropped = [report.get("dropped", []) for report in figures["reports"]]
    if any(dropped):
        lists = "; ".join(
            f"supernet {place}: " + ", ".join(f"{entry['option']} (epoch {entry['epoch']})" for entry in entries)
            for place, entries in enumerate(dropped)
            if entries
        )
        sentences.append(f"{name} dropped options, and children that have one rank last. {lists}.")
    landmarks = next((report for report in figures["reports"] if "landmarks" in report), None)
    if landmarks is not None:
        sentences.append(f"{name} has {landmarks['landmarks']} landmarks, ordered by {landmarks['ordered_by']}.")
    if figures["told"]:
        rest = num_children - figures["told"]
        tau = figures["untold_tau"]
        found = (
            f"the correlation is {interval(tau)}"
            if tau is not None and not math.isnan(tau["value"])
            else ("nothing can be judged")
        )
        sentences.append(
            f"{name} was told the order of {figures['told']} of the {num_children} children; among the other {rest} "
            f"{found}."
        )
    return sentences
