"""Find an architecture on shared weights that stay true."""

from ramet.search.costs import ArchCosts, Budgeted, pareto_front, parse_limits
from ramet.search.job import SearchJob, resume, search
from ramet.search.loop import Search
from ramet.search.measures import Score, measure
from ramet.search.plan import SearchPlan
from ramet.search.recipe import Recipe
from ramet.search.relaxed import RelaxedSearch
from ramet.search.strategies import STRATEGIES, Strategy, make_strategy

__all__ = [
    "STRATEGIES",
    "ArchCosts",
    "Budgeted",
    "Recipe",
    "RelaxedSearch",
    "Score",
    "Search",
    "SearchJob",
    "SearchPlan",
    "Strategy",
    "make_strategy",
    "measure",
    "pareto_front",
    "parse_limits",
    "resume",
    "search",
]
