"""Nested structures of tensors and scalars as named tensors and JSON, and back, without pickle.

``optimizer.state_dict()`` has integer keys and tuples, which JSON would silently turn into strings and lists; here they
come back as they were.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ramet.runs.checkpoints import deserialise, serialise
from ramet.runs.encoding import decode, encode

_MARK = "$"


def pack_state(value: object) -> tuple[dict[str, Tensor], Any]:
    """Split a structure into its tensors, by name, and JSON that says where each belongs.

    What may occur, nested at will: tensors, ``torch.Generator`` of the CPU, dicts with keys of None, booleans, numbers,
    strings and tuples of these, lists, tuples, and scalars. The tensors are not copied: save them, or clone them,
    before the next step changes them.

    Raises:
        TypeError: If something else occurs; the message says where.

    >>> tensors, packed = pack_state({"state": {0: {"step": torch.tensor(2.0)}}, "betas": (0.9, None)})
    >>> tensors
    {'state/0/step': tensor(2.)}
    >>> unpack_state(tensors, packed)
    {'state': {0: {'step': tensor(2.)}}, 'betas': (0.9, None)}
    """
    tensors: dict[str, Tensor] = {}
    return tensors, _pack(value, "", tensors)


def unpack_state(tensors: Mapping[str, Tensor], packed: Any) -> Any:
    """The structure that ``pack_state`` split; dict subclasses come back as dicts."""
    if isinstance(packed, list):
        return [unpack_state(tensors, item) for item in packed]
    if not isinstance(packed, dict):
        return packed
    if len(packed) == 1:
        (mark, content), *_ = packed.items()
        if mark == "$tensor":
            return tensors[content]
        if mark == "$generator":
            generator = torch.Generator()
            generator.set_state(tensors[content])
            return generator
        if mark == "$tuple":
            return tuple(unpack_state(tensors, item) for item in content)
        if mark == "$dict":
            return {unpack_state(tensors, key): unpack_state(tensors, item) for key, item in content}
    return {key: unpack_state(tensors, item) for key, item in packed.items()}


def state_to_bytes(value: object) -> bytes:
    """A structure as ``pack_state`` takes it, as bytes for another process.

    >>> state_from_bytes(state_to_bytes({"betas": (0.9, None), "step": torch.tensor(2.0)}))
    {'betas': (0.9, None), 'step': tensor(2.)}
    """
    tensors, packed = pack_state(value)
    data, aliases, strides = serialise(tensors)
    head = encode({"state": packed, "aliases": aliases, "strides": strides}).encode()
    return b"".join([len(head).to_bytes(8, "big"), head, *data.pieces()])


def state_from_bytes(message: bytes) -> Any:
    """The structure that ``state_to_bytes`` was given; its tensors are on the CPU."""
    end = 8 + int.from_bytes(message[:8], "big")
    head = decode(message[8:end])
    file = io.BytesIO(message)
    file.seek(end)
    return unpack_state(deserialise(file, len(message) - end, head["aliases"], head["strides"]), head["state"])


def _pack(value: object, where: str, tensors: dict[str, Tensor]) -> Any:
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, float):  # Also NumPy's float64, which schedules put into optimizers.
        return float(value)
    if isinstance(value, Tensor):
        return {"$tensor": _store(value, where, tensors)}
    if isinstance(value, torch.Generator) and value.device.type == "cpu":
        return {"$generator": _store(value.get_state(), where, tensors)}
    if type(value) in (list, tuple, torch.Size):
        items = [_pack(item, f"{where}/{index}" if where else str(index), tensors) for index, item in enumerate(value)]  # type: ignore[var-annotated, arg-type]
        return items if type(value) is list else {"$tuple": items}
    if isinstance(value, dict):
        pairs = [
            (_pack(key, where, tensors), _pack(item, f"{where}/{key}" if where else str(key), tensors))
            for key, item in value.items()
        ]
        if all(isinstance(key, str) and not key.startswith(_MARK) for key in value):
            return dict(pairs)
        return {"$dict": [list(pair) for pair in pairs]}
    raise TypeError(
        f"a state is made of tensors, dicts, lists, tuples and scalars, but {where or 'it'} is {type(value)}."
    )


def _store(tensor: Tensor, where: str, tensors: dict[str, Tensor]) -> str:
    name, number = where or "value", 2
    while name in tensors:  # {"a/b": x, "a": {"b": y}} and {1: x, "1": y} give one path to two tensors.
        name, number = f"{where}#{number}", number + 1
    tensors[name] = tensor
    return name
