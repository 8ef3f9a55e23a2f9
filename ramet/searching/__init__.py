"""Find an architecture, in stages or on shared weights that stay true."""

from typing import TYPE_CHECKING

from ramet.registry.fronts import lazy_front

if TYPE_CHECKING:
    from ramet.searching.costs import ArchCosts, Budgeted, pareto_front, parse_limits
    from ramet.searching.loop import Search
    from ramet.searching.measures import Score, measure
    from ramet.searching.plan import FinalNetworkOptions, SearchPlan
    from ramet.searching.relaxed import RelaxedSearch
    from ramet.searching.staged.options import StagedOptions
    from ramet.searching.staged.search import StagedSearch
    from ramet.searching.strategies import STRATEGIES, Strategy, make_strategy

__all__ = ["STRATEGIES", "ArchCosts", "Budgeted", "FinalNetworkOptions", "RelaxedSearch", "Score", "Search"]
__all__ += ["SearchPlan", "StagedOptions", "StagedSearch", "Strategy", "make_strategy", "measure"]
__all__ += ["pareto_front", "parse_limits"]

__getattr__ = lazy_front(__name__)
