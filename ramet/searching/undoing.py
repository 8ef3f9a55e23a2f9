"""What a network and its optimizer were before a child's turn, kept at the cost of what the turn changes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ramet.params import Params, named_params


class Undo:
    """The last good state of a network and of what its optimizer keeps, to go back to when a child diverges.

    A child's turn changes the parameters on its path, which are a small part of a supernet's, and any buffer. So all is
    copied once, and after a good turn only what it may have changed: the parameters that ``note`` saw with a gradient,
    and all buffers. Torch's optimizers leave a parameter without a gradient alone; of others, nothing is assumed, and
    all is copied after each turn.
    """

    def __init__(self, network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer
        self._params: Params = named_params(network)
        self._is_plain = type(optimizer).__module__.startswith("torch.optim")
        self._weights = {name: tensor.detach().clone() for name, tensor in self._params.items()}
        self._owners = [module for module in network.modules() if module._buffers]  # of hundreds, the few to look at
        self._buffers = [buffer.clone() for buffer in self._current_buffers()]
        self._kept = {param: _copied(own) for param, own in optimizer.state.items()}
        self._noted: set[str] = set()

    def note(self) -> None:
        """A step was taken: what has a gradient may have changed."""
        self._noted.update(name for name, param in self._params.items() if param.grad is not None)

    def keep(self) -> None:
        """The turn was good: the state now is the one to go back to."""
        names = list(self._noted if self._is_plain else self._params)
        with torch.no_grad():
            _copy_all([self._weights[name] for name in names], [self._params[name] for name in names])
            _copy_all(self._buffers, self._current_buffers())
            self._keep_states([self._params[name] for name in names])
        self._noted.clear()

    def _keep_states(self, params: list[Tensor]) -> None:
        """What the optimizer keeps of some parameters, written over what was kept before: new tensors take longer."""
        targets, sources, states = [], [], self._optimizer.state
        for param in params:
            if (own := states.get(param)) is None:
                continue
            kept = self._kept.setdefault(param, {})
            if kept.keys() != own.keys():
                kept.clear()
            for name, value in own.items():
                before = kept.get(name)
                if isinstance(value, Tensor) and isinstance(before, Tensor) and _is_like(before, value):
                    targets.append(before)
                    sources.append(value)
                else:
                    kept[name] = value.clone() if isinstance(value, Tensor) else value
        _copy_all(targets, sources)

    def restore(self) -> None:
        """Put back the last good state."""
        with torch.no_grad():
            _copy_all(list(self._params.values()), list(self._weights.values()))
            _copy_all(self._current_buffers(), self._buffers)
        self._optimizer.state.clear()
        self._optimizer.state.update({param: _copied(own) for param, own in self._kept.items()})
        self._noted.clear()

    def _current_buffers(self) -> list[Tensor]:
        return [buffer for owner in self._owners for buffer in owner._buffers.values() if buffer is not None]


def _is_like(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and one.device == other.device


def _copied(own: dict[str, Any]) -> dict[str, Any]:
    return {name: value.clone() if isinstance(value, Tensor) else value for name, value in own.items()}


def _copy_all(targets: list[Tensor], sources: list[Tensor]) -> None:
    if targets:
        torch._foreach_copy_(targets, sources)
