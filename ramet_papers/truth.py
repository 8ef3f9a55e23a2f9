"""The truth of a space of which every child was trained alone: read from the cache, trained where it is not there."""

from __future__ import annotations

from itertools import product

import numpy as np

from ramet.execution import WorkItem
from ramet.ranking.alone import train_alone
from ramet.ranking.metrics import Floats
from ramet.ranking.setup import SupernetSetup
from ramet.ranking.truth import TruthCache
from ramet_papers.workspace import Workspace


def cached_truth(workspace: Workspace, setup: SupernetSetup, num_seeds: int) -> Floats:
    """The test accuracy of every child of the setup's space, trained alone; [seeds, children]."""
    cache = TruthCache(workspace.results / "truth", setup)
    places = list(product(range(num_seeds), range(len(setup.space))))
    missing = {
        f"truth/child-{index}/seed-{seed}": (index, seed) for seed, index in places if cache.get(index, seed) is None
    }
    tasks = [WorkItem(key, train_alone, {"index": index, "seed": seed}) for key, (index, seed) in missing.items()]
    for task, result in workspace.executor.run(tasks, setup, label="training children alone"):
        cache.put(*missing[task.key], result)
    found = [cache.get(index, seed) for seed, index in places]
    scores: Floats = np.array([one["test"] for one in found if one is not None]).reshape(num_seeds, -1)
    return scores
