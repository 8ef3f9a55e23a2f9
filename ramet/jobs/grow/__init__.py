"""`ramet grow`: a network that gets larger where it helps most."""

from ramet.growth.recipe import GrowRecipe
from ramet.jobs.grow.job import GrowJob, NetworkOptions, grow

__all__ = ["GrowJob", "GrowRecipe", "NetworkOptions", "grow"]
