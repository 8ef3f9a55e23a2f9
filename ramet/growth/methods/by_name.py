"""The ways to grow by their names, as the command line and :func:`~ramet.growth.loop.grow` take them."""

from __future__ import annotations

import inspect
from typing import Any

from ramet.errors import ConfigError
from ramet.growth.base import Growth
from ramet.growth.methods.autogrow import AutoGrow
from ramet.growth.methods.firefly import Firefly
from ramet.growth.methods.gradmax import GradMax
from ramet.growth.methods.nash import Nash
from ramet.growth.methods.net2net import Net2Net
from ramet.growth.methods.random_choice import RandomChoice
from ramet.growth.methods.scratch import Scratch
from ramet.growth.methods.splitting import Splitting

METHODS: dict[str, type[Growth]] = {
    "firefly": Firefly,
    "splitting": Splitting,
    "net2net": Net2Net,
    "nash": Nash,
    "autogrow": AutoGrow,
    "random": RandomChoice,
    "gradmax": GradMax,
    "scratch": Scratch,
}
"""Method classes by name."""


def make_method(name: str, **options: Any) -> Growth:
    """A growth method by its name.

    Args:
        name: one of ``METHODS``.
        **options: the method's own arguments.

    Raises:
        ConfigError: for an unknown name or option.

    >>> make_method("net2net", noise=0.0).noise
    0.0
    """
    if name not in METHODS:
        raise ConfigError(f"a growth method is one of {', '.join(METHODS)}, but got {name!r}.")
    known = list(inspect.signature(METHODS[name].__init__).parameters)[1:]
    if unknown := sorted(set(options) - set(known)):
        raise ConfigError(f"options of {name} are {', '.join(known)}, but got {', '.join(unknown)}.")
    return METHODS[name](**options)
