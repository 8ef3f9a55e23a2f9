"""Train, grow, train again: Algorithm 1 of the Firefly paper, for any method, with a budget and an end."""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ramet.costs import count_parameters
from ramet.errors import ConfigError, DataError, RunError
from ramet.growth.base import Edit, Growth, Loss, Proposal, Scene, carry_out, mean_loss
from ramet.growth.budget import Budget, Meter, select
from ramet.growth.coupling import Coupling
from ramet.growth.history import History, Step, describe, replay, silent
from ramet.growth.layers import Site, find_sites
from ramet.growth.methods import METHODS, make_method
from ramet.growth.seam import SINGLE_TOLERANCE, find_coupling, largest_change, outputs
from ramet.runs import pack_state, unpack_state
from ramet.seeding import derive_seed, seeded_globally
from ramet.training import Batches, Settings, accuracy, make_optimizer

PROBE_SIZE = 4
"""Examples that a network is traced and checked with."""


class SavesCheckpoints(Protocol):
    """Where the loop saves itself: :class:`ramet.runs.Checkpoints` is one."""

    def save(self, step: int, tensors: dict[str, Tensor], state: Any) -> None:
        """Store tensors and JSON values."""

    def load(self) -> Any:
        """The newest, with ``step``, ``tensors`` and ``state``, or ``None``."""


def grow(
    network: nn.Module,
    data: Any,
    budget: Budget | str,
    method: Growth | str = "firefly",
    *,
    method_options: dict[str, Any] | None = None,
    settings: Settings | None = None,
    loss: Loss | None = None,
    target: float | None = None,
    patience: int | None = None,
    min_gain: float = 0.0,
    max_steps: int | None = None,
    seed: int = 0,
    in_place: bool = False,
    optimizer: Callable[[nn.Module], torch.optim.Optimizer] | None = None,
    averages: Iterable[nn.Module] = (),
    checkpoints: SavesCheckpoints | None = None,
    after_step: Callable[[Step], None] = lambda step: None,
) -> tuple[nn.Module, History]:
    """Grow a network where it helps most, until it is large or good enough.

    The network is trained, then grown by a step, then trained again, and so on. Everything random follows from the
    seed, and each training and each growth from the state before it alone: a growth that was interrupted and is
    called again with the same arguments and ``checkpoints`` ends bit for bit as if it had never stopped.

    Args:
        network: any module that maps a batch of inputs to outputs.
        data: ``(x, y, validation_x, validation_y)``, or an object with ``train`` and ``validation`` that have ``x`` and
            ``y`` (a :class:`ramet.data.DataSet`).
        budget: how large it may get, and how fast: a :class:`~ramet.growth.budget.Budget` or text such as
            ``"params=200k, step=30%"``.
        method: how it grows: an object or a name of :data:`ramet.growth.METHODS`.
        method_options: arguments of a method that is given by its name.
        settings: of each training between two growths; the learning rate starts anew in each.
        loss: of outputs and targets; the cross-entropy for whole-number targets, the squared error otherwise.
        target: the validation score at which growth ends: the accuracy, or minus the loss.
        patience: growth ends when the best score has not risen by ``min_gain`` for so many steps.
        min_gain: what counts as a rise.
        max_steps: the largest number of growth steps.
        seed: of everything random.
        in_place: grow ``network`` itself rather than a copy. Not to be combined with ``checkpoints``, because a
            network that has grown already cannot be resumed from.
        optimizer: makes the optimizer that trains; SGD by the settings if not given. Its state grows along.
        averages: copies of the network that follow it; they grow along (with ``in_place`` only).
        checkpoints: where the growth saves itself after each training and each growth, and resumes from.
        after_step: called with each finished step.

    Returns:
        The grown network, a plain module of the same classes, and the history.

    Raises:
        ConfigError: for a budget below the present size, nothing that can grow, or arguments that do not go together.
        DataError: for data of another shape.
        RunError: the loss is not finite, or a growth would have changed the outputs.

    Example:
        >>> x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
        >>> y = (x[:, 0] * x[:, 1] > 0).long()
        >>> net = nn.Sequential(nn.Linear(4, 2), nn.ReLU(), nn.Linear(2, 2))
        >>> settings = Settings(epochs=1, batch_size=16)
        >>> options = {"num_new": 4, "num_steps": 2}
        >>> grown, history = grow(net, (x, y, x, y), "neurons=4, step=1", settings=settings, method_options=options)
        >>> grown[0].out_features, history.stopped
        (4, 'the budget is reached')
    """
    if in_place and checkpoints is not None:
        raise ConfigError("a growth with checkpoints works on a copy, but got in_place=True.")
    run = _Run(
        network=network if in_place else copy.deepcopy(network),
        data=_split(data),
        budget=Budget.parse(budget) if isinstance(budget, str) else budget,
        method=make_method(method, **(method_options or {})) if isinstance(method, str) else method,
        settings=settings or Settings(epochs=10, batch_size=64, learning_rate=0.05, weight_decay=1e-4),
        loss=loss,
        seed=seed,
        optimizer=optimizer,
        averages=list(averages) if in_place else [],
        checkpoints=checkpoints,
    )
    run.start()
    while not run.history.stopped:
        if run.trained < len(run.history.steps):
            after_step(run.train())
        run.history.stopped = run.reason_to_stop(target, patience, min_gain, max_steps) or run.grow()
        run.save()
    return run.network, run.history


