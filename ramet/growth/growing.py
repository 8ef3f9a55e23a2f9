"""The state of one growth, from step to step: trained, grown, saved, and taken up again after a kill."""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ramet.costs import ProductCounter, count_parameters
from ramet.errors import ConfigError
from ramet.execution import pulse
from ramet.exporting.onnx import export_onnx, onnx_latency
from ramet.growth.base import Edit, Growth, GrowthContext, carry_out, mean_loss, redraw
from ramet.growth.budget import MEASURED, TARGET, Budget, Ends
from ramet.growth.choosing import check_edit, choose_within
from ramet.growth.evenly import drawn_units, even_additions
from ramet.growth.history import GroupGrowth, GrowthStep, History, describe, replay
from ramet.growth.looking import Growable, Looking
from ramet.growth.meter import Meter
from ramet.growth.methods import GROWTHS
from ramet.growth.recipe import GrowRecipe
from ramet.growth.rounds import Rounds
from ramet.growth.surgery.layers import Site
from ramet.growth.ties import warn_apart
from ramet.growth.work import step_work
from ramet.params import Params
from ramet.seeding import derive_seed, generator_states, restore_generators, seeded_globally, torch_generator
from ramet.tracing.coupling import Coupling, evaluating
from ramet.tracing.probing import outputs
from ramet.training import (
    Batches,
    SavedPart,
    Saver,
    SavesCheckpoints,
    Settings,
    Step,
    Values,
    make_optimizer,
    measure,
    output_of,
    read_ahead,
)
from ramet.training.acceleration import compiled
from ramet.training.averaging import WeightAverage
from ramet.training.extras import Extras
from ramet.training.functions import Loss
from ramet.training.optimizers import group_rates
from ramet.training.outputs import warn_of_probabilities

PROBE_SIZE = 4
"""Examples that a network is traced and checked with."""


@dataclass
class Inside:
    """Where a training between two growths is, so that it can go on in its middle.

    ``total`` is the part of the last epoch's mean loss that the mini-batches so far gave; ``generators`` are the states
    of torch's global generators, which dropout draws from.
    """

    number: int = 0
    total: float = 0.0
    seconds: float = 0.0
    generators: dict[str, Tensor] | None = None


