"""The search: train sampled children with a guard, train the strategy on their rewards, derive.

One loop for *Overcoming multi-model forgetting*, section 3.2, and *Disturbance-immune weight sharing*, Algorithm 1.
Each unit of work (a child's turn, a second measurement, a step of the strategy) is a function of the seed, its place
and the state before it, and the state can be saved after each: a search that was killed ends as if it had never
stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ramet.execution.ranks import ALONE, Ranks
from ramet.guards import Guard, NoGuard, make_guard
from ramet.params import named_params
from ramet.ranking.setup import SupernetSetup
from ramet.runs import Checkpoints, pack_state, state_from_bytes, state_to_bytes, unpack_state
from ramet.runs.encoding import Json
from ramet.searching.costs import ArchCosts, Budgeted, parse_limits
from ramet.searching.distributed import RankedTraining
from ramet.searching.measures import Score, batch_statistics, measure
from ramet.searching.plan import SearchPlan
from ramet.searching.shared import share
from ramet.searching.strategies import RandomSearch, Strategy, make_strategy
from ramet.seeding import derive_seed, seeded_globally
from ramet.spaces import Arch
from ramet.training import Batches, make_optimizer

NUM_CALIBRATION_BATCHES = 4
MAX_KEPT_LOGITS = 20_000
"""Values of a child's logits that are kept to measure its disturbance (Eq. 3 of *Disturbance-immune*)."""

PHASES = ("train", "again", "strategy")
Record = Callable[..., object]


