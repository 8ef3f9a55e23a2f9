"""ramet trains many networks on one set of weights without letting them forget each other.

Sub-packages are imported when they are first used, so that ``import ramet`` and ``ramet --help`` do not wait for torch.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"
VERBS = ("rank", "search", "grow")
"""The jobs as functions: each lies in the package of its name in ``ramet.jobs``."""
__all__ = [
    "__version__",
    "continual",
    "data",
    "execution",
    "grow",
    "growth",
    "guards",
    "jobs",
    "rank",
    "ranking",
    "reports",
    "runs",
    "search",
    "searching",
    "sharing",
    "spaces",
    "testing",
    "training",
]


def __getattr__(name: str) -> Any:
    if name in VERBS:
        return getattr(importlib.import_module(f"ramet.jobs.{name}"), name)
    if name in __all__:
        return importlib.import_module(f"ramet.{name}")
    raise AttributeError(f"module 'ramet' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
