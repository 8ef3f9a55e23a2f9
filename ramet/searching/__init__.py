"""Find an architecture on shared weights that stay true."""

from ramet.searching.costs import ArchCosts, Budgeted, pareto_front, parse_limits
from ramet.searching.final_recipe import FinalRecipe
from ramet.searching.job import SearchJob, resume, search
from ramet.searching.loop import Search
from ramet.searching.measures import Score, measure
from ramet.searching.plan import SearchPlan
from ramet.searching.relaxed import RelaxedSearch
from ramet.searching.strategies import STRATEGIES, Strategy, make_strategy

__all__ = [
    "STRATEGIES",
    "ArchCosts",
    "Budgeted",
    "FinalRecipe",
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
