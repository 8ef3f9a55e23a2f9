"""What a search does: the numbers of its loop, and the network that what it finds is trained in."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from ramet.errors import ConfigError
from ramet.fields import HIDDEN, option, require_types, to_json
from ramet.registry import parse_spec
from ramet.searching.staged.options import STAGED, StagedOptions
from ramet.training.recipe import Recipe

if TYPE_CHECKING:
    from torch import nn

    from ramet.guards.making import GuardSource
    from ramet.searching.strategies import Strategy
    from ramet.searching.strategies.making import StrategySource
    from ramet.sharing import SharingSource
    from ramet.spaces import Arch, Space

BatchNormMode = Literal["batch", "running", "reestimated"]

AUTO, USUAL = "auto", "enas"
"""The strategy's name that leaves it to what else is asked for, and what then learns from shared weights."""

OF_SHARED_WEIGHTS = (
    *("guard", "sharing", "epochs", "warmup_epochs", "guard_warmup_epochs", "models_per_epoch", "batches_per_model"),
    *("strategy_steps", "archs_per_step", "reward_samples", "error_samples", "measured_models", "batch_norm"),
)
"""What only a search on shared weights has: whoever sets one of them asks for such a search."""

RELAXED = "darts"
"""The strategy's name that stands for ``RelaxedSearch``, which proposes nothing and trains all children at once."""


@dataclass(frozen=True, kw_only=True)
class FinalNetworkOptions:
    """What the final training adds to the search's network; by default nothing.

    Args:
        channels: the width of the network that is trained in the end (darts and enas-micro); by default the search's.
            DARTS searches with 16 and ends with 36.
        cells: its number of cells (in enas-micro, of each stage); by default the search's. DARTS ends with 20.
        auxiliary_weight: that of the recipe, from Python; 0 for what the recipe has.
        drop_path: likewise.
        cutout: side of the square that is cut out of each training image, 16 of 32 pixels in DARTS.
        large_images: whether the network begins with a stem that makes images an eighth as large, for 224 x 224 pixels
            (darts).

    Reference: Liu, Simonyan and Yang, DARTS, 2019, section 3.2 and appendix A.
    """

    channels: int | None = option(None, name="final-channels")
    cells: int | None = option(None, name="final-cells")
    auxiliary_weight: float = option(0.0, name=HIDDEN)
    drop_path: float = option(0.0, name=HIDDEN)
    cutout: int = 0
    large_images: bool = False

    def __post_init__(self) -> None:
        from ramet.spaces.darts.final_network import check_drop_path

        require_types(self)
        check_drop_path(self.drop_path)
        counts = [count for count in (self.channels, self.cells) if count is not None]
        if any(count < 1 for count in counts) or self.cutout < 0 or not 0 <= self.auxiliary_weight < float("inf"):
            raise ConfigError(
                "a final network has at least 1 channel and cell, and no negative auxiliary_weight or cutout, but got "
                f"{(self.channels, self.cells, self.auxiliary_weight, self.cutout)}."
            )

    @property
    def is_plain(self) -> bool:
        """Whether it is the search's own network, trained on whole images."""
        return not self.cutout and not self._needs_network

    @property
    def _needs_network(self) -> bool:
        """Whether more than the training images differs."""
        sized = self.channels is not None or self.cells is not None or self.large_images
        return sized or bool(self.auxiliary_weight or self.drop_path)

    def trained_by(self, recipe: Recipe, space: Space) -> tuple[FinalNetworkOptions, Recipe]:
        """These options and a recipe, each with the auxiliary head and drop-path that the other has.

        A space without a final network of its own has neither: its network is trained without, and that is said.
        """
        weight, drop_path = self.auxiliary_weight or recipe.auxiliary_weight, self.drop_path or recipe.drop_path
        recipe = replace(recipe, auxiliary_weight=weight, drop_path=drop_path)
        offered = replace(self, auxiliary_weight=weight, drop_path=drop_path) if space.has_final_network else self
        return offered, recipe

    def check(self, space: Space, input_shape: tuple[int, ...]) -> None:
        """Raise a ``ConfigError`` if the space or its inputs have no such final network."""
        if self.is_plain:
            return
        if len(input_shape) != 3:
            raise ConfigError("auxiliary head, drop-path and cutout are for images, but the data are words.")
        if self.cutout > min(input_shape[1:]):
            raise ConfigError(f"cutout must be at most the {min(input_shape[1:])} pixels of a side, got {self.cutout}.")
        if self._needs_network and not space.has_final_network:
            raise ConfigError(
                "auxiliary head, drop-path and another size are for spaces with a final network of their own, "
                f"but {space.describe()['kind']} has none."
            )

    def build(self, space: Space, arch: Arch, in_channels: int, num_classes: int) -> nn.Module:
        """The network that is trained, called as ``network(x, arch)``."""
        if not self._needs_network:
            return space.supernet(in_channels, num_classes)
        larger = space.resized(channels=self.channels, cells=self.cells)
        make = larger.large_network if self.large_images else larger.final_network
        return make(arch, in_channels, num_classes, auxiliary=self.auxiliary_weight > 0)


