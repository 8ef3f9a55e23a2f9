"""Inputs that were damaged or crafted, drawn from a seed: what a reader has to refuse in one line, or read."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

from ramet.errors import RametError

WEIRD = [
    None, True, False, 0, -1, 1, 2, 10**30, -(10**30), 2**63, 1.0, 0.5, -0.0, 1e308, "", "x", "no such thing", "1",
    "conv:0", "a:b", ".:x", "nan", "\x00", "\x1b[2J", "x" * 2000, [], [[]], [1], [-1], ["x"], [None], {}, {"x": 1},
    {"kind": "module"}, {"$tensor": "x"}, {"$tuple": 3}, {"$dict": [[1]]}, {"$generator": "x"}, [[[[[[[[1]]]]]]]],
]  # fmt: skip


def mutated_json(value: Any, rng: random.Random) -> Any:
    """A copy of a JSON value in which one place, drawn at random, is another value, gone, doubled or renamed."""
    value = copy.deepcopy(value)
    places = list(_places(value))
    if not places:
        return rng.choice(WEIRD)
    holder, key = rng.choice(places)
    action = rng.randrange(6)
    if action == 0:
        del holder[key]
    elif action == 1 and isinstance(holder, dict):
        holder[rng.choice(["", "x", "kind", "$tensor", key + "x"])] = holder.pop(key)
    elif action == 2 and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    elif action == 3:
        other, where = rng.choice(places)
        holder[key] = copy.deepcopy(other[where])
    else:
        holder[key] = copy.deepcopy(rng.choice(WEIRD))
    return value


def mutated_bytes(content: bytes, rng: random.Random) -> bytes:
    """A copy of some bytes with a few of them flipped, lost, doubled or replaced."""
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 4])):
        place = rng.randrange(len(changed) + 1)
        action = rng.randrange(5)
        if action == 0 and place < len(changed):
            changed[place] ^= 1 << rng.randrange(8)
        elif action == 1:
            del changed[place : place + rng.choice([1, 8, 100])]
        elif action == 2:
            changed[place:place] = changed[place : place + rng.choice([1, 8, 100])]
        elif action == 3:
            changed[place : place + 4] = rng.choice(
                [b"\xff\xff\xff\xff", b"\0\0\0\0", b"9999", b"((((", b"\x7f\xff\xff\xff"]
            )
        elif place:
            del changed[place:]
    return bytes(changed)


def surprises(read: Callable[[Any], object], inputs: Iterator[Any] | list[Any]) -> list[str]:
    """What a reader raised beside refusals of one line, for each input that it was given."""
    found = []
    for each in inputs:
        try:
            read(each)
        except RametError as error:
            if "\n" in str(error):
                found.append(f"several lines: {error}")
        except Exception as error:
            found.append(f"{type(error).__name__}: {error} for {each!r:.300}")
    return found


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a nested value: what holds it, and its key there."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])
