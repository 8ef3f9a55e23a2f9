"""`ramet rank`: what a diagnosis is asked, and how it is built and done."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ramet.errors import ConfigError
from ramet.fields import option
from ramet.jobs.data_options import NumericOptions
from ramet.jobs.job import Job, Session, complete_words, run_verb
from ramet.jobs.supernet import TEXTS, SpaceSizes, anchored_start, build_data, build_space, read_start
from ramet.ranking.plan import Plan
from ramet.registry import anchored
from ramet.runs.encoding import Json
from ramet.training.recipe import Recipe

if TYPE_CHECKING:
    from ramet.data import DataSet
    from ramet.execution import Executor
    from ramet.jobs.rank.result import RankResult
    from ramet.ranking.setup import SupernetSetup
    from ramet.spaces import Space


@dataclass(frozen=True, kw_only=True)
class RankRecipe(Recipe):
    """How supernets, and children alone, are trained; the defaults suit a laptop.

    Args:
        epochs: passes over the training images, for supernets and for children alone.
    """

    epochs: int = 10
    batch_size: int = 64
    learning_rate: float = 0.05


@dataclass(frozen=True, kw_only=True)
class RankJob(Job["SupernetSetup"]):
    """Say how far a supernet's ranking of its children can be trusted, and what would make it better.

    Trains a supernet several times and each child alone, compares the rankings with each other, with the truth and
    with the trivial ones (parameters, multiply-adds), and ends with a recommendation. Writes a run directory with
    report.html.

    The defaults suit a laptop; the paper's own setting is `ramet reproduce deeper-insights/table-1 --preset paper`.

    For example:

    - on the embedded digits: `ramet rank`
    - on your own data: `ramet rank --data my.npz --instances 5 --workers 8`
    - a space of your own (`ramet init space`): `ramet rank --space mine.py:network --sharing groups:4:interference`
    - of scores that you have already; nothing is trained: `ramet rank --scores scores.csv --truth truth.csv`

    Args:
        space: cells64, nasbench201, ... with options after a colon (`ramet list space`), or FILE.py:function for your
            own (a function of in_channels and num_classes that gives a module with Choice inside, or one that gives
            ``ramet.spaces.elastic`` of a trained network).
        sizes: how large its networks are.
        start: trained weights that every network of the space begins with, what they lack being drawn: .safetensors, a
            state_dict that torch saved, or a folder of checkpoints such as RUN/checkpoints/search; of a supernet, or of
            your own module, trained with choices or without.
        data: digits, mnist, fashion-mnist, cifar10, ... (`ramet data list`), an .npz file, a folder of class folders,
            or a table as FILE.csv:target=COLUMN; targets may be numbers.
        data_options: which part of it.
        recipe: how supernets and children alone are trained.
        plan: what is done.
        truth_cache: where trained truths are kept, so that none is trained twice; by default in the user's cache.
        scores: FILE.csv[:COLUMN,...], scores that you have already, of any children by any means: a column arch and a
            column a ranking. Nothing is trained; of the other options, truth, seed and out count.
    """

    kind = "rank"
    gives = "ramet.jobs.rank.result:RankResult"
    sources = ("space", "data")
    apart = ("truth_cache",)

    space: str | Space = option("cells64", kind=str)
    sizes: SpaceSizes = field(default_factory=SpaceSizes)
    start: str | None = None
    data: str | DataSet = option("digits", kind=str)
    data_options: NumericOptions = field(default_factory=NumericOptions)
    recipe: Recipe = option(factory=RankRecipe, kind=RankRecipe)
    plan: Plan = field(default_factory=Plan)
    truth_cache: str | None = None
    scores: str | None = None

    def anchored(self) -> RankJob:
        """Files named from the root."""
        table = self.plan.table
        truth = self.plan.truth if table is None else f"table:{anchored(table)}"
        cache = None if self.truth_cache is None else str(Path(self.truth_cache).absolute())
        weights = tuple(str(Path(source).absolute()) for source in self.plan.weights)
        return replace(
            super().anchored(),
            plan=replace(self.plan, truth=truth, weights=weights),
            start=anchored_start(self.start),
            truth_cache=cache,
        )

    def asked(self) -> Job[Any]:
        """Of scores that are there already, the job that compares them."""
        if self.scores is None:
            return self
        from ramet.jobs.scores import ScoresJob

        if self.plan.truth == "train":
            raise ConfigError("scores of your own need --truth FILE.csv or --truth none, but got neither.")
        return ScoresJob(scores=self.scores, truth=self.plan.table, seed=self.seed)

    def code(self) -> list[str]:
        """Of the space, the data and the plan."""
        return [*super().code(), *self.plan.code()]

    def build(self, *, trust: bool = False) -> SupernetSetup:
        """The space, the data and the recipe; a few children are tried on two images."""
        from ramet.ranking.rehearsal import rehearse
        from ramet.ranking.setup import SupernetSetup

        if self.data in TEXTS:  # it is in no list of data sets, and its name is not misspelt
            raise ConfigError(
                f"children are ranked on images or features, but {self.data} is a text: try ramet search."
            )
        data = build_data(self.data, self.data_options.given(seed=self.seed), self.device)
        self.recipe.metric_for(data.train.y)  # refuses one that is not for such targets
        space = build_space(self.space, self.sizes, data)
        setup = SupernetSetup(space, data, self.recipe, start=read_start(self.start))
        rehearse(setup, replace(self.plan, seed=self.seed))
        if self.plan.truth == "train" and self.truth_cache is not None:
            check_folder(Path(self.truth_cache))
        return setup

    def setting(self, setup: SupernetSetup) -> Json:
        """The space, the data and the recipe."""
        return setup.describe()

    def work(self, setup: SupernetSetup, session: Session) -> Json:
        """The diagnosis."""
        from ramet.ranking.diagnosis import Diagnosis

        run = session.run
        setup = replace(
            setup,
            folder=run.path / "checkpoints",
            identity=run.identity,
            seconds_between_checkpoints=session.seconds_between_checkpoints,
        )
        cache = Path(self.truth_cache) if self.truth_cache is not None else default_cache() / "truth"
        plan = replace(self.plan, seed=self.seed)
        return Diagnosis(setup, plan, run, session.executor, cache, needs_cache=self.truth_cache is not None)()


def rank(
    space: str | Space = "cells64",
    data: str | DataSet = "digits",
    *,
    start: str | Path | None = None,
    plan: Plan | None = None,
    recipe: Recipe | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    executor: Executor | int | None = None,
    device: str = "cpu",
    truth_cache: str | Path | None = None,
    **options: Any,
) -> RankResult:
    """Say how far a supernet's ranking of its children can be trusted, and what would make it better.

    ``space`` is a spec such as ``cells64:channels=8``, ``FILE.py:function``, or a space of one's own; ``data`` a name,
    a path, or a ``DataSet`` (``ramet.data.load`` makes one of arrays and torch data sets). ``start``
    is a file of trained weights that every network of the space begins with. ``plan`` says what is done,
    ``recipe`` how supernets and children alone are trained, and ``truth_cache`` the folder in which the truth is kept
    across runs, by default the user's cache.
    """
    job = RankJob(
        space=space,
        data=data,
        plan=plan or Plan(),
        recipe=recipe or RankRecipe(),
        seed=seed,
        device=device,
        start=None if start is None else str(start),
        truth_cache=None if truth_cache is None else str(Path(truth_cache).absolute()),
    )
    return cast("RankResult", run_verb(job, out, executor, options))


complete_words(rank)


def default_cache() -> Path:
    """The folder for what is kept across runs."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ramet"
    except RuntimeError:  # a user without a home
        raise ConfigError("XDG_CACHE_HOME or --truth-cache must name a folder where there is no home folder.") from None


def check_folder(folder: Path) -> None:
    """Refuse a truth cache that can never be a folder, or not be written, before hours of training end there."""
    for path in (folder, *folder.parents):
        if path.exists():
            if not path.is_dir():
                raise ConfigError(f"truth_cache must be a folder, but {path} is a file.")
            if not os.access(path, os.W_OK | os.X_OK):
                raise ConfigError(f"truth_cache must be writable, but {path} is not.")
            return
