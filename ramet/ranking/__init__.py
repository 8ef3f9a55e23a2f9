"""How far a supernet's ranking can be trusted: metrics on arrays of scores, the truth, and the diagnosis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramet.registry import Registry
from ramet.registry.fronts import lazy_front

if TYPE_CHECKING:
    from ramet.ranking.analysis import Scores, analyse
    from ramet.ranking.bias import OperationBias, operation_bias
    from ramet.ranking.compared import compare_scores
    from ramet.ranking.diagnosis import Diagnosis
    from ramet.ranking.disturbance import (
        accuracy_drops,
        drops_by_distance,
        growth_within_rows,
        performance_change,
        prediction_disturbance,
        rank_consistency,
        stability_gain,
    )
    from ramet.ranking.drops import (
        Forgetting,
        final_drop,
        forgetting,
        reduction_interval,
        relative_reduction,
        worst_drop,
    )
    from ramet.ranking.forgotten import Forgotten, forgot
    from ramet.ranking.intervals import (
        correlation_gain_interval,
        correlation_interval,
        mean_interval,
        seed_interval,
        t_interval,
    )
    from ramet.ranking.metrics import (
        discounted_gain,
        kept_best,
        rank_correlation,
        rank_correlations,
        rank_stability,
        ranks,
        regret,
        reliability_of_mean,
        stability,
        top_correlation,
        top_n_rank,
        top_precision,
        truth_correlation,
    )
    from ramet.ranking.paired import paired_share_interval
    from ramet.ranking.plan import Plan
    from ramet.ranking.scores.aggregate import combine_ranks
    from ramet.ranking.scores.base import TrainingFreeScore
    from ramet.ranking.scores.expressivity import Expressivity, Progressivity
    from ramet.ranking.scores.jacobian import JacobianCovariance
    from ramet.ranking.scores.naswot import Naswot
    from ramet.ranking.scores.sizes import Layers, MultiplyAdds, Parameters
    from ramet.ranking.scores.swap import Swap
    from ramet.ranking.scores.synflow import Synflow
    from ramet.ranking.scores.trainability import Trainability
    from ramet.ranking.scores.vkdnw import Vkdnw
    from ramet.ranking.scores.zico import ZiCo
    from ramet.ranking.scoring import score_children
    from ramet.ranking.setup import SupernetSetup
    from ramet.ranking.truth import Truth, TruthCache, read_table

__all__ = ["SCORES", "Diagnosis", "Forgetting", "JacobianCovariance", "Plan", "Scores", "SupernetSetup", "Synflow"]
__all__ += ["Expressivity", "Layers", "MultiplyAdds", "Naswot", "Parameters", "Progressivity", "Swap"]
__all__ += ["Trainability", "Vkdnw", "ZiCo", "discounted_gain"]
__all__ += ["TrainingFreeScore", "Truth", "TruthCache", "accuracy_drops", "analyse", "combine_ranks"]
__all__ += [
    "correlation_gain_interval",
    "correlation_interval",
    "drops_by_distance",
    "final_drop",
    "forgetting",
    "growth_within_rows",
]
__all__ += ["kept_best", "mean_interval", "performance_change", "prediction_disturbance", "rank_consistency"]
__all__ += ["rank_correlation", "rank_correlations", "rank_stability", "ranks", "read_table", "reduction_interval"]
__all__ += ["relative_reduction", "reliability_of_mean", "score_children", "seed_interval", "stability"]
__all__ += ["OperationBias", "compare_scores", "operation_bias", "regret", "top_correlation", "top_precision"]
__all__ += ["Forgotten", "forgot", "paired_share_interval"]
__all__ += ["stability_gain", "t_interval", "top_n_rank", "truth_correlation", "worst_drop"]

__getattr__ = lazy_front(__name__)

SCORES: Registry[TrainingFreeScore] = Registry(
    "score",
    base="ramet.ranking.scores.base:TrainingFreeScore",
    group="ramet.scores",
    built_in={
        "parameters": "ramet.ranking.scores.sizes:Parameters",
        "flops": "ramet.ranking.scores.sizes:MultiplyAdds",
        "layers": "ramet.ranking.scores.sizes:Layers",
        "synflow": "ramet.ranking.scores.synflow:Synflow.at",
        "jacobian": "ramet.ranking.scores.jacobian:JacobianCovariance",
        "naswot": "ramet.ranking.scores.naswot:Naswot",
        "swap": "ramet.ranking.scores.swap:Swap",
        "zico": "ramet.ranking.scores.zico:ZiCo",
        "expressivity": "ramet.ranking.scores.expressivity:Expressivity",
        "progressivity": "ramet.ranking.scores.expressivity:Progressivity",
        "trainability": "ramet.ranking.scores.trainability:Trainability",
        "vkdnw": "ramet.ranking.scores.vkdnw:Vkdnw",
    },
    given=("network", "x", "y"),
)
"""What an untrained network says of itself; made as ``maker(network, x)``, with labels ``y`` where it asks for them."""
