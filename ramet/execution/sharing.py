"""The context of tasks on its way to workers: pickled once, its tensors in shared memory or in Ray's object store.

All tensors lie in one piece of shared memory, because each piece costs a file descriptor and a model has more tensors
than a process may have files open.
"""

from __future__ import annotations

import io
import pickle
import warnings
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from ramet.errors import RunError

_ALIGNMENT = 64  # torch's own; some kernels give other bits for other alignments.


_View: TypeAlias = tuple[int, int, torch.dtype, int, tuple[int, ...], tuple[int, ...], bool]


@dataclass(frozen=True)
class SharedContext:
    """A context that worker processes can open, as often as workers are started."""

    data: bytes
    views: list[_View]
    memory: Tensor  # [bytes], uint8

    @classmethod
    def of(cls, context: object, *, is_shared: bool = True) -> SharedContext:
        """Put a context into shared memory, unless it is sent on in another way; later changes do not reach workers."""
        stream = io.BytesIO()
        pickler = _Pickler(stream)
        pickler.dump(context)
        try:
            memory = torch.empty(pickler.size, dtype=torch.uint8)
            if is_shared:
                memory.share_memory_()  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            raise RunError(
                f"worker processes need {pickler.size} bytes of shared memory for their data, but: {error}"
            ) from error
        for storage, offset in pickler.storages.values():
            memory[offset : offset + storage.nbytes()] = torch.tensor([], dtype=torch.uint8).set_(storage)
        return cls(stream.getvalue(), pickler.views, memory)

    def open(self) -> Any:
        """The context; its tensors are views of the shared memory."""
        return _Unpickler(io.BytesIO(self.data), self.views, self.memory).load()


class _Pickler(pickle.Pickler):
    """Leaves dense tensors of the CPU out of the pickle, and notes where in the memory each storage goes."""

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream, protocol=pickle.HIGHEST_PROTOCOL)
        self.storages: dict[int, tuple[torch.UntypedStorage, int]] = {}
        self.views: list[_View] = []
        self.size = 0
        self._seen: dict[int, tuple[int, Tensor]] = {}  # With the tensor, so that no other gets its id.

    def persistent_id(self, item: object) -> int | None:
        # Subclasses (parameters among them) pickle themselves, and their data comes back here as a plain tensor.
        if type(item) is not Tensor or item.device.type != "cpu" or item.layout != torch.strided:
            return None
        if item.is_quantized or item.is_conj() or item.is_neg() or item.grad_fn is not None or item.__dict__:
            return None
        if id(item) not in self._seen:
            self._seen[id(item)] = (len(self.views), item)
            self.views.append(self._place(item))
        return self._seen[id(item)][0]

    def _place(self, tensor: Tensor) -> _View:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self.storages:
            self.storages[storage.data_ptr()] = (storage, self.size)
            self.size += -(-storage.nbytes() // _ALIGNMENT) * _ALIGNMENT
        offset = self.storages[storage.data_ptr()][1]
        shape = tuple(tensor.shape)
        where = (offset, storage.nbytes(), tensor.dtype, int(tensor.storage_offset()))
        return *where, shape, tensor.stride(), tensor.requires_grad


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, views: list[_View], memory: Tensor) -> None:
        super().__init__(stream)
        self._views = views
        self._memory = memory
        self._tensors: dict[int, Tensor] = {}

    def persistent_load(self, index: int) -> Tensor:
        if index not in self._tensors:
            offset, num_bytes, dtype, storage_offset, shape, stride, requires_grad = self._views[index]
            flat = self._memory[offset : offset + num_bytes].view(dtype)
            tensor = flat.as_strided(shape, stride, flat.storage_offset() + storage_offset)
            self._tensors[index] = tensor.requires_grad_(requires_grad)
        return self._tensors[index]


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
    """The reference of a context in the object store; a ``RunError`` if the store is full."""
    packed = SharedContext.of(context, is_shared=False)
    try:
        return ray.put(StoredContext(packed.data, packed.views, packed.memory.numpy()))
    except (ray.exceptions.ObjectStoreFullError, ray.exceptions.OutOfDiskError) as error:
        size = len(packed.data) + packed.memory.numel()
        raise RunError(
            f"the object store of Ray must have room for the data, {size / 1e6:.0f} MB, but is full; give its nodes "
            "more with `ray start --object-store-memory`, or take less data."
        ) from error
