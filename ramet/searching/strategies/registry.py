"""The strategies by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramet.registry import Registry

if TYPE_CHECKING:
    from ramet.searching.strategies.base import Strategy

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