class Growing:
    """The state of one growth: a network between two steps, which grows in place, its optimizer and its history.

    Args:
        loss: of outputs and targets; by the targets' type if none.
        optimizer: makes the optimizer that trains; SGD by the settings if none. Its groups keep their learning rates,
            and the settings' schedule multiplies them.
        first_step: where the first training was saved by a growth with the same arguments, by whatever method; this one
            then begins after it.
        keep_best: whether what is handed back is the network of the step with the best score, not of the last one.
        max_steps: the largest number of growths, where rounds are foreseen.
        seeks_size: whether growth may end before its budget, because the network is good enough or growing no longer
            pays: it then begins as small as the network is, whatever the recipe says.
        ties: ``none`` lets layers of a model with a configuration grow apart.
        is_trained: whether the network's weights are worth keeping where it begins wider. Otherwise they are drawn anew
            at that width: beside silent units, which keep what a network computes, those few would begin alone.
    """

    def __init__(
        self,
        *,
        network: nn.Module,
        data: tuple[Tensor, Tensor, Tensor, Tensor],
        budget: Budget,
        method: Growth,
        settings: Settings,
        seed: int,
        loss: Loss | None = None,
        optimizer: Callable[[nn.Module], torch.optim.Optimizer] | None = None,
        averages: list[nn.Module] | None = None,
        keep_best: bool = False,
        max_steps: int | None = None,
        seeks_size: bool = False,
        ties: str = "auto",
        is_trained: bool = True,
        checkpoints: SavesCheckpoints | None = None,
        first_step: SavesCheckpoints | None = None,
        seconds_between_checkpoints: float = 30.0,
    ) -> None:
        self.network, self.budget, self.method, self.settings = network, budget, method, settings
        self.x, self.y, self.validation_x, self.validation_y = data
        self.metric = settings.metric_for(self.y, loss)
        self.loss: Loss = settings.loss_for(self.y) if loss is None else loss
        self._takes_logits = loss is None and settings.takes_logits
        self.seed, self.averages, self.max_steps = seed, averages or [], max_steps
        self._may_begin_wider, self._is_trained = max_steps != 0 and not seeks_size, is_trained
        self.finish = settings.finish if isinstance(settings, GrowRecipe) else "continue"
        self.make_optimizer = optimizer or (lambda net: make_optimizer(net, settings))
        self.optimizer = self.make_optimizer(network)
        self._group_rates = group_rates(self.optimizer, settings)  # now: a checkpoint holds what the schedule made
        self.probe = self.x[:PROBE_SIZE]
        self._looking = Looking(layers=budget.layers, ties=ties, needs_sites=method.needs_sites)
        self.trained = 0
        self.inside = Inside()
        self.rounds = Rounds(settings, self._batches(0).steps_per_epoch)
        name = GROWTHS.name_of(method)
        self.history = History(name, budget.to_json())
        # The history comes first: the network and its optimizer get the shapes of what was saved from it.
        parts: dict[str, SavedPart] = {
            "history": Values(lambda: self.history.to_json(), self._replay),
            "network": network,
            "optimizer": self.optimizer,
            "method": method,
            "trained": Values(lambda: self.trained, lambda trained: setattr(self, "trained", trained)),
            "inside": Values(self._take_inside, lambda inside: setattr(self, "inside", Inside(**inside))),
        }
        if settings.average is not None:  # made anew for each training, in the shapes that the network has then
            parts["average"] = Values(lambda: self._average and self._average.state_dict(), self._load_average)
        self._average: WeightAverage | None = None
        if self.rounds.over != "round":
            parts["foreseen"] = Values(self.rounds.to_json, self.rounds.load)
        self._best: tuple[int, float, Params] | None = None
        self._first = copy.deepcopy(network) if keep_best else None
        if keep_best:
            parts["best"] = Values(lambda: [] if self._best is None else list(self._best), self._load_best)
        self._saver = Saver(checkpoints, parts, seconds=seconds_between_checkpoints)
        # No method has a part in the first training: only what methods remember is each one's own.
        common = {part: value for part, value in parts.items() if part != "method"}
        self._first_saver = Saver(first_step, common)

    def release(self) -> None:
        """Let go of everything: a growth and what saves it know each other, and only the collector would free them."""
        vars(self).clear()

    @property
    def num_updates(self) -> int:
        """The steps of a round, where all are as long."""
        return self.rounds.num_steps

    def start(self) -> None:
        """Resume, or check that there is something to do."""
        if self._saver.resume() is not None:
            return
        if self._first_saver.resume() is not None:
            self.history.method, self.history.stopped = GROWTHS.name_of(self.method), ""
            first = self.history.steps[0]
            if self.trained and first.score is not None:
                self._observe(first.score)
            return
        self.method.check_budget(self.budget.layers)
        found = self._look()
        coupling, sites = found.coupling, found.sites
        with evaluating(self.network):
            result = output_of(self.network(self.probe))  # refused before any training, if no loss can be taken of it
        if self._takes_logits:
            warn_of_probabilities(result, self.y[: len(result)])
        self.history.refusals = coupling.refusals
        found.check(self.budget.layers)
        if found.apart:
            warn_apart(self.network, found.apart)
        size = self._meter(coupling, sites).size
        if self.budget.total <= size:
            raise ConfigError(
                f"a budget must be above the network's {size:g} {self.budget.unit}, but got {self.budget.total:g}."
            )
        self.history.steps.append(GrowthStep(0, widened=self._begin(coupling, sites)))
        self.rounds.foresee(self.budget, self.size, self._step_work(), self.max_steps)

    def _begin(self, coupling: Coupling, sites: list[Site]) -> dict[str, GroupGrowth]:
        """Widen the network evenly to the recipe's share of the budget, before anything is trained."""
        meter, wanted = self._meter(coupling, sites), self.rounds.begin * self.budget.total
        if not (self._may_begin_wider and coupling.groups and wanted > meter.size):
            return {}
        added = even_additions(self.network, coupling, wanted, self.budget.unit, meter.measured)
        generator = torch_generator(self.seed, "begin")
        groups = {name: coupling.groups[name] for name, count in added.items() if count}
        edit = Edit({n: drawn_units(self.network, coupling, g, added[n], generator) for n, g in groups.items()})
        carry_out(self.network, coupling, sites, edit, seed=self.seed, optimizer=self.optimizer, averages=self.averages)
        if not self._is_trained:
            redraw(self.network, derive_seed(self.seed, "begin"), self.optimizer)
        return {name: GroupGrowth(group.size, new=added[name]) for name, group in groups.items()}

    @property
    def size(self) -> float:
        """Of the present network, in the budget's unit."""
        found = self._look()
        return self._meter(found.coupling, found.sites).size

    def _step_work(self) -> float:
        """What a training step of the present network costs."""
        return step_work(self.network, self.x, min(self.settings.batch_size, len(self.x)))

    def _look(self) -> Growable:
        """What can grow now."""
        return self._looking(self.network, self.probe, began=any(step.grew for step in self.history.steps))

    def _meter(self, coupling: Coupling, sites: list[Site], unit: str | None = None) -> Meter:
        unit = unit or self.budget.unit
        measured = self._latency(unit) if unit in MEASURED else 0.0
        return Meter(self.network, coupling, sites, unit, measured)

    def _latency(self, unit: str, num_runs: int = 20) -> float:
        if unit == "onnx_latency":
            shape = self.x.shape[1:]
            return onnx_latency(export_onnx(self.network, shape, self.x.dtype), shape, num_runs=num_runs)
        seconds = []
        for _ in range(num_runs + 3):
            start = time.perf_counter()
            outputs(self.network, self.x[:1])
            seconds.append(time.perf_counter() - start)
        return statistics.median(seconds[3:])

    def advance(self, ends: Ends) -> GrowthStep | None:
        """Go on to the next step that is grown and trained; ``None`` when growth has ended."""
        if self.trained == len(self.history.steps) and not self.history.stopped:
            self.history.stopped = self._go_on(ends)
            self.save()
        return None if self.history.stopped else self.train(ends.max_steps)

    def _go_on(self, ends: Ends) -> str:
        """Grow, or begin the last round; returns why nothing more is to be done, if so."""
        phase = len(self.history.steps) - 1
        reason = ends.reason(self.history, self.budget, self.metric.score)
        if not self.rounds.by_work:
            # A schedule over the whole growth ends with the last round that is foreseen; else each round has its own.
            if not reason and phase + 1 == self.rounds.most(ends.max_steps):
                reason = "the schedule has ended"
            return reason or self.grow()
        if self.rounds.is_last(phase) or reason == TARGET:
            return self.rounds.foreseen.ending or reason or "the schedule has ended"
        reason = reason or self.grow()
        if reason:  # what is left of the work is for the network as it is
            self.rounds.end_with(phase + 1, reason)
            self.history.steps.append(GrowthStep(phase + 1))
        if self.rounds.is_last(phase + 1) and self.finish == "scratch":
            redraw(self.network, derive_seed(self.seed, "finish"), self.optimizer)
        return ""

    @property
    def kept_network(self) -> nn.Module:
        """What the growth hands back: the network, or with ``keep_best`` that of the history's kept step."""
        if self._first is None or self._best is None or self.history.kept is None:
            return self.network
        network = copy.deepcopy(self._first)
        replay(network, self.probe, self.history.steps[: self.history.kept + 1])
        network.load_state_dict(self._best[2])
        return network

    def _note_best(self, step: GrowthStep) -> None:
        """Keep the network of the best step; of equal ones the first, which is the smallest."""
        assert step.score is not None
        if self._best is None or step.score > self._best[1]:
            weights = {name: value.detach().clone() for name, value in self.network.state_dict().items()}
            self._best = step.number, step.score, weights
        number = self._best[0]
        self.history.kept = number if number < step.number else None

    def _load_best(self, saved: list[Any]) -> None:
        if saved:
            number, score, weights = saved
            self._best = int(number), float(score), {name: value.to(self.x.device) for name, value in weights.items()}

    def _batches(self, phase: int) -> Batches:
        size = min(self.settings.batch_size, len(self.x))
        return Batches(len(self.x), size, derive_seed(self.seed, "train", phase))

    def train(self, max_steps: int | None = None) -> GrowthStep:
        """Train the network with its present structure (step 1 of Algorithm 1), from where it was left.

        ``max_steps`` is the largest number of growths, which a schedule over all rounds asks for.
        """
        phase = len(self.history.steps) - 1
        batches, settings, rounds = self._batches(phase), self.settings, self.rounds
        most, a_step = rounds.most(max_steps), self._step_work()
        spent_work = self.history.work
        num_updates = rounds.length(phase, a_step, spent_work)
        averages = settings.average is not None and (rounds.is_last(phase) or not rounds.by_work)
        seed = derive_seed(self.seed, "train", phase)
        inside, started = self.inside, time.monotonic()
        spent = inside.seconds
        where = f" of phase {phase}"
        step = Step(self.network, self.optimizer, settings, group_rates=self._group_rates, where=where)
        extras = Extras(settings, self.network)
        read_ahead(self.x, batches, inside.number, num_updates)
        self.network.train()
        if averages and self._average is None:
            self._average = WeightAverage(self.network, str(settings.average))
        with seeded_globally(self.seed, "dropout", phase), compiled(self.network, settings):
            restore_generators(inside.generators or {})
            for number in range(inside.number, num_updates):
                batch = settings.batch(self.x, self.y, batches[number].to(self.x.device), seed=seed, step=number)
                rate = rounds.rate(phase, number, most, a_step, spent_work)
                extras.start(number / num_updates)
                value = step(number, rate, lambda x, y: extras.loss(x, y, self.loss), *batch)
                if number >= num_updates - batches.steps_per_epoch:
                    inside.total += value / min(batches.steps_per_epoch, num_updates)
                if self._average is not None:
                    self._average.update(number, num_updates)
                pulse((number + 1) / num_updates)
                if self._saver.is_due:
                    inside.number, inside.seconds = number + 1, spent + time.monotonic() - started
                    inside.generators = generator_states(self.network.parameters())
                    self.save()
        if self._average is not None:
            self._average.put()
            self._average = None
        grown = self._measure(inside.total, spent + time.monotonic() - started)
        grown.training_work = num_updates * a_step
        self.trained, self.inside = len(self.history.steps), Inside()
        assert grown.score is not None
        if self._first is not None:
            self._note_best(grown)
        self._observe(grown.score)
        self.save()
        return grown

    def _observe(self, score: float) -> None:
        """Tell the method what came of the training."""
        if not self.method.observe(score):
            self.history.stopped = "the method has nothing more to add"

    def _measure(self, loss: float, seconds: float) -> GrowthStep:
        """Note what the trained network is: its sizes, its loss and its score."""
        step = self.history.steps[-1]
        found = self._look()
        coupling, sites = found.coupling, found.sites
        step.sizes = {unit: self._meter(coupling, sites, unit).size for unit in ("neurons", "flops")}
        step.sizes["params"] = count_parameters(self.network)
        step.budget_size = self._meter(coupling, sites).size
        step.loss, step.train_seconds = loss, seconds
        step.score = self.metric.score(measure(self.network, self.validation_x, self.validation_y, self.metric))
        return step

    def grow(self) -> str:
        """One growth step, its work counted; returns why growth ends, if nothing could be added."""
        number = len(self.history.steps)
        with ProductCounter() as counter:
            reason = self._grow(number)
        if reason:
            self.history.work_in_vain += float(counter.multiply_adds)
        else:
            self.history.steps[-1].growing_work = float(counter.multiply_adds)
        return reason

    def _grow(self, number: int) -> str:
        start = time.perf_counter()
        found = self._look()
        coupling, sites, blocks = found.coupling, found.sites, found.blocks
        meter = self._meter(coupling, sites)
        context = GrowthContext(
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
            allowance=self.rounds.allowance(self.budget, number, meter.size),
            max_layers=self.budget.layers,
            meter=lambda: Meter(self.network, coupling, sites, self.budget.unit, meter.measured, blocks),
            make_optimizer=self.make_optimizer,
            recipe=self.settings,
            blocks=blocks,
            round_steps=self.rounds.early_steps,
            proportions=self.history.widths_before({name: group.size for name, group in coupling.groups.items()}),
        )
        proposal = self.method.propose(context)
        if not proposal.candidates:
            return "there are no candidates left"
        scores = self.method.score(context, proposal).cpu()
        chosen = choose_within(context, proposal, scores, self.budget, meter.size)
        if not chosen:
            return "no candidate is worth its size" if bool((scores == -torch.inf).all()) else "the budget is reached"
        edit = self.method.apply(context, proposal, chosen)
        if not edit.num_units:
            return "the budget is reached"
        check_edit(context, edit, self.probe)
        step = describe(context, edit, proposal.candidates, scores, chosen)
        step.number = number
        sample = slice(0, 256 if self.rounds.by_work else 1000)  # by work, it is paid for
        step.loss_before = mean_loss(self.network, self.loss, self.x[sample], self.y[sample])
        carry_out(
            self.network,
            coupling,
            sites,
            edit,
            seed=context.seed,
            optimizer=self.optimizer,
            averages=self.averages,
            blocks=blocks,
        )
        step.loss_after = mean_loss(self.network, self.loss, self.x[sample], self.y[sample])
        step.seconds = time.perf_counter() - start
        self.history.steps.append(step)
        return ""

    def save(self) -> None:
        """Store the state between two steps, or in the middle of a training."""
        boundary = (
            2 * len(self.history.steps) + (self.trained == len(self.history.steps)) + 2 * bool(self.history.stopped)
        )
        # Each boundary has as many numbers behind it as the training has mini-batches, so that later is always higher.
        self._saver.save(boundary * (self._most_updates + 1) + self.inside.number)

    @property
    def _most_updates(self) -> int:
        """More than any round has."""
        return max(self.rounds.num_steps, self.rounds.foreseen.most_steps)

    def _take_inside(self) -> dict[str, Any]:
        return {**vars(self.inside), "generators": self.inside.generators or {}}

    def _load_average(self, state: dict[str, Any] | None) -> None:
        if state:
            self._average = WeightAverage(self.network, str(self.settings.average))
            self._average.load_state_dict(state)

    def _replay(self, history: Any) -> None:
        """Give the network and its optimizer the shapes that they had grown to."""
        self.history = History.from_json(history)
        replay(self.network, self.probe, self.history.steps, self.optimizer, self._looking.memory)
