"""What proposes the next architecture: random, evolution, the ENAS controller, NAO."""

from ramet.search.strategies.base import Strategy
from ramet.search.strategies.enas import EnasController
from ramet.search.strategies.evolution import Evolution
from ramet.search.strategies.nao import Nao
from ramet.search.strategies.registry import STRATEGIES, make_strategy
from ramet.search.strategies.uniform import RandomSearch

__all__ = ["STRATEGIES", "EnasController", "Evolution", "Nao", "RandomSearch", "Strategy", "make_strategy"]
