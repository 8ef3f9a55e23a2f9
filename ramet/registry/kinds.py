"""All registries there are, by what their parts are called: for ``ramet list [kind]`` and for help."""

from __future__ import annotations

from typing import Any

from ramet.errors import ConfigError
from ramet.registry.references import resolve_reference
from ramet.registry.registry import Registry

KINDS = {
    "guard": "ramet.guards.registry:GUARDS",
    "strategy": "ramet.searching.strategies.registry:STRATEGIES",
    "space": "ramet.spaces.registry:SPACES",
    "sharing": "ramet.sharing.registry:SHARINGS",
    "growth": "ramet.growth.methods.registry:GROWTHS",
    "network": "ramet.growth.registry:NETWORKS",
    "skeleton": "ramet.continual.networks.registry:SKELETONS",
    "method": "ramet.continual.methods.registry:METHODS",
    "score": "ramet.ranking.registry:SCORES",
    "data": "ramet.data.registry:DATA",
    "schedule": "ramet.training.registry:SCHEDULES",
    "loss": "ramet.training.registry:LOSSES",
    "augmentation": "ramet.training.registry:AUGMENTATIONS",
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
