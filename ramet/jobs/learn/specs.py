"""How methods are called in records, files and reports."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from typing import Any

from ramet.continual.method import Method
from ramet.errors import ConfigError
from ramet.jobs.learn.result import ONTO
from ramet.registry import Spec


def by_name(given: list[str | Method]) -> dict[str, str | Method]:
    """The methods by what they are called in records and reports, individual networks first."""
    methods: dict[str, str | Method] = {"individual": "individual"}
    for method in given:
        if not isinstance(method, str | Method):
            raise ConfigError(f"a method is a text or a Method, but got {method!r}.")
        name = method if isinstance(method, str) else spec_of(method)
        if name != "individual" and name in methods:
            raise ConfigError(f"methods must differ, but {name} is there twice.")
        if name == ONTO:
            raise ConfigError(f"a method must not be called {ONTO}, which is the network that goes on.")
        methods[name] = method
    return methods


def spec_of(method: Method) -> str:
    """A method in words: its name, and the options that are not its defaults.

    >>> from ramet.continual.methods import PackNet
    >>> spec_of(PackNet(prune=0.5))
    'packnet:prune=0.5'
    """
    defaults: dict[str, Any] = {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(method)
    }
    return str(Spec(method.name, (), {key: own for key, own in method.options.items() if own != defaults[key]}))


def file_name(spec: str) -> str:
    """A method with its options as a part of a file's name."""
    return re.sub(r"[^A-Za-z0-9=.]+", "-", spec)
