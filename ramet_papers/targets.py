"""Every table and figure that can be reproduced, by the name that the command line gives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ramet_papers import bind_and_grow as binding
from ramet_papers import deeper_insights as deeper
from ramet_papers import disturbance_immune as immune
from ramet_papers import firefly, nasbench201
from ramet_papers import multi_model_forgetting as multi_model
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


_EVERY: Mapping[str, Sequence[tuple[str, str, Reproduce]]] = {
    "deeper-insights": (
        ("table-1", "stability of shared rankings (S-Tau); claim D1", deeper.table_1),
        ("table-2", "shared rankings against the truth; claims D2, D3", deeper.table_2),
        ("table-3a", "group sharing; claim D7", deeper.table_3a),
        ("table-3b", "prefix sharing, trained long", deeper.table_3b),
        ("table-4", "prefix sharing, trained long and short; claim D8", deeper.table_4),
        ("figure-3", "distribution of each child's rank, pruning; claim D4", deeper.figure_3),
        ("figure-4", "fine-tuning from a snapshot; claim D5", deeper.figure_4),
        ("figure-5", "the child just trained; claim D6", deeper.figure_5),
        ("figure-6", "one random group", deeper.figure_6),
        ("figure-8", "momentum of batch norm and SGD (Figures 8, 9); claim D9", deeper.figure_8),
        ("nasbench201", "a second setting: NAS-Bench-201, its table as the truth", deeper.nasbench201),
    ),
    "multi-model-forgetting": (
        ("figure-1", "forgetting by the number of shared layers; claim W1", multi_model.figure_1),
        ("figure-3", "strict and loose convergence, guards compared; claims W2, W3", multi_model.figure_3),
        ("figure-4", "recurrent search on text; claims W4, W6", multi_model.figure_4),
        ("figure-B", "convolutional search; claim W5", multi_model.figure_b),
        ("figure-5", "NAO by output dropout; claim W7", multi_model.figure_5),
        ("table-1", "what the searches found, trained alone; claim W8", multi_model.table_1),
    ),
    "disturbance-immune": (
        ("figure-1b", "ten architectures in a row, 10 x 10; claim I1", immune.figure_1b),
        ("figure-3", "change of accuracy and rank over an interval; claim I2", immune.figure_3),
        ("correlation", "guards against the truth and for stability; claim I3", immune.correlation),
        ("shared-layers", "disturbance by shared layers; claim I4", immune.shared_layers),
        ("lambda", "lambda's sensitivity; claim I4", immune.lambda_curve),
        ("table-1", "search against random architectures; claim I6", immune.table_1),
        ("theorem", "iterative and closed form, Theorem 4.1; claim I5", immune.theorem),
    ),
    "firefly": (
        ("figure-3a", "a toy of radial basis functions, methods compared; claim F1", firefly.figure_3a),
        ("figure-3b", "the toy by the number of new candidates; claim F2", firefly.figure_3b),
        ("figure-4a", "wider VGG-like networks, accuracy against size; claim F3", firefly.figure_4a),
        ("figure-4b", "time of a growth step", firefly.figure_4b),
        ("figure-5", "tasks one after the other, accuracy against size", firefly.figure_5),
        ("figure-6", "wider MobileNet-like networks; claim F4", firefly.figure_6),
        ("table-1", "cells found by growth, against DARTS; claim F6", firefly.table_1),
        ("table-2", "20 tasks, against CPG; claim F7", firefly.table_2),
        ("table-3", "growing deeper, against AutoGrow and NASH; claim F5", firefly.table_3),
    ),
    "bind-and-grow": (
        ("figure-2", "growth by similarity against random growth; claim B1", binding.figure_2),
        ("figure-6", "delta against size and accuracy; claim B2", binding.figure_6),
        ("pareto", "the Pareto front of grow sequences; claim B3", binding.pareto),
        ("comparison", "methods on permuted and split images", binding.comparison),
        ("twins", "a task's copy among strangers: is it found?", binding.twins),
    ),
    "search": (
        (
            "nasbench201",
            "searches, guards and training-free scores, judged by NAS-Bench-201's table",
            nasbench201.judged_searches,
        ),
    ),
}

TARGETS: Mapping[str, Target] = {
    f"{paper}/{name}": Target(f"{paper}/{name}", summary, reproduce)
    for paper, targets in _EVERY.items()
    for name, summary, reproduce in targets
}