@dataclass(frozen=True, kw_only=True)
class SearchPlan:
    """What a search does.

    An epoch trains ``models_per_epoch`` proposed children on the shared weights, each on ``batches_per_model`` training
    mini-batches; then, after the warm-up, the strategy takes ``strategy_steps`` steps, each on the rewards of
    ``archs_per_step`` children on a validation mini-batch.

    Args:
        staged: what a staged search may spend, and its stages.
        strategy: what proposes architectures: staged, which a budget of minutes, evaluations or cost implies; enas,
            nao, evolution, random or darts on shared weights, with options after a colon, such as nao:num_seeds=100.
            auto, the default, is staged with a budget of 40 evaluations, but enas where a guard, a sharing or a number
            of the epochs on shared weights is given, under torchrun, and for the sizes of a trained network.
        guard: what keeps a child's updates from disturbing the others: none, plasticity, projection or elastic, with a
            strength after a colon if wanted, or several joined by a plus sign.
        sharing: which children use which copy of the weights: full, groups:M:similar, groups:M:random, or prefix:K.
        epochs: epochs of the search.
        warmup_epochs: first epochs, in which children are drawn uniformly and the strategy does not learn.
        guard_warmup_epochs: first epochs in which the guard does not act; by default as many. Algorithm 1 of
            *Disturbance-immune* has none, while its controller waits for 90 epochs of 240; in *multi-model forgetting*
            the controller learns from the first epoch on, and the guard waits for 5 epochs or 3.
        models_per_epoch: children that are trained in an epoch.
        batches_per_model: mini-batches that each is trained on; 7 in the released code of *multi-model forgetting*.
        strategy_steps: steps of the strategy in an epoch.
        archs_per_step: children whose rewards a step learns from.
        reward_samples: validation samples of a reward.
        error_samples: validation samples on which forgetting is measured.
        measured_models: children of an epoch whose forgetting is measured, spread evenly over its turns; by default
            all. It costs two forward passes over the error samples, which is more than a turn of one mini-batch.
        batch_norm: the statistics that rewards and errors are taken with.
        budget: limits that proposals keep, such as params=200k,flops=10M,latency=5ms or
            onnx-latency=5ms, measured in onnxruntime; none for no limit.
        num_candidates: children that the strategy ends with, scored on the whole validation split.
        num_final: how many of the best of them are trained alone and tested.
        final_seeds: trainings of each.
        final_epochs: epochs of each of these trainings.
        final_recipe: how they are trained, apart from that: a recipe by name with options after a colon, such as
            darts or adamw:learning_rate=0.002, whose fields are set in place of the search's; by default as the shared
            weights are.
        final_network: what their training adds to the search's own network.
        without_baselines: do not train a random architecture, the largest within the budget and the best untrained one
            alone, too, to stand beside what was found; a staged search compares them by short trainings in any case.
        exports: whether the best network is written as ``network.pt2``.
        onnx: write it for onnxruntime, too, and compare it there with the module.
        seed: what all randomness follows from.
    """

    staged: StagedOptions = field(default_factory=StagedOptions)
    strategy: StrategySource = option(AUTO, kind=str)
    guard: GuardSource = option("none", kind=str)
    sharing: SharingSource = option("full", kind=str)
    epochs: int = 10
    warmup_epochs: int = 2
    guard_warmup_epochs: int | None = None
    models_per_epoch: int = 20
    batches_per_model: int = 7
    strategy_steps: int = 10
    archs_per_step: int = 10
    reward_samples: int = 64
    error_samples: int = 256
    measured_models: int | None = None
    batch_norm: BatchNormMode = "batch"
    budget: str | None = None
    num_candidates: int = option(20, name="candidates")
    num_final: int = option(1, name="final")
    final_seeds: int = 1
    final_epochs: int = 10
    final_recipe: str | None = None
    final_network: FinalNetworkOptions = field(default_factory=FinalNetworkOptions)
    without_baselines: bool = option(False, name="no-baselines")
    exports: bool = option(True, name=HIDDEN)
    onnx: bool = False
    seed: int = option(0, name=HIDDEN)

    def __post_init__(self) -> None:
        require_types(self)
        for name in ("epochs", "models_per_epoch", "batches_per_model", "strategy_steps", "archs_per_step"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, but got {getattr(self, name)}.")
        if self.reward_samples < 2 or self.error_samples < 2:
            samples = (self.reward_samples, self.error_samples)
            raise ConfigError(f"reward_samples and error_samples must be at least 2, but got {samples}.")
        if self.measured_models is not None and not 0 <= self.measured_models <= self.models_per_epoch:
            raise ConfigError(
                f"measured_models must lie between 0 and the {self.models_per_epoch} models of an epoch, "
                f"but got {self.measured_models}."
            )
        for name, first in (("warmup_epochs", self.warmup_epochs), ("guard_warmup_epochs", self.guarded_from)):
            # A staged search has no epochs, and a recipe may have fewer of them than the default warm-up.
            if first < 0 or (first >= self.epochs and not self.is_staged):
                raise ConfigError(f"{name} must be below the {self.epochs} epochs, but got {first}.")
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
        from ramet.training.recipes import final_settings
        from ramet.training.registry import RECIPES

        # Code that a text names runs in a search, not when its plan is read: the plan may come from data.
        if not GUARDS.code(self.guard):
            make_guard(self.guard)
        if self.final_recipe is not None and not RECIPES.code(self.final_recipe):
            final_settings(Recipe(), self.final_recipe)
        if not SHARINGS.code(self.sharing) and make_sharing(self.sharing).is_measured:
            raise ConfigError(f"a search shares by full, groups of similar or random, or prefix, got {self.sharing!r}.")
        if self.budget is not None:
            parse_limits(self.budget)

    def check(self, space: Space) -> None:
        """Raise a ``ConfigError`` if the strategy does not suit the space."""
        from ramet.guards import NoGuard, make_guard
        from ramet.guards.turns import check_turn
        from ramet.sharing import make_sharing

        if self.strategy == AUTO:
            self.settled(space).check(space)
        elif space.inherits and (self.is_relaxed or self.is_staged or not make_sharing(self.sharing).is_full):
            raise ConfigError(
                "sizes that inherit their weights are slices of one network: they are shared in full and found by "
                f"enas, nao, evolution or random, but got {self.strategy!r} and {self.sharing!r}."
            )
        elif self.is_staged:
            from ramet.ranking import SCORES

            for name in [] if self.staged.scores is None else self.staged.scores.split("+"):
                SCORES.maker(SCORES.parse(name).name)
            if not isinstance(make_guard(self.guard), NoGuard) or not make_sharing(self.sharing).is_full:
                raise ConfigError("a staged search takes no guard and no sharing but full.")
        elif not self.is_relaxed:
            self.make_strategy(space)
            check_turn(make_guard(self.guard), self.batches_per_model)
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

    @property
    def guarded_from(self) -> int:
        """The first epoch in which the guard acts."""
        return self.warmup_epochs if self.guard_warmup_epochs is None else self.guard_warmup_epochs

    def is_measured(self, unit: int) -> bool:
        """Whether the forgetting of an epoch's child is measured, by its place in the epoch.

        >>> plan = SearchPlan(models_per_epoch=7, measured_models=3)
        >>> [unit for unit in range(7) if plan.is_measured(unit)]
        [2, 4, 6]
        """
        wanted = self.models_per_epoch if self.measured_models is None else self.measured_models
        return (unit + 1) * wanted // self.models_per_epoch > unit * wanted // self.models_per_epoch

    def make_strategy(self, space: Space) -> Strategy:
        """The strategy for a space."""
        from ramet.searching.strategies import make_strategy

        return make_strategy(USUAL if self.strategy == AUTO else self.strategy, space, seed=self.seed)

    @property
    def is_staged(self) -> bool:
        """Whether the search has stages: by name, by a budget, or because nothing of shared weights is asked for."""
        if self.staged.is_limited:
            return True
        return self.strategy == STAGED or (self.strategy == AUTO and not self.asks_for_shared_weights)

    @property
    def asks_for_shared_weights(self) -> bool:
        """Whether something is set that only a search on shared weights has.

        >>> SearchPlan().asks_for_shared_weights, SearchPlan(guard="projection").asks_for_shared_weights
        (False, True)
        """
        defaults = {known.name: known.default for known in fields(self)}
        return any(getattr(self, name) != defaults[name] for name in OF_SHARED_WEIGHTS)

    def settled(self, space: Space, *, is_shared: bool = False) -> SearchPlan:
        """The plan with a strategy in place of ``auto``.

        Args:
            space: what is searched; slices of one trained network share its weights.
            is_shared: whether shared weights are trained, whatever the plan says: by several processes together.
        """
        if self.strategy != AUTO:
            return self
        shares = not self.staged.is_limited and (is_shared or space.inherits or not self.is_staged)
        return replace(self, strategy=USUAL if shares else STAGED)

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
        from ramet.ranking import SCORES
        from ramet.searching.strategies import STRATEGIES
        from ramet.sharing import SHARINGS
        from ramet.training.registry import RECIPES

        final = [] if self.final_recipe is None else RECIPES.code(self.final_recipe)
        final += [] if self.staged.scores is None else SCORES.code(self.staged.scores)
        return [*STRATEGIES.code(self.strategy), *GUARDS.code(self.guard), *SHARINGS.code(self.sharing), *final]

    def describe(self) -> dict[str, Any]:
        """The plan as JSON values; an object is its class and its public arguments."""
        values: dict[str, Any] = to_json(self)
        return values
