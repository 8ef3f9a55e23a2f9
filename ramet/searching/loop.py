"""The search: train sampled children with a guard, train the strategy on their rewards, derive.

One loop for *Overcoming multi-model forgetting*, section 3.2, and *Disturbance-immune weight sharing*, Algorithm 1.
Each unit of work (a child's turn, a second measurement, a step of the strategy) is a function of the seed, its place
and the state before it, and the state can be saved after each: a search that was killed ends as if it had never
stopped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial

import torch
from torch import Tensor

from ramet.execution.ranks import ALONE, Ranks
from ramet.guards import Guard, NoGuard, make_guard
from ramet.params import named_params
from ramet.ranking.setup import SupernetSetup
from ramet.runs import Checkpoints
from ramet.runs.encoding import Json
from ramet.searching.costs import ArchCosts, Budgeted, parse_limits
from ramet.searching.distributed import RankedTraining
from ramet.searching.measures import (
    Score,
    batch_statistics,
    measure,
    measure_as_it_is,
    measure_each,
    measuring,
    other_metric,
)
from ramet.searching.plan import SearchPlan
from ramet.searching.rewards import Rewards
from ramet.searching.shared import share
from ramet.searching.strategies import RandomSearch, Strategy
from ramet.searching.undoing import Undo
from ramet.seeding import derive_seed, seeded_globally
from ramet.spaces import Arch, training_loss
from ramet.training import Batches, SavedPart, Saver, Values, make_optimizer, read_ahead, set_training
from ramet.training.losses import cross_entropy
from ramet.training.optimizers import group_rates

NUM_CALIBRATION_BATCHES = 4
MAX_KEPT_LOGITS = 20_000
"""Values of a child's logits that are kept to measure its disturbance (Eq. 3 of *Disturbance-immune*)."""

PHASES = ("train", "again", "strategy")
Record = Callable[..., object]


