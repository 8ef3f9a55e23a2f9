"""The Fisher-weighted squared distance to an anchor: its value, gradient and proximal step, and the guard it makes.

Weight plasticity and elastic consolidation are both this one penalty, alpha / 2 times the sum over weights of
F_i (theta_i - anchor_i)^2, and differ in where ``F`` (``fisher``) and the anchor come from. All of it works on lists of
tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Literal, get_args

import torch
from torch import Tensor

from ramet.errors import ConfigError
from ramet.guards.base import Guard
from ramet.guards.finite import all_finite
from ramet.guards.fisher import clipped, squared_gradients
from ramet.guards.names import StepSizes, gradient_of, inverse_sizes_of, matches, patterns, require_state
from ramet.params import Params
from ramet.training.step_sizes import StepSize

Form = Literal["implicit", "explicit"]
"""Whether a penalty acts by its proximal step after the optimizer's, or by its gradient before it."""

Unit = Literal["fisher", "trace", "hold"]
"""What a penalty's strength is measured in.

- ``fisher``: alpha of Eq. 8 as written. What it does depends on the size of the gradients: at a converged model they
  are small, and it takes millions to hold anything.
- ``trace``: the Fisher information is divided by its mean over all guarded values, its trace by their number. Then
  alpha is the curvature of the penalty for a weight of mean importance, whatever batch size and convergence were.
- ``hold``: the share, from 0 to below 1, of the distance from the anchor that each step takes back for a weight of mean
  importance; such a weight comes to rest (1 - x) / x plain steps away from it. It depends on no step size, either.
"""

MAX_FISHER = 1e30
"""Squares of huge gradients are cut here, so that sums and products of them stay finite in float32."""


def quadratic_penalty(params: Params, anchor: Params, fisher: Params) -> Tensor:
    """Fisher-weighted squared distance to the anchor, Eq. 8 without its factor alpha / 2; autograd goes through it.

    Only the names that ``fisher`` has count: in Eq. 8, the parameters shared with earlier models.

    >>> value = torch.tensor([3.0])
    >>> quadratic_penalty({"w": value}, {"w": torch.tensor([1.0])}, {"w": torch.tensor([0.5])})
    tensor(2.)
    """
    terms = [(fisher[name] * (params[name] - anchor[name]).square()).sum() for name in fisher if name in params]
    return torch.stack(terms).sum() if terms else torch.zeros(())


def penalty_gradients(
    params: list[Tensor], anchors: list[Tensor], fishers: list[Tensor], strength: float
) -> list[Tensor]:
    """The gradient of ``strength / 2`` times the penalty: ``strength * fisher * (params - anchors)``, kept finite."""
    gradients = list(torch._foreach_sub(params, anchors))
    torch._foreach_mul_(gradients, fishers)
    torch._foreach_mul_(gradients, strength)
    limit = torch.finfo(gradients[0].dtype).max / 100
    torch._foreach_clamp_min_(gradients, -limit)
    torch._foreach_clamp_max_(gradients, limit)
    return gradients


def proximal_step_(
    params: list[Tensor],
    anchors: list[Tensor],
    fishers: list[Tensor],
    inverses: Sequence[StepSize],
    enabled: Tensor,
    factors: Sequence[float] | None = None,
) -> None:
    """Move the parameters, in place, to the minimum of the penalty plus half the squared distance to where they are.

    theta <- (theta + s F anchor) / (1 + s F) with s = step size x alpha: a point between the parameter and its anchor,
    so that no strength can make it diverge; the explicit gradient step diverges once ``s F`` exceeds 2. ``inverses``
    has 1 / s for each tensor, or for each of its values, in which case the distance is that of the optimizer's own
    metric; it is still to be multiplied with ``factors``, if these are given. ``enabled`` is a tensor of one value, 1
    to take the step and 0 to leave everything as it is (no device is waited for).
    """
    # As a mix of the parameter and its anchor with weight s F / (1 + s F) = 1 / (1 + (1 / s) / F): this form has
    # neither inf / inf for a huge s F, nor 0 / 0 for none, and with s F = 0 the parameter keeps its every bit.
    factors = [1.0] * len(fishers) if factors is None else factors
    if any(isinstance(inverse, Tensor) for inverse in inverses):
        sizes = [torch.as_tensor(s, dtype=f.dtype, device=f.device) for s, f in zip(inverses, fishers, strict=True)]
        # 1 + factor x size / F in one pass: these are what a step under Adam costs.
        weights = list(torch._foreach_addcdiv([f.new_ones(()) for f in fishers], sizes, fishers, factors))
    else:
        weights = list(torch._foreach_reciprocal(fishers))
        torch._foreach_mul_(weights, [float(s) * factor for s, factor in zip(inverses, factors, strict=True)])
        torch._foreach_add_(weights, 1.0)
    torch._foreach_reciprocal_(weights)
    if enabled.device.type != "cpu":
        torch._foreach_mul_(weights, enabled)
    elif not enabled:
        return
    torch._foreach_lerp_(params, anchors, weights)


