"""`ramet learn`: what is asked of a stream, and how it is built and done."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ramet.continual.plan import LearnPlan
from ramet.continual.recipe import LearnRecipe
from ramet.fields import option
from ramet.jobs.data_options import StreamOptions
from ramet.jobs.given_network import anchored_network, described_network, with_network
from ramet.jobs.job import Job, Session, anchored_source, code_of, complete_words, run_verb
from ramet.runs.encoding import Json
from ramet.runs.regular import read_regular
from ramet.training.recipe import Recipe

if TYPE_CHECKING:
    from torch.nn import Module

    from ramet.continual.streams.stream import Stream
    from ramet.execution import Executor
    from ramet.jobs.learn.learning import StreamSetup
    from ramet.jobs.learn.result import LearnResult


@dataclass(frozen=True, kw_only=True)
class LearnJob(Job["StreamSetup"]):
    """Learn a stream of tasks one after the other, in one network, and say what was forgotten and what it cost.

    Every method is measured on all tasks so far after each task, and compared with individual networks, which always
    run along; the best also with networks for each task alone of the same size and the same work, and the result says
    which to take. Nothing is forgotten by the default method, bit for bit. Writes a run directory with report.html and,
    in networks/, the joint network of each method and seed, and the networks of the tasks, which load without ramet.

    For example:

    - on the embedded digits: `ramet learn`
    - your own images, their classes dealt out to five tasks: `ramet learn --stream split-class/folders:5`
    - your own tasks (`ramet init stream`): `ramet learn --stream mine.json --network conv`
    - more tasks for a network that was saved: `ramet learn --stream more.json --onto net.safetensors`
    - methods, side by side: `ramet learn --method naive,elastic:strength=1e4,packnet --seeds 3`
    - a trained network: `ramet learn --network mine.py:network --start weights.safetensors --method bind-and-grow`
    - learning rates by task, a size for all: `ramet learn --stream mine.json --rates 0.005,0.02 --budget params=100k`

    `ramet study` searches how a stream is learned best.

    Args:
        stream: split-DATA:TASKS, split-DATA:TASKS:superclass, permuted-DATA:TASKS, rotated-DATA:TASKS,
            families-DATA:FAMILIESxTASKS, domains, or a .json file with a list of {"name": ..., "data": ...}.
        data_options: which part of its data sets.
        plan: which methods learn it.
        recipe: how each task is trained.
    """

    kind = "learn"
    gives = "ramet.jobs.learn.result:LearnResult"
    sources = ("stream",)

    stream: str | Stream | tuple[Stream, ...] = option("split-digits:5", kind=str)
    plan: LearnPlan = field(default_factory=LearnPlan)
    data_options: StreamOptions = field(default_factory=StreamOptions)
    recipe: Recipe = option(factory=LearnRecipe, kind=LearnRecipe)

    def anchored(self) -> LearnJob:
        """Files named from the root."""
        plan = anchored_network(self.plan)
        onto = None if plan.onto is None else str(Path(plan.onto).absolute())
        plan = replace(plan, onto=onto, earlier=anchored_source("stream", plan.earlier))
        return replace(super().anchored(), plan=plan)

    def to_json(self) -> Json:
        """The job as JSON values; a module is described by its layers."""
        return described_network(self.plan, super().to_json())

    def code(self) -> list[str]:
        """Of the network and the methods."""
        methods = [found for method in self.plan.each_method for found in code_of("method", method)]
        return [*super().code(), *code_of("skeleton", self.plan.network), *methods]

    def build(self, *, trust: bool = False) -> StreamSetup:
        """The streams, the network and the methods."""
        from ramet.jobs.learn.learning import build_setup

        return build_setup(self, trust)

    def setting(self, setup: StreamSetup) -> Json:
        """The streams by content, and the network."""
        from ramet.jobs.learn.learning import described_metric

        setting = {
            "streams": [stream.fingerprint() for stream in setup.streams],
            "tasks": setup.streams[0].names,
            "skeleton": setup.template.to_json(),
            **described_metric(setup),
        }
        if self.plan.onto is not None:
            setting["onto"] = hashlib.sha256(read_regular(Path(self.plan.onto))).hexdigest()
        return setting

    def work(self, setup: StreamSetup, session: Session) -> Json:
        """Every method with every seed."""
        from ramet.jobs.learn.learning import learn_all

        return learn_all(setup, session)


def learn(
    stream: str | Stream | Sequence[Stream] = "split-digits:5",
    *,
    network: str | Module | Callable[..., Any] | None = None,
    start: str | Path | None = None,
    plan: LearnPlan | None = None,
    recipe: Recipe | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    executor: Executor | int | None = None,
    device: str = "cpu",
    **options: Any,
) -> LearnResult:
    """Learn a stream of tasks by several methods, and say what was forgotten, what was gained and what it cost.

    ``stream`` is a name such as ``split-digits:5``, a ``.json`` file, a ``Stream``, which every seed learns, or a
    ``Stream`` for each seed. ``plan`` says which methods learn it, with which network and how many seeds, ``recipe``
    how each task is trained. ``network`` and ``start`` are those of the plan, at hand: a network is a name, a function
    that makes one, or any module, which is taken with the weights that it has, and is left as it is.

    >>> import tempfile
    >>> plan = LearnPlan(methods="naive", network="mlp:8")
    >>> result = learn("split-digits:2", plan=plan, recipe=LearnRecipe(epochs=1), out=tempfile.mkdtemp())
    >>> list(result.methods)
    ['individual', 'naive']
    """
    job = LearnJob(
        stream=tuple(stream) if isinstance(stream, (list, tuple)) else cast("str | Stream", stream),
        plan=with_network(plan or LearnPlan(), network, start),
        recipe=recipe or LearnRecipe(),
        seed=seed,
        device=device,
    )
    return cast("LearnResult", run_verb(job, out, executor, options))


complete_words(learn)