class Search:
    """A search on one set of shared weights; the setup's ``epochs`` are the plan's.

    ``record`` is called as ``record(key, **fields)`` after each epoch, ``progress`` with the share that is done and a
    line about it. The search saves itself in ``checkpoints``, and goes on from there. Of the ``ranks`` that search
    together, only the leader's ``record``, ``progress`` and ``checkpoints`` count.
    """

    def __init__(
        self,
        setup: SupernetSetup,
        plan: SearchPlan,
        *,
        record: Record = lambda key, **fields: None,
        progress: Callable[[float, str], None] = lambda share, text: None,
        checkpoints: Checkpoints | None = None,
        ranks: Ranks = ALONE,
    ) -> None:
        plan.check(setup.space)
        setup = replace(setup, settings=replace(setup.settings, epochs=plan.epochs))
        self.setup, self.plan = setup, plan
        self._record, self._progress, self._checkpoints = record, progress, checkpoints
        data, seed = setup.data, plan.seed
        self.metric = other_metric(setup.settings, data.train.y)
        self._rewards = Rewards(self.metric)
        self.network = share(setup.space, setup.new_supernet(seed), plan.sharing, seed)  # type: ignore[arg-type]
        self._together = RankedTraining(self.network, ranks)
        self.guard: Guard = make_guard(plan.guard, warmup_epochs=plan.guarded_from, num_epochs=plan.epochs)
        self.strategy, self._explorer = make_strategies(setup, plan)
        self._optimizer = make_optimizer(self.network, setup.settings)
        self._params = named_params(self.network)
        rates = group_rates(self._optimizer, setup.settings)
        self._step = self._together.step(
            self._optimizer, setup.settings, params=self._params, group_rates=rates, skips=True
        )
        count, size = len(data.validation), setup.settings.batch_size
        self._batches = Batches(len(data.train), size, derive_seed(seed, "batches"))
        self._reads_ahead = False
        self._held_out = Batches(count, min(plan.reward_samples, count), derive_seed(seed, "rewards"))
        self._fisher_batches = Batches(count, min(size, count), derive_seed(seed, "fisher"))
        self._place = {"epoch": 0, "phase": 0, "unit": 0}
        self._log: Json = {}
        self._again: dict[int, tuple[Score, Tensor | None]] = {}  # second errors of an epoch, by the child's place
        self._undo: Undo | None = None  # made in the first turn, from what a checkpoint has put back
        self.best: tuple[Arch, float] | None = None

    def run(self) -> Strategy:
        """All epochs; gives the strategy as it is in the end."""
        self._saver.resume()
        for epoch in range(self._place["epoch"], self.plan.epochs):
            self._begin(epoch)
            self._units(0, partial(self._train_child, epoch), len(self._log["archs"]))
            self._units(1, self._measure_again, len(self._log["archs"]))
            steps = self.plan.strategy_steps if epoch >= self.plan.warmup_epochs else 0
            self._units(2, partial(self._train_strategy, epoch), steps)
            self._end(epoch)
        return self.strategy

    # One epoch.

    def _begin(self, epoch: int) -> None:
        """Propose the children of an epoch, unless it is one that goes on."""
        if self._log:
            return
        # Departs from line 6 of Algorithm 1: a controller that has not learned yet draws by its random weights, which
        # may prefer some children; they are drawn uniformly until it learns.
        source = self._explorer if epoch < self.plan.warmup_epochs else self.strategy
        archs = source.propose(self.plan.models_per_epoch)
        lists = ("err1", "err2", "loss", "rewards", "kept", "moved", "diverged")
        self._log = {"archs": archs, **{name: [] for name in lists}}
        self.guard.start_epoch(epoch)

    def _train_child(self, epoch: int, unit: int) -> None:
        """A child's turn: its mini-batches, its error right after them, and the guard remembers it."""
        arch, plan = self._log["archs"][unit], self.plan
        guarded = epoch >= plan.guarded_from
        turn = epoch * plan.models_per_epoch + unit
        if self._undo is None:
            self._undo = Undo(self.network, self._optimizer)
        # Dropout has only the global generator: it follows from the seed and the turn.
        with seeded_globally(plan.seed, "draws", turn, *self._together.draws):
            losses = [
                self._train_batch(arch, turn * plan.batches_per_model + number, guarded)
                for number in range(plan.batches_per_model)
            ]
            measured = plan.is_measured(unit)
            score, logits = self._error(arch) if measured else (None, None)
            diverged = any(map(math.isnan, losses)) or not (self._is_finite() if score is None else score.is_finite)
            if diverged:
                self._undo.restore()
                self.guard.discard()
            else:
                self._undo.keep()
                if guarded and not isinstance(self.guard, NoGuard):
                    self._remember(arch, turn)
        self._log["err1"].append(None if diverged or score is None else score.error)
        self._log["loss"].append(None if diverged else sum(losses) / len(losses))
        self._log["kept"].append(None if diverged else logits)
        self._log["diverged"].append(diverged)
        if not diverged:
            name = "error" if self.metric is None else self.metric.name
            error = "" if score is None else f", {name} {score.error:.3g}"
            self._progress_line(epoch, f"child {unit + 1} of {len(self._log['archs'])}{error}")

    def _is_finite(self) -> bool:
        """Whether all parameters that the last step moved are finite: a child that is not measured shows no other."""
        norms = torch._foreach_norm([param.detach() for param in self._params.values() if param.grad is not None])
        return bool(torch.isfinite(torch.stack(norms).sum()))

    def _train_batch(self, arch: Arch, step: int, guarded: bool) -> float:
        """One guarded step of SGD (Eq. 6); NaN, and no step, if the loss or a gradient is not finite."""
        recipe, data, plan = self.setup.settings, self.setup.data.train, self.plan
        num_steps = plan.epochs * plan.models_per_epoch * plan.batches_per_model
        if not self._reads_ahead:
            read_ahead(data.x, self._batches, step, num_steps)
            self._reads_ahead = True
        rate = recipe.learning_rate_at(step, num_steps)
        x, y = recipe.batch(data.x, data.y, self._batches[step].to(data.x.device), seed=plan.seed, step=step)
        of_outputs, together = recipe.loss_for(data.y), self._together  # mixup makes shares of classes, no numbers
        set_training(self.network, True)
        loss_of = self.guard.loss if guarded else NoGuard().loss
        # Once in a child's turn the ranks compare what they train: that is enough, and costs next to nothing.
        checked = arch if step % plan.batches_per_model == 0 else None
        with together.batch(len(x), checked=checked) as part:
            loss = self._step(
                step,
                rate,
                lambda x, y: loss_of(
                    arch, lambda one: together.share(part, training_loss(self.network, x, y, one, of_outputs))
                ),
                x[part.rows],
                y[part.rows],
                guard=self.guard if guarded else None,
            )
        if self._undo is not None:
            self._undo.note()
        return loss

    def _remember(self, arch: Arch, turn: int) -> None:
        """Keep the finished child: its Fisher information is the squared gradient on one validation mini-batch.

        Departs from the released code of multi-model forgetting, where the "validation" images are the test set.
        A guard that learns from inputs alone only needs to know the path, which the last step's gradients tell.
        """
        if not self.guard.needs_gradients:
            self.guard.remember(self._params)
            return
        data = self.setup.data.validation
        indices = self._fisher_batches[turn].to(data.x.device)
        self._optimizer.zero_grad(set_to_none=True)
        with (
            batch_statistics(self.network),
            torch.inference_mode(False),
            torch.enable_grad(),
            self._together.batch(len(indices)) as part,
        ):
            rows = indices[part.rows]
            # Of classes it is the cross-entropy, whatever is minimised: its squared gradient is the Fisher information.
            of_outputs = self.setup.settings.loss_for(data.y) if data.y.is_floating_point() else cross_entropy
            loss = of_outputs(self.network(data.x[rows], arch), data.y[rows])
            torch.autograd.backward(self._together.share(part, loss))
        self._together.sum_gradients(self._params, loss)
        self.guard.remember(self._params)

    def _measure_again(self, unit: int) -> None:
        """A child's error after all of the epoch were trained, and how far its outputs moved (Eq. 3)."""
        arch, first, kept = (self._log[key][unit] for key in ("archs", "err1", "kept"))
        if first is None:
            self._log["err2"].append(None)
            self._log["moved"].append(None)
            return
        if unit == len(self._log["archs"]) - 1 and self.plan.batch_norm == "batch":
            # Nothing was trained since, and statistics, which a guard's own pass may change, are not looked at.
            self._log["err2"].append(first)
            self._log["moved"].append(None if kept is None else 0.0)
            return
        if self._measures_together and unit not in self._again:
            self._again = self._errors(range(unit, len(self._log["archs"]) - 1))
        score, logits = self._again.pop(unit) if self._measures_together else self._error(arch)
        self._log["err2"].append(score.error)
        moved = None if kept is None or logits is None else float((logits - kept).norm() / len(kept) ** 0.5)
        self._log["moved"].append(moved)

    def _train_strategy(self, epoch: int, unit: int) -> None:
        """A step of the strategy on rewards of its own proposals, taken on a validation mini-batch."""
        archs = self.strategy.propose(self.plan.archs_per_step)
        step = (epoch - self.plan.warmup_epochs) * self.plan.strategy_steps + unit
        data = self.setup.data.validation
        indices = self._held_out[step].to(data.x.device)
        y = data.y[indices]
        if y.is_floating_point() and bool((y == y[:1]).all(dim=0).any()):  # of a number that is constant R² is none
            self._log["rewards"].append([])
            return
        scores = self._score_each(archs, data.x[indices], y)
        scored = list(zip(archs, self._rewards(scores), strict=True))
        finite = [(arch, reward) for arch, reward in scored if reward == reward]  # a diverged child teaches nothing
        if finite:
            self.strategy.observe([arch for arch, _ in finite], [reward for _, reward in finite])
            best = max(finite, key=lambda pair: pair[1])
            if self.best is None or best[1] > self.best[1]:
                self.best = best
        self._log["rewards"].append([reward for _, reward in finite])
        self._progress_line(epoch, f"strategy step {unit + 1}")

    def _end(self, epoch: int) -> None:
        """Record the epoch, and begin the next."""
        log, space = self._log, self.setup.space
        # What is lost is above 0, also where higher is better; the best are those of the lowest errors.
        sign = -1 if self.metric is not None and self.metric.higher_is_better else 1
        pairs = [(a, b) for a, b in zip(log["err1"], log["err2"], strict=True) if a is not None and b == b]
        differences = [sign * (b - a) for a, b in pairs]
        order = sorted((sign * a, sign * (b - a)) for a, b in pairs)
        rewards = [reward for step in log["rewards"] for reward in step]
        self._record(
            f"epoch/{epoch}",
            archs=[space.name(arch) for arch in log["archs"]],
            err1=log["err1"],
            err2=log["err2"],
            difference_mean=mean(differences),
            difference_best5=mean([difference for _, difference in order[:5]]),
            difference_max=max(differences, default=None),
            disturbance=mean([value for value in log["moved"] if value is not None]),
            loss=mean([loss for loss in log["loss"] if loss is not None]),
            diverged=[space.name(arch) for arch, lost in zip(log["archs"], log["diverged"], strict=True) if lost],
            reward=mean(rewards),
            strategy=self.strategy.report(),
            guard=self.guard.report(),
            best=None if self.best is None else {"arch": space.name(self.best[0]), "reward": self.best[1]},
        )
        self._log = {}
        self._place = {"epoch": epoch + 1, "phase": 0, "unit": 0}
        self._save()

    # Measuring.

    def _error(self, arch: Arch) -> tuple[Score, Tensor | None]:
        """A child's error, and its outputs by the batch's own statistics if they are few enough to be kept."""
        x, y = self._error_split
        options: Json = {"batch_norm": self.plan.batch_norm, "calibration": self.calibration(), "metric": self.metric}
        if not self._keeps_logits:
            return self._together.measure(arch, x, y, **options), None
        if self.plan.batch_norm != "batch":  # these outputs are others than those that the error is taken from
            return self._together.measure(arch, x, y, **options), self._together.outputs(arch, x)
        logits: list[Tensor] = []
        score = self._together.measure(arch, x, y, outputs=logits, **options)
        return score, torch.cat(logits)

    @property
    def _error_split(self) -> tuple[Tensor, Tensor]:
        """The samples that errors are taken on."""
        data, count = self.setup.data.validation, self.plan.error_samples
        return data.x[:count], data.y[:count]

    @property
    def _keeps_logits(self) -> bool:
        """Whether a child's outputs are few enough to be kept."""
        y = self._error_split[1]
        has_many = y.ndim > 1 and not y.is_floating_point()
        return not has_many and len(y) * self.setup.data.num_outputs <= MAX_KEPT_LOGITS

    @property
    def _measures_together(self) -> bool:
        """Whether children on the same weights are measured at once, and what they have in common a single time."""
        return self._keeps_logits and self.plan.batch_norm == "batch" and self._together.ranks.size == 1

    def _errors(self, units: Sequence[int]) -> dict[int, tuple[Score, Tensor | None]]:
        """``_error`` of those of an epoch's children that are measured, by their places, on the weights as they are."""
        wanted = [unit for unit in units if self._log["err1"][unit] is not None]
        archs = [self._log["archs"][unit] for unit in wanted]
        outputs: list[Tensor] = []
        scores = measure_each(self.network, archs, *self._error_split, metric=self.metric, outputs=outputs)
        return {unit: (score, logits) for unit, score, logits in zip(wanted, scores, outputs, strict=True)}

    def _score_each(self, archs: list[Arch], x: Tensor, y: Tensor) -> list[Score]:
        network = self.network
        if self.plan.batch_norm == "reestimated":
            options: Json = {"batch_norm": "reestimated", "calibration": self.calibration(), "metric": self.metric}
            return self._together.score_each(archs, lambda arch: measure(network, arch, x, y, **options))
        if self._together.ranks.size == 1:
            return measure_each(network, archs, x, y, batch_norm=self.plan.batch_norm, metric=self.metric)
        with measuring(network, self.plan.batch_norm):
            return self._together.score_each(
                archs, lambda arch: measure_as_it_is(network, arch, x, y, metric=self.metric)
            )

    def calibration(self) -> list[Tensor]:
        """Training inputs from which batch-norm statistics are made anew, where that is asked for."""
        if self.plan.batch_norm != "reestimated":
            return []
        x = self.setup.data.train.x
        return [x[self._batches[step].to(x.device)] for step in range(NUM_CALIBRATION_BATCHES)]

    def score(self, archs: list[Arch]) -> list[Score]:
        """Children on the whole validation split."""
        data = self.setup.data.validation
        return self._score_each(archs, data.x, data.y)

    # Going on after a kill.

    def _units(self, phase: int, work: Callable[[int], None], count: int) -> None:
        """The units of a phase that are still to do; the state may be saved after each."""
        if phase < self._place["phase"]:
            return
        first = self._place["unit"] if phase == self._place["phase"] else 0
        for unit in range(first, count):
            work(unit)
            self._place = {"epoch": self._place["epoch"], "phase": phase, "unit": unit + 1}
            self._save(only_if_due=True)
        self._place = {"epoch": self._place["epoch"], "phase": phase + 1, "unit": 0}

    @cached_property
    def _saver(self) -> Saver:
        parts: dict[str, SavedPart] = {
            "progress": Values(lambda: (self._place, self._log, self.best), self._go_on),
            "network": self.network,
            "optimizer": self._optimizer,
            "guard": self.guard,
            "strategy": Values(self.strategy.state, self.strategy.load_state),
            "explorer": Values(self._explorer.state, self._explorer.load_state),
        }
        if self._rewards.has_state:  # a checkpoint of errors has none, as in earlier versions
            parts["rewards"] = Values(self._rewards.state, self._rewards.load_state)
        seconds, ranks = self.setup.seconds_between_checkpoints, self._together.ranks
        return Saver(self._checkpoints, parts, seconds=seconds, several=ranks)

    def _go_on(self, progress: tuple[dict[str, int], Json, tuple[Arch, float] | None]) -> None:
        self._place, self._log, self.best = progress

    def _save(self, *, only_if_due: bool = False) -> None:
        if only_if_due and not self._saver.is_due:
            return
        place, plan = self._place, self.plan
        most = max(plan.models_per_epoch, plan.strategy_steps) + 1
        self._saver.save((place["epoch"] * len(PHASES) + place["phase"]) * most + place["unit"])

    def _progress_line(self, epoch: int, text: str) -> None:
        best = "" if self.best is None else f", best reward {self.best[1]:.3g}"
        self._progress(epoch / self.plan.epochs, f"epoch {epoch + 1}: {text}{best}")


def make_strategies(setup: SupernetSetup, plan: SearchPlan) -> tuple[Strategy, Strategy]:
    """The plan's strategy and the uniform one of the warm-up, both within the budget."""
    strategies = (plan.make_strategy(setup.space), RandomSearch(setup.space, seed=derive_seed(plan.seed, "warm-up")))
    if plan.budget is None:
        return strategies
    costs = ArchCosts(setup.space, setup.data.train.x.shape[1:], setup.data.num_outputs)
    limits = parse_limits(plan.budget)
    return Budgeted(strategies[0], costs, limits), Budgeted(strategies[1], costs, limits)


def mean(values: list[float]) -> float | None:
    """The mean, or none of nothing."""
    return sum(values) / len(values) if values else None
