"""A search in stages: what costs little looks at many, what tells much looks at few.

Scores of untrained networks order all architectures; of the best, which may share weights first, some are trained
alone, chosen by a predictor that learns from those before, and the better ones longer. Each stage is compared with the
dearer ones on the architectures that both have seen, and the rest of the budget goes where that agreement says.

All that is decided follows from the seed and from results that are in the run's records, seconds included: a search
that was killed reads them and decides the same again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch

from ramet.execution import Executor, WorkItem
from ramet.ranking.metrics import Floats
from ramet.ranking.predictor import Ridge, features_of
from ramet.ranking.setup import SupernetSetup
from ramet.runs import Run
from ramet.runs.encoding import Json
from ramet.searching.baselines import LARGEST, RANDOM, UNTRAINED
from ramet.searching.costs import ArchCosts
from ramet.searching.measures import other_metric
from ramet.searching.plan import SearchPlan
from ramet.searching.staged.accounts import told_stages
from ramet.searching.staged.agreement import (
    Agreement,
    agreement,
    best_first,
    blend,
    centred,
    first_of_each,
    spread,
    standardised,
)
from ramet.searching.staged.budget import FEWEST_STEPS, NUM_SHORT, SHARED_SHARE, SHORT_SHARE, SearchBudget
from ramet.searching.staged.scored_pool import SIZE, ScoredPool
from ramet.searching.staged.tasks import share_weights, steps_of_epoch, time_steps, train_rung
from ramet.searching.staged.work import RecordedWork
from ramet.seeding import derive_seed, torch_generator
from ramet.spaces import Arch

WAVE = 8
"""Architectures that are trained alone before it is decided anew which are next."""
KEPT = 3
"""Of so many architectures one is trained longer."""
MOST_RUNGS = 6
SIZE_WEIGHT = 0.75
"""What a spread of the logarithm of multiply-adds counts beside a spread of validation losses (decision 110)."""
CLEAR = 1.5
"""So many spreads of the short trainings' losses no size makes up for (decision 113)."""


