"""A guard in Hugging Face's ``Trainer``, and so in its subclasses, such as TRL's trainers."""

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
    from transformers import TrainerCallback
except ImportError:
    raise MissingExtraError("transformers", "trainer") from None


class TrainerGuard(TrainerCallback):  # type: ignore[misc]
    """Takes every optimizer step of a ``Trainer`` under a guard: ``Trainer(..., callbacks=[TrainerGuard(guard)])``.

    The guard must have remembered what it is to keep before ``train()`` is called; see
    ``ramet.guards.remember_batches``. So a training that is resumed from a checkpoint needs nothing of the guard's in
    it: the script lets the guard remember the model that it loads first, as it did when it began.

    Gradient accumulation, clipping, mixed precision and DDP are the ``Trainer``'s. The guard comes after them, once an
    optimizer step; see ``ramet.guards.attach`` for the order. DeepSpeed and FSDP, which divide parameters among
    processes, are refused.
    """

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self._epochs = Epochs(guard)
        self._next: int | None = None
        self._attachment: Attachment | None = None

    def on_train_begin(
        self, args: Any, state: Any, control: Any, *, model: nn.Module, optimizer: Any, **others: Any
    ) -> None:
        """Attach the guard, once the optimizer is made; again where a batch size that was too large is tried anew."""
        self._detach()
        warn_if_empty(self.guard)
        self._epochs, self._next = Epochs(self.guard), None
        self._attachment = attach(self.guard, model, optimizer)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Tell the guard.

        The ``Trainer`` counts by shares of an epoch, and of data without a length it does not know the whole: after a
        pass over them it says 0.25, for example. So passes are counted, from where the training goes on.
        """
        epoch = int(state.epoch or 0) if self._next is None else self._next
        self._epochs.begin(epoch)
        self._next = epoch + 1

    def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Let the optimizer go."""
        self._detach()

    def _detach(self) -> None:
        if self._attachment is not None:
            self._attachment.detach()
            self._attachment = None
