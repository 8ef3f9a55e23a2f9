"""Tensors as a safetensors file, and back, without a second copy of them in memory.

safetensors makes the whole file in memory before the first byte is written, and reads it whole before the first tensor
is made: with the weights, momenta and best weights of a large network that is as much as its training takes. Here the
memory of the tensors is written, one after the other, and the file is read into the memory of new ones.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from ramet.runs.encoding import decode

LARGEST_HEADER = 100_000_000
"""In bytes; what safetensors itself reads at most."""

_PIECE = 1 << 20
"""Smaller tensors are put together up to this size: a file of a thousand of them is not written in a thousand calls."""

_TYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U64": torch.uint64, "U32": torch.uint32,
    "U16": torch.uint16, "U8": torch.uint8, "BOOL": torch.bool, "C64": torch.complex64,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E4M3FNUZ": torch.float8_e4m3fnuz, "F8_E5M2": torch.float8_e5m2,
    "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
}  # fmt: skip
"""The names that the format has for types."""
_NAMES = {dtype: name for name, dtype in _TYPES.items()}

Piece = bytes | memoryview


class ReadsInto(Protocol):
    """A file that is open to read, without a buffer of its own; ``io.BytesIO`` is one, too."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Read at most as many bytes as there is room for; gives how many."""


@dataclass(frozen=True)
class TensorFile:
    """What a file of tensors consists of: its head, and the tensors in their order, whose memory follows.

    >>> import safetensors.torch
    >>> file = TensorFile.of({"weight": torch.ones(2)})
    >>> safetensors.torch.load(b"".join(file.pieces()))
    {'weight': tensor([1., 1.])}
    """

    head: bytes
    contents: tuple[Tensor, ...]

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> TensorFile:
        """The file of some tensors, which must not change until it is written; those elsewhere come to the CPU.

        Raises:
            TypeError: A tensor has a type that the format does not know.
        """
        # Large elements first, so that each tensor begins at a multiple of its elements' size.
        names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
        header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
        contents, end = [], 0
        for name in names:
            content = tensors[name].detach().resolve_conj().resolve_neg().cpu().contiguous()
            if content.dtype not in _NAMES or content.layout != torch.strided:
                raise TypeError(f"a file holds dense tensors of a known type, but {name!r} is {content.dtype}.")
            begin, end = end, end + content.nbytes
            header[name] = {
                "dtype": _NAMES[content.dtype],
                "shape": list(content.shape),
                "data_offsets": [begin, end],
            }
            contents.append(content)
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        return cls(len(text).to_bytes(8, "little") + text, tuple(contents))

    @property
    def num_bytes(self) -> int:
        """The size of the file."""
        return len(self.head) + sum(content.nbytes for content in self.contents)

    def pieces(self) -> Iterator[Piece]:
        """The file from its beginning to its end; large pieces are the tensors' own memory."""
        small = bytearray(self.head)
        for content in self.contents:
            memory = _memory(content)
            if len(small) + len(memory) <= _PIECE:
                small += memory
                continue
            if small:
                yield bytes(small)
                small.clear()
            if len(memory) <= _PIECE:
                small += memory
            else:
                yield memory
        if small:
            yield bytes(small)


def read_tensors(
    file: ReadsInto, num_bytes: int, note: Callable[[Piece], object] = lambda piece: None
) -> dict[str, Tensor]:
    """The tensors of a file of so many bytes, on the CPU, each with memory of its own.

    Nothing is made before it is known that the file is large enough for it. All that is read is also given to ``note``,
    such as the ``update`` of a checksum.

    Raises:
        ValueError: It is no such file; the message says why, in the middle of a sentence.
    """
    start = _read(file, bytearray(8), note)
    length = int.from_bytes(start, "little")
    if not 0 < length <= min(num_bytes - 8, LARGEST_HEADER):
        raise ValueError(f"its header says that it has {length} bytes")
    header = decode(bytes(_read(file, bytearray(length), note)))
    if not isinstance(header, dict):
        raise ValueError("its header is no object")
    header.pop("__metadata__", None)
    entries = sorted((_Entry.of(name, value) for name, value in header.items()), key=lambda entry: entry.place)
    end = 0
    for entry in entries:
        if entry.place != (end, end + entry.num_bytes):
            raise ValueError(f"its tensor {entry.name!r} does not lie where the one before it ends")
        end += entry.num_bytes
    if 8 + length + end != num_bytes:
        raise ValueError(f"its tensors have {end} of {num_bytes - 8 - length} bytes")
    tensors = {}
    for entry in entries:
        tensors[entry.name] = torch.empty(entry.shape, dtype=entry.dtype)
        _read(file, _memory(tensors[entry.name]), note)
    return tensors


@dataclass(frozen=True)
class _Entry:
    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    place: tuple[int, int]

    @property
    def num_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @classmethod
    def of(cls, name: str, value: Any) -> _Entry:
        try:
            shape, (begin, end) = tuple(value["shape"]), value["data_offsets"]
            dtype = _TYPES[value["dtype"]]
        except (TypeError, KeyError, ValueError):
            raise ValueError(f"its tensor {name!r} has no type, shape and place") from None
        if any(type(number) is not int or not 0 <= number < 1 << 62 for number in (*shape, begin, end)):
            raise ValueError(f"its tensor {name!r} has a shape or a place that none can have")
        return cls(name, dtype, shape, (begin, end))


def _memory(tensor: Tensor) -> memoryview:
    """The bytes of a contiguous tensor, which are not copied."""
    flat = tensor.reshape(-1)
    return flat.view(torch.uint8).numpy().data if len(flat) else memoryview(b"")


def _read(file: ReadsInto, buffer: Any, note: Callable[[Piece], object]) -> Any:
    """Fill a buffer; one read may give only a part of it."""
    rest = memoryview(buffer)
    while rest:
        count = file.readinto(rest)
        if not count:
            raise ValueError("it ends too early")
        rest = rest[count:]
    note(memoryview(buffer))
    return buffer