def _split(data: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    if hasattr(data, "train") and hasattr(data, "validation"):
        data = (data.train.x, data.train.y, data.validation.x, data.validation.y)
    if not (isinstance(data, tuple | list) and len(data) == 4 and all(isinstance(part, Tensor) for part in data)):
        raise DataError(
            f"data must be (x, y, validation_x, validation_y) or have train and validation, but got {type(data)}."
        )
    x, y, validation_x, validation_y = data
    if len(x) != len(y) or len(validation_x) != len(validation_y) or len(x) < 2 or len(validation_x) < 1:
        sizes = [len(part) for part in (x, y, validation_x, validation_y)]
        raise DataError(f"inputs and targets must be as many, at least 2 for training, but got {sizes}.")
    return x, y, validation_x, validation_y


class _Run:
    """The state of one growth: a network between two steps, its optimizer and its history."""

    def __init__(
        self,
        *,
        network: nn.Module,
        data: tuple[Tensor, Tensor, Tensor, Tensor],
        budget: Budget,
        method: Growth,
        settings: Settings,
        loss: Loss | None,
        seed: int,
        optimizer: Callable[[nn.Module], torch.optim.Optimizer] | None,
        averages: list[nn.Module],
        checkpoints: SavesCheckpoints | None,
    ) -> None:
        self.network, self.budget, self.method, self.settings = network, budget, method, settings
        self.x, self.y, self.validation_x, self.validation_y = data
        self.classifies = loss is None and not self.y.is_floating_point()
        default: Loss = nn.functional.cross_entropy if self.classifies else nn.functional.mse_loss
        self.loss: Loss = default if loss is None else loss
        self.seed, self.averages, self.checkpoints = seed, averages, checkpoints
        self.make_optimizer = optimizer or (lambda net: make_optimizer(net, settings))
        self.optimizer = self.make_optimizer(network)
        self.probe = self.x[:PROBE_SIZE]
        self.trained = 0
        name = next((name for name, kind in METHODS.items() if type(method) is kind), type(method).__name__)
        self.history = History(name, asdict(budget))

    def start(self) -> None:
        """Resume, or check that there is something to do."""
        if self._resume():
            return
        coupling, sites = self._look()
        self.history.refusals = coupling.refusals
        if not coupling.groups and not (sites and self.budget.layers):
            reasons = "; ".join(f"{r.name}: {r.reason}" for r in coupling.refusals)
            raise ConfigError(f"a network must have something that can grow, but got none ({reasons}).")
        size = self._meter(coupling, sites).size
        if self.budget.total <= size:
            raise ConfigError(
                f"a budget must be above the network's {size:g} {self.budget.unit}, but got {self.budget.total:g}."
            )
        self.history.steps.append(Step(0))

    def _look(self) -> tuple[Coupling, list[Site]]:
        coupling = find_coupling(self.network, self.probe)
        return coupling, find_sites(self.network, coupling)[0]

    def _meter(self, coupling: Coupling, sites: list[Site], unit: str | None = None) -> Meter:
        unit = unit or self.budget.unit
        measured = self._latency() if unit == "latency" else 0.0
        return Meter(self.network, coupling, sites, unit, measured)

    def _latency(self, num_runs: int = 20) -> float:
        seconds = []
        for _ in range(num_runs + 3):
            start = time.perf_counter()
            outputs(self.network, self.x[:1])
            seconds.append(time.perf_counter() - start)
        return statistics.median(seconds[3:])

    def train(self) -> Step:
        """Train the network with its present structure (step 1 of Algorithm 1)."""
        phase = len(self.history.steps) - 1
        batches = Batches(
            len(self.x), min(self.settings.batch_size, len(self.x)), derive_seed(self.seed, "train", phase)
        )
        num_steps = self.settings.epochs * batches.steps_per_epoch
        total = 0.0
        self.network.train()
        with seeded_globally(self.seed, "dropout", phase):
            for number in range(num_steps):
                for group in self.optimizer.param_groups:
                    group["lr"] = self.settings.learning_rate_at(number, num_steps)
                indices = batches[number]
                loss = self.loss(self.network(self.x[indices]), self.y[indices])
                if not torch.isfinite(loss):
                    raise RunError(f"the loss must stay finite, but is {loss.item()} in phase {phase}.")
                self.optimizer.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                if self.settings.clip_norm is not None:
                    nn.utils.clip_grad_norm_(self.network.parameters(), self.settings.clip_norm)
                self.optimizer.step()
                if number >= num_steps - batches.steps_per_epoch:
                    total += loss.item() / batches.steps_per_epoch
        step = self.history.steps[-1]
        coupling, sites = self._look()
        step.sizes = {unit: self._meter(coupling, sites, unit).size for unit in ("neurons", "flops")}
        step.sizes["params"] = count_parameters(self.network)
        step.budget_size = self._meter(coupling, sites).size
        step.loss = total
        if self.classifies:
            step.score = accuracy(self.network, self.validation_x, self.validation_y)
        else:
            step.score = -mean_loss(self.network, self.loss, self.validation_x, self.validation_y)
        self.trained = len(self.history.steps)
        if not self.method.observe(step.score):
            self.history.stopped = "the method has nothing more to add"
        self.save()
        return step

    def reason_to_stop(self, target: float | None, patience: int | None, min_gain: float, max_steps: int | None) -> str:
        """Why growth ends here, or nothing."""
        if self.history.stopped:
            return self.history.stopped
        steps = self.history.steps
        scores = [step.score for step in steps if step.score is not None]
        if target is not None and scores[-1] >= target:
            return "the target is reached"
        if steps[-1].budget_size >= self.budget.total:
            return "the budget is reached"
        if patience is not None and len(scores) > patience:
            before, recent = max(scores[:-patience]), max(scores[-patience:])
            if recent < before + min_gain or (min_gain == 0 and recent <= before):
                return "growth no longer pays"
        if max_steps is not None and len(steps) > max_steps:
            return "the number of steps is reached"
        return ""

    def grow(self) -> str:
        """One growth step; returns why growth ends, if nothing could be added."""
        start = time.perf_counter()
        number = len(self.history.steps)
        coupling, sites = self._look()
        meter = self._meter(coupling, sites)
        scene = Scene(
            network=self.network,
            coupling=coupling,
            sites=sites,
            loss=self.loss,
            x=self.x,
            y=self.y,
            validation_x=self.validation_x,
            validation_y=self.validation_y,
            batch_size=self.settings.batch_size,
            seed=derive_seed(self.seed, "growth step", number),
            allowance=self.budget.allowance(meter.size),
            max_layers=self.budget.layers,
            meter=lambda: Meter(self.network, coupling, sites, self.budget.unit, meter.measured),
            make_optimizer=self.make_optimizer,
        )
        proposal = self.method.propose(scene)
        if not proposal.candidates:
            return "there are no candidates left"
        scores = self.method.score(scene, proposal)
        chosen = [int(scores.argmax())] if proposal.exclusive else self._choose(scene, proposal, scores, meter.size)
        if not chosen or (proposal.exclusive and not bool(torch.isfinite(scores[chosen[0]]))):
            return "no candidate is worth its size" if bool((scores == -torch.inf).all()) else "the budget is reached"
        edit = self.method.apply(scene, proposal, chosen)
        if not edit.num_units:
            return "the budget is reached"
        self._check(scene, edit)
        step = describe(scene, edit, proposal.candidates, scores, chosen)
        step.number = number
        sample = slice(0, 1000)
        step.loss_before = mean_loss(self.network, self.loss, self.x[sample], self.y[sample])
        carry_out(
            self.network, coupling, sites, edit, seed=scene.seed, optimizer=self.optimizer, averages=self.averages
        )
        step.loss_after = mean_loss(self.network, self.loss, self.x[sample], self.y[sample])
        step.seconds = time.perf_counter() - start
        self.history.steps.append(step)
        return ""

    def _choose(self, scene: Scene, proposal: Proposal, scores: Tensor, size: float) -> list[int]:
        """What fits the step; the single best unit if the step is smaller than one and the whole budget is not."""
        chosen = scene.choose(proposal.candidates, scores)
        if chosen:
            return chosen
        places = [(candidate.kind, candidate.where) for candidate in proposal.candidates]
        return select(scene.meter(), places, scores, self.budget.total - size, 0)[:1]

    def _check(self, scene: Scene, edit: Edit) -> None:
        """Try the edit's shapes on a copy, without effect: the outputs must not change."""
        grown = scene.grown(silent(edit))
        change = largest_change(outputs(self.network, self.probe), outputs(grown, self.probe))
        if change > SINGLE_TOLERANCE:
            raise RunError(
                f"a growth must keep the outputs, but it would change them by {change:.1e}; nothing was done."
            )

    def save(self) -> None:
        """Store the state between two steps."""
        if self.checkpoints is None:
            return
        state = {
            "network": dict(self.network.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "history": self.history.to_json(),
            "method": self.method.state_dict(),
            "trained": self.trained,
        }
        number = (
            2 * len(self.history.steps) + (self.trained == len(self.history.steps)) + 2 * bool(self.history.stopped)
        )
        self.checkpoints.save(number, *pack_state(state))

    def _resume(self) -> bool:
        checkpoint = None if self.checkpoints is None else self.checkpoints.load()
        if checkpoint is None:
            return False
        state = unpack_state(checkpoint.tensors, checkpoint.state)
        self.history = History.from_json(state["history"])
        replay(self.network, self.probe, self.history.steps, self.optimizer)
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.method.load_state_dict(state["method"])
        self.trained = state["trained"]
        return True
