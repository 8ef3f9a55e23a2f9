"""`ramet learn`: what is asked of a stream, and how it is built and done."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ramet.continual.plan import LearnPlan
from ramet.continual.recipe import LearnRecipe
from ramet.fields import option
from ramet.jobs.data_options import StreamOptions
from ramet.jobs.job import Job, Session
from ramet.jobs.supernet import code_of
from ramet.registry import anchored
from ramet.runs.encoding import Json
from ramet.training.recipe import Recipe

if TYPE_CHECKING:
    from ramet.continual.streams.stream import Stream
    from ramet.jobs.learn.learning import StreamSetup
    from ramet.jobs.learn.result import LearnResult


@dataclass(frozen=True, kw_only=True)
class LearnJob(Job["StreamSetup"]):
    """Learn a stream of tasks one after the other, in one network, and say what was forgotten and what it cost.

    Every method is measured on all tasks so far after each task, and compared with individual networks, which always
    run along. Writes a run directory with report.html and, in networks/, the joint network of each method and seed.

    Examples: `ramet learn` on the embedded digits; `ramet learn --method naive,elastic:strength=1e4,packnet --seeds 3`;
    `ramet learn --stream mine.json --network conv`; `ramet learn --stream more.json --onto net.safetensors`.
    `ramet study` searches how a stream is learned best.

    Args:
        stream: split-DATA:TASKS, split-DATA:TASKS:superclass, permuted-DATA:TASKS, rotated-DATA:TASKS,
            families-DATA:FAMILIESxTASKS, domains, or a .json file with a list of {"name": ..., "data": ...}.
        data_options: which part of its data sets.
        plan: which methods learn it.
        recipe: how each task is trained.
    """

    kind = "learn"

    stream: str | Stream | tuple[Stream, ...] = option("split-digits:5", kind=str)
    plan: LearnPlan = field(default_factory=LearnPlan)
    data_options: StreamOptions = field(default_factory=StreamOptions)
    recipe: Recipe = option(factory=LearnRecipe, kind=LearnRecipe)

    @classmethod
    def result_class(cls) -> type[LearnResult]:
        """Figures of every method."""
        from ramet.jobs.learn.result import LearnResult

        return LearnResult

    def anchored(self) -> LearnJob:
        """Files named from the root."""
        onto = self.plan.onto
        return replace(
            self,
            stream=anchored(self.stream) if isinstance(self.stream, str) else self.stream,
            data_options=self.data_options.anchored(),
            plan=replace(self.plan, onto=None if onto is None else str(Path(onto).absolute())),
        )

    def code(self) -> list[str]:
        """Of the network and the methods."""
        methods = [found for method in self.plan.each_method for found in code_of("method", method)]
        return [*code_of("skeleton", self.plan.network), *methods]

    def build(self, *, trust: bool = False) -> StreamSetup:
        """The streams, the network and the methods."""
        from ramet.jobs.learn.learning import build_setup

        return build_setup(self, trust)

    def setting(self, setup: StreamSetup) -> Json:
        """The streams by content, and the network."""
        setting = {
            "streams": [stream.fingerprint() for stream in setup.streams],
            "tasks": setup.streams[0].names,
            "skeleton": setup.skeleton.to_json(),
        }
        if self.plan.onto is not None:
            setting["onto"] = hashlib.sha256(Path(self.plan.onto).read_bytes()).hexdigest()
        return setting

    def work(self, setup: StreamSetup, session: Session) -> Json:
        """Every method with every seed."""
        from ramet.jobs.learn.learning import learn_all

        return learn_all(setup, session)
