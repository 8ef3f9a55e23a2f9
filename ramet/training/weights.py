"""Trained weights of a file, put into a network: safetensors, or what ``torch.save(network.state_dict())`` wrote."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

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
        found = torch.load(path, map_location="cpu", weights_only=True)
    except (safetensors.SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, ValueError, OSError) as error:
        first_line = (str(error).splitlines() or [""])[0]
        raise ConfigError(
            f"weights must be a .safetensors file or a state_dict that torch saved, but {path}: {first_line}"
        ) from None
    for name in NESTED:
        if isinstance(found, Mapping) and isinstance(found.get(name), Mapping):
            found = found[name]
    tensors = {name: value for name, value in found.items() if isinstance(value, Tensor)} if _is_named(found) else {}
    if not tensors:
        raise ConfigError(f"weights must be tensors by name, but {path} holds {type(found).__name__}.")
    return tensors


def load_weights(network: nn.Module, path: str | Path, *, without: str | None = None) -> None:
    """Put the weights of a file into a network; every weight must be there, with its shape.

    Args:
        network: where they go.
        path: a file that ``read_weights`` reads.
        without: the name of a module whose weights are neither asked for nor taken, such as a head.

    Raises:
        ConfigError: the file cannot be read, or does not fit; the first names that do not are said.
    """
    tensors = {name.removeprefix("module.").removeprefix("_orig_mod."): x for name, x in read_weights(path).items()}
    own = network.state_dict()
    if without is not None:
        tensors = {name: value for name, value in tensors.items() if not name.startswith(f"{without}.")}
        own = {name: value for name, value in own.items() if not name.startswith(f"{without}.")}
    shapes = {name for name in own if name in tensors and tensors[name].shape != own[name].shape}
    for words, names in (
        ("lacks", own.keys() - tensors.keys()),
        ("has besides", tensors.keys() - own.keys()),
        ("has with another shape", shapes),
    ):
        if names:
            shown = ", ".join(sorted(names)[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
            raise ConfigError(f"weights must fit the network, but {path} {words} {shown}.")
    network.load_state_dict(tensors, strict=without is None)


def digest_of_file(path: str | Path) -> str:
    """A sha256 of a file's content: what a run began with."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_named(found: Any) -> bool:
    return isinstance(found, Mapping) and all(isinstance(name, str) for name in found)
