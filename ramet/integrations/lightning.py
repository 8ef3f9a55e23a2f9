"""A guard in Lightning's ``Trainer``."""

from __future__ import annotations

from typing import Any

from torch import nn

from ramet.errors import MissingExtraError
from ramet.guards import attach
from ramet.guards.attaching import Attachment
from ramet.guards.base import Guard
from ramet.integrations.epochs import Epochs
from ramet.integrations.nothing_remembered import warn_if_empty

try:
    from lightning.pytorch import Callback
except ImportError:
    try:
        from pytorch_lightning import Callback  # the same library under its older name
    except ImportError:
        raise MissingExtraError("lightning", "lightning") from None


class LightningGuard(Callback):  # type: ignore[misc]
    """Takes every optimizer step of a ``Trainer`` under a guard: ``Trainer(..., callbacks=[LightningGuard(guard)])``.

    The guard must have remembered what it is to keep before ``fit`` is called, from the ``LightningModule`` itself,
    since that is what parameters are named by; see ``ramet.guards.remember_batches``. A fit that goes on from a
    checkpoint needs nothing of the guard's in it, if the guard remembers the model that was begun with.

    Lightning clips after its hook ``on_before_optimizer_step``. The guard is attached to the optimizers instead, and
    comes after accumulation, averaging, unscaling and clipping; see ``ramet.guards.attach`` for the order. Manual
    optimization and several optimizers work. DeepSpeed and FSDP, which divide parameters among processes, are refused.
    """

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self._epochs = Epochs(guard)
        self._attachments: list[Attachment] = []

    def on_train_start(self, trainer: Any, pl_module: nn.Module) -> None:
        """Attach the guard to every optimizer."""
        self._detach()
        warn_if_empty(self.guard)
        self._epochs = Epochs(self.guard)
        self._attachments = [attach(self.guard, pl_module, optimizer) for optimizer in trainer.optimizers]

    def on_train_epoch_start(self, trainer: Any, pl_module: nn.Module) -> None:
        """Tell the guard."""
        self._epochs.begin(trainer.current_epoch)

    def on_train_end(self, trainer: Any, pl_module: nn.Module) -> None:
        """Let the optimizers go."""
        self._detach()

    def on_exception(self, trainer: Any, pl_module: nn.Module, exception: BaseException) -> None:
        """Let the optimizers go, and leave no trace in the gradients."""
        self._detach()

    def _detach(self) -> None:
        for attachment in self._attachments:
            attachment.detach()
        self._attachments = []