class Search:
    """A search on one set of shared weights.

    Args:
        setup: the space, the data and the settings of the shared training; its ``epochs`` are the plan's.
        plan: what is done.
        record: called as ``record(key, **fields)`` after each epoch.
        progress: called with the share that is done and a line about it.
        checkpoints: where the search saves itself, and goes on from.
        ranks: the processes that search together; only the leader's ``record``, ``progress`` and ``checkpoints`` count.
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
        self.setup, self.plan = setup, plan
        self._record, self._progress, self._checkpoints = record, progress, checkpoints
        data, seed = setup.data, plan.seed
        self.network = share(setup.space, setup.new_supernet(seed), plan.sharing, seed)  # type: ignore[arg-type]
        self._together = RankedTraining(self.network, ranks)
        self.guard: Guard = make_guard(plan.guard, warmup_epochs=plan.warmup_epochs)
        self.strategy, self._explorer = make_strategies(setup, plan)
        self._optimizer = make_optimizer(self.network, setup.settings)
        self._params = named_params(self.network)
        self._batches = Batches(len(data.train), setup.settings.batch_size, derive_seed(seed, "batches"))
        self._held_out = Batches(
            len(data.validation), min(plan.reward_samples, len(data.validation)), derive_seed(seed, "rewards")
        )
        self._fisher_batches = Batches(
            len(data.validation), min(setup.settings.batch_size, len(data.validation)), derive_seed(seed, "fisher")
        )
        self._place = {"epoch": 0, "phase": 0, "unit": 0}
        self._log: Json = {}
        self.best: tuple[Arch, float] | None = None

    def run(self) -> Strategy:
        """All epochs; gives the strategy as it is in the end."""
        self._resume()
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
        source = self._explorer if epoch < self.plan.warmup_epochs else self.strategy
        archs = source.propose(self.plan.models_per_epoch)
        self._log = {"archs": archs, "err1": [], "err2": [], "loss": [], "rewards": [], "kept": [], "moved": []}
        self.guard.start_epoch(epoch)

    def _train_child(self, epoch: int, unit: int) -> None:
        """A child's turn: its mini-batches, its error right after them, and the guard remembers it."""
        arch, plan = self._log["archs"][unit], self.plan
        guarded = epoch >= plan.warmup_epochs
        before = snapshot(self.network, self._optimizer)
        turn = epoch * plan.models_per_epoch + unit
        # Dropout has only the global generator: it follows from the seed and the turn.
        with seeded_globally(plan.seed, "draws", turn, *self._together.draws):
            losses = [
                self._train_batch(arch, turn * plan.batches_per_model + number, guarded)
                for number in range(plan.batches_per_model)
            ]
            score, logits = self._error(arch)
            diverged = None in losses or score.error != score.error
            if diverged:
                restore(before, self.network, self._optimizer)
            elif guarded and not isinstance(self.guard, NoGuard):
                self._remember(arch, turn)
        self._log["err1"].append(None if diverged else score.error)
        self._log["loss"].append(None if diverged else sum(filter(None, losses)) / len(losses))
        self._log["kept"].append(None if diverged else logits)
        if not diverged:
            self._progress_line(epoch, f"child {unit + 1} of {len(self._log['archs'])}, error {score.error:.3g}")

    def _train_batch(self, arch: Arch, step: int, guarded: bool) -> float | None:
        """One guarded step of SGD (Eq. 6); None, and no step, if the loss or a gradient is not finite."""
        settings, data = self.setup.settings, self.setup.data
        num_steps = self.plan.epochs * self.plan.models_per_epoch * self.plan.batches_per_model
        learning_rate = settings.learning_rate_at(step, num_steps)
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        indices = self._batches[step].to(data.train.x.device)
        self.network.train()
        self._optimizer.zero_grad(set_to_none=True)
        with self._together.batch(len(indices)) as part, self.guard.watch(self.network) if guarded else nullcontext():
            rows = indices[part.rows]
            loss = cross_entropy(self.network(data.train.x[rows], arch), data.train.y[rows])
            loss = self._together.share(part, loss)
            torch.autograd.backward(loss)
        if step % self.plan.batches_per_model == 0:  # once in a child's turn is enough, and costs next to nothing
            self._together.check_path(self._params, arch)
        loss = self._together.sum_gradients(self._params, loss)
        norm = nn.utils.clip_grad_norm_(self._params.values(), settings.clip_norm or float("inf"), foreach=True)
        if not bool(torch.isfinite(loss)) or not bool(torch.isfinite(norm)):
            return None
        if not guarded:
            self._optimizer.step()
        else:
            # Momentum makes a constant gradient go 1 / (1 - momentum) times as far as the learning rate.
            with self.guard.step(self._params, learning_rate / (1 - settings.momentum)):
                self._optimizer.step()
        return float(loss.detach())

    def _remember(self, arch: Arch, turn: int) -> None:
        """Keep the finished child: its Fisher information is the squared gradient on one validation mini-batch.

        Departs from the released code of multi-model forgetting, where the "validation" images are the test set.
        """
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
            loss = cross_entropy(self.network(data.x[rows], arch), data.y[rows])
            torch.autograd.backward(self._together.share(part, loss))
        self._together.sum_gradients(self._params, loss)
        self.guard.remember(self._params)
        self.network.train()

    def _measure_again(self, unit: int) -> None:
        """A child's error after all of the epoch were trained, and how far its outputs moved (Eq. 3)."""
        arch, first, kept = (self._log[key][unit] for key in ("archs", "err1", "kept"))
        if first is None:
            self._log["err2"].append(None)
            self._log["moved"].append(None)
            return
        score, logits = self._error(arch)
        self._log["err2"].append(score.error)
        moved = None if kept is None or logits is None else float((logits - kept).norm() / len(kept) ** 0.5)
        self._log["moved"].append(moved)

    def _train_strategy(self, epoch: int, unit: int) -> None:
        """A step of the strategy on rewards of its own proposals, taken on a validation mini-batch."""
        archs = self.strategy.propose(self.plan.archs_per_step)
        step = (epoch - self.plan.warmup_epochs) * self.plan.strategy_steps + unit
        data = self.setup.data.validation
        indices = self._held_out[step].to(data.x.device)
        scores = self._score_each(archs, data.x[indices], data.y[indices])
        scored = [(arch, score.reward) for arch, score in zip(archs, scores, strict=True)]
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
        differences = [b - a for a, b in zip(log["err1"], log["err2"], strict=True) if a is not None and b == b]
        order = sorted((a, b - a) for a, b in zip(log["err1"], log["err2"], strict=True) if a is not None and b == b)
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
            diverged=[space.name(arch) for arch, first in zip(log["archs"], log["err1"], strict=True) if first is None],
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
        data, count = self.setup.data.validation, self.plan.error_samples
        options: Json = {"batch_norm": self.plan.batch_norm, "calibration": self.calibration()}
        score = self._together.measure(arch, data.x[:count], data.y[:count], **options)
        if data.y.ndim > 1 or len(data.y[:count]) * self.setup.data.num_classes > MAX_KEPT_LOGITS:
            return score, None
        return score, self._together.outputs(arch, data.x[:count])

    def _score_each(self, archs: list[Arch], x: Tensor, y: Tensor) -> list[Score]:
        options: Json = {"batch_norm": self.plan.batch_norm, "calibration": self.calibration()}
        return self._together.score_each(archs, lambda arch: measure(self.network, arch, x, y, **options))

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

    _saved_at = float("-inf")

    def _save(self, *, only_if_due: bool = False) -> None:
        if self._checkpoints is None:
            return
        if only_if_due and time.monotonic() - self._saved_at < self.setup.seconds_between_checkpoints:
            return
        place, plan = self._place, self.plan
        most = max(plan.models_per_epoch, plan.strategy_steps) + 1
        step = (place["epoch"] * len(PHASES) + place["phase"]) * most + place["unit"]
        self._checkpoints.save(step, *pack_state(self._state()))
        self._saved_at = time.monotonic()

    def _state(self) -> Json:
        return {
            "place": self._place,
            "log": self._log,
            "best": self.best,
            "network": dict(self.network.state_dict()),
            "optimizer": self._optimizer.state_dict(),
            "guard": self.guard.state_dict(),
            "strategy": self.strategy.state(),
            "explorer": self._explorer.state(),
        }

    def _resume(self) -> None:
        checkpoint = None if self._checkpoints is None else self._checkpoints.load()
        self._saved_at = time.monotonic()
        ranks = self._together.ranks
        if checkpoint is None and ranks.size == 1:
            return
        state = self._state() if checkpoint is None else unpack_state(checkpoint.tensors, checkpoint.state)
        if ranks.size > 1:  # only the leader has the files, and all begin with its bits
            state = state_from_bytes(ranks.tell(state_to_bytes(state) if ranks.is_leader else b""))
        self._place, self._log, self.best = state["place"], state["log"], state["best"]
        self.network.load_state_dict(state["network"])
        self._optimizer.load_state_dict(state["optimizer"])
        self.guard.load_state_dict(state["guard"])
        self.strategy.load_state(state["strategy"])
        self._explorer.load_state(state["explorer"])

    def _progress_line(self, epoch: int, text: str) -> None:
        best = "" if self.best is None else f", best reward {self.best[1]:.3g}"
        self._progress(epoch / self.plan.epochs, f"epoch {epoch + 1}: {text}{best}")


