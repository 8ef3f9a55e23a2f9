"""What `ramet learn` does with a stream: which methods learn it, with which network, and how often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from ramet.errors import ConfigError
from ramet.fields import option
from ramet.registry import split_list

if TYPE_CHECKING:
    from ramet.continual.method import Method

Scenario = Literal["streaming", "all"]
"""``streaming``: the data of a finished task are gone. ``all``: they stay."""


def check_scenario(scenario: str) -> None:
    """Refuse what is no scenario."""
    if scenario not in get_args(Scenario):
        raise ConfigError(f"scenario must be one of {', '.join(get_args(Scenario))}, but got {scenario!r}.")


@dataclass(frozen=True, kw_only=True)
class LearnPlan:
    """Which methods learn a stream, and with which network. From Python a method may be an object, too.

    Args:
        methods: one or several, joined by commas, each with options after a colon if wanted: individual, naive, joint,
            elastic, distillation, replay, packnet, progressive, firefly, bind-and-grow, random-growth, learn-to-grow,
            cpg, den, rcl, apd.
        onto: a saved joint network that learns the stream on top of what it knows.
        network: mlp, mlp:WIDTH,WIDTH,..., conv, or conv: and five widths.
        batch_norm: give each layer batch norm.
        head: own, one for each task, or shared, one for all, as permuted MNIST usually has it.
        scenario: streaming, in which a finished task's data are gone, or all.
        seeds: how many seeds each method runs with, from --seed on; each has a stream of its own.

    Raises:
        ConfigError: a value is none of these.
    """

    methods: tuple[str | Method, ...] | str | Method = option("firefly", name="method", kind=str)
    onto: str | None = None
    network: str = "mlp"
    batch_norm: bool = False
    head: Literal["own", "shared"] = "own"
    scenario: Scenario = "streaming"
    seeds: int = 1

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise ConfigError(f"seeds must be at least 1, but got {self.seeds}.")
        check_scenario(self.scenario)
        if not self.each_method:
            raise ConfigError("a stream is learned by at least one method, but got none.")

    @property
    def each_method(self) -> list[str | Method]:
        """The methods one by one."""
        given = self.methods if isinstance(self.methods, (tuple, list)) else (self.methods,)
        found: list[str | Method] = []
        for method in given:
            found += split_list(method) if isinstance(method, str) else [method]
        return found
