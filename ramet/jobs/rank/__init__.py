"""`ramet rank`: how far a supernet's ranking can be trusted."""

from ramet.jobs.rank.job import RankJob, RankRecipe, rank

__all__ = ["RankJob", "RankRecipe", "rank"]
