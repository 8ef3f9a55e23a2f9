"""`ramet grow`: a network that gets larger where it helps most."""

from ramet.jobs.grow.job import GrowJob, GrowRecipe, NetworkOptions, grow

__all__ = ["GrowJob", "GrowRecipe", "NetworkOptions", "grow"]
