"""What a diagnosis does: how many instances, what differs among them, how the truth is known, what is tried besides."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from ramet.errors import ConfigError
from ramet.fields import HIDDEN, option, require_types, to_json

if TYPE_CHECKING:
    from ramet.guards.making import GuardSource
    from ramet.ranking.trainings import TrainingSource
    from ramet.sharing import SharingSource
    from ramet.spaces import Space
    from ramet.training import Recipe

OrderKind = Literal["cyclic", "shuffled", "uniform"]
Varied = Literal["weights", "order", "both"]

MAX_LISTED = 2**16
"""Children of a space whose groups are listed."""

VARIATIONS = ("momentum", "bn-momentum", "weight-decay", "learning-rate", "final-learning-rate", "epochs", "training")
"""What ``also`` can vary; several settings at once are joined by ``+``."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The plan of a diagnosis.

    Args:
        instances: how many supernets are trained.
        order: which child a mini-batch trains: ``cyclic``, ``shuffled`` or ``uniform``.
        varied: what differs among instances: the initial ``weights``, the ``order`` of the children, or ``both``.
        sharing: which children use which copy of the weights: ``full``, ``groups:8:similar``, ``prefix:2``, ``edge:0``
            (a supernet for each option of that decision), ``FILE.py:Class``, or a ``Sharing``.
        training: which children a step of a supernet takes: ``uniform`` (one, in the order), ``fair`` (every option
            once), ``sandwich`` (the largest teaches the smallest and some between), ``by-path``, ``landmarks``,
            ``pada`` or ``shrinking`` (see ``ramet.ranking.trainings``), ``FILE.py:Class``, or an object.
        guard: what keeps a child's updates from disturbing the others, for example ``plasticity:60``; or
            ``FILE.py:Class``, a class or function of one's own, or a ``Guard``: every supernet gets a copy.
        batches_per_model: mini-batches in a row that train one child; 1 in *deeper insights*, 7 in the released code of
            *multi-model forgetting*, whose penalty cannot act with fewer than 2.
        supernet_epochs: epochs of a supernet, when they are not those of a child alone.
        stop_epoch: end supernets after that many epochs of their schedule, to look at them half-trained.
        children: how many children, drawn by the seed, are scored; all if none. Training covers the whole space.
        last_epochs: scores are taken after that many last epochs.
        last_steps: scores are taken after that many last mini-batches.
        step_samples: validation images that the scores after mini-batches are taken on; all of them if none.
        truth: ``train`` (every child alone), ``table:FILE[:COLUMN]`` or ``FILE.csv[:COLUMN]`` (several columns or rows
            of an architecture are seeds), or ``none``.
        truth_seeds: how many seeds the truth is the mean of.
        fine_tune_steps: for how many mini-batches children are fine-tuned from an instance; 0 for not at all.
        fine_tune_instances: from how many of the instances.
        fine_tune_learning_rate: its learning rate; the settings' final one if none. With 0 weights stay as they are and
            batch-norm statistics follow the child: the control that says how much of a gain is theirs.
        also: variations, ``NAME=VALUE`` or ``NAME=VALUE+NAME=VALUE``, each of which is run with as many instances;
            ``training=fair`` with as many epochs as make it cost the same.
        average_weights: score children by an average of the supernet's weights, too: ``ema:DECAY`` or ``tail:SHARE``.
        weights: supernets that are trained already, in place of training any: ``FILE.safetensors`` or a folder of
            checkpoints, each an instance.
        seed: the seed of the run.
    """

    instances: int = 3
    order: OrderKind = "shuffled"
    varied: Varied = "both"
    sharing: SharingSource = option("full", kind=str)
    training: TrainingSource = option("uniform", kind=str)
    guard: GuardSource = option("none", kind=str)
    batches_per_model: int = 1
    supernet_epochs: int | None = None
    stop_epoch: int | None = None
    children: int | None = None
    last_epochs: int = 5
    last_steps: int = 32
    step_samples: int | None = None
    truth: str = "train"
    truth_seeds: int = 2
    fine_tune_steps: int = 16
    fine_tune_instances: int = 1
    fine_tune_learning_rate: float | None = None
    also: tuple[str, ...] = ()
    average_weights: str | None = None
    weights: tuple[str, ...] = ()
    seed: int = option(0, name=HIDDEN)

    def __post_init__(self) -> None:
        require_types(self)
        for name, form in (("also", "NAME=VALUE each"), ("weights", "a file each")):
            value = getattr(self, name)
            if not isinstance(value, (tuple, list)) or not all(isinstance(text, str) for text in value):
                raise ConfigError(f"{name} must be a list of texts, {form}, but got {value!r:.80}.")
        if self.weights:  # each is an instance, however many there would be
            object.__setattr__(self, "instances", len(self.weights))
            object.__setattr__(self, "fine_tune_instances", min(self.fine_tune_instances, len(self.weights)))
        counts = ("instances", "last_epochs", "last_steps", "truth_seeds", "batches_per_model")
        for name in (*counts, "supernet_epochs", "stop_epoch", "step_samples"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, but got {value}.")
        if not 1 <= self.fine_tune_instances <= self.instances:
            raise ConfigError(
                f"fine_tune_instances must be between 1 and the {self.instances} instances, "
                f"but got {self.fine_tune_instances}."
            )
        if self.fine_tune_steps < 0:
            raise ConfigError(f"fine_tune_steps must not be negative, but got {self.fine_tune_steps}.")
        if self.fine_tune_learning_rate is not None and not 0 <= self.fine_tune_learning_rate < math.inf:
            raise ConfigError(
                f"fine_tune_learning_rate must be finite and not negative, but got {self.fine_tune_learning_rate}."
            )
        if self.varied not in get_args(Varied):
            raise ConfigError(f"varied must be one of {', '.join(get_args(Varied))}, but got {self.varied!r}.")
        if self.truth not in ("train", "none") and self.table is None:
            raise ConfigError(f"truth must be train, none or table:FILE[:COLUMN], but got {self.truth!r}.")
        if self.children is not None and self.children < 2:
            raise ConfigError(f"children must be at least 2, because one child has no rank, but got {self.children}.")
        from ramet.guards import GUARDS, make_guard
        from ramet.sharing import SHARINGS, Order
        from ramet.training.averaging import check_average

        Order(self.order, 1, 0)
        # Code that a text names runs in the diagnosis, not when its plan is read: the plan may come from data.
        if not GUARDS.code(self.guard):
            make_guard(self.guard)
        if not SHARINGS.code(self.sharing):
            self._check_sharing()
        if self.average_weights is not None:
            check_average(self.average_weights)
        if self.weights and (self.also or self.average_weights):
            raise ConfigError("weights of your own are not trained again, but also or average_weights asks for that.")
        for text in self.also:
            variation_overrides(text)
            if self.also.count(text) > 1:
                raise ConfigError(f"also must name each variation once, but {text!r} is there twice.")

    def _check_sharing(self) -> None:
        from ramet.sharing import make_sharing

        sharing = make_sharing(self.sharing)
        if self.children is not None and (sharing.num_shared_cells is not None or sharing.is_measured):
            raise ConfigError(f"sharing {sharing} needs all children to be scored, but children is {self.children}.")

    @property
    def table(self) -> str | None:
        """The table that holds the truth, if one does; what ends as a table is one without being called so."""
        is_file = re.search(r"\.(csv|npz)(:[^/]*)?$", self.truth)
        return self.truth.removeprefix("table:") or None if is_file or self.truth.startswith("table:") else None

    def fine_tuning_rate(self, settings: Recipe) -> float:
        """The learning rate of fine-tuning."""
        if self.fine_tune_learning_rate is not None:
            return self.fine_tune_learning_rate
        rate = settings.final_learning_rate
        if rate <= 0:
            raise ConfigError("fine-tuning needs a positive learning rate, but the settings' final one is 0.")
        return rate

    def check(self, space: Space, settings: Recipe) -> None:
        """Refuse a plan that does not fit the space or the settings."""
        from ramet.guards import make_guard
        from ramet.guards.turns import check_turn
        from ramet.ranking.trainings import make_training
        from ramet.sharing import make_sharing

        for text in self.also:
            replace(settings, **variation_overrides(text)[0])
        if self.fine_tune_steps:
            self.fine_tuning_rate(settings)
        if space.num_archs < 2:
            raise ConfigError(f"a ranking needs at least 2 children, but the space has {space.num_archs}.")
        if self.children is not None and self.children > space.num_archs:
            raise ConfigError(f"children must be at most the {space.num_archs} of the space, but got {self.children}.")
        if self.children is None and space.num_archs > 4096:
            raise ConfigError(f"a space of {space.num_archs} children is too large to score whole; give --children.")
        self._check_sharing()
        sharing = make_sharing(self.sharing).of_options(space.num_options)
        sharing.check(space.num_archs)
        if sharing.num_groups > 1 and space.num_archs > MAX_LISTED:
            raise ConfigError(f"groups are of at most {MAX_LISTED} children, but the space has {space.num_archs}.")
        if not sharing.is_full and self.weights:
            raise ConfigError(f"weights of your own are of one supernet, but sharing {sharing} has several.")
        for source in (self.training, *filter(None, map(variation_training, self.also))):
            way = make_training(source, space, seed=self.seed)
            way.check(settings)
            if not sharing.is_full and not way.takes_turns:
                raise ConfigError(
                    f"a training of several children a step needs them in one supernet, but sharing is {sharing}."
                )
        check_turn(make_guard(self.guard), self.batches_per_model)

    def scored(self, space: Space) -> list[int]:
        """The indices of the children that are scored, rising."""
        if self.children is None:
            return list(range(space.num_archs))
        from ramet.seeding import torch_generator

        # A draw without replacement that does not hold the whole space.
        generator = torch_generator(self.seed, "children")
        chosen: set[int] = set()
        while len(chosen) < self.children:
            chosen.add(space.index(space.sample(generator)))
        return sorted(chosen)

    def code(self) -> list[str]:
        """The references to code that the plan's texts name; see ``ramet.registry.check_trust``."""
        from ramet.guards import GUARDS
        from ramet.ranking.trainings import TRAININGS
        from ramet.sharing import SHARINGS

        ways = [self.training, *filter(None, map(variation_training, self.also))]
        found = [code for way in ways for code in TRAININGS.code(way)]
        return [*GUARDS.code(self.guard), *SHARINGS.code(self.sharing), *found]

    def describe(self) -> dict[str, Any]:
        """The plan as JSON values; an object is its class and its public arguments."""
        values: dict[str, Any] = to_json(self)
        return values


