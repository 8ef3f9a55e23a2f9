"""What a guard keeps of finished models to hold on to their weights: Fisher information and anchors, by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from ramet.errors import ConfigError
from ramet.guards.base import Guard
from ramet.guards.fisher import clipped, squared_gradients
from ramet.guards.names import StepSizes, matches, sizes_of
from ramet.guards.quadratic import all_finite, penalty_gradients, proximal_step_
from ramet.params import Params

Form = Literal["implicit", "explicit"]
"""Whether a penalty acts by its proximal step after the optimizer's, or by its gradient before it."""

MAX_FISHER = 1e30
"""Squares of huge gradients are cut here, so that sums and products of them stay finite in float32."""


class FisherMemory:
    """The Fisher information and the anchor of each remembered parameter, kept in at least float32.

    Remembered are the parameters whose names match the shell patterns ``protect``. The squared gradients of a tensor
    are scaled down to the L2 norm ``max_norm``; None for no limit.
    """

    def __init__(self, *, protect: Sequence[str] = ("*",), max_norm: float | None = None) -> None:
        self.protect = tuple(protect)
        self.max_norm = max_norm
        self.fisher: Params = {}
        self.anchor: Params = {}
        self._added: list[Tensor] = []

    def recall(self, path: Params) -> tuple[list[str], list[Tensor], list[Tensor], list[Tensor]]:
        """Names, parameters, anchors and Fisher information of what is both on the path and remembered."""
        names = [name for name in path if name in self.fisher]
        for name in names:
            param, fisher = path[name], self.fisher[name]
            if fisher.shape != param.shape:
                raise ConfigError(
                    f"a guarded parameter keeps its shape until forget() is called, but {name} went from "
                    f"{tuple(fisher.shape)} to {tuple(param.shape)}."
                )
            if fisher.device != param.device:
                self.fisher[name] = fisher.to(param.device)
                self.anchor[name] = self.anchor[name].to(param.device)
        return names, [path[n] for n in names], [self.anchor[n] for n in names], [self.fisher[n] for n in names]

    def add_gradients(self, path: Params, strength: float) -> None:
        """Add the penalty's gradient to the gradients that the path's parameters hold."""
        self._added = []
        names, params, anchors, fishers = self.recall(path)
        if not params:
            return
        gradients = [_gradient(param) for param in params]
        for name, gradient in zip(names, gradients, strict=True):
            if gradient.is_sparse:
                raise ConfigError(
                    f"the explicit form needs dense gradients, but that of {name} is sparse; use 'implicit'."
                )
        added = penalty_gradients(params, anchors, fishers, strength)
        self._added = [value.to(gradient.dtype) for value, gradient in zip(added, gradients, strict=True)]
        torch._foreach_add_(gradients, self._added)

    def take_gradients_back(self, path: Params) -> None:
        """Undo ``add_gradients``, so that the parameters hold the gradients of the loss alone, for ``learn``."""
        if self._added:
            gradients = [_gradient(param) for param in self.recall(path)[1]]
            torch._foreach_sub_(gradients, self._added)
            self._added = []

    def pull(self, path: Params, step_sizes: StepSizes, strength: float) -> None:
        """Take the penalty's proximal step on the path's parameters."""
        names, params, anchors, fishers = self.recall(path)
        if not params:
            return
        # A gradient scaler skips the step when a gradient overflowed; then the pull must not happen either.
        enabled = all_finite([_gradient(param) for param in path.values()])
        precise = [p if p.dtype == a.dtype else p.to(a.dtype) for p, a in zip(params, anchors, strict=True)]
        proximal_step_(precise, anchors, fishers, [size * strength for size in sizes_of(step_sizes, names)], enabled)
        rounded = [(p, q) for p, q in zip(params, precise, strict=True) if p is not q]
        if rounded:
            torch._foreach_copy_([p for p, _ in rounded], [q for _, q in rounded])

    def learn(self, path: Params, fisher: Params | None, *, keep: float, share: float, refresh: bool) -> None:
        """Fold in a finished model: ``F <- keep * F + share * fisher``. One whose gradients overflowed teaches nothing.

        Without ``fisher``, the gradients that the parameters hold are squared. With ``refresh`` the anchor becomes the
        finished model. Otherwise it becomes the mean of the anchors, weighted by their Fisher information, which is
        exact: a sum of the models' penalties is, up to a constant, one penalty with the summed Fisher information
        around that mean.
        """
        if not path:
            raise ConfigError(
                "remember needs gradients or their squares, but no parameter has one; call it before zero_grad."
            )
        path = {name: param for name, param in path.items() if matches(name, self.protect)}
        squares = squared_gradients(path, self.max_norm) if fisher is None else clipped(fisher, self.max_norm)
        if squares is None:
            return
        for name, param in path.items():
            if name not in self.fisher:
                dtype = torch.promote_types(param.dtype, torch.float32)
                self.fisher[name] = torch.zeros_like(param, dtype=dtype, memory_format=torch.contiguous_format)
                self.anchor[name] = param.detach().to(dtype, copy=True, memory_format=torch.contiguous_format)
        names, params, anchors, fishers = self.recall(path)
        if not names:
            return
        news = list(torch._foreach_mul([squares[n].to(f) for n, f in zip(names, fishers, strict=True)], share))
        torch._foreach_clamp_max_(news, MAX_FISHER)
        torch._foreach_mul_(fishers, keep)
        torch._foreach_add_(fishers, news)
        torch._foreach_clamp_max_(fishers, MAX_FISHER)
        if refresh:
            torch._foreach_copy_(anchors, params)
            return
        torch._foreach_div_(news, torch._foreach_clamp_min(fishers, torch.finfo(torch.float32).tiny))
        torch._foreach_lerp_(anchors, [p.to(a.dtype) for p, a in zip(params, anchors, strict=True)], news)

    def flush(self) -> None:
        """Set the Fisher information to zero, and keep the anchors."""
        if self.fisher:
            torch._foreach_zero_(list(self.fisher.values()))

    def forget(self) -> None:
        """Drop everything."""
        self.fisher, self.anchor, self._added = {}, {}, []

    def num_values(self) -> int:
        """How many values are remembered."""
        return sum(fisher.numel() for fisher in self.fisher.values())

    def state_dict(self) -> dict[str, Tensor]:
        """``fisher/NAME`` and ``anchor/NAME`` for each parameter."""
        return {
            f"{part}/{name}": tensor.clone()
            for part, tensors in (("fisher", self.fisher), ("anchor", self.anchor))
            for name, tensor in tensors.items()
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """The inverse of ``state_dict``."""
        parts: dict[str, Params] = {"fisher": {}, "anchor": {}}
        for key, tensor in state.items():
            part, _, name = key.partition("/")
            if part not in parts:
                raise ConfigError(f"a Fisher memory has keys fisher/NAME and anchor/NAME, but got {key!r}.")
            parts[part][name] = tensor.clone()
        if parts["fisher"].keys() != parts["anchor"].keys():
            odd = sorted(parts["fisher"].keys() ^ parts["anchor"].keys())
            raise ConfigError(f"every parameter needs both fisher/NAME and anchor/NAME, but {odd[0]} has only one.")
        self.fisher, self.anchor = parts["fisher"], parts["anchor"]


def _gradient(param: Tensor) -> Tensor:
    assert param.grad is not None, "the path holds only parameters with a gradient"
    return param.grad


class FisherGuard(Guard):
    """A guard whose penalty is the Fisher-weighted distance to an anchor; the kinds differ in what they remember."""

    def __init__(self, strength: float, form: Form, protect: Sequence[str], max_norm: float | None = None) -> None:
        check_penalty(strength, form)
        self.strength, self.form = strength, form
        self._memory = FisherMemory(protect=protect, max_norm=max_norm)

    @property
    def alpha(self) -> float:
        """The strength at present."""
        return self.strength

    def before_step(self, path: Params) -> None:
        """In the explicit form, add the penalty's gradient."""
        if self.form == "explicit" and self.alpha > 0:
            self._memory.add_gradients(path, self.alpha)

    def after_step(self, path: Params, step_sizes: StepSizes) -> None:
        """In the implicit form, take the penalty's proximal step; in the explicit one, take its gradient back."""
        if self.form == "explicit":
            self._memory.take_gradients_back(path)
        elif self.alpha > 0:
            self._memory.pull(path, step_sizes, self.alpha)

    def forget(self) -> None:
        """Drop the Fisher information and the anchors."""
        self._memory.forget()

    def report(self) -> dict[str, float]:
        """The present alpha, and how many values are guarded."""
        return {"alpha": self.alpha, "guarded_values": float(self._memory.num_values())}

    def state_dict(self) -> dict[str, Tensor]:
        """``fisher/NAME`` and ``anchor/NAME`` for each parameter."""
        return self._memory.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """The inverse of ``state_dict``."""
        self._memory.load_state_dict(state)


def check_penalty(strength: float, form: str) -> None:
    """Refuse a negative or infinite strength, and an unknown form of the penalty's step."""
    if not 0.0 <= strength < float("inf"):
        raise ConfigError(f"strength must be at least 0 and finite, but got {strength}.")
    if form not in ("implicit", "explicit"):
        raise ConfigError(f"form must be 'implicit' or 'explicit', but got {form!r}.")
