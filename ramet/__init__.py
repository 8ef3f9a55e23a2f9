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
    from ramet.jobs.scores import rank_scores
    from ramet.jobs.search import search
    from ramet.jobs.study import study

__version__ = "0.2.0"
__all__ = ["__version__", "continual", "data", "execution", "grow", "growth", "guards", "jobs", "learn", "rank"]
__all__ += ["ranking", "registry", "reports", "runs", "search", "searching", "sharing", "spaces", "study", "testing"]
__all__ += ["integrations", "rank_scores", "training"]
_VERBS = ("rank", "search", "grow", "learn", "study")


def __getattr__(name: str) -> Any:
    if name in _VERBS:
        return getattr(importlib.import_module(f"ramet.jobs.{name}"), name)
    if name == "rank_scores":
        return importlib.import_module("ramet.jobs.scores").rank_scores
    if name in __all__:
        return importlib.import_module(f"ramet.{name}")
    raise AttributeError(f"module 'ramet' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