class FisherGuard(Guard):
    """A guard whose penalty is the Fisher-weighted distance to an anchor; the kinds differ in what they remember.

    The Fisher information and the anchor of each remembered parameter are kept in at least float32: of those whose
    names match the shell patterns ``protect``. The squared gradients of a tensor are scaled down to the L2 norm
    ``max_norm``; None for no limit.
    """

    def __init__(
        self,
        strength: float,
        form: Form,
        protect: str | Sequence[str],
        max_norm: float | None = None,
        unit: Unit = "fisher",
    ) -> None:
        check_penalty(strength, form, unit)
        self.unit: Unit = unit
        self._mean: float | None = None
        self.strength, self.form, self._protect, self._max_norm = strength, form, patterns(protect), max_norm
        self.fisher: Params = {}
        self.anchor: Params = {}
        self._added: list[Tensor] = []
        self._loaded: set[str] = set()

    @property
    def alpha(self) -> float:
        """The strength at present."""
        return self.strength

    def before_step(self, path: Params) -> None:
        """In the explicit form, add the penalty's gradient."""
        if self.form == "explicit" and self.alpha > 0:
            self._add_gradients(path)

    def after_step(self, path: Params, step_sizes: StepSizes) -> None:
        """In the implicit form, take the penalty's proximal step; in the explicit one, take its gradient back."""
        if self.form == "explicit":
            self._take_gradients_back(path)
        elif self.alpha > 0:
            self._pull(path, step_sizes)

    def undo_step(self, path: Params) -> None:
        """Take the penalty's gradient back."""
        self._take_gradients_back(path)

    def _recall(self, path: Params) -> tuple[list[str], list[Tensor], list[Tensor], list[Tensor]]:
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
        if self._loaded:
            self._lay_out(path)
        return names, [path[n] for n in names], [self.anchor[n] for n in names], [self.fisher[n] for n in names]

    def _lay_out(self, path: Params) -> None:
        """Put what ``load_state_dict`` brought where it lay before: each value where its parameter has it."""
        for name in self._loaded & path.keys():
            self.fisher[name] = torch.empty_like(path[name], dtype=self.fisher[name].dtype).copy_(self.fisher[name])
            self.anchor[name] = torch.empty_like(path[name], dtype=self.anchor[name].dtype).copy_(self.anchor[name])
        self._loaded -= path.keys()

    def _add_gradients(self, path: Params) -> None:
        """Add the penalty's gradient to the gradients that the path's parameters hold."""
        self._added = []
        names, params, anchors, fishers = self._recall(path)
        if not params:
            return
        gradients = [gradient_of(param) for param in params]
        for name, gradient in zip(names, gradients, strict=True):
            if gradient.is_sparse:
                raise ConfigError(
                    f"the explicit form needs dense gradients, but that of {name} is sparse; use 'implicit'."
                )
        added = penalty_gradients(params, anchors, fishers, self.alpha / self._scale())
        self._added = [value.to(gradient.dtype) for value, gradient in zip(added, gradients, strict=True)]
        torch._foreach_add_(gradients, self._added)

    def _take_gradients_back(self, path: Params) -> None:
        """Undo ``_add_gradients``, so that the parameters hold the gradients of the loss alone, for ``learn``."""
        if self._added:
            gradients = [gradient_of(param) for param in self._recall(path)[1]]
            torch._foreach_sub_(gradients, self._added)
            self._added = []

    def _scale(self) -> float:
        """What the Fisher information is divided by."""
        if self.unit == "fisher":
            return 1.0
        if self._mean is None:
            values = sum(fisher.numel() for fisher in self.fisher.values())
            # The order of a sum must not depend on how values lie: a state that was loaded lies otherwise.
            total = sum(float(fisher.contiguous().sum(dtype=torch.float64)) for fisher in self.fisher.values())
            self._mean = max(total / max(values, 1), torch.finfo(torch.float32).tiny)
        return self._mean

    def _pull(self, path: Params, step_sizes: StepSizes) -> None:
        """Take the penalty's proximal step on the path's parameters."""
        names, params, anchors, fishers = self._recall(path)
        if not params:
            return
        # A gradient scaler skips the step when a gradient overflowed; then the pull must not happen either.
        enabled = all_finite([gradient_of(param) for param in path.values()])
        precise = [p if p.dtype == a.dtype else p.to(a.dtype) for p, a in zip(params, anchors, strict=True)]
        inverses, factors = self._inverses(step_sizes, names)
        proximal_step_(precise, anchors, fishers, inverses, enabled, factors)
        rounded = [(p, q) for p, q in zip(params, precise, strict=True) if p is not q]
        if rounded:
            torch._foreach_copy_([p for p, _ in rounded], [q for _, q in rounded])

    def _inverses(self, step_sizes: StepSizes, names: Sequence[str]) -> tuple[Sequence[StepSize], Sequence[float]]:
        """One over what the Fisher information of each name is multiplied with in a proximal step, in two factors."""
        if self.unit == "hold":
            return [(1.0 - self.alpha) / self.alpha * self._scale()] * len(names), [1.0] * len(names)
        return inverse_sizes_of(step_sizes, names, self.alpha / self._scale())

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
        self._mean = None
        path = {name: param for name, param in path.items() if matches(name, self._protect)}
        squares = squared_gradients(path, self._max_norm) if fisher is None else clipped(fisher, self._max_norm)
        if squares is None:
            return
        for name, param in path.items():
            if name not in self.fisher:
                dtype = torch.promote_types(param.dtype, torch.float32)
                # They lie as the parameter does: tensors that lie otherwise take up to twice as long together.
                self.fisher[name] = torch.zeros_like(param, dtype=dtype)
                self.anchor[name] = param.detach().to(dtype, copy=True)
        names, params, anchors, fishers = self._recall(path)
        if not names:
            return
        news = [_alike(squares[n], f) for n, f in zip(names, fishers, strict=True)]
        if fisher is None:
            torch._foreach_mul_(news, share)  # the squares are our own
        else:
            news = list(torch._foreach_mul(news, share))
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
        self._mean = None
        if self.fisher:
            torch._foreach_zero_(list(self.fisher.values()))

    def forget(self) -> None:
        """Drop the Fisher information and the anchors."""
        self.fisher, self.anchor, self._added, self._mean, self._loaded = {}, {}, [], None, set()

    def report(self) -> dict[str, float]:
        """The present alpha, and how many values are guarded."""
        values = sum(fisher.numel() for fisher in self.fisher.values())
        return {"alpha": self.alpha, "guarded_values": float(values)}

    def held(self) -> set[str]:
        """The names of the anchors."""
        return set(self.anchor)

    def state_dict(self) -> dict[str, Tensor]:
        """``fisher/NAME`` and ``anchor/NAME`` for each parameter."""
        return {
            f"{part}/{name}": tensor.clone(memory_format=torch.contiguous_format)
            for part, tensors in (("fisher", self.fisher), ("anchor", self.anchor))
            for name, tensor in tensors.items()
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """The inverse of ``state_dict``."""
        require_state(state)
        parts: dict[str, Params] = {"fisher": {}, "anchor": {}}
        for key, tensor in state.items():
            part, _, name = key.partition("/")
            if part not in parts:
                raise ConfigError(f"a Fisher memory has keys fisher/NAME and anchor/NAME, but got {key!r}.")
            parts[part][name] = tensor.clone()
        if parts["fisher"].keys() != parts["anchor"].keys():
            odd = sorted(parts["fisher"].keys() ^ parts["anchor"].keys())
            raise ConfigError(f"every parameter needs both fisher/NAME and anchor/NAME, but {odd[0]} has only one.")
        self.fisher, self.anchor, self._mean = parts["fisher"], parts["anchor"], None
        self._loaded = set(self.fisher)


def _alike(values: Tensor, other: Tensor) -> Tensor:
    """The values on the device and of the type of another tensor: ``Tensor.to`` takes longer to find nothing to do."""
    return values if values.dtype == other.dtype and values.device == other.device else values.to(other)


def check_penalty(strength: float, form: str, unit: str = "fisher") -> None:
    """Refuse a negative or infinite strength, and an unknown form or unit of the penalty's step."""
    given: object = strength
    if not isinstance(given, Real) or not 0.0 <= strength < float("inf"):
        raise ConfigError(f"strength must be at least 0 and finite, but got {strength!r}.")
    if form not in ("implicit", "explicit"):
        raise ConfigError(f"form must be 'implicit' or 'explicit', but got {form!r}.")
    if unit not in get_args(Unit):
        raise ConfigError(f"unit must be one of {', '.join(get_args(Unit))}, but got {unit!r}.")
    if unit == "hold" and (strength >= 1.0 or form == "explicit"):
        raise ConfigError(f"a share to hold must be below 1, and the form implicit, but got {strength} and {form!r}.")
