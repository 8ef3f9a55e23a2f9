"""Find an architecture on shared weights that stay true."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramet.registry.fronts import lazy_front

if TYPE_CHECKING:
    from ramet.searching.costs import ArchCosts, Budgeted, pareto_front, parse_limits
    from ramet.searching.job import SearchJob, resume, search
    from ramet.searching.loop import Search
    from ramet.searching.measures import Score, measure
    from ramet.searching.plan import SearchPlan
    from ramet.searching.recipe import Recipe
    from ramet.searching.relaxed import RelaxedSearch
    from ramet.searching.strategies import STRATEGIES, Strategy, make_strategy

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

__getattr__ = lazy_front(__name__)
