"""Trained weights of a file, put into a network: safetensors, or what ``torch.save(network.state_dict())`` wrote."""

from __future__ import annotations

import hashlib
import pickle
import zipfile
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ramet.errors import ConfigError

NESTED = ("state_dict", "model_state_dict", "model")
"""Where checkpoints of other programs keep the weights beside other things."""


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """The tensors of a file by name, on the CPU; no code in the file is run.

    Raises:
        ConfigError: there is no such file, or it holds something else than tensors by name.
    """
    path = Path(path)
    if not path.is_file():
        raise ConfigError(f"weights must be a file, but there is no {path}.")
    try:
        if path.suffix == ".safetensors":
            return safetensors.torch.load_file(path)
        _check_packing(path)
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file leads torch's reader to anything, such as an IndexError
        why = (str(error).splitlines() or ["it is empty." if path.stat().st_size == 0 else type(error).__name__])[0]
        if isinstance(error, pickle.UnpicklingError):  # torch's own words are about how to run the code after all
            why = "it holds objects, which are never made here; of a module, save its state_dict()."
        raise ConfigError(
            f"weights must be a .safetensors file or a state_dict that torch saved, but {path}: {why}"
        ) from None
    for name in NESTED:
        if isinstance(found, Mapping) and isinstance(found.get(name), Mapping):
            found = found[name]
    tensors = {name: value for name, value in found.items() if isinstance(value, Tensor)} if _is_named(found) else {}
    if not tensors:
        raise ConfigError(f"weights must be tensors by name, but {path} holds {type(found).__name__}.")
    return tensors


def _check_packing(path: Path) -> None:
    """Refuse an archive that unpacks to more than it has: torch does not compress, so that it is none of torch's."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            num_bytes = sum(member.file_size for member in archive.infolist())
        if num_bytes > path.stat().st_size:
            raise ValueError(f"it unpacks to {num_bytes:,} bytes, and torch compresses nothing.")


def load_weights(network: nn.Module, path: str | Path, *, without: str | None = None) -> None:
    """Put the weights of a file into a network; every weight must be there, with its shape.

    Args:
        network: where they go.
        path: a file that ``read_weights`` reads.
        without: the name of a module whose weights are neither asked for nor taken, such as a head.

    Raises:
        ConfigError: the file cannot be read, or does not fit; the first names that do not are said.
    """
    own = network.state_dict()
    tensors = by_own_names(read_weights(path), own, path)
    if without is not None:
        tensors = {name: value for name, value in tensors.items() if not name.startswith(f"{without}.")}
        own = {name: value for name, value in own.items() if not name.startswith(f"{without}.")}
    _refuse("lacks", own.keys() - tensors.keys(), path)
    check_fit(tensors, own, path)
    network.load_state_dict(tensors, strict=without is None)


def by_own_names(tensors: Mapping[str, Tensor], own: Mapping[str, Tensor], path: str | Path) -> dict[str, Tensor]:
    """A file's tensors by the names that they have in a network, whose state is ``own``.

    Wrappers that the file's network was in are taken off, and a tensor that the network has under two names is under
    both.
    """
    found: dict[str, Tensor] = {}
    for given, value in tensors.items():
        name = given.removeprefix("module.").removeprefix("_orig_mod.")  # how torch's wrappers call what they wrap
        if name in found:
            raise ConfigError(f"weights must have a name each, but {path} names {name} twice.")
        found[name] = value
    return _with_tied(_without_wrapper(found, own), own)


def check_fit(tensors: Mapping[str, Tensor], own: Mapping[str, Tensor], path: str | Path) -> None:
    """Refuse tensors that a network, whose state is ``own``, has no place for, or that are not finite."""
    known = [name for name in own.keys() & tensors.keys() if not is_lazy(own[name])]
    _refuse("has besides", tensors.keys() - own.keys(), path)
    _refuse("has with another shape", {name for name in known if tensors[name].shape != own[name].shape}, path)
    # Half precision becomes single precision; whole numbers for broken ones are somebody's quantised weights.
    types = {name for name in known if tensors[name].is_floating_point() != own[name].is_floating_point()}
    _refuse("has with another type", types, path)
    check_finite(tensors, path)


def _refuse(words: str, names: Set[str], path: str | Path) -> None:
    """Say which names of a file do not fit, if there are any."""
    if names:
        shown = ", ".join(sorted(names)[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        raise ConfigError(f"weights must fit the network, but {path} {words} {shown}.")


def _without_wrapper(tensors: dict[str, Tensor], own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors by the names that they have in the network, where all lie in one module that holds it.

    So are those of a LightningModule, which has the network as its ``model``.
    """
    wrappers = {name.partition(".")[0] for name in tensors}
    if len(wrappers) != 1 or own.keys() & tensors.keys():
        return tensors
    inner = {name.partition(".")[2]: value for name, value in tensors.items()}
    return inner if own.keys() & inner.keys() else tensors


def _with_tied(tensors: dict[str, Tensor], own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with those that the network has under two names, of which files of Hugging Face hold one."""
    places: dict[tuple[object, ...], str] = {}

    def place(value: Tensor) -> tuple[object, ...]:
        return value.data_ptr(), value.shape, value.stride(), value.dtype

    for name in own.keys() & tensors.keys():
        if not is_lazy(own[name]):
            places[place(own[name])] = name
    tied = {
        name: tensors[places[place(value)]]
        for name, value in own.items()
        if name not in tensors and not is_lazy(value) and value.numel() and place(value) in places
    }
    return tensors | tied


def check_finite(tensors: Mapping[str, Tensor], where: object) -> None:
    """Refuse weights that are not numbers: those of a training that diverged."""
    for name, value in tensors.items():
        if value.is_floating_point() and not bool(value.isfinite().all()):
            raise ConfigError(f"weights must be finite, but {name} of {where} is not.")


def check_module(network: nn.Module) -> None:
    """Refuse a module that no training here can begin with, whatever it computes.

    Raises:
        ConfigError: its code or its state is not Python's and torch's own, or its weights are not there yet, are not in
            single precision, or are not finite.
    """
    name = type(network).__name__
    if scripted := next((part for part in network.modules() if isinstance(part, torch.jit.ScriptModule)), None):
        raise ConfigError(
            f"a network must be a module in Python, but {scripted.original_name} is a ScriptModule; give what it was "
            "made of."
        )
    for place, value in network.state_dict().items():
        if not isinstance(value, Tensor):  # of a quantised layer, for example
            raise ConfigError(f"the state of a network must be tensors, but {place} is {type(value).__name__}.")
    for place, param in network.named_parameters():
        if isinstance(param, nn.parameter.UninitializedParameter) or param.is_meta:
            raise ConfigError(
                f"a network must have its weights, but {place} of {name} has none yet; run it once, or load them."
            )
        if param.is_floating_point() and param.dtype != torch.float32:
            raise ConfigError(
                f"a network must be in single precision, but {place} is {param.dtype}; network.float() makes it so, "
                "and the recipe's precision computes in a lower one."
            )
    check_finite(dict(network.named_parameters()), name)


def digest_of_file(path: str | Path) -> str:
    """A sha256 of a file's content: what a run began with."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_named(found: Any) -> bool:
    return isinstance(found, Mapping) and all(isinstance(name, str) for name in found)
