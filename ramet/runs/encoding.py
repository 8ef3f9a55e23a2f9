"""Plain values as strict JSON, exactly: what is read back equals what was written, bit for bit.

Floats keep every bit because Python prints the shortest text that reads back as the same float. JSON has no NaN and no
infinity, so these become ``{"$float": "nan"}``, ``{"$float": "inf"}`` and ``{"$float": "-inf"}``; any other JSON reader
still reads the file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

JSON: TypeAlias = "Mapping[str, JSON] | Sequence[JSON] | str | int | float | bool | None"
"""What configurations, records, checkpoint states and task results are made of."""

Json = dict[str, Any]
"""An object of such values, where its keys are known to whoever reads it."""

FORMAT_VERSION = 2
"""The layout of a run directory; raised whenever an older ramet could not read what a newer one writes."""

READABLE_FORMATS = (1, FORMAT_VERSION)
"""Those that this ramet reads and goes on with, each as it is. The records of the first have no checksums."""

_TAG = "$float"


def plain(value: object, where: str = "value") -> Any:
    """A copy of a value in built-in types only; a ``TypeError`` says ``where`` something is not JSON.

    >>> plain({"scores": (1, 2.5), "done": True})
    {'scores': [1, 2.5], 'done': True}
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{where} must have strings as keys, but got the key {key!r}.")
        if set(value) == {_TAG}:
            raise TypeError(
                f"{where} must not be a mapping whose only key is {_TAG!r}, which stands for NaN and infinity."
            )
        return {str(key): plain(item, f"{where}[{key!r}]") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, f"{where}[{index}]") for index, item in enumerate(value)]
    raise TypeError(
        f"{where} must be made of dicts, lists, strings, numbers, booleans and None, but got {type(value)}."
    )


def encode(value: object, *, where: str = "value", sort_keys: bool = False, indent: int | None = None) -> str:
    """A value as one JSON text, without a newline unless ``indent`` asks for some.

    >>> encode({"loss": float("nan"), "step": 3})
    '{"loss":{"$float":"nan"},"step":3}'
    """
    separators = (",", ":") if indent is None else (",", ": ")
    tagged = _tag(plain(value, where))
    return json.dumps(tagged, allow_nan=False, separators=separators, sort_keys=sort_keys, indent=indent)


def decode(text: str | bytes) -> Any:
    """The value of one JSON text that ``encode`` wrote; a ``ValueError`` if it is not strict JSON in UTF-8.

    >>> decode('{"loss":{"$float":"-inf"}}')
    {'loss': -inf}
    """
    try:
        return json.loads(text, object_hook=_untag, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _tag(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return {_TAG: repr(value)}
    if isinstance(value, dict):
        return {key: _tag(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_tag(item) for item in value]
    return value


def _untag(mapping: dict[str, Any]) -> Any:
    if set(mapping) == {_TAG}:
        if not isinstance(mapping[_TAG], str):
            raise ValueError(f"{_TAG} must be a text")
        return float(mapping[_TAG])
    return mapping


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
