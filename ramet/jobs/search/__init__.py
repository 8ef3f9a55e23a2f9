"""`ramet search`: an architecture, found on shared weights that stay true."""

from ramet.jobs.search.job import SearchDataOptions, SearchJob, SearchRecipe, search

__all__ = ["SearchDataOptions", "SearchJob", "SearchRecipe", "search"]
