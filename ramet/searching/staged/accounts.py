"""What is told of the stages of a search when it has ended: a pure function of what was counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from ramet.runs.encoding import Json
from ramet.searching.staged.agreement import Agreement

RUNGS = ("short", "halving", "finalists")
"""The stages that train architectures alone, each longer than the one before."""


def told_stages(
    reports: Sequence[Json],
    spent: Mapping[str, float],
    agreed: Mapping[str, Agreement],
    rungs: Sequence[AbstractSet[int]],
    listed: AbstractSet[int],
) -> list[Json]:
    """What each stage cost, how far it agrees with the dearer ones, how many it has seen and how many it dropped.

    Args:
        reports: the stages that were done, in their order: stage, about, seen and dropped, as they stood then.
        spent: what each has cost, by name.
        agreed: the agreement of those that were compared, by name.
        rungs: the architectures that had the short training, those that had the next longer one, and so on.
        listed: those that were shortlisted.
    """
    entries = [dict(report) for report in reports]
    if "predictor" in agreed:  # it has no work of its own
        place = next((k for k, entry in enumerate(entries) if entry["stage"] == "short"), len(entries) - 1)
        about = "ridge regression on choices and scores, left-out trainings"
        entries.insert(
            place + 1, {"stage": "predictor", "about": about, "seen": agreed["predictor"].count, "dropped": 0}
        )
    trained = dict(zip(RUNGS, rungs, strict=False))
    after = dict(zip(RUNGS, rungs[1:], strict=False))
    for entry in entries:
        stage = entry["stage"]
        if stage in trained:  # the rest of a budget may have added some since
            entry["seen"] = len(trained[stage])
            entry["dropped"] = entry["seen"] - max(len(after.get(stage, ())), 1)
        elif stage == "shared" and rungs:
            entry["dropped"] = len(listed - rungs[0])
        found = agreed.get(stage)
        entry["cost"] = spent.get(stage, 0.0)
        entry["agreement"] = None if found is None else found.measured
        entry["compared"] = 0 if found is None else found.count
    return entries
