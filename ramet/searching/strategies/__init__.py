"""What proposes the next architecture: random, evolution, the ENAS controller, NAO."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramet.registry import Registry
from ramet.registry.fronts import lazy_front

if TYPE_CHECKING:
    from ramet.searching.strategies.base import Strategy
    from ramet.searching.strategies.enas import EnasController
    from ramet.searching.strategies.evolution import Evolution
    from ramet.searching.strategies.making import make_strategy
    from ramet.searching.strategies.nao import Nao
    from ramet.searching.strategies.uniform import RandomSearch

__all__ = ["STRATEGIES", "EnasController", "Evolution", "Nao", "RandomSearch", "Strategy", "make_strategy"]

__getattr__ = lazy_front(__name__)

STRATEGIES: Registry[Strategy] = Registry(
    "strategy",
    base="ramet.searching.strategies.base:Strategy",
    group="ramet.strategies",
    built_in={
        "random": "ramet.searching.strategies.uniform:RandomSearch",
        "evolution": "ramet.searching.strategies.evolution:Evolution",
        "enas": "ramet.searching.strategies.enas:EnasController",
        "nao": "ramet.searching.strategies.nao:Nao",
    },
    given=("space", "seed"),
)
"""What proposes the next architecture."""
