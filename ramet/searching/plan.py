"""What a search does: the numbers of its loop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from ramet.errors import ConfigError
from ramet.fields import HIDDEN, option, to_json
from ramet.registry import parse_spec
from ramet.searching.final_network_options import FinalNetworkOptions

if TYPE_CHECKING:
    from ramet.guards.making import GuardSource
    from ramet.searching.strategies import Strategy
    from ramet.searching.strategies.making import StrategySource
    from ramet.sharing import SharingSource
    from ramet.spaces import Space

BatchNormMode = Literal["batch", "running", "reestimated"]

RELAXED = "darts"
"""The strategy's name that stands for ``RelaxedSearch``, which proposes nothing and trains all children at once."""


@dataclass(frozen=True, kw_only=True)
class SearchPlan:
    """What a search does.

    An epoch trains ``models_per_epoch`` proposed children on the shared weights, each on ``batches_per_model`` training
    mini-batches; then, after the warm-up, the strategy takes ``strategy_steps`` steps, each on the rewards of
    ``archs_per_step`` children on a validation mini-batch.

    Args:
        strategy: what proposes architectures: enas, nao, evolution, random or darts, with options after a colon, such
            as nao:num_seeds=100.
        guard: what keeps a child's updates from disturbing the others: none, plasticity, projection or elastic, with a
            strength after a colon if wanted, or several joined by a plus sign.
        sharing: which children use which copy of the weights: full, groups:M:similar, groups:M:random, or prefix:K.
        epochs: epochs of the search.
        warmup_epochs: first epochs, in which children are drawn uniformly and neither strategy nor guard acts.
        models_per_epoch: children that are trained in an epoch.
        batches_per_model: mini-batches that each is trained on; 7 in the released code of *multi-model forgetting*.
        strategy_steps: steps of the strategy in an epoch.
        archs_per_step: children whose rewards a step learns from.
        reward_samples: validation samples of a reward.
        error_samples: validation samples on which forgetting is measured.
        batch_norm: the statistics that rewards and errors are taken with.
        budget: limits that proposals keep, such as params=200k,flops=10M,latency=5ms; none for no limit.
        num_candidates: children that the strategy ends with, scored on the whole validation split.
        num_final: how many of the best of them are trained alone from scratch and tested.
        final_seeds: trainings of each.
        final_epochs: epochs of each of these trainings; all other numbers of a training are the recipe's.
        final_network: what their training adds to the search's own network.
        exports: whether the best network is written as ``network.pt2``.
        seed: what all randomness follows from.
    """

    strategy: StrategySource = option("enas", kind=str)
    guard: GuardSource = option("none", kind=str)
    sharing: SharingSource = option("full", kind=str)
    epochs: int = 10
    warmup_epochs: int = 2
    models_per_epoch: int = 20
    batches_per_model: int = 7
    strategy_steps: int = 10
    archs_per_step: int = 10
    reward_samples: int = 64
    error_samples: int = 256
    batch_norm: BatchNormMode = "batch"
    budget: str | None = None
    num_candidates: int = option(20, name="candidates")
    num_final: int = option(1, name="final")
    final_seeds: int = 1
    final_epochs: int = 10
    final_network: FinalNetworkOptions = field(default_factory=FinalNetworkOptions)
    exports: bool = option(True, name=HIDDEN)
    seed: int = option(0, name=HIDDEN)

    def __post_init__(self) -> None:
        for name in ("epochs", "models_per_epoch", "batches_per_model", "strategy_steps", "archs_per_step"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, but got {getattr(self, name)}.")
        if self.reward_samples < 2 or self.error_samples < 2:
            samples = (self.reward_samples, self.error_samples)
            raise ConfigError(f"reward_samples and error_samples must be at least 2, but got {samples}.")
        if not 0 <= self.warmup_epochs < self.epochs:
            raise ConfigError(f"warmup_epochs must be below the {self.epochs} epochs, but got {self.warmup_epochs}.")
        if not 0 <= self.num_final <= self.num_candidates or self.num_candidates < 1 or self.final_seeds < 1:
            counts = (self.num_candidates, self.num_final, self.final_seeds)
            raise ConfigError(f"num_final must be at most num_candidates, and seeds at least 1, but got {counts}.")
        if self.final_epochs < 1:
            raise ConfigError(f"final_epochs must be at least 1, but got {self.final_epochs}.")
        if self.batch_norm not in (modes := get_args(BatchNormMode)):
            raise ConfigError(f"batch_norm must be one of {', '.join(modes)}, but got {self.batch_norm!r}.")
        from ramet.guards import GUARDS, make_guard
        from ramet.searching.costs import parse_limits
        from ramet.sharing import SHARINGS, make_sharing

        # Code that a text names runs in a search, not when its plan is read: the plan may come from data.
        if not GUARDS.code(self.guard):
            make_guard(self.guard)
        if not SHARINGS.code(self.sharing) and make_sharing(self.sharing).is_measured:
            raise ConfigError(f"a search shares by full, groups of similar or random, or prefix, got {self.sharing!r}.")
        if self.budget is not None:
            parse_limits(self.budget)

    def check(self, space: Space) -> None:
        """Raise a ``ConfigError`` if the strategy does not suit the space."""
        from ramet.guards import NoGuard, make_guard
        from ramet.sharing import make_sharing

        if not self.is_relaxed:
            self.make_strategy(space)
        elif (
            not isinstance(make_guard(self.guard), NoGuard)
            or not make_sharing(self.sharing).is_full
            or self.budget is not None
        ):
            raise ConfigError(
                "DARTS trains all children at once: it takes no guard, no sharing but full and no budget."
            )
        elif space.num_archs < 2:
            raise ConfigError(f"a search needs a space of at least 2 architectures, but got {space.num_archs}.")

    def make_strategy(self, space: Space) -> Strategy:
        """The strategy for a space."""
        from ramet.searching.strategies import make_strategy

        return make_strategy(self.strategy, space, seed=self.seed)

    @property
    def is_relaxed(self) -> bool:
        """Whether all children are trained at once, by ``RelaxedSearch``."""
        return isinstance(self.strategy, str) and parse_spec(self.strategy).name == RELAXED

    @property
    def relaxed_options(self) -> dict[str, Any]:
        """The options of ``RelaxedSearch``."""
        assert isinstance(self.strategy, str)
        return dict(parse_spec(self.strategy).options)

    def code(self) -> list[str]:
        """The references to code that the plan's texts name; see ``ramet.registry.check_trust``."""
        from ramet.guards import GUARDS
        from ramet.searching.strategies import STRATEGIES
        from ramet.sharing import SHARINGS

        return [*STRATEGIES.code(self.strategy), *GUARDS.code(self.guard), *SHARINGS.code(self.sharing)]

    def describe(self) -> dict[str, Any]:
        """The plan as JSON values; an object is its class and its public arguments."""
        values: dict[str, Any] = to_json(self)
        return values
