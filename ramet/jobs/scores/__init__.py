"""`ramet rank --scores`: how far rankings that are there already can be trusted."""

from ramet.jobs.scores.job import ScoresJob, rank_scores

__all__ = ["ScoresJob", "rank_scores"]
