"""How grow sequences are searched: what `ramet study` and ``SequenceSearch`` are asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ramet.continual.study.space import SequenceSpace
from ramet.errors import ConfigError
from ramet.fields import option, require_choices, require_types

if TYPE_CHECKING:
    from torch.nn import Module

    from ramet.continual.methods import BindAndGrow

Sampler = Literal["nsga2", "gp", "thompson", "random"]


def population_for(num_trials: int) -> int:
    """The population of NSGA-II that leaves about five generations; Optuna's own 50 would make 20 trials random.

    >>> [population_for(trials) for trials in (10, 20, 40, 1000)]
    [4, 4, 8, 50]
    """
    return max(4, min(50, 2 * (num_trials // 10)))


@dataclass(frozen=True, kw_only=True)
class SequencePlan:
    """How grow sequences are searched.

    Trials of a batch are asked for together and told together, in their order: results then do not depend on how many
    workers there are, nor on which was faster.

    Args:
        num_trials: finished trials to have in the end, of all runs of the study together.
        space: the sequences there are.
        sampler: nsga2, with a population that fits the number of trials, gp (a Gaussian process), thompson, which
            learns what each task gains by its own layers and needs --delta per-task, or random.
        batch: trials that are drawn together; by default the population of nsga2, or the number of workers for gp,
            thompson and with --storage.
        storage: the address of an Optuna storage; by default the environment variable RAMET_STORAGE, else a SQLite file
            in the run directory. A password in it is never kept, so `ramet resume` asks for RAMET_STORAGE then.
        study: the name of the study in the storage.
        networks: keep the networks of the whole front (those that other runs found are trained again here), those that
            this run found, or none.
        silence: seconds without a sign of life after which other runs take over this run's trials.

    Raises:
        ConfigError: a value is out of range, or two of them contradict each other.
    """

    num_trials: int = option(20, name="trials")
    space: SequenceSpace = field(default_factory=SequenceSpace)
    sampler: Sampler = "nsga2"
    batch: int | None = None
    storage: str | None = None
    study: str = option("grow-sequences", name="name")
    networks: Literal["front", "own", "none"] = "front"
    silence: float = 120.0

    def __post_init__(self) -> None:
        require_types(self)
        if self.num_trials < 1:
            raise ConfigError(f"num_trials must be at least 1, but got {self.num_trials}.")
        if self.batch is not None and self.batch < 1:
            raise ConfigError(f"batch must be at least 1, but got {self.batch}.")
        require_choices(self)
        if self.sampler == "thompson" and self.space.delta == "shared":
            raise ConfigError("thompson draws a coefficient for each task, but delta is shared; another sampler can.")
        if not self.silence > 0:
            raise ConfigError(f"silence must be positive, but got {self.silence}.")
        if not self.study.strip():
            raise ConfigError(f"a study must have a name, but got {self.study!r}.")


@dataclass(frozen=True, kw_only=True)
class StudyPlan(SequencePlan):
    """What a study searches, how, and what learns in its trials. From Python the method may be an object, too.

    Args:
        method: bind-and-grow, with options after a colon if wanted, such as bind-and-grow:old_weights=frozen.
        network: mlp, mlp:WIDTH,WIDTH,..., conv, or conv: and five widths; vgg, mobilenet, or FILE.py:function for your
            own (a function that takes any of in_channels, image_size and num_classes and gives a module).
        start: a file of trained weights that the network starts with, its head left out: .safetensors, or a state_dict
            that torch saved.
        classifier: the name of your own network's head, a linear layer; by default its last one.
        batch_norm: give each layer of mlp and conv batch norm.
    """

    method: str | BindAndGrow = option("bind-and-grow", kind=str)
    network: str | Module | Callable[..., Any] = option("mlp", kind=str)
    start: str | None = None
    classifier: str | None = None
    batch_norm: bool = False
