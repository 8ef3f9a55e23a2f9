"""A grown model of Hugging Face as ``from_pretrained`` loads it, where its configuration can say how large it is.

A configuration has one number for a size that all layers share. So a model that grew by the same amount in each layer
can be said in one, and a model that grew in some layers only cannot. Which number gives which sizes is found out by
changing each a little and looking at the shapes: no table of models is kept here, and nothing of transformers is
imported. A model is built from the found configuration and compared with the grown one, shape by shape and output by
output, before anything is written.
"""

from __future__ import annotations

import copy
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ramet.tracing.coupling import Inputs
from ramet.tracing.probing import SINGLE_TOLERANCE, largest_change, outputs

Shapes = dict[str, tuple[int, ...]]
"""The shape of each tensor of a network, by its name."""

_LEFT_OPEN = ("inner", "intermediate", "ffn")
"""What sizes are called that a configuration may leave to the class, which takes a multiple of another then."""


def save_pretrained(network: nn.Module, folder: Path, inputs: Inputs) -> str:
    """Write a model as ``from_pretrained`` of its class loads it; gives why that cannot be done, or nothing.

    On the ``inputs``, a small batch, the model that will be loaded must give what the grown one gives.
    """
    if not (hasattr(network, "save_pretrained") and hasattr(getattr(network, "config", None), "to_dict")):
        return f"{type(network).__name__} is no model of Hugging Face"
    part = folder.with_name(f"{folder.name}.part")
    try:
        with torch.random.fork_rng(devices=[]):  # a model draws its first weights, which nobody else should notice
            model, problem = rebuilt(network)
        if not problem:
            first = next(network.parameters())
            model.to(device=first.device, dtype=first.dtype)
            model.load_state_dict(network.state_dict())
            change = largest_change(outputs(network, inputs), outputs(model, inputs))
            if change > SINGLE_TOLERANCE:
                return (
                    f"a {type(network).__name__} with its sizes and weights gives outputs that differ by {change:.1e}"
                )
            model.save_pretrained(part)
            shutil.rmtree(folder, ignore_errors=True)
            part.rename(folder)
    except OSError:
        raise
    except Exception as error:  # a model's class may refuse a configuration in whatever way
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return problem


def rebuilt(network: Any) -> tuple[Any, str]:
    """A model from a configuration with the sizes of a grown one, with weights of its own; or why there is none."""
    make: Callable[[Any], Any] = type(network)
    wanted = shapes_of(network)
    config = copy.deepcopy(network.config)
    found = _search(make, config, wanted)
    different = _different(found, wanted)
    if different:
        name = different[0]
        has = list(wanted[name]) if name in wanted else "not there"
        gives = list(found[name]) if name in found else "none"
        return None, (
            f"{name} is {has}, and the sizes of {type(config).__name__} that fit the rest give {gives}: it has one "
            f"number for all layers"
        )
    _adopt_epsilons(make(config), network, config)
    return make(config), ""


def shapes_of(network: nn.Module) -> Shapes:
    """The shapes of a network's tensors."""
    return {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}


def _different(found: Shapes, wanted: Shapes) -> list[str]:
    return [name for name in {**wanted, **found} if found.get(name) != wanted.get(name)]


def _search(make: Callable[[Any], Any], config: Any, wanted: Shapes) -> Shapes:
    """Change a configuration, number by number, for as long as fewer tensors are of another shape; gives the shapes."""
    now = _try(make, config)
    assert now is not None, "the configuration that a model has makes a model"
    progress = True
    while _different(now, wanted) and progress:
        progress = False
        for name in _sizes(config):
            value = getattr(config, name)
            for other in _proposals(make, config, name, now, wanted):
                setattr(config, name, other)
                found = _try(make, config)
                if found is not None and len(_different(found, wanted)) < len(_different(now, wanted)):
                    now, value, progress = found, other, True
                    break
                setattr(config, name, value)
    return now


def _sizes(config: Any) -> list[str]:
    return [
        name
        for name, value in vars(config).items()
        if not name.startswith("_")
        and not name.endswith("_id")
        and ((type(value) is int and value > 0) or (value is None and any(word in name for word in _LEFT_OPEN)))
    ]


def _try(make: Callable[[Any], Any], config: Any) -> Shapes | None:
    """The shapes that a configuration gives, without memory for the weights; nothing if it is refused."""
    try:
        with torch.device("meta"):
            return shapes_of(make(copy.deepcopy(config)))
    except Exception:
        return None


def _proposals(make: Callable[[Any], Any], config: Any, name: str, now: Shapes, wanted: Shapes) -> Iterator[int]:
    """Values of a number that would mend a shape: shapes are linear in each, and a count of blocks is counted."""
    changed = copy.deepcopy(config)
    value = getattr(config, name)
    if value is None:
        value = 1
        setattr(changed, name, value)
        now = _try(make, changed) or now
    for step in (1, value):  # some sizes have to be divisible by others
        setattr(changed, name, value + step)
        found = _try(make, changed)
        if found is None:
            continue
        seen = set()
        for tensor in _different(found, now):
            if tensor not in now:
                count = _count(tensor, wanted)
            elif tensor in found and tensor in wanted and len(found[tensor]) == len(wanted[tensor]):
                count = _solve(value, step, now[tensor], found[tensor], wanted[tensor])
            else:
                count = None
            if count is not None and count > 0 and count != value and count not in seen:
                seen.add(count)
                yield count
        return


def _solve(value: int, step: int, now: tuple[int, ...], found: tuple[int, ...], wanted: tuple[int, ...]) -> int | None:
    """What a number must be for one dimension that depends on it to be as wanted, where it is not."""
    for is_now, other, goal in zip(now, found, wanted, strict=True):
        slope = (other - is_now) / step
        if slope and goal != is_now and ((goal - is_now) / slope).is_integer():
            return value + int((goal - is_now) / slope)
    return None


def _count(tensor: str, wanted: Shapes) -> int | None:
    """How many blocks there are in the list that a tensor of a new block would be in."""
    for match in re.finditer(r"\.(\d+)\.", tensor):
        start, end = tensor[: match.start() + 1], tensor[match.end() - 1 :]
        numbers = {int(n[len(start) : -len(end)]) for n in wanted if n.startswith(start) and n.endswith(end)
                   and n[len(start) : -len(end)].isdigit()}  # fmt: skip
        if numbers and int(match.group(1)) > 0:
            return max(numbers) + 1
    return None


def _adopt_epsilons(model: nn.Module, network: nn.Module, config: Any) -> None:
    """Give a configuration the epsilon of the grown norms, where all that have the model's now have the same one."""
    modules = dict(model.named_modules())
    apart: dict[float, set[float]] = {}
    for name, module in network.named_modules():
        for key, value in vars(module).items():
            if "eps" in key and isinstance(value, float):
                apart.setdefault(vars(modules[name]).get(key, value), set()).add(value)
    for name, value in list(vars(config).items()):
        if "eps" in name and isinstance(value, float) and len(apart.get(value, ())) == 1:
            setattr(config, name, next(iter(apart[value])))
