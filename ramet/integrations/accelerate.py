"""A guard in a loop of one's own with Hugging Face's accelerate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import nn

from ramet.errors import MissingExtraError, RunError
from ramet.guards import attach
from ramet.guards.attaching import Attachment
from ramet.guards.base import Guard

try:
    from accelerate import Accelerator
except ImportError:
    raise MissingExtraError("accelerate", "accelerate") from None

FILE = "guard.safetensors"
"""What a guard remembers, in the folder of ``accelerator.save_state``."""


def prepare_guard(accelerator: Accelerator, guard: Guard, model: nn.Module, optimizer: Any) -> Attachment:
    """Take every step of a prepared optimizer under a guard; ``accelerator.save_state`` and ``load_state`` keep it.

    Call it after ``accelerator.prepare``. The loop stays as it is: within ``accelerator.accumulate(model)`` the
    optimizer steps once the gradients are complete, and so does the guard; ``accelerator.clip_grad_norm_`` comes before
    it. See ``ramet.guards.attach`` for the order. What the guard remembers is saved as ``guard.safetensors``.

    Raises:
        ConfigError: as ``attach``; DeepSpeed and FSDP divide parameters among processes, and are refused.
        RunError: from ``load_state``, for a folder that was saved without the guard.
    """

    def save(models: Any, weights: Any, folder: str) -> None:
        if accelerator.is_main_process:
            save_file(guard.state_dict(), Path(folder) / FILE)

    def load(models: Any, folder: str) -> None:
        if not (Path(folder) / FILE).exists():
            raise RunError(f"a guarded training goes on with what its guard remembers, but {folder} has no {FILE}.")
        guard.load_state_dict(load_file(Path(folder) / FILE))

    attachment = attach(guard, accelerator.unwrap_model(model), optimizer)
    accelerator.register_save_state_pre_hook(save)
    accelerator.register_load_state_pre_hook(load)
    return attachment
