"""ramet trains many networks on one set of weights without letting them forget each other.

Five verbs, ``rank``, ``search``, ``grow``, ``learn`` and ``study``, and the parts that they are made of. Both are
imported when they are first used, so that ``import ramet`` and ``ramet --help`` do not wait for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ramet.jobs.grow import grow
    from ramet.jobs.learn import learn
    from ramet.jobs.rank import rank
    from ramet.jobs.search import search
    from ramet.jobs.study import study

__version__ = "0.1.0"
_VERBS = ("rank", "search", "grow", "learn", "study")
_PARTS = (
    "continual",
    "data",
    "execution",
    "growth",
    "guards",
    "jobs",
    "ranking",
    "registry",
    "reports",
    "runs",
    "searching",
    "sharing",
    "spaces",
    "testing",
    "training",
)
__all__ = [*_VERBS, *_PARTS, "__version__"]  # noqa: PLE0604 - names all the same


def __getattr__(name: str) -> Any:
    if name in _VERBS:
        return getattr(importlib.import_module(f"ramet.jobs.{name}"), name)
    if name in _PARTS:
        return importlib.import_module(f"ramet.{name}")
    raise AttributeError(f"module 'ramet' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
