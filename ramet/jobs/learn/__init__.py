"""`ramet learn`: task after task in one network."""

from ramet.continual.plan import LearnPlan
from ramet.continual.recipe import LearnRecipe
from ramet.jobs.learn.job import LearnJob, learn

__all__ = ["LearnJob", "LearnPlan", "LearnRecipe", "learn"]
