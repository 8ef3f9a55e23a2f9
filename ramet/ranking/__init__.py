"""How far a supernet's ranking can be trusted: metrics on arrays of scores, the truth, and the diagnosis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramet.registry import Registry
from ramet.registry.fronts import lazy_front

if TYPE_CHECKING:
    from ramet.ranking.analysis import Scores, analyse
    from ramet.ranking.diagnosis import Diagnosis
    from ramet.ranking.disturbance import (
        accuracy_drops,
        drops_by_distance,
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
    from ramet.ranking.instance import score_children
    from ramet.ranking.intervals import (
        correlation_gain_interval,
        correlation_interval,
        mean_interval,
        seed_interval,
        t_interval,
    )
    from ramet.ranking.metrics import (
        kept_best,
        rank_correlation,
        rank_correlations,
        rank_stability,
        ranks,
        reliability_of_mean,
        stability,
        top_n_rank,
        truth_correlation,
    )
    from ramet.ranking.paired import paired_share_interval
    from ramet.ranking.plan import Plan
    from ramet.ranking.setup import SupernetSetup
    from ramet.ranking.training_free import JacobianCovariance, Synflow, TrainingFreeScore, combine_ranks
    from ramet.ranking.truth import Truth, TruthCache, read_table

__all__ = ["SCORES", "Diagnosis", "Forgetting", "JacobianCovariance", "Plan", "Scores", "SupernetSetup", "Synflow"]
__all__ += ["TrainingFreeScore", "Truth", "TruthCache", "accuracy_drops", "analyse", "combine_ranks"]
__all__ += ["correlation_gain_interval", "correlation_interval", "drops_by_distance", "final_drop", "forgetting"]
__all__ += ["kept_best", "mean_interval", "performance_change", "prediction_disturbance", "rank_consistency"]
__all__ += ["rank_correlation", "rank_correlations", "rank_stability", "ranks", "read_table", "reduction_interval"]
__all__ += ["relative_reduction", "reliability_of_mean", "score_children", "seed_interval", "stability"]
__all__ += ["Forgotten", "forgot", "paired_share_interval"]
__all__ += ["stability_gain", "t_interval", "top_n_rank", "truth_correlation", "worst_drop"]

__getattr__ = lazy_front(__name__)

SCORES: Registry[TrainingFreeScore] = Registry(
    "score",
    base="ramet.ranking.training_free:TrainingFreeScore",
    group="ramet.scores",
    built_in={
        "synflow": "ramet.ranking.training_free:Synflow.at",
        "jacobian": "ramet.ranking.training_free:JacobianCovariance",
    },
    given=("network", "x"),
)
"""What an untrained network says of itself; each is made as ``maker(network, x)``."""
