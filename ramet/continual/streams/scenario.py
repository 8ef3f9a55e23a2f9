"""Whether the data of finished tasks stay."""

from __future__ import annotations

from typing import Literal, get_args

from ramet.errors import ConfigError

Scenario = Literal["streaming", "all"]
"""``streaming``: the data of a finished task are gone. ``all``: they stay."""


def check_scenario(scenario: str) -> Scenario:
    """The scenario of a name.

    Raises:
        ConfigError: there is none of that name.
    """
    for known in get_args(Scenario):
        if scenario == known:
            return known  # type: ignore[no-any-return]
    raise ConfigError(f"scenario must be one of {', '.join(get_args(Scenario))}, but got {scenario!r}.")
