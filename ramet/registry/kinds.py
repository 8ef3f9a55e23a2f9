"""All registries there are, by what their parts are called: for ``ramet list [kind]`` and for help."""

from __future__ import annotations

from typing import Any

from ramet.errors import ConfigError
from ramet.registry.references import resolve_reference
from ramet.registry.registry import Registry

KINDS = {
    "guard": "ramet.guards:GUARDS",
    "strategy": "ramet.searching.strategies:STRATEGIES",
    "space": "ramet.spaces:SPACES",
    "sharing": "ramet.sharing:SHARINGS",
    "growth": "ramet.growth.methods:GROWTHS",
    "network": "ramet.growth:NETWORKS",
    "skeleton": "ramet.continual.networks:SKELETONS",
    "method": "ramet.continual.methods:METHODS",
    "score": "ramet.ranking:SCORES",
    "data": "ramet.data.registry:DATA",
}
"""For each kind a reference to its registry."""


def registry_of(kind: str) -> Registry[Any]:
    """The registry of a kind; its parts are not imported.

    Raises:
        ConfigError: there is no such kind.
    """
    if kind not in KINDS:
        raise ConfigError(f"a kind is one of {', '.join(KINDS)}, but got {kind!r}.")
    found: Registry[Any] = resolve_reference(KINDS[kind], trusted=True)
    return found
