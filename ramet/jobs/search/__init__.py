"""`ramet search`: an architecture, found in stages or on shared weights that stay true."""

from ramet.jobs.search.job import SearchDataOptions, SearchJob, SearchRecipe, search

__all__ = ["SearchDataOptions", "SearchJob", "SearchRecipe", "search"]
