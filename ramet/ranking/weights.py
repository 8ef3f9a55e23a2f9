"""Weights that were trained elsewhere, put into a supernet: of a supernet as a whole, or to begin with."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ramet.errors import ConfigError, DataError
from ramet.runs import Checkpoints
from ramet.spaces import Supernet
from ramet.training import saved_part
from ramet.training.weights import by_own_names, check_fit, read_weights


def put_weights(network: nn.Module, source: str) -> None:
    """Give a supernet the weights of a file, all of them.

    Args:
        network: the supernet; its layers must be those that the weights are of.
        source: a file with its ``state_dict``, ``.safetensors`` or as torch saves one, or a folder of checkpoints, such
            as ``RUN/checkpoints/instance-0/group-0`` of a ranking or ``RUN/checkpoints/search`` of a search.

    Raises:
        ConfigError: the file holds no tensors by name.
        DataError: there is no such file, or it holds other weights.
    """
    try:
        network.load_state_dict(_read(Path(source)))
    except RuntimeError as error:
        lines = str(error).splitlines()
        first = (lines[1] if len(lines) > 1 else lines[0]).strip()
        raise DataError(f"weights must be those of the space's supernet, but {source} has others: {first}") from None


@dataclass(frozen=True)
class StartWeights:
    """Trained weights that the networks of a space begin with, in place of drawn ones.

    They are those of a supernet of the space, or, for a space that a module with choices makes, of that module, which
    may have been trained before it had choices: what stood in the place of a choice goes to the one option that it
    fits. Every tensor must have its place, and what there is none for in the file, such as another option, is drawn.
    The last linear layer is left out where it has another number of outputs.

    Attributes:
        source: where they are from.
        tensors: the weights by name.
    """

    source: str
    tensors: Mapping[str, Tensor]

    @classmethod
    def read(cls, source: str) -> StartWeights:
        """The weights of a file, or of a folder of checkpoints as ``put_weights`` takes it."""
        return cls(source, _read(Path(source)))

    @property
    def digest(self) -> str:
        """A sha256 of all names and values."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.tensors.items()):
            digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} ".encode())
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()

    def put(self, network: nn.Module) -> None:
        """Let a supernet begin with them.

        Raises:
            ConfigError: a tensor has no place in the network, has another shape or type there, or is not finite.
        """
        supernet = cast("Supernet", network)
        state = network.state_dict()
        places = {name: name for name in state}
        if not self.tensors.keys() & state.keys():
            places = {supernet.name_in_module(name): name for name in state}
        own = {name: state[place] for name, place in places.items()}
        tensors = _in_options(by_own_names(self.tensors, own, self.source), own, self.source)
        head = _last_linear(network, {place: name for name, place in places.items()})
        if any(_has_other_outputs(tensors, own, name) for name in head):
            tensors = {name: value for name, value in tensors.items() if name not in head}
        check_fit(tensors, own, self.source)
        network.load_state_dict({places[name]: value for name, value in tensors.items()}, strict=False)


def _in_options(tensors: Mapping[str, Tensor], own: Mapping[str, Tensor], source: str) -> dict[str, Tensor]:
    """The tensors with those of a module that stood where a choice is now by the names that they have in its option.

    Raises:
        ConfigError: they fit several options.
    """
    options: dict[str, dict[str, dict[str, Tensor]]] = {}  # by the choice's place, by option, by the name within
    for name, value in own.items():
        if found := _OPTION.fullmatch(name):
            options.setdefault(found["place"], {}).setdefault(found["option"], {})[found["rest"]] = value
    moved = dict(tensors)
    for place, inside in options.items():
        strays = {name: name.removeprefix(f"{place}.") for name in tensors.keys() - own.keys() if _is_in(name, place)}
        fitting = [
            option
            for option, weights in inside.items()
            if strays
            and all(rest in weights and _is_alike(tensors[name], weights[rest]) for name, rest in strays.items())
        ]
        if len(fitting) > 1:
            raise ConfigError(
                f"weights of {place} must be those of one option, but {source} has some that fit "
                f"{' and '.join(fitting)}; call them {place}.options.{fitting[0]}."
            )
        for name, rest in strays.items() if fitting else ():
            moved[f"{place}.options.{fitting[0]}.{rest}"] = moved.pop(name)
    return moved


_OPTION = re.compile(r"(?P<place>.+?)\.options\.(?P<option>\d+)\.(?P<rest>.+)")
"""A weight of an option of a choice, by its name in the module."""


def _is_in(name: str, place: str) -> bool:
    return name.startswith(f"{place}.") and not name.startswith(f"{place}.options.")


def _is_alike(given: Tensor, own: Tensor) -> bool:
    return is_lazy(own) or given.shape == own.shape


def _last_linear(network: nn.Module, names: Mapping[str, str]) -> list[str]:
    """The names of the tensors of a network's last linear layer."""
    linear = [name for name, module in network.named_modules() if isinstance(module, nn.Linear)]
    return [names[f"{linear[-1]}.{part}"] for part in ("weight", "bias") if linear and f"{linear[-1]}.{part}" in names]


def _has_other_outputs(tensors: Mapping[str, Tensor], own: Mapping[str, Tensor], name: str) -> bool:
    """Whether nothing but the number of a linear layer's outputs differs."""
    if name not in tensors or is_lazy(own[name]):
        return False
    given, wanted = tensors[name].shape, own[name].shape
    return len(given) == len(wanted) and given[:1] != wanted[:1] and given[1:] == wanted[1:]


def _read(path: Path) -> dict[str, Tensor]:
    if path.is_dir():
        checkpoint = Checkpoints(path).load()
        if checkpoint is None:
            raise DataError(f"a folder of weights must hold checkpoints, but {path} has none.")
        state: dict[str, Tensor] = saved_part(checkpoint, "network")
        return state
    if not path.is_file():
        raise DataError(f"weights must be a file or a folder of checkpoints, but {path} is not there.")
    return read_weights(path)
