"""What `ramet learn` does with a stream: which methods learn it, with which network, and how often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from ramet.errors import ConfigError
from ramet.fields import HIDDEN, option, require_types
from ramet.registry import split_list

if TYPE_CHECKING:
    from torch.nn import Module

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
        methods: one or several, joined by commas, each with options after a colon if wanted: individual, naive, frozen,
            adapters, joint, elastic, distillation, replay, packnet, bind-and-grow and random-growth take any network;
            progressive, firefly, learn-to-grow, cpg, den, rcl and apd take mlp and conv.
        onto: a saved joint network that learns the stream on top of what it knows. Individual networks and all methods
            then have its architecture.
        earlier: a stream with tasks that the network of onto knows, by their names: each is measured before and after.
        network: mlp, mlp:WIDTH,WIDTH,..., conv, or conv: and five widths; vgg, mobilenet, or FILE.py:function for your
            own (a function that takes any of in_channels, image_size and num_classes and gives a module).
        start: a file of trained weights that the network starts with, its head left out: .safetensors, or a state_dict
            that torch saved.
        classifier: the name of your own network's head, a linear layer; by default its last one.
        batch_norm: give each layer of mlp and conv batch norm.
        head: own, one for each task, or shared, one for all, as permuted MNIST usually has it.
        scenario: streaming, in which a finished task's data are gone, or all.
        seeds: how many seeds each method runs with, from --seed on; each has a stream of its own.
        onnx: write the tasks' networks for onnxruntime, too, and compare them there with the modules.
        exports: whether the networks of tasks are written, those of the first seed and of the methods asked for.

    Raises:
        ConfigError: a value is none of these.
    """

    methods: tuple[str | Method, ...] | str | Method = option("firefly", name="method", kind=str)
    onto: str | None = None
    earlier: str | None = None
    network: str | Module | Callable[..., Any] = option("mlp", kind=str)
    start: str | None = None
    classifier: str | None = None
    batch_norm: bool = False
    head: Literal["own", "shared"] = "own"
    scenario: Scenario = "streaming"
    seeds: int = 1
    onnx: bool = False
    exports: bool = option(True, name=HIDDEN)

    def __post_init__(self) -> None:
        require_types(self)
        if self.seeds < 1:
            raise ConfigError(f"seeds must be at least 1, but got {self.seeds}.")
        check_scenario(self.scenario)
        if self.earlier is not None and self.onto is None:
            raise ConfigError("earlier tasks are those of a network that goes on, but got earlier without onto.")
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
