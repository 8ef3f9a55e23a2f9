"""The five parts of the tour: the jobs themselves with small plans, each a run of its own inside the tour's.

A part that was interrupted goes on where its run is, and one whose figures the tour has recorded is not begun again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar, cast

from ramet.continual.plan import LearnPlan
from ramet.continual.recipe import LearnRecipe
from ramet.execution import WorkItem
from ramet.growth.plan import GrowPlan
from ramet.growth.recipe import GrowRecipe
from ramet.jobs.data_options import DataOptions, NumericOptions, StreamOptions, TargetOptions
from ramet.jobs.grow.job import GrowJob, NetworkOptions
from ramet.jobs.grow.result import GrowResult
from ramet.jobs.job import Job, Session
from ramet.jobs.learn.job import LearnJob
from ramet.jobs.learn.result import LearnResult, MethodOutcome
from ramet.jobs.rank.choosing import ranking_name
from ramet.jobs.rank.job import RankJob, RankRecipe
from ramet.jobs.rank.result import RankResult
from ramet.jobs.runner import start
from ramet.jobs.search.job import SearchDataOptions, SearchJob
from ramet.jobs.search.result import SearchResult
from ramet.jobs.tour.figures import (
    FoundFigures,
    GrownFigures,
    GrownPair,
    GuardedFigures,
    JudgedFigures,
    LearnedBy,
    LearnedFigures,
    LoopFigures,
    PlainFigures,
    RankedBy,
    TrueChild,
)
from ramet.jobs.tour.looping import GUARD, guarded_pair
from ramet.jobs.tour.sizes import TourSizes
from ramet.ranking.plan import Plan
from ramet.ranking.verdict import TRIVIAL
from ramet.searching.baselines import LARGEST
from ramet.searching.plan import SearchPlan
from ramet.searching.staged.options import StagedOptions

SPACE = "ramet.jobs.tour.space:network"
STREAM = "permuted-digits:5"
DEPTH = 4
"""Convolutions of the network that grows."""

Options = TypeVar("Options", bound=DataOptions)


@dataclass(frozen=True)
class TourParts:
    """The parts of a tour, each as a function of what it needs.

    Args:
        sizes: how much each does.
        seed: what all follow from.
        device: where tensors are.
        num_children: the architectures of the space.
        session: where they are done.
    """

    sizes: TourSizes
    seed: int
    device: str
    num_children: int
    session: Session

    def judged(self) -> tuple[JudgedFigures, RankResult]:
        """`ramet rank`: a supernet's rankings beside the truth, and beside counting."""
        sizes = self.sizes
        job = RankJob(
            space=SPACE,
            data_options=self._data(NumericOptions),
            recipe=RankRecipe(epochs=sizes.truth_epochs),
            plan=Plan(
                instances=sizes.instances,
                supernet_epochs=sizes.supernet_epochs,
                children=sizes.children,
                last_epochs=min(3, sizes.supernet_epochs),
                last_steps=8,
                truth_seeds=sizes.truth_seeds,
                fine_tune_steps=0,
            ),
            seed=self.seed,
            device=self.device,
            truth_cache=str((self.session.run.path / "truth").absolute()),
        )
        result = cast("RankResult", self._do(job, "1-rank"))
        return judged_figures(result), result

    def found(self, truth: RankResult) -> FoundFigures:
        """`ramet search`: the best child of the same space, found in stages."""
        sizes = self.sizes
        job = SearchJob(
            space=SPACE,
            data_options=replace(self._data(SearchDataOptions), validation_fraction=DataOptions.validation_fraction),
            plan=SearchPlan(
                staged=StagedOptions(evaluations=sizes.evaluations, short_epochs=sizes.short_epochs),
                num_candidates=5,
                num_final=1,
                final_epochs=sizes.truth_epochs,
                exports=False,
            ),
            seed=self.seed,
            device=self.device,
        )
        result = cast("SearchResult", self._do(job, "2-search"))
        short = sizes.short_epochs * sum(stage.cost for stage in result.stages)
        return found_figures(
            result, truth, work=(short + sizes.truth_epochs) / (self.num_children * sizes.truth_epochs)
        )

    def grown(self) -> GrownFigures:
        """`ramet grow`: a network that grows, beside a plain one of its size and itself as it was, by several seeds."""
        return GrownFigures(pairs=[self._pair(self.seed + number) for number in range(self.sizes.growths)])

    def _pair(self, seed: int) -> GrownPair:
        sizes = self.sizes
        job = GrowJob(
            network="vgg",
            sizes=NetworkOptions(width=sizes.start_width, depth=DEPTH),
            data_options=self._data(TargetOptions),
            recipe=GrowRecipe(epochs=sizes.grow_epochs),
            plan=GrowPlan(budget=f"params={sizes.grown_parameters}", against=("plain", "start")),
            seed=seed,
            device=self.device,
        )
        result = cast("GrowResult", self._do(job, f"3-grow/seed-{seed}"))
        method = result.methods[result.best]
        beside = {
            name: PlainFigures(parameters=arm.params, steps=arm.num_steps, validation=arm.validation, test=arm.test)
            for name, arm in result.against.items()
        }
        return GrownPair(
            seed=seed,
            parameters=[step.sizes.params for step in method.steps],
            validation=[step.score for step in method.steps],
            test=method.test,
            plain=beside["plain"],
            start=beside["start"],
        )

    def learned(self) -> LearnedFigures:
        """`ramet learn`: five tasks in one network that grows, beside naive training and networks apart."""
        sizes = self.sizes
        job = LearnJob(
            stream=STREAM,
            data_options=self._data(StreamOptions),
            plan=LearnPlan(methods="naive,firefly", seeds=sizes.streams, controls="none", exports=False),
            recipe=LearnRecipe(epochs=sizes.task_epochs),
            seed=self.seed,
            device=self.device,
        )
        result = cast("LearnResult", self._do(job, "4-learn"))
        growing, naive, apart = (learned_by(name, result.methods[name]) for name in ("firefly", "naive", "individual"))
        return LearnedFigures(tasks=result.tasks, streams=len(result.seeds), growing=growing, naive=naive, apart=apart)

    def guarded(self) -> GuardedFigures:
        """A plain loop with a guard and without, with several seeds."""
        run, sizes = self.session.run, self.sizes
        items = [
            WorkItem(
                f"loop/{seed}", guarded_pair, {"seed": seed, "epochs": sizes.loop_epochs, "size": sizes.train_size}
            )
            for seed in range(self.seed, self.seed + sizes.loops)
        ]
        missing = [item for item in items if item.key not in run.records]
        options: dict[str, Any] = {"label": "plain loops", "on_failure": run.record_failure}
        for item, curves in self.session.executor.run(missing, **options):
            run.records.append(item.key, **curves)
        pairs = [run.records[item.key] for item in items]
        loops = {name: [LoopFigures(**pair[name]) for pair in pairs] for name in ("guarded", "free")}
        return GuardedFigures(guard=GUARD, epochs=sizes.loop_epochs, guarded=loops["guarded"], free=loops["free"])

    def _data(self, kind: type[Options]) -> Options:
        """Which part of the digits: the same for every job, also where its seeds differ."""
        return kind(train_size=self.sizes.train_size)

    def _do(self, job: Job[Any], name: str) -> Any:
        """Do a job, or go on with it, in a run directory inside the tour's."""
        session = self.session
        place: Path = session.run.path / "parts" / name
        return start(
            job,
            place,
            session.executor,
            go_on=True,
            seconds_between_checkpoints=session.seconds_between_checkpoints,
            notify=session.notify,
        )


