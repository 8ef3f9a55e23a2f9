"""Training one task: any loss, learning rates by parameter, parts that must not move; resumed bit for bit."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor, nn

from ramet.continual.work import TaskWork, step_work
from ramet.data import Split
from ramet.guards import Guard
from ramet.params import Params
from ramet.runs import Checkpoints
from ramet.seeding import seeded_globally
from ramet.training import Batches, Held, SavedPart, Saver, Settings, Step, global_generators, output_of
from ramet.training.acceleration import compiled
from ramet.training.averaging import WeightAverage
from ramet.training.batches import read_ahead
from ramet.training.extras import Extras
from ramet.training.functions import OptimizerFactory

__all__ = ["Held", "Samples", "Saves", "classification", "epoch_work", "train"]

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From the inputs of a mini-batch, their targets and their indices to the loss; inputs and targets are augmented."""


class Samples(NamedTuple):
    """Inputs of any kind and their targets, row by row, where they are no images: features, for example."""

    x: Tensor
    y: Tensor


@dataclass(frozen=True)
class Saves:
    """Where the learning of one task saves itself, phase by phase; without a folder it does not.

    A method that trains in several phases (train, prune, train again) gives each a name. On resuming, ``train`` puts a
    finished phase back as it ended; what lies between phases is computed again. ``work`` is what the task has cost.
    """

    folder: Path | None = None
    seconds: float = 30.0
    identity: str | None = None
    work: TaskWork = field(default_factory=TaskWork, compare=False)

    def phase(self, name: str) -> Checkpoints | None:
        """The checkpoints of one phase."""
        if self.folder is None:
            return None
        return Checkpoints(self.folder / name.replace("/", "-"), identity=self.identity)

    def clear(self) -> None:
        """Remove the checkpoints of all phases: the task is finished."""
        if self.folder is not None and self.folder.is_dir():
            for path in sorted(self.folder.iterdir()):
                if path.is_dir():
                    Checkpoints(path).clear()
            shutil.rmtree(self.folder, ignore_errors=True)  # the checkpoints are gone: what is left are empty folders


def classification(
    network: Callable[[Tensor], Any],
    data: Split,
    settings: Settings,
    penalty: Callable[[], Tensor | float] | None = None,
) -> tuple[Loss, Split]:
    """The recipe's loss of a network's logits, perhaps with a penalty on its weights; and the data that it is of.

    ``train(network, *classification(network, data, settings), settings, ...)``
    """
    of_outputs = settings.loss_for(data.y)

    def loss(x: Tensor, y: Tensor, indices: Tensor) -> Tensor:
        value = of_outputs(output_of(network(x)), y)
        return value if penalty is None else value + penalty()

    return loss, data


