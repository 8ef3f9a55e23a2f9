"""Training one task: any loss, learning rates by parameter, parts that must not move; resumed bit for bit."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ramet.errors import RunError
from ramet.guards import Guard
from ramet.params import Params
from ramet.runs import Checkpoints, pack_state, unpack_state
from ramet.seeding import generator_states, restore_generators, seeded_globally
from ramet.training import Batches, Settings


@dataclass(frozen=True)
class Saves:
    """Where the learning of one task saves itself, phase by phase; without a folder it does not.

    A method that trains in several phases (train, prune, train again) gives each a name. On resuming, ``train`` puts a
    finished phase back as it ended; what lies between phases is computed again.

    Args:
        folder: Where the checkpoints go.
        seconds: How much work may be lost.
    """

    folder: Path | None = None
    seconds: float = 30.0

    def phase(self, name: str) -> Checkpoints | None:
        """The checkpoints of one phase."""
        return None if self.folder is None else Checkpoints(self.folder / name.replace("/", "-"))

    def clear(self) -> None:
        """Remove the checkpoints of all phases: the task is finished."""
        if self.folder is not None and self.folder.is_dir():
            for path in sorted(self.folder.iterdir()):
                if path.is_dir():
                    Checkpoints(path).clear()


@dataclass(frozen=True)
class Held:
    """Values of a parameter that no step may change, whatever momentum and weight decay do.

    Args:
        param: The parameter.
        mask: Which of its values, a boolean tensor that broadcasts to its shape.
    """

    param: Tensor
    mask: Tensor


def train(
    module: nn.Module,
    loss: Callable[[Tensor], Tensor],
    num_samples: int,
    settings: Settings,
    *,
    seed: int,
    rate: Callable[[str], float] = lambda name: 1.0,
    frozen: Sequence[nn.Module] = (),
    held: Sequence[Held] = (),
    guard: Guard | None = None,
    optimizer: Callable[[list[dict[str, Any]]], torch.optim.Optimizer] | None = None,
    saves: Saves | None = None,
    phase: str = "train",
) -> None:
    """Train in place until the epochs of the settings are over.

    Each step is a function of the seed, its number and the state before it, so that a training that was killed and is
    called again ends bit for bit as if it had never stopped.

    Args:
        module: Holds all that the training changes: parameters that require a gradient, and buffers.
        loss: Gives the loss of a mini-batch from the indices of its samples, [batch].
        num_samples: How many samples there are to draw from.
        settings: The numbers of the training.
        seed: The seed of the batches, and of what layers draw.
        rate: The factor of the learning rate, by the name of the parameter; 0 leaves it out.
        frozen: Parts that stay in evaluation mode, so that their batch-norm statistics do not move.
        held: Single values that do not move.
        guard: What keeps steps from disturbing earlier tasks; the caller tells it when a task is finished.
        optimizer: Makes another optimizer than SGD from parameter groups; its learning rates then follow the same
            cosine, from their own start.
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
    stepper = _sgd(listed, settings) if optimizer is None else optimizer(listed)
    starts = [group["lr"] for group in stepper.param_groups]
    kept = [(entry, entry.param.detach().clone()) for entry in held]
    batches = Batches(num_samples, settings.batch_size, seed)
    num_steps = settings.epochs * batches.steps_per_epoch
    checkpoints = None if saves is None else saves.phase(phase)
    with seeded_globally(seed, "draws"):
        first = _resume(checkpoints, module, stepper)
        module.train()
        for part in frozen:
            part.eval()
        saved_at = time.monotonic()
        for step in range(first, num_steps):
            scale = settings.learning_rate_at(step, num_steps) / settings.learning_rate
            for group, start in zip(stepper.param_groups, starts, strict=True):
                group["lr"] = start * scale
            stepper.zero_grad(set_to_none=True)
            with nullcontext() if guard is None else guard.watch(module):
                value = loss(batches[step])
                value.backward()  # type: ignore[no-untyped-call]
            if settings.clip_norm is not None:
                nn.utils.clip_grad_norm_(list(params.values()), settings.clip_norm, foreach=True)
            # Momentum makes a constant gradient go 1 / (1 - momentum) times as far as the learning rate.
            reach = settings.learning_rate * scale / (1 - settings.momentum)
            with nullcontext() if guard is None else guard.step(params, reach):
                stepper.step()
            with torch.no_grad():
                for entry, values in kept:
                    entry.param.copy_(torch.where(entry.mask, values, entry.param))
            if not torch.isfinite(value):
                raise RunError(
                    f"the loss must stay finite, but is {value.item()} in step {step}; a lower learning rate may help."
                )
            if checkpoints is not None and saves is not None and time.monotonic() - saved_at > saves.seconds:
                _save(checkpoints, step + 1, module, stepper)
                saved_at = time.monotonic()
        if checkpoints is not None and first < num_steps:
            _save(checkpoints, num_steps, module, stepper)
    stepper.zero_grad(set_to_none=True)
    module.eval()


def _sgd(groups: list[dict[str, Any]], settings: Settings) -> torch.optim.Optimizer:
    return torch.optim.SGD(
        groups,
        lr=settings.learning_rate,
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
        foreach=True,
    )


def _save(checkpoints: Checkpoints, step: int, module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    state = {
        "module": dict(module.state_dict()),
        "optimizer": optimizer.state_dict(),
        "draws": generator_states(module.parameters()),
    }
    checkpoints.save(step, *pack_state(state))


def _resume(checkpoints: Checkpoints | None, module: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """The first step still to be done, everything put back as it was before it."""
    checkpoint = None if checkpoints is None else checkpoints.load()
    if checkpoint is None:
        return 0
    state = unpack_state(checkpoint.tensors, checkpoint.state)
    module.load_state_dict(state["module"])
    optimizer.load_state_dict(state["optimizer"])
    restore_generators(state["draws"])
    return checkpoint.step
