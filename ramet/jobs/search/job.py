"""`ramet search`: what a search is asked, and how it is built and done."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ramet.errors import ConfigError
from ramet.fields import HIDDEN, option
from ramet.jobs.data_options import TextOptions
from ramet.jobs.job import Job, Session, complete_words, run_verb
from ramet.jobs.supernet import (
    TEXTS,
    SpaceSizes,
    anchored_start,
    are_words,
    build_data,
    build_space,
    build_text,
    read_start,
)
from ramet.registry.references import anchored_parts
from ramet.runs.encoding import Json
from ramet.searching.plan import SearchPlan
from ramet.training.recipe import Recipe
from ramet.training.registry import RECIPES

if TYPE_CHECKING:
    from ramet.data import DataSet
    from ramet.execution import Executor
    from ramet.jobs.search.result import SearchResult
    from ramet.ranking.setup import SupernetSetup
    from ramet.spaces import Space


@dataclass(frozen=True, kw_only=True)
class SearchRecipe(Recipe):
    """How shared weights, and the architectures found, are trained; the defaults suit a laptop.

    Args:
        epochs: not used: those of the search and of the final trainings are the plan's.
        average: of the architectures found; shared weights have none, because children are measured as they train.
        compile: run the architectures found compiled; shared weights change their path in each step.
    """

    epochs: int = option(Recipe.epochs, name=HIDDEN)
    batch_size: int = 64
    learning_rate: float = 0.05
    weight_decay: float = 0.0003
    clip_norm: float | None = 5.0
    average: str | None = None
    compile: bool = False


@dataclass(frozen=True, kw_only=True)
class SearchDataOptions(TextOptions):
    """The part of the data that a search takes.

    Args:
        validation_fraction: the share of the training images that rewards are taken on.
    """

    validation_fraction: float = 0.4


@dataclass(frozen=True, kw_only=True)
class SearchJob(Job["SupernetSetup"]):
    """Find the best architecture of a space, and train it alone.

    It searches in stages, within a budget of --minutes, --evaluations or --cost, or of 40 short trainings: scores of
    untrained networks order all architectures, some of the best are trained alone, a predictor chooses which are next,
    and the better ones go on for longer; the run measures how far the stages agree, spends the rest of the budget by
    it, and says so.

    With a --strategy such as enas, or with a guard, it searches on one set of shared weights: an epoch trains sampled
    children on them, with a guard that keeps them from disturbing each other, and then the strategy on their validation
    rewards. In either case the best candidates are trained alone in the end and tested once, beside what needs no
    search: a random architecture, the largest that fits, the best untrained. Writes a run directory with report.html
    and the network as network.pt2.

    For example:

    - on the embedded digits: `ramet search`
    - in stages, for ten minutes, at the depth that is wanted: `ramet search --minutes 10 --workers 2 --cells 2`
    - for your own images, within a limit: `ramet search --data class/folders --budget params=20k`
    - on shared weights that stay true: `ramet search --space darts --data cifar10 --guard projection`
    - a recurrent cell, for text: `ramet search --space recurrent --strategy nao --guard plasticity:60`
    - one large supernet on several processes: `torchrun --nproc-per-node 2 -m ramet search`

    Args:
        space: cells64, nasbench201, darts, enas-micro or recurrent, with options after a colon, or FILE.py:function for
            your own (a module with Choice inside, or ``ramet.spaces.elastic`` of a trained one).
        sizes: how large its networks are.
        start: trained weights that every network of the space begins with, what they lack being drawn: .safetensors, a
            state_dict that torch saved, or a folder of checkpoints such as RUN/checkpoints/search; of a supernet, or of
            your own module, trained with choices or without. A final network of another size begins anew.
        data: digits, mnist, cifar10, ... (`ramet data list`), an .npz file, a folder of class folders, a table as
            FILE.csv:target=COLUMN; for recurrent ptb, or a folder with train.txt, valid.txt and test.txt.
        data_options: which part of it.
        recipe: how shared weights and the architectures found are trained.
        plan: what is done.
    """

    kind = "search"
    gives = "ramet.jobs.search.result:SearchResult"
    sources = ("space", "data")
    can_share_ranks = True

    space: str | Space = option("cells64", kind=str)
    sizes: SpaceSizes = field(default_factory=SpaceSizes)
    start: str | None = None
    data: str | DataSet = option("digits", kind=str)
    data_options: TextOptions = option(factory=SearchDataOptions, kind=SearchDataOptions)
    recipe: Recipe = option(factory=SearchRecipe, kind=SearchRecipe)
    plan: SearchPlan = field(default_factory=SearchPlan)

    def anchored(self) -> SearchJob:
        """The files of the final recipe, too, are named from the root."""
        text = self.plan.final_recipe
        plan = self.plan if text is None else replace(self.plan, final_recipe=anchored_parts(text, RECIPES))
        return replace(super().anchored(), plan=plan, start=anchored_start(self.start))

    def idle(self) -> tuple[str, ...]:
        """Without stages, their options too: a default that changes there leaves every other search what it is."""
        return (*super().idle(), *(() if self.plan.is_staged else ("plan.staged",)))

    def code(self) -> list[str]:
        """Of the space, the data and the plan."""
        return [*super().code(), *self.plan.code()]

    def build(self, *, trust: bool = False) -> SupernetSetup:
        """The space, the data and the recipe; sharing, guard and budget are tried on them."""
        from ramet.data import Text
        from ramet.exporting.onnx import check_installed
        from ramet.jobs.search.stages import make_loop
        from ramet.ranking.rehearsal import children_of_every_option, try_children
        from ramet.ranking.setup import SupernetSetup
        from ramet.searching.costs import parse_limits
        from ramet.spaces import takes_text
        from ramet.training.recipes import final_settings
        from ramet.training.rehearsal import rehearse

        data: DataSet
        if self.data in TEXTS and not takes_text(self.space):  # before the files are asked for
            raise ConfigError(f"text is for spaces of language models, such as recurrent, but got {self.space}.")
        if are_words(self.space, self.data):
            data = build_text(self.data, self.data_options.words(), self.device)
        else:
            data = build_data(self.data, self.data_options.images(seed=self.seed), self.device)
        self.recipe.metric_for(data.train.y)  # refuses one that is not for such targets
        space = build_space(self.space, self.sizes, data)
        if space.takes_text != isinstance(data, Text):
            raise ConfigError(
                f"text is for spaces of language models and images for the others, got {self.space}, {self.data}."
            )
        setup = SupernetSetup(space, data, self.recipe, start=read_start(self.start))
        plan = replace(self.plan, seed=self.seed).settled(space)
        if plan.onnx or (plan.budget is not None and "onnx_latency" in parse_limits(plan.budget)):
            check_installed()
        plan.check(space)
        plan.final_network.check(space, tuple(data.train.x.shape[1:]))
        try_children(setup, num_samples=None if plan.is_staged or plan.is_relaxed else plan.error_samples)
        arch = space[children_of_every_option(space)[0]]
        if plan.final_recipe is not None:
            final = final_settings(self.recipe, plan.final_recipe)
            if final.metric != self.recipe.metric:
                raise ConfigError(
                    f"what was found is measured as it was searched for: the metric of a final recipe must be "
                    f"{self.recipe.metric}, but got {final.metric!r}."
                )
            rehearse(final, setup.new_supernet(self.seed), data.train.x, data.train.y, arch)
        if not plan.is_staged:
            make_loop(setup, plan)
        return setup

    def setting(self, setup: SupernetSetup) -> Json:
        """The space, the data and the recipe."""
        return setup.describe()

    def work(self, setup: SupernetSetup, session: Session) -> Json | None:
        """The search, by all ranks; then the final trainings, which the leader has done by the executor."""
        from ramet.jobs.search.stages import Stages

        setup = replace(setup, seconds_between_checkpoints=session.seconds_between_checkpoints)
        plan = replace(self.plan, seed=self.seed).settled(setup.space, is_shared=session.ranks.size > 1)
        return Stages(setup, plan, session)()


def search(
    space: str | Space = "cells64",
    data: str | DataSet = "digits",
    *,
    start: str | Path | None = None,
    plan: SearchPlan | None = None,
    recipe: Recipe | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    executor: Executor | int | None = None,
    device: str = "cpu",
    **options: Any,
) -> SearchResult:
    """Find the best architecture of a space, in stages or on one set of shared weights, and train it alone.

    ``space``, ``data`` and ``start`` are as in ``ramet.rank``, or a space of language models and a text. ``plan`` says
    what is done, ``recipe`` how the shared weights and the architectures found are trained; its epochs are the plan's.
    """
    job = SearchJob(
        space=space,
        data=data,
        plan=plan or SearchPlan(),
        recipe=recipe or SearchRecipe(),
        seed=seed,
        device=device,
        start=None if start is None else str(start),
    )
    return cast("SearchResult", run_verb(job, out, executor, options))


complete_words(search)
