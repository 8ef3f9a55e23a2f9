"""Every table and figure that can be reproduced, by the name that the command line gives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ramet_papers import (
    bind_and_grow,
    deeper_insights,
    disturbance_immune,
    firefly,
    multi_model_forgetting,
    nasbench201,
)
from ramet_papers.claims import write_claims
from ramet_papers.experiment import Experiment, Outcome
from ramet_papers.workspace import Workspace

Reproduce = Callable[[Experiment], Outcome]


@dataclass(frozen=True)
class Target:
    """One table or figure: its name, what it shows, and the function that reproduces it."""

    name: str
    summary: str
    reproduce: Reproduce

    def run(self, workspace: Workspace, preset_name: str) -> Outcome:
        """Reproduce it under a preset, and write down the answers to its claims."""
        outcome = self.reproduce(Experiment(workspace, self.name, preset_name))
        if outcome.claims:
            write_claims(workspace.results, outcome.claims)
        return outcome


_PAPERS: Mapping[str, Mapping[str, tuple[str, Reproduce]]] = {
    "deeper-insights": deeper_insights.TARGETS,
    "multi-model-forgetting": multi_model_forgetting.TARGETS,
    "disturbance-immune": disturbance_immune.TARGETS,
    "firefly": firefly.TARGETS,
    "bind-and-grow": bind_and_grow.TARGETS,
    "search": nasbench201.TARGETS,
}

TARGETS: Mapping[str, Target] = {
    f"{paper}/{name}": Target(f"{paper}/{name}", summary, reproduce)
    for paper, targets in _PAPERS.items()
    for name, (summary, reproduce) in targets.items()
}
