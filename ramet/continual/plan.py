"""What `ramet learn` does with a stream: which methods learn it, with which network, and how often."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from ramet.errors import ConfigError
from ramet.fields import HIDDEN, option, require_choices, require_types
from ramet.growth.budget import Budget
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


def check_rates(rates: Sequence[float]) -> None:
    """Refuse learning rates that are none."""
    if any(not 0 < rate < math.inf for rate in rates):
        raise ConfigError(f"rates to try must be positive, but got {', '.join(f'{rate:g}' for rate in rates)}.")


@dataclass(frozen=True, kw_only=True)
class LearnPlan:
    """Which methods learn a stream, and with which network. From Python a method may be an object, too.

    Args:
        methods: one or several, joined by commas, each with options after a colon if wanted: warm-start, individual,
            separate, naive, frozen, adapters, joint, elastic, distillation, replay, packnet, bind-and-grow,
            random-growth, progressive, learn-to-grow, apd, firefly, cpg, den or rcl. All take any network; the last
            four one with channels, hidden units or heads that may come and go.
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
        controls: best, in which the most accurate method on validation data is compared with networks for each task
            alone of as much work, and of as many parameters and as much work (which takes twice as long as that method
            did); all, in which every method is; or none.
        rates: learning rates, such as 0.005,0.02,0.08, of which each task's is found on its validation data, by
            training a network of its own for a fifth of the epochs at each; the work is counted, and individual
            networks do the same. By default the recipe's for all.
        target: the validation score (0.95, or in units of the metric) at which a task stops to grow: of warm-start,
            which then gives it a head on earlier layers if that will do, firefly and cpg.
        budget: params=200k: the parameters of the whole stream, which are shared out evenly over the tasks to come: of
            warm-start.
        seeds: how many seeds each method runs with, from --seed on; each has a stream of its own.
        onnx: write the tasks' networks for onnxruntime, too, and compare them there with the modules.
        exports: whether the networks of tasks are written, those of the first seed and of the methods asked for.

    Raises:
        ConfigError: a value is none of these.
    """

    methods: tuple[str | Method, ...] | str | Method = option("warm-start", name="method", kind=str)
    onto: str | None = None
    earlier: str | None = None
    network: str | Module | Callable[..., Any] = option("mlp", kind=str)
    start: str | None = None
    classifier: str | None = None
    batch_norm: bool = False
    head: Literal["own", "shared"] = "own"
    scenario: Scenario = "streaming"
    controls: Literal["best", "all", "none"] = "best"
    rates: str | tuple[float, ...] | None = option(None, kind=str)
    target: float | None = None
    budget: str | None = None
    seeds: int = 1
    onnx: bool = False
    exports: bool = option(True, name=HIDDEN)

    def __post_init__(self) -> None:
        require_types(self)
        if self.seeds < 1:
            raise ConfigError(f"seeds must be at least 1, but got {self.seeds}.")
        check_scenario(self.scenario)
        require_choices(self)
        check_rates(self.each_rate)
        if self.target is not None and not math.isfinite(self.target):
            raise ConfigError(f"target must be finite, but got {self.target}.")
        self.num_parameters  # noqa: B018 - refuses what is no budget
        if self.earlier is not None and self.onto is None:
            raise ConfigError("earlier tasks are those of a network that goes on, but got earlier without onto.")
        if not self.each_method:
            raise ConfigError("a stream is learned by at least one method, but got none.")

    @property
    def each_rate(self) -> tuple[float, ...]:
        """The learning rates that are tried for each task; none if the recipe's is taken."""
        if not isinstance(self.rates, str | list | tuple | None):
            raise ConfigError(f"rates must be numbers, joined by commas or in a list, but got {self.rates!r:.80}.")
        if not isinstance(self.rates, str):
            return tuple(self.rates or ())
        try:
            return tuple(float(rate) for rate in self.rates.split(","))
        except ValueError:
            raise ConfigError(f"rates must be numbers, joined by commas, but got {self.rates!r}.") from None

    @property
    def num_parameters(self) -> int:
        """The parameters of the whole stream; 0 for no limit."""
        if self.budget is None:
            return 0
        budget = Budget.parse(self.budget)
        if budget.unit != "params" or "," in self.budget:
            raise ConfigError(f"the budget of a stream must be of parameters, params=200k, but got {self.budget!r}.")
        return int(budget.total)

    @property
    def each_method(self) -> list[str | Method]:
        """The methods one by one."""
        given = self.methods if isinstance(self.methods, (tuple, list)) else (self.methods,)
        found: list[str | Method] = []
        for method in given:
            found += split_list(method) if isinstance(method, str) else [method]
        return found