def judged_figures(result: RankResult) -> JudgedFigures:
    """What the first part takes from a diagnosis."""
    assert result.truth is not None
    rankings = [
        RankedBy(
            name=_words(name, result),
            value=entry.tau.value,
            low=entry.tau.low,
            high=entry.tau.high,
            trivial=name in TRIVIAL,
        )
        for name, entry in result.correlation.items()
    ]
    shared = [name for name in result.correlation if name not in TRIVIAL]
    best = max(shared, key=lambda name: result.correlation[name].tau.value)
    trivial = max(TRIVIAL, key=lambda name: result.correlation[name].tau.value)
    chosen = result.correlation[best]
    gain = chosen.gain_over_parameters if trivial == "parameters" else chosen.gain_over_flops
    assert gain is not None
    return JudgedFigures(
        children=len(result.children),
        reliability=result.truth.reliability_of_halves,
        rankings=rankings,
        last=_words("last", result),
        best=_words(best, result),
        trivial=_words(trivial, result),
        gain=gain.value,
        gain_low=gain.low,
        gain_high=gain.high,
    )


def _words(ranking: str, result: RankResult) -> str:
    """What a ranking is called in the tour; one by size that puts the smallest first says so."""
    return ranking_name(ranking, result).removeprefix("shared weights, ")


def found_figures(result: SearchResult, truth: RankResult, work: float) -> FoundFigures:
    """What was found in the light of the truth, which the search has not seen."""
    assert truth.truth is not None and truth.sizes is not None
    children = [
        TrueChild(name=name, parameters=parameters, flops=flops, truth=mean)
        for name, parameters, flops, mean in zip(
            truth.children, truth.sizes.parameters, truth.sizes.flops, truth.truth.mean, strict=True
        )
    ]
    largest = next(entry.architecture for entry in result.baselines if entry.name == LARGEST)
    noise = truth.truth.noise or 0.0
    return FoundFigures(
        children=children,
        found=result.best,
        largest=largest,
        noise=2 * noise * math.sqrt(2 / truth.truth.seeds),
        work=work,
        stages=[f"{stage.stage}: {stage.about}" for stage in result.stages],
    )


def learned_by(name: str, outcome: MethodOutcome) -> LearnedBy:
    """What the fourth part takes from a method's outcome."""
    rows = [[value for value in row[: place + 1]] for place, row in enumerate(outcome.matrix)]
    known = [[value for value in row if value is not None] for row in rows]
    return LearnedBy(
        method=name,
        kept=[fmean(row) for row in known],
        first=[row[0] for row in known],
        forgetting=outcome.figures.forgetting.known,
        parameters=outcome.figures.parameters.known,
    )