def parse_variation(text: str) -> tuple[str, float | str]:
    """The name and the value of a variation.

    >>> parse_variation("momentum=0"), parse_variation("training=fair")
    (('momentum', 0.0), ('training', 'fair'))
    """
    name, separator, text_value = text.partition("=")
    if name == "training" and text_value:
        return name, text_value
    try:
        if not separator or name not in VARIATIONS:
            raise ValueError
        value = float(text_value)
    except ValueError:
        raise ConfigError(f"also must be NAME=VALUE with one of {', '.join(VARIATIONS)}, but got {text!r}.") from None
    if name == "bn-momentum" and not 0 < value <= 1:
        raise ConfigError(f"bn-momentum must be above 0 and at most 1, but got {text!r}.")
    if name == "epochs" and not value.is_integer():
        raise ConfigError(f"epochs must be a whole number, but got {text!r}.")
    return name, value


def variation_training(text: str) -> str | None:
    """The way to train that a variation names, if it names one."""
    return text.partition("=")[2] if text.startswith("training=") else None


def variation_overrides(text: str) -> tuple[dict[str, Any], float | None]:
    """The settings that a variation replaces, and its batch-norm momentum; an empty text varies nothing.

    >>> variation_overrides("momentum=0+learning-rate=0.5")
    ({'momentum': 0.0, 'learning_rate': 0.5}, None)
    """
    overrides: dict[str, Any] = {}
    bn_momentum = None
    if not text or variation_training(text) is not None:
        return overrides, bn_momentum
    # The plus of a number such as 1e+06 joins nothing.
    parts = [parse_variation(part) for part in re.split(r"\+(?=[a-z])", text)]
    names = [name for name, _ in parts]
    if len(set(names)) < len(names) or ("training" in names and len(names) > 1):
        raise ConfigError(f"also must vary each setting once, and a training alone, but got {text!r}.")
    for name, value in parts:
        assert isinstance(value, float)  # only a training is a text
        if name == "bn-momentum":
            bn_momentum = value
        else:
            overrides[name.replace("-", "_")] = int(value) if name == "epochs" else value
    return overrides, bn_momentum