def train(
    module: nn.Module,
    loss: Loss,
    data: Split | Samples,
    settings: Settings,
    *,
    seed: int,
    rate: Callable[[str], float] = lambda name: 1.0,
    frozen: Sequence[nn.Module] = (),
    held: Sequence[Held] = (),
    guard: Guard | None = None,
    optimizer: OptimizerFactory | None = None,
    called: nn.Module | None = None,
    saves: Saves | None = None,
    phase: str = "train",
) -> None:
    """Train in place until the epochs of the settings are over.

    Each step is a function of the seed, its number and the state before it, so that a training that was killed and is
    called again ends bit for bit as if it had never stopped.

    Args:
        module: Holds all that the training changes: parameters that require a gradient, and buffers.
        loss: Gives the loss of a mini-batch from its inputs, targets and indices, each [batch, ...].
        data: What mini-batches are drawn from, and augmented by the recipe.
        settings: The recipe of the training; its own loss is what ``classification`` takes.
        seed: The seed of the batches, and of what layers draw.
        rate: The factor of the learning rate, by the name of the parameter; 0 leaves it out.
        frozen: Parts that stay in evaluation mode, so that their batch-norm statistics do not move.
        held: Single values that do not move.
        guard: What keeps steps from disturbing earlier tasks; the caller tells it when a task is finished.
        optimizer: Makes another optimizer than the recipe's from parameter groups; its learning rates then follow the
            same schedule, from their own start, and weights are not averaged.
        called: The part of the module that the loss calls, which is what a recipe compiles; all of it if none.
        saves: Where the training saves itself.
        phase: The name of this training among those of its task.

    Raises:
        RunError: The loss is not finite.
    """
    params: Params = {
        name: param for name, param in module.named_parameters() if param.requires_grad and rate(name) > 0
    }
    groups: dict[float, list[Tensor]] = {}
    for name, param in params.items():
        groups.setdefault(rate(name), []).append(param)
    listed = [{"params": group, "lr": settings.learning_rate * factor} for factor, group in groups.items()]
    stepper = (optimizer or settings.make_optimizer)(listed)
    step = Step(
        module,
        stepper,
        settings,
        params=params,
        group_rates=[group["lr"] for group in stepper.param_groups],
        unit=settings.learning_rate,
        held=held,
    )
    parts: dict[str, SavedPart] = {"network": module, "optimizer": stepper, "generators": global_generators(module)}
    average = None
    if settings.average is not None and optimizer is None:
        parts["average"] = average = WeightAverage(module, settings.average)
    saves = Saves() if saves is None else saves
    saver = Saver(saves.phase(phase), parts, seconds=saves.seconds)
    batches = Batches(len(data.y), settings.batch_size, seed)
    num_steps = settings.epochs * batches.steps_per_epoch
    extras = Extras(settings, module, one_head=False)
    _set_modes(module, frozen)
    each = _epoch_work(module, loss, data, settings, batches, list(params.values()))  # before it is compiled
    saves.work.add(phase, each * settings.epochs)
    with seeded_globally(seed, "draws"), compiled(called or module, settings):
        first = saver.resume() or 0
        _set_modes(module, frozen)
        read_ahead(data.x, batches, first, num_steps)
        for number in range(first, num_steps):
            indices = batches[number].to(data.x.device)
            x, y = settings.batch(data.x, data.y, indices, seed=seed, step=number)
            factor = settings.learning_rate_at(number, num_steps) / settings.learning_rate
            extras.start(number // batches.steps_per_epoch / settings.epochs)
            step(number, factor, loss, x, y, indices, guard=guard)
            if average is not None:
                average.update(number, num_steps)
            if saver.is_due and number + 1 < num_steps:  # what the last step leaves is saved below, averaged
                saver.save(number + 1)
        if average is not None and first < num_steps:
            average.put()
        if first < num_steps:
            saver.save(num_steps)
    stepper.zero_grad(set_to_none=True)
    module.eval()


def _set_modes(module: nn.Module, frozen: Sequence[nn.Module]) -> None:
    module.train()
    for part in frozen:
        part.eval()


def epoch_work(module: nn.Module, loss: Loss, data: Split | Samples, settings: Settings, *, seed: int) -> float:
    """The multiply-adds of an epoch of ``train`` of the same arguments, as the module is; it is left as it was."""
    module.train()
    params = [param for param in module.parameters() if param.requires_grad]
    batches = Batches(len(data.y), settings.batch_size, seed)
    work = _epoch_work(module, loss, data, settings, batches, params)
    module.eval()
    return work


def _epoch_work(
    module: nn.Module,
    loss: Loss,
    data: Split | Samples,
    settings: Settings,
    batches: Batches,
    params: Sequence[Tensor],
) -> float:
    """The multiply-adds of the steps of an epoch, from those of the first, without what augmentation takes.

    Of its mini-batch a part as large as steps take at once: more might not fit the memory.
    """
    first = batches[0].to(data.x.device)
    first = first[: -(-len(first) // settings.accumulate)]
    samples = sum(len(batches[number]) for number in range(batches.steps_per_epoch))
    return step_work(module, loss, (data.x[first], data.y[first], first), params) / len(first) * samples
