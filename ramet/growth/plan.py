"""What a comparison of growths does: by which methods, how far, and when they end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ramet.errors import ConfigError
from ramet.fields import option, require_types
from ramet.growth.budget import Budget, Ends
from ramet.registry import Spec, parse_options, parse_spec, split_list

ARMS = ("plain", "scratch", "pruned", "start")
"""What a growth can be compared with; ``ramet.growth.arms`` says how each is made."""

TIES = ("auto", "none")
"""Layers of a model with a configuration grow together, or each by itself."""

DEFAULT_METHOD = "even"
"""For a multiply-add of work, choosing where to grow has not given what training on gives (docs/decisions/070)."""

DEFAULT_STEP = 2.0
"""Without a step a growth triples the network: a few large ones cost less than many small ones, and gave as much."""

DEFAULT_GROWTH = 10
"""Without a budget a network may get so many times its size."""


@dataclass(frozen=True, kw_only=True)
class GrowPlan:
    """What a comparison of growths does; the methods start from the same weights.

    Args:
        methods: how it grows: even, firefly, splitting, net2net, nash, autogrow, gradmax, stacking, random or redrawn,
            with options after a colon, such as firefly:num_new=50,num_epochs=1; several are joined by commas. auto, the
            default, is even, and firefly where the budget allows layers.
        budget: how large it may get, and how fast: params=200k, neurons=64, flops=2m, latency=2ms or onnx-latency=2ms
            (in onnxruntime), with step=30% (or an amount) and layers=1 (new layers a step) after commas. By default ten
            times its parameters, by steps of at most 200 %, or of 30 % where layers are added.
        against: what the best growth is compared with, each with as much work and as many parameters: plain (the
            network's own shape, wider), scratch (the grown shape, drawn anew), pruned (twice as large, and pruned),
            start (as large as at first); several are joined by commas, none for nothing. auto, the default, is plain,
            and start for a network that begins with trained weights, which no other has. Each costs as much as the
            growth; the report says which network to take.
        ends: when growth ends, besides the end of the budget.
        onnx: write the grown networks for onnxruntime, too, and compare them there with the modules.
        ties: auto lets layers of a model of Hugging Face grow together where its configuration has one number for them,
            so that from_pretrained loads what comes of it; none lets each grow by itself, and only ramet loads it.
    """

    methods: tuple[str, ...] = option("auto", name="method", kind=str)
    budget: str | Budget | None = option(None, kind=str | None)
    against: tuple[str, ...] = option("auto", kind=str)
    ends: Ends = field(default_factory=Ends)
    onnx: bool = False
    ties: str = "auto"

    def __post_init__(self) -> None:
        require_types(self)
        check_ties(self.ties)
        given = _listed("methods", self.methods)
        object.__setattr__(self, "methods", tuple(split_list(given) if isinstance(given, str) else given))
        if self.methods == ("auto",):
            budget = Budget.parse(self.budget) if isinstance(self.budget, str) else self.budget
            deepens = budget is not None and budget.layers > 0
            object.__setattr__(self, "methods", ("firefly" if deepens else DEFAULT_METHOD,))
        names = [_name(parse_spec(text)) for text in self.methods]
        if not names or len(set(names)) < len(names):
            raise ConfigError(f"methods must be named once each, at least one, but got {', '.join(self.methods)!r}.")

        against = _listed("against", self.against)
        arms = [arm.strip() for arm in (against.split(",") if isinstance(against, str) else against)]
        object.__setattr__(self, "against", tuple(arm for arm in arms if arm and arm != "none"))
        for arm in () if self.against == ("auto",) else self.against:
            check_arm(arm)
        if len({*self.against, *names}) < len(self.against) + len(names):
            raise ConfigError(f"comparisons must be named once each, and not as a method is, but got {against!r}.")

    def arms(self, *, is_trained: bool) -> tuple[str, ...]:
        """What a growth is compared with that begins with trained weights, or with drawn ones.

        >>> GrowPlan().arms(is_trained=False), GrowPlan().arms(is_trained=True)
        (('plain',), ('start',))
        """
        if self.against != ("auto",):
            return self.against
        return ("start",) if is_trained else ("plain",)

    @property
    def by_name(self) -> dict[str, str]:
        """The methods by the names that records and folders have; one of a file has the name that it has there."""
        return {_name(parse_spec(text)): text for text in self.methods}

    def budget_for(self, num_parameters: int) -> Budget:
        """The budget of a network with so many parameters."""
        if self.budget is None:
            return Budget("params", DEFAULT_GROWTH * float(max(num_parameters, 1)), DEFAULT_STEP, share=True)
        if not isinstance(self.budget, str):
            return self.budget
        budget = Budget.parse(self.budget)
        if budget.layers or "step" in parse_options(self.budget):
            return budget
        return replace(budget, step=DEFAULT_STEP, share=True)


def check_ties(ties: str) -> None:
    """Refuse what is no way to tie."""
    if ties not in TIES:
        raise ConfigError(f"ties are {' or '.join(TIES)}, but got {ties!r}.")


def check_arm(arm: str) -> None:
    """Refuse a name that is no arm."""
    if arm not in ARMS:
        raise ConfigError(f"a growth is compared with {', '.join(ARMS)} or none, but got {arm!r}.")


def _listed(name: str, given: object) -> str | Sequence[str]:
    """Several texts: one on the command line, a list or a tuple from Python."""
    if not isinstance(given, str | list | tuple):
        raise ConfigError(f"{name} must be texts, joined by commas or in a list, but got {given!r:.80}.")
    return given


def _name(spec: Spec) -> str:
    return spec.name.rpartition(":")[2]