def make_strategies(setup: SupernetSetup, plan: SearchPlan) -> tuple[Strategy, Strategy]:
    """The plan's strategy and the uniform one of the warm-up, both within the budget."""
    strategies = (
        make_strategy(plan.strategy, setup.space, seed=plan.seed, **plan.strategy_options),
        RandomSearch(setup.space, seed=derive_seed(plan.seed, "warm-up")),
    )
    if plan.budget is None:
        return strategies
    costs = ArchCosts(setup.space, setup.data.train.x.shape[1:], setup.data.num_classes)
    limits = parse_limits(plan.budget)
    return Budgeted(strategies[0], costs, limits), Budgeted(strategies[1], costs, limits)


def snapshot(network: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], list[Tensor | None]]:
    """Copies of all weights, statistics and momenta."""
    momenta = [optimizer.state[p].get("momentum_buffer") for group in optimizer.param_groups for p in group["params"]]
    return (
        {name: tensor.clone() for name, tensor in network.state_dict().items()},
        [None if momentum is None else momentum.clone() for momentum in momenta],
    )


def restore(
    kept: tuple[dict[str, Tensor], list[Tensor | None]], network: nn.Module, optimizer: torch.optim.Optimizer
) -> None:
    """Put back what ``snapshot`` copied."""
    network.load_state_dict(kept[0])
    params = [param for group in optimizer.param_groups for param in group["params"]]
    for param, momentum in zip(params, kept[1], strict=True):
        if momentum is None:
            optimizer.state.pop(param, None)
        else:
            optimizer.state[param]["momentum_buffer"] = momentum


def mean(values: list[float]) -> float | None:
    """The mean, or none of nothing."""
    return sum(values) / len(values) if values else None
