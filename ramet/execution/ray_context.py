"""The context of tasks in Ray's object store: there once, and mapped by the workers of a node without a copy."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import torch

from ramet.errors import RunError
from ramet.execution.sharing import SharedContext


@dataclass(frozen=True)
class StoredContext:
    """A context as it lies in the object store: workers map the array from there without a copy."""

    data: bytes
    views: list[Any]
    memory: np.ndarray[Any, Any]  # [bytes], uint8

    def open(self) -> Any:
        """The context; its tensors are views of the object store."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # It is read-only, and no task changes the context.
            memory = torch.from_numpy(self.memory)
        return SharedContext(self.data, self.views, memory).open()


def put_context(ray: ModuleType, context: object) -> Any:
    """The reference of a context in the object store.

    Raises:
        RunError: If the store is full.
    """
    packed = SharedContext.of(context, is_shared=False)
    try:
        return ray.put(StoredContext(packed.data, packed.views, packed.memory.numpy()))
    except (ray.exceptions.ObjectStoreFullError, ray.exceptions.OutOfDiskError) as error:
        size = len(packed.data) + packed.memory.numel()
        raise RunError(
            f"the object store of Ray must have room for the data, {size / 1e6:.0f} MB, but is full; give its nodes "
            "more with `ray start --object-store-memory`, or take less data."
        ) from error
