"""Every table and figure that can be reproduced, by the name that the command line gives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ramet_papers import bind_and_grow as binding
from ramet_papers import deeper_insights as deeper
from ramet_papers import disturbance_immune as immune
from ramet_papers import firefly, nasbench201
from ramet_papers import multi_model_forgetting as multi_model
from ramet_papers.workspace import Outcome, Workspace


@dataclass(frozen=True)
class Target:
    """One table or figure: what it shows, and the function that reproduces it under a preset."""

    summary: str
    run: Callable[[Workspace, str], Outcome]


TARGETS: Mapping[str, Target] = {
    "deeper-insights/table-1": Target("stability of shared rankings (S-Tau); claim D1", deeper.table_1),
    "deeper-insights/table-2": Target("shared rankings against the truth; claims D2, D3", deeper.table_2),
    "deeper-insights/table-3a": Target("group sharing; claim D7", deeper.table_3a),
    "deeper-insights/table-3b": Target("prefix sharing, trained long", deeper.table_3b),
    "deeper-insights/table-4": Target("prefix sharing, trained long and short; claim D8", deeper.table_4),
    "deeper-insights/figure-3": Target("distribution of each child's rank, pruning; claim D4", deeper.figure_3),
    "deeper-insights/figure-4": Target("fine-tuning from a snapshot; claim D5", deeper.figure_4),
    "deeper-insights/figure-5": Target("the child just trained; claim D6", deeper.figure_5),
    "deeper-insights/figure-6": Target("one random group", deeper.figure_6),
    "deeper-insights/figure-8": Target("momentum of batch norm and SGD (Figures 8, 9); claim D9", deeper.figure_8),
    "deeper-insights/nasbench201": Target(
        "a second setting: NAS-Bench-201, its table as the truth", deeper.nasbench201
    ),
    "multi-model-forgetting/figure-1": Target(
        "forgetting by the number of shared layers; claim W1", multi_model.figure_1
    ),
    "multi-model-forgetting/figure-3": Target(
        "strict and loose convergence, guards compared; claims W2, W3", multi_model.figure_3
    ),
    "multi-model-forgetting/figure-4": Target("recurrent search on text; claims W4, W6", multi_model.figure_4),
    "multi-model-forgetting/figure-B": Target("convolutional search; claim W5", multi_model.figure_b),
    "multi-model-forgetting/figure-5": Target("NAO by output dropout; claim W7", multi_model.figure_5),
    "multi-model-forgetting/table-1": Target("what the searches found, trained alone; claim W8", multi_model.table_1),
    "disturbance-immune/figure-1b": Target("ten architectures in a row, 10 x 10; claim I1", immune.figure_1b),
    "disturbance-immune/figure-3": Target("change of accuracy and rank over an interval; claim I2", immune.figure_3),
    "disturbance-immune/correlation": Target(
        "guards against the truth and for stability; claim I3", immune.correlation
    ),
    "disturbance-immune/shared-layers": Target("disturbance by shared layers; claim I4", immune.shared_layers),
    "disturbance-immune/lambda": Target("lambda's sensitivity; claim I4", immune.lambda_curve),
    "disturbance-immune/table-1": Target("search against random architectures; claim I6", immune.table_1),
    "disturbance-immune/theorem": Target("iterative and closed form, Theorem 4.1; claim I5", immune.theorem),
    "firefly/figure-3a": Target("a toy of radial basis functions, methods compared; claim F1", firefly.figure_3a),
    "firefly/figure-3b": Target("the toy by the number of new candidates; claim F2", firefly.figure_3b),
    "firefly/figure-4a": Target("wider VGG-like networks, accuracy against size; claim F3", firefly.figure_4a),
    "firefly/figure-4b": Target("time of a growth step", firefly.figure_4b),
    "firefly/figure-5": Target("tasks one after the other, accuracy against size", firefly.figure_5),
    "firefly/figure-6": Target("wider MobileNet-like networks; claim F4", firefly.figure_6),
    "firefly/table-1": Target("cells found by growth, against DARTS; claim F6", firefly.table_1),
    "firefly/table-2": Target("20 tasks, against CPG; claim F7", firefly.table_2),
    "firefly/table-3": Target("growing deeper, against AutoGrow and NASH; claim F5", firefly.table_3),
    "bind-and-grow/figure-2": Target("growth by similarity against random growth; claim B1", binding.figure_2),
    "bind-and-grow/figure-6": Target("delta against size and accuracy; claim B2", binding.figure_6),
    "bind-and-grow/pareto": Target("the Pareto front of grow sequences; claim B3", binding.pareto),
    "bind-and-grow/comparison": Target("methods on permuted and split images", binding.comparison),
    "bind-and-grow/twins": Target("a task's copy among strangers: is it found?", binding.twins),
    "search/nasbench201": Target(
        "searches, guards and training-free scores, judged by NAS-Bench-201's table", nasbench201.judged_searches
    ),
}
