"""The settings of the reproductions of *Overcoming multi-model forgetting*, section 4.1, and the guards compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ramet.data import DataSet, Split, describe
from ramet.guards import (
    ElasticConsolidation,
    Guard,
    KroneckerPlasticity,
    NoGuard,
    OrthogonalProjection,
    WeightPlasticity,
    chain,
)
from ramet_papers.experiment import Preset
from ramet_papers.multi_model_forgetting.two_models import FisherKind, TwoModelTraining
from ramet_papers.workspace import Workspace


@dataclass(frozen=True)
class ComparedGuard:
    """One way to guard A."""

    make: Callable[[float], Guard]  # the guard of a strength
    # What the strength is chosen from, the weakest first; the chain varies that of plasticity alone. For a projection
    # it is lambda, which closes the more, the smaller it is.
    strengths: tuple[float, ...]
    fisher: FisherKind = "per-sample"  # where the importance of weights comes from


# On two models, elastic consolidation is the explicit penalty of plasticity; what differs is whose labels the Fisher
# information takes. The explicit penalties end where they would diverge, at step size x strength x Fisher = 2. The weak
# ones are for an A that has hardly begun, where what holds A keeps B from learning.
METHODS: Mapping[str, ComparedGuard] = {
    "none": ComparedGuard(lambda strength: NoGuard(), (0.0,)),
    "plasticity": ComparedGuard(WeightPlasticity, (1.0, 10.0, 30.0, 100.0, 300.0, 1e3, 1e4, 1e5, 1e6)),
    "plasticity, explicit": ComparedGuard(
        lambda alpha: WeightPlasticity(alpha, form="explicit"), (3.0, 10.0, 30.0, 100.0)
    ),
    "plasticity, mini-batch Fisher": ComparedGuard(
        WeightPlasticity, (1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8), fisher="mini-batch"
    ),
    "Kronecker plasticity": ComparedGuard(KroneckerPlasticity, (1.0, 10.0, 1e2, 1e3, 1e4, 1e5)),
    "elastic": ComparedGuard(ElasticConsolidation, (3.0, 10.0, 30.0, 100.0), fisher="sampled-labels"),
    "projection, mean inputs": ComparedGuard(
        lambda size: OrthogonalProjection(size, inputs="mean"), (10.0, 1.0, 0.1, 0.01)
    ),
    "projection, all inputs": ComparedGuard(
        lambda size: OrthogonalProjection(size, inputs="all"), (100.0, 10.0, 1.0, 0.1)
    ),
    "plasticity + projection": ComparedGuard(
        lambda alpha: chain(WeightPlasticity(alpha), OrthogonalProjection(1.0, inputs="mean")), (1e3, 1e4, 1e5, 1e6)
    ),
}


@dataclass(frozen=True)
class TwoModelSetup:
    """What every training of a figure has in common: sent to each worker once."""

    data: DataSet  # the splits, on the device
    budget: TwoModelTraining  # how both models are trained

    @property
    def kept(self) -> Split:
        """The validation images from which guards learn what matters to A, as in the paper."""
        return _rows(self.data.validation, slice(None, self.budget.remembered))

    @property
    def choosing(self) -> Split:
        """The other validation images: on these A is stopped, and strengths are chosen."""
        return _rows(self.data.validation, slice(self.budget.remembered, None))


def _rows(split: Split, rows: slice) -> Split:
    return Split(split.x[rows], split.y[rows])


@dataclass(frozen=True, kw_only=True)
class ForgettingPreset(Preset):
    """The numbers of both figures."""

    sources: Mapping[str, Mapping[str, Any]]  # data sets and their options; the first that is there is used
    budget: TwoModelTraining  # how both models are trained
    seeds: int = 5  # seeds that are reported
    tuning_seeds: int = 2  # other seeds, on which the strength of each guard is chosen
    convergences: tuple[float, ...] = (1.0, 0.55, 0.43, 0.38)  # how far A is trained, as a share of its best accuracy

    def setup(self, workspace: Workspace) -> TwoModelSetup:
        """The data and the budget."""
        there = {entry.name for entry in describe(workspace.data_dir) if entry.present}
        # Without any of them, reading the first says where it was looked for.
        name = next((source for source in self.sources if source in there), next(iter(self.sources)))
        return TwoModelSetup(workspace.load(name, self.sources[name]), self.budget)

    def to_json(self, setup: TwoModelSetup, seed: int) -> dict[str, Any]:
        """All that the figures depend on: a run of other values is no answer."""
        return {
            "seed": seed,
            "data": setup.data.name,
            "data_fingerprint": setup.data.fingerprint(),
            "budget": asdict(setup.budget),
            "seeds": self.seeds,
            "tuning_seeds": self.tuning_seeds,
            "convergences": list(self.convergences),
            "strengths": {name: list(method.strengths) for name, method in METHODS.items()},
        }

    def setting(self, setup: TwoModelSetup) -> str:
        """The setting in a sentence, for the notes of claims."""
        data, budget = setup.data, setup.budget
        height, width = data.image_size
        return (
            f"{data.name} at {height}x{width}, {len(data.train):,} training and {len(data.test):,} test images, "
            f"{budget.width} units a layer, SGD {budget.learning_rate:g} with batches of {budget.batch_size}, "
            f"{budget.first_steps:,} mini-batches for A and {budget.second_steps:,} for B, "
            f"A measured after every {budget.measure_every}."
        )


PAPER = ForgettingPreset(
    name="paper",
    sources={"mnist": {"validation_fraction": 1 / 6}},
    # The paper names neither the width, nor the learning rate, nor how long B is trained.
    budget=TwoModelTraining(width=200, learning_rate=0.1, first_steps=7820, second_steps=1564, measure_every=10),
    tuning_seeds=3,
)

SMALL = ForgettingPreset(
    name="small",
    sources={
        "mnist": {"train_size": 18000, "eval_size": 2200},  # 200 to remember A by, 2,000 to choose strengths on
        "digits": {"validation_fraction": 0.4},
    },
    budget=TwoModelTraining(width=100, learning_rate=0.2, first_steps=1200, second_steps=200, measure_every=4),
)

PRESETS: dict[str, ForgettingPreset] = {"small": SMALL, "paper": PAPER}