class StagedSearch:
    """All of a staged search that a run's records do not hold yet.

    Args:
        setup: the space, the data and the recipe.
        plan: what is done.
        run: where results go.
        executor: where scores are taken and networks trained.
        say: called with a line as stages begin and end.
    """

    def __init__(
        self,
        setup: SupernetSetup,
        plan: SearchPlan,
        run: Run,
        executor: Executor,
        *,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.setup, self.plan, self.options = setup, plan, plan.staged
        self._say = say
        self._seed = derive_seed(plan.seed, "staged")
        shape = setup.data.train.x.shape[1:]
        self.costs = ArchCosts(setup.space, shape, setup.data.num_outputs)
        self._work = RecordedWork(setup, run, executor)
        workers = int(self._work.decide("staged/workers", lambda: {"workers": executor.num_workers})["workers"])
        self.budget = SearchBudget(self.options, workers, steps_of_epoch(setup), self._multiply_adds)
        self._scored = ScoredPool(setup, plan, self.costs, self.budget, self._work, self._seed)
        self.listed: list[int] = []  # places in the pool, the best of the scores first
        self.metric = other_metric(setup.settings, setup.data.train.y)
        # What orders architectures is minus the validation loss, which has no ties, or the score of another metric.
        self.shared: dict[int, float] = {}  # that on shared weights, by place
        self.rungs: list[dict[int, float]] = []  # that after each length of training, by place
        self.errors: dict[int, float] = {}  # the validation error, or the metric, after the longest training, by place
        self.first_errors: dict[int, float] = {}  # the same after the short training
        self.baselines: dict[str, int] = {}  # what needs no search, by name
        self._num_affordable = 0  # short trainings in the share of that stage, as far as is known beforehand
        self._reports: list[Json] = []

    @property
    def pool(self) -> list[Arch]:
        """All architectures that the search looks at; it knows them by their places here."""
        return self._scored.archs

    @property
    def free(self) -> dict[str, Floats]:
        """Each score of the pool's untrained networks, higher being better; nothing without the stage."""
        return self._scored.scores

    def run(self) -> None:
        """All stages."""
        self._say("scoring architectures without training")
        self._scored.fill()
        self._list_best()
        self._measure_speed()
        if self.options.has("shared") and len(self.listed) > 2:
            self._share_weights()
        if self.options.has("short"):
            self._scored.count_sizes([*self.listed, *self.baselines.values()])
            self._train_short()
            self._train_longer()

    def _list_best(self) -> None:
        """The short list: the best of the scores, or the first of the pool where there are none."""
        order = best_first(self._scored.order()) if self.free else list(range(len(self.pool)))
        self.listed = order[: self.options.listed]
        generator = torch_generator(self._seed, "baselines")
        self.baselines = {RANDOM: int(torch.randint(len(self.pool), (), generator=generator))}
        if self.free:
            largest = best_first(self.free[SIZE])[0] if SIZE in self.free else self.listed[0]
            self.baselines |= {LARGEST: largest, UNTRAINED: self.listed[0]}
            about = f"{len(self.pool)} distinct of {self.setup.space.num_archs} architectures"
            about += f", by {' and '.join(self._scored.ordering())}"
            self._report("scores", about, len(self.pool), len(self.pool) - len(self.listed))

    # Shared weights.

    def _measure_speed(self) -> None:
        """How long a step takes, where seconds are what is spent; and so how long a short training is."""
        typical = self._typical
        seconds = 0.0
        if self.budget.unit == "seconds":
            arguments: Json = {"arch": list(typical), "seed": self._seed, "num_steps": 6}
            task = WorkItem("staged/speed", time_steps, arguments)
            (result,) = self._work.results([task], self.budget, "scores")
            seconds = result["seconds"] / result["steps"]
            plan = self.plan
            steps = plan.num_final * plan.final_seeds * plan.final_epochs * self.budget.steps_per_epoch
            self.budget.reserved = min(steps * seconds, self.budget.amount / 2)
        self.budget.learn_speed(seconds, typical)

    @property
    def _typical(self) -> Arch:
        return self.pool[self.listed[len(self.listed) // 2]]

    def _share_weights(self) -> None:
        """A supernet of the listed architectures alone, at their true depth, ranked by validation loss."""
        budget, typical = self.budget, self._typical
        num_steps = max(FEWEST_STEPS, budget.steps_for(SHARED_SHARE * (budget.amount - budget.reserved), typical))
        # Weights that an architecture hardly had a turn on say nothing of it.
        self.listed = self.listed[: max(NUM_SHORT, num_steps // 4)]
        self._say(f"{len(self.listed)} architectures share weights for {num_steps} steps")
        archs = [list(self.pool[place]) for place in self.listed]
        task = WorkItem("staged/shared", share_weights, {"archs": archs, "seed": self._seed, "num_steps": num_steps})
        (result,) = self._work.results([task], self.budget, "shared", [typical])
        values = result["losses"] if self.metric is None else result.get("errors", [None] * len(self.listed))
        known = [(place, value) for place, value in zip(self.listed, values, strict=True) if value is not None]
        self.shared = {place: self._merit(float(value)) for place, value in known}
        name = "loss" if self.metric is None else self.metric.name
        self._report("shared", f"{num_steps} steps, by validation {name}", len(self.listed), 0)

    # Trainings alone.

    def _train_short(self) -> None:
        """Short trainings, a wave at a time, chosen by what the waves before it say of the cheaper stages."""
        budget = self.budget
        share = SHORT_SHARE * (budget.amount - budget.reserved)
        self.rungs.append({})
        self._num_affordable = int(share / max(budget.price(budget.short_steps, self._typical), 1e-12))
        first = list(dict.fromkeys(self.baselines.values()))
        while True:
            room = share - budget.spent.get("short", 0.0)
            if self.rungs[0]:
                room = min(room, budget.left)
            affordable = int(room / max(budget.price(budget.short_steps, self._typical), 1e-12))
            count = min(WAVE, affordable if self.rungs[0] else max(affordable, 2))
            wave = list(dict.fromkeys([*first, *self._next(count)]))[:count]
            first = []
            if not wave:
                break
            self._train(0, wave)
        self._report("short", f"{budget.short_steps} steps each", len(self.rungs[0]), 0)

    def _next(self, count: int) -> list[int]:
        """Which of the list are trained next: first those that each cheaper stage prefers, then by their agreement."""
        taken, signals = list(self.rungs[0]), self._signals()
        if count < 1 or not signals:
            return [place for place in self.listed if place not in taken][: max(count, 0)]
        num_listed = len(set(taken) & set(self.listed))
        if self.options.has("predictor") and num_listed < WAVE and self._num_affordable >= 2 * WAVE:
            return self._spread(taken, signals, count)
        if not any(place in taken for place in self.listed if place not in self.baselines.values()):
            orders = [[self.listed[k] for k in best_first(values)] for values in signals.values()]
            return first_of_each(orders, taken, count)
        weights = {agreed.stage: agreed.believed for agreed in self._cheap_agreements()}
        mixed = blend(signals, {name: weights[name] for name in signals})
        if weights.get("predictor", 0.0) >= max(weights.values()):  # it knows of all the others
            mixed = self._in_spreads(signals["predictor"]) + SIZE_WEIGHT * self._sizes(self.listed)
        order = [self.listed[k] for k in best_first(mixed)]
        return [place for place in order if place not in taken][:count]

    def _spread(self, taken: Sequence[int], signals: Mapping[str, Floats], count: int) -> list[int]:
        """Of each signal's order some in even distances: a predictor learns nothing from those that are alike."""
        orders = []
        for values in signals.values():
            order = [self.listed[k] for k in best_first(values) if self.listed[k] not in taken]
            orders.append([order[(2 * k + 1) * len(order) // (2 * count)] for k in range(min(count, len(order)))])
        return first_of_each(orders, taken, count)

    def _signals(self) -> dict[str, Floats]:
        """What the cheaper stages say of the listed architectures, higher being better."""
        found: dict[str, Floats] = {}
        if self.free:
            found["scores"] = self._scored.order()[self.listed]
        if self.shared:
            worst = min(self.shared.values()) - 1.0
            found["shared"] = np.array([self.shared.get(place, worst) for place in self.listed])
        if (predicted := self._predicted(self.listed)) is not None:
            found["predictor"] = predicted[0]
        return found

    def _predicted(self, places: Sequence[int]) -> tuple[Floats, Floats] | None:
        """What the predictor says of some architectures, and of those it was fitted to when it leaves each out."""
        trained = [place for place in self.rungs[0] if place in set(self.listed)] if self.rungs else []
        if not self.options.has("predictor") or len(trained) < WAVE // 2:
            return None
        field = list(dict.fromkeys([*self.listed, *self.baselines.values()]))
        signals = [values[field] for values in self.free.values()]
        if self.shared:
            worst = min(self.shared.values()) - 1.0
            signals.append(np.array([self.shared.get(place, worst) for place in field]))
        features = features_of([self.pool[place] for place in field], self.setup.space.num_options, signals)
        rows = {place: row for row, place in enumerate(field)}
        model = Ridge(features[[rows[place] for place in trained]], np.array([self.rungs[0][p] for p in trained]))
        return model(features[[rows[place] for place in places]]), model.left_out

    def _cheap_agreements(self) -> list[Agreement]:
        """How far each cheaper stage orders the architectures that were trained as their validation data do."""
        trained = [place for place in self.listed if place in self.rungs[0]]
        dear = [self.rungs[0][place] for place in trained]
        rows = {place: row for row, place in enumerate(self.listed)}
        found = []
        for name, values in self._signals().items():
            if name != "predictor":
                found.append(agreement(name, [float(values[rows[place]]) for place in trained], dear))
            elif (predicted := self._predicted(trained)) is not None:
                fitted = [place for place in self.rungs[0] if place in rows]
                left_out = dict(zip(fitted, predicted[1].tolist(), strict=True))
                found.append(agreement(name, [left_out[place] for place in trained], dear))
        return found

    def _train_longer(self) -> None:
        """Longer trainings of the better ones; new short ones, too, as far as the short ones are to be trusted."""
        self._promote(1, max(2, math.ceil(len(self.rungs[0]) / KEPT)), share=0.6)
        if len(self.rungs) > 1:
            agreed = self._rung_agreement(1)
            share = 0.5 * agreed.believed
            wanted = int(share * self.budget.left / self.budget.price(self.budget.short_steps, self._typical))
            fresh = self._next(min(wanted, 2 * WAVE)) if wanted >= 3 else []
            if fresh:
                self._train(0, fresh)
                best = self._verdict(0)[: len(self.rungs[1])]
                better = [place for place in best if place not in self.rungs[1]]
                self._train(1, self._affordable(1, better, share=0.4))
            about = f"{2 * self.budget.short_steps} steps each, and {len(fresh)} more short trainings"
            self._report("halving", about, len(self.rungs[1]), 0)
        rung = 2
        while self.options.has("finalists") and rung < MOST_RUNGS and len(self.rungs) == rung:
            count = max(2, math.ceil(len(self.rungs[rung - 1]) / 2))
            self._promote(rung, count, share=1.0)
            rung += 1
        self._use_rest()
        if len(self.rungs) > 2:
            steps = self.budget.short_steps * 2 ** (len(self.rungs) - 1)
            self._report("finalists", f"up to {steps} steps each", len(self.rungs[2]), 0)

    def _promote(self, rung: int, count: int, *, share: float) -> None:
        """Train the best further, as many as a share of what is left pays, and at least two."""
        chosen = self._affordable(rung, self._verdict()[:count], share=share)
        if len(chosen) >= 2:
            self._train(rung, chosen)

    def _use_rest(self) -> None:
        """Where no longer training of two is paid any more, more architectures get the longest that is."""
        for rung in range(len(self.rungs) - 1, 0, -1):
            if rung < 2 or self.options.has("finalists"):
                waiting = [place for place in self._verdict(rung - 1) if place not in self.rungs[rung]]
                self._train(rung, self._affordable(rung, waiting, share=1.0))

    def _affordable(self, rung: int, places: list[int], *, share: float) -> list[int]:
        steps = self._lengths(rung)[-1]
        room = share * self.budget.left
        chosen: list[int] = []
        for place in places:
            room -= self.budget.price(steps, self.pool[place])
            if room < 0:
                break
            chosen.append(place)
        return chosen

    def _lengths(self, rung: int) -> list[int]:
        """The steps of each part of a training: each rung doubles what the ones before it have had."""
        short = self.budget.short_steps
        return [short, *(short * 2 ** (number - 1) for number in range(1, rung + 1))]

    def _train(self, rung: int, places: Sequence[int]) -> None:
        """Train architectures alone up to a rung, and keep how they fare; one that diverges is the worst."""
        if not places:
            return
        while len(self.rungs) <= rung:
            self.rungs.append({})
        lengths, stage = self._lengths(rung), ("short" if rung == 0 else "halving" if rung == 1 else "finalists")
        tasks = [
            WorkItem(
                f"staged/alone/{rung}/{self.setup.space.index(self.pool[place])}",
                train_rung,
                {"arch": list(self.pool[place]), "seed": self._seed, "lengths": lengths},
            )
            for place in places
        ]
        results = self._work.results(tasks, self.budget, stage, [self.pool[place] for place in places])
        for place, result in zip(places, results, strict=True):
            value = result["loss" if self.metric is None else "error"]
            self.rungs[rung][place] = -math.inf if value is None else self._merit(float(value))
            self.errors[place] = math.nan if result["error"] is None else float(result["error"])
            self.first_errors.setdefault(place, self.errors[place])
        worst = min((value for value in self.rungs[rung].values() if value > -math.inf), default=0.0)
        self.rungs[rung] = {p: max(value, worst - 1.0) for p, value in self.rungs[rung].items()}
        self.budget.observe_speed([result for result in results if result["loss"] is not None])

    def _merit(self, value: float) -> float:
        """What orders architectures, higher being better, of a loss or of a value of the metric."""
        return -value if self.metric is None else self.metric.score(value)

    def _in_spreads(self, merits: Sequence[float] | Floats) -> Floats:
        """Merits around their median, in units of how far those of the short trainings are spread."""
        return centred(merits, spread(list(self.rungs[0].values())))

    def _sizes(self, places: Sequence[int]) -> Floats:
        """The logarithm of multiply-adds, likewise."""
        logarithms = [self._size(place) for place in places]
        return centred(logarithms, spread([self._size(place) for place in self.rungs[0]]))

    def _size(self, place: int) -> float:
        return math.log(max(self.costs("flops", self.pool[place]), 1.0))

    def _rung_agreement(self, rung: int) -> Agreement:
        """How far the trainings of a rung agree with those twice as long."""
        both = [place for place in self.rungs[rung] if place in self.rungs[rung - 1]]
        return agreement("short", [self.rungs[rung - 1][p] for p in both], [self.rungs[rung][p] for p in both])

    def _verdict(self, reached: int | None = None) -> list[int]:
        """All that reached a rung, the last if none is named, the best first: by losses, sizes and the predictor.

        A loss counts in proportion to the length of its training. Of two with the same loss the larger one comes first:
        it has more to gain from a training that is longer than any here; but one that is clearly behind the best by its
        longest training comes after all others, whatever its size. The predictor, which knows what similar
        architectures reached, counts by its agreement with the trainings that it left out.
        """
        rungs = self.rungs if reached is None else self.rungs[: reached + 1]
        places = list(rungs[-1])
        weights = [2.0 ** (number + 1 - len(rungs)) for number in range(len(rungs))]
        total = np.zeros(len(places))
        for weight, rung in zip(weights, rungs, strict=True):
            total += weight * self._in_spreads([rung[place] for place in places])
        believed = {agreed.stage: agreed.believed for agreed in self._cheap_agreements()}
        if "predictor" in believed and (predicted := self._predicted(places)) is not None:
            weights.append(believed["predictor"])
            total += weights[-1] * standardised(predicted[0])
        total += SIZE_WEIGHT * sum(weights) * self._sizes(places)  # the predictor knows of short trainings only
        longest = np.array([rungs[-1][place] for place in places])
        is_behind = longest < longest.max() - CLEAR * spread(list(self.rungs[0].values()))
        return [places[k] for k in best_first(total - is_behind * (np.ptp(total) + 1.0))]

    # Results.

    def order(self) -> list[int]:
        """All architectures that the search ends with, as places in the pool, the best first."""
        if not self.rungs or not self.rungs[0]:
            signals = self._signals()
            if not signals:
                return list(self.listed)
            weights = {name: Agreement(name, None, 0).believed for name in signals}
            return [self.listed[k] for k in best_first(blend(signals, weights))]
        ordered = self._verdict()
        for rung in reversed(self.rungs):
            ordered += sorted((place for place in rung if place not in ordered), key=lambda place: -rung[place])
        return ordered

    def baseline_entries(self) -> list[Json]:
        """What needs no search: each baseline's architecture, and how it fares after a short training."""
        entries: list[Json] = []
        for name, place in self.baselines.items():
            arch = self.pool[place]
            short = self.rungs[0].get(place) if self.rungs else None
            entries.append(
                {
                    "name": name,
                    "arch": list(arch),
                    "parameters": int(self.costs("params", arch)),
                    "flops": int(self.costs("flops", arch)),
                    "loss": None if short is None else -short,
                    "error": self.first_errors.get(place),
                }
            )
        return entries

    def steps_of(self, place: int) -> int | None:
        """The mini-batches of an architecture's longest training; none if it had none."""
        reached = [rung for rung, known in enumerate(self.rungs) if place in known]
        return sum(self._lengths(reached[-1])) if reached else None

    def short_errors(self) -> list[tuple[Arch, float]]:
        """The validation error of every architecture after its short training."""
        return [(self.pool[place], error) for place, error in self.first_errors.items()]

    def stages(self) -> list[Json]:
        """What each stage cost, how far it agrees with the one after it, and how many it dropped."""
        agreed = {entry.stage: entry for entry in self._cheap_agreements()} if self.rungs and self.rungs[0] else {}
        if len(self.rungs) > 1:
            agreed["short"] = self._rung_agreement(1)
        if len(self.rungs) > 2:
            agreed["halving"] = self._rung_agreement(2)
        seen = [set(rung) for rung in self.rungs]
        return told_stages(self._reports, self.budget.spent, agreed, seen, set(self.listed))

    def _report(self, stage: str, about: str, seen: int, dropped: int) -> None:
        self._reports.append({"stage": stage, "about": about, "seen": seen, "dropped": dropped})
        cost, left = self.budget.spent.get(stage, 0.0), self.budget.left
        self._say(f"{stage}: {about}; {self.budget.text(cost)} spent, {self.budget.text(left)} left")

    # Work.

    def _multiply_adds(self, arch: Arch) -> float:
        """Of one training step: a forward pass and twice as much for the gradients, for each sample of a batch."""
        return 3.0 * self.setup.settings.batch_size * self.costs("flops", arch)
